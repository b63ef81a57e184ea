"""Systems in Python files of the user: ``[system] file = "crane.py"`` in a job, ``stepmap simulate crane.py``.

A file is code, and loading it runs it. Only what the user names himself is loaded; a file that came with a recording is
loaded only if the user has run the very same bytes before (docs/trust.md).
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from stepmap.errors import JobError, ModelError, StepmapError, TrustError
from stepmap.files import write_whole
from stepmap.graph import cache
from stepmap.mechanics.system import System
from stepmap.owned import is_own, require_folder
from stepmap.text import nearest

Maker = Callable[..., System]
ANNOTATE = "Annotate your function, `-> sm.System`, and run its job again."
LARGEST = 1024 * 1024  # bytes of a file
_loaded: dict[tuple[str, str], ModuleType] = {}


def from_file(path: str | os.PathLike[str], function: str | None = None) -> Maker:
    """The function of a Python file that returns a System; raises JobError, with the file and its line."""
    place = Path(path)
    return maker(read(place), str(place), function)


def read(path: Path) -> bytes:
    """The content of the user's own Python file, to be loaded; raises JobError, or TrustError where it is anybody's."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise JobError(f"cannot be read: {error.strerror}", file=str(path)) from None
    if len(content) > LARGEST:
        raise JobError(f"has more than {LARGEST} bytes, which no system needs", file=str(path))
    require_folder(path.parent, "the folder", "put the system into a folder of your own.", group=True)
    approve(content)
    return content


def approve(content: bytes) -> None:
    """Remembers that the user himself has run this code, in his cache, from where code is loaded anyway."""
    with suppress(OSError, TrustError):  # nothing is remembered then
        place = _remembered(content)
        if not is_own(place):
            write_whole(place, content, links=False)


def is_approved(content: bytes) -> bool:
    """Whether the user has run these very bytes before."""
    with suppress(OSError, TrustError):
        place = _remembered(content)
        return is_own(place) and place.read_bytes() == content
    return False


def _remembered(content: bytes) -> Path:
    return cache.folder() / f"system-{hashlib.sha256(content).hexdigest()}.py"


def maker(content: bytes, shown: str, function: str | None = None, *, foreign: bool = False) -> Maker:
    """The function that returns the System, of code that may be run; ``shown`` is the file's name in messages.

    It is the one that ``function`` names, the one with the name of the file, or the only one that returns a System.
    Where a ``foreign`` file names it, it must be annotated so: nobody else chooses among the user's other functions.
    """
    module = _module(content, shown)
    found = {name: f for name, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__}
    stem = Path(shown).stem
    name = function or (stem if stem in found else _only(found, shown))
    if name not in found:
        raise JobError(f"has no function {name!r}", file=shown, hint=nearest(name, found))
    if foreign and not _returns_system(found[name]):
        raise TrustError(f"{shown}: {name}() is not run: it does not say that it returns a System", hint=ANNOTATE)
    return _checked(found[name], shown)


def _only(found: Mapping[str, Callable[..., Any]], shown: str) -> str:
    public = {name: f for name, f in found.items() if not name.startswith("_")}
    returning = [name for name, f in public.items() if _returns_system(f)] or list(public)
    if len(returning) == 1:
        return returning[0]
    if not returning:
        raise JobError(
            "has no function that returns a System", file=shown, hint=f"Write `def {Path(shown).stem}() -> sm.System:`."
        )
    raise JobError(
        f"has {len(returning)} functions that return a System",
        file=shown,
        hint=f'Say which: function = "{returning[0]}". There are {", ".join(returning)}.',
    )


def _returns_system(function: Callable[..., Any]) -> bool:
    try:
        return typing.get_type_hints(function).get("return") is System
    except Exception:  # annotations may name anything
        return str(getattr(function, "__annotations__", {}).get("return", "")).endswith("System")


def _module(content: bytes, shown: str) -> ModuleType:
    """The file as a module, run once per process and content."""
    file, mark = str(Path(shown).resolve()), hashlib.sha256(content).hexdigest()
    if (file, mark) not in _loaded:
        stem = re.sub(r"\W", "_", Path(shown).stem)
        module = ModuleType(f"stepmap_system_{stem}_{mark[:12]}")
        module.__file__ = file
        try:
            code = compile(content, file, "exec")
        except (SyntaxError, ValueError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            said = error.msg if isinstance(error, SyntaxError) else str(error)
            raise JobError(f"is not valid Python: {said}", file=shown, line=line) from None
        sys.modules[module.__name__] = module  # where dataclasses look for the names of their annotations
        with _blaming(shown, file):
            exec(code, vars(module))
        _loaded[file, mark] = module
    return _loaded[file, mark]


def _checked(function: Callable[..., Any], shown: str) -> Maker:
    """The function, with its mistakes as JobErrors that have its file and line."""
    name, file = function.__name__, function.__code__.co_filename

    @wraps(function)
    def make(**arguments: Any) -> System:
        with _blaming(shown, file):
            made = function(**arguments)
        if not isinstance(made, System):
            hint = "End it with `return b.build()`."
            said = f"{name}() returns {type(made).__name__}, and not a System"
            raise JobError(said, file=shown, line=function.__code__.co_firstlineno, hint=hint)
        return made

    return make


@contextmanager
def _blaming(shown: str, file: str) -> Iterator[None]:
    """Makes whatever the user's code raises a JobError with the last line of his file that it came through."""
    try:
        yield
    except (Exception, SystemExit) as error:
        told = partial(JobError, file=shown, line=_line(error, file))
        if isinstance(error, StepmapError):
            raise told(str(error), cause=error.cause, hint=error.hint) from error
        hint = _neighbour(error, Path(file).parent) if isinstance(error, ModuleNotFoundError) else ""
        raise told(f"{type(error).__name__}: {error}", hint=hint) from error


def _line(error: BaseException, file: str) -> int | None:
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _neighbour(error: ModuleNotFoundError, folder: Path) -> str:
    beside = folder / f"{(error.name or '').partition('.')[0]}.py"
    if not beside.is_file():
        return "Install it into the environment of stepmap."
    return f"{beside.name} lies beside it, but a system is one file: put both into one, or install them as a package."


def example(make: Maker) -> Mapping[str, float]:
    """``EXAMPLE`` of the file that a function comes from."""
    pose: Mapping[str, float] = getattr(sys.modules[make.__module__], "EXAMPLE", {})
    return pose


def require_arguments(make: Maker, given: Mapping[str, object], what: str) -> None:
    """Raises ModelError where an argument without a default is not given."""
    parameters = inspect.signature(make).parameters.values()
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in given]
    if missing:
        raise ModelError(f"{what} needs {', '.join(missing)}", hint="Give a value, or give the argument a default.")
