"""The public names of ``stepmap`` with their signatures, compared with tests/data/public_api.txt.

Who uses stepmap depends on these. ``pytest tests/unit/test_public_api.py --update-public-api`` writes the file anew; a
name that goes, or an argument that changes, belongs into CHANGELOG.md, too.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stepmap as sm

FILE = Path(__file__).parents[1] / "data" / "public_api.txt"


def api() -> str:
    return "\n".join(line for name in sm.__all__ for line in described(f"sm.{name}", getattr(sm, name))) + "\n"


def described(name: str, thing: Any) -> Iterator[str]:
    """Lines for a name: a function with its signature, a class with its public members, a module with its own names."""
    if inspect.ismodule(thing):
        for inner in getattr(thing, "__all__", ()):
            yield from described(f"{name}.{inner}", getattr(thing, inner))
    elif inspect.isclass(thing):
        bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
        yield f"{name}{signature(thing)}" + (f" of {bases}" if bases and "Protocol" not in bases else "")
        for inner in sorted(members(thing)):
            value = inspect.getattr_static(thing, inner, None)
            kind = isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)
            if isinstance(value, classmethod | staticmethod):
                value = value.__func__
            yield f"    .{inner}{signature(value) if kind and inspect.isfunction(value) else ''}"
    elif callable(thing) and not isinstance(thing, type(Any)):
        yield f"{name}{signature(thing)}"
    else:
        yield name


def members(kind: type) -> set[str]:
    """Public members that stepmap itself defines, fields of data included."""
    own = {name for base in kind.__mro__ if base.__module__.startswith("stepmap") for name in vars(base)}
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    return {name for name in own | fields if not name.startswith("_")}


def signature(thing: Any) -> str:
    """Names and defaults of parameters; annotations are left out, as their text differs between versions of Python."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    kept = [plain(parameter) for parameter in found.parameters.values() if parameter.name != "self"]
    return str(found.replace(parameters=kept, return_annotation=inspect.Signature.empty))


def plain(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    if default is not parameter.empty and " at 0x" in repr(default):  # of a factory, which has an address
        default = Ellipsis
    return parameter.replace(annotation=parameter.empty, default=default)


def test_the_public_api_is_what_the_file_says(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-public-api"):
        FILE.write_text(api())
    changes = difflib.unified_diff(FILE.read_text().splitlines(), api().splitlines(), "file", "today", lineterm="", n=0)
    assert "\n".join(changes) == "", "a public name changed; if that is wanted, run with --update-public-api"


def test_a_change_would_be_seen() -> None:
    def one(a: int, *, b: float = 2.0) -> None: ...

    def other(a: int, *, b: float = 3.0) -> None: ...

    assert [*described("sm.one", one)] == ["sm.one(a, *, b=2.0)"]
    assert [*described("sm.one", other)] != [*described("sm.one", one)]
    assert {"step", "linearize", "nx"} <= members(sm.VariationalStep)
