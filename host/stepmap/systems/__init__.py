"""The catalog: one short file per system, found by its name.

A file ``systems/<name>.py`` holds a function ``<name>`` that returns the System; its arguments are the system's
parameters and choices. ``EXAMPLE`` in it is a pose from which a simulation is worth looking at. Other packages add
systems by entry points of the group ``stepmap.systems``, which load to such a function.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from stepmap.errors import ModelError
from stepmap.mechanics.system import System
from stepmap.text import did_you_mean

GROUP = "stepmap.systems"


def names() -> list[str]:
    """The systems of the catalog, and those of other packages."""
    return sorted({*_own(), *_added()})


def is_own(name: str) -> bool:
    """Whether a system is of stepmap itself."""
    return name in _own()


def get(name: str, **arguments: Any) -> System:
    """A system of the catalog, built with the given arguments."""
    make = maker(name)
    known = inspect.signature(make).parameters
    for argument in arguments:
        if argument not in known:
            raise ModelError(f"system {name!r} takes no {argument!r}; it takes {', '.join(known) or 'no arguments'}")
    return make(**arguments)


def maker(name: str) -> Callable[..., System]:
    """The function that builds a system of the catalog."""
    if name in _own():
        found: Callable[..., System] = getattr(import_module(f"{__name__}.{name}"), name)
        return found
    if name not in _added():
        near = did_you_mean(str(name), names()).capitalize()
        raise ModelError(f"no system is called {name!r}", hint=f"{near}The catalog has {', '.join(names())}.")
    entry = _added()[name]
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # whatever another package does while it is imported
        what = f"system {name!r} cannot be loaded from {entry.value!r}"
        raise ModelError(f"{what}: {type(error).__name__}: {error}", hint=_hint(entry)) from error
    if not callable(loaded):
        raise ModelError(f"system {name!r}: {entry.value!r} is no function that returns a System", hint=_hint(entry))
    made: Callable[..., System] = loaded
    return made


def _hint(entry: EntryPoint) -> str:
    owner = entry.dist.name if entry.dist is not None else "the package that adds it"
    return f"Reinstall {owner}, or remove it."


def example(name: str) -> Mapping[str, float]:
    """A pose of that system from which something happens; coordinates not named keep their start."""
    pose: Mapping[str, float] = getattr(sys.modules[maker(name).__module__], "EXAMPLE", {})
    return pose


def source(name: str) -> bytes | None:
    """The Python files of the package a system comes from; None for the catalog's own, which are a part of stepmap."""
    if name in _own():
        return None
    top = import_module(maker(name).__module__.partition(".")[0])
    if hasattr(top, "__path__"):
        files = sorted(file for folder in top.__path__ for file in Path(folder).rglob("*.py"))
    else:
        files = [Path(inspect.getfile(top))]
    return b"".join(file.read_bytes() for file in files)


@cache
def _own() -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


@cache
def _added() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in _own()}
