"""The catalog: one short file per system, found by its name.

A file ``systems/<name>.py``, or one in a folder there, holds a function ``<name>`` that returns the System; its
arguments are the system's parameters and choices. ``EXAMPLE`` in it is a pose from which a simulation is worth looking
at. Other packages add systems by entry points of the group ``stepmap.systems``, which load to such a function;
``from_file`` takes one from a Python file of the user.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from stepmap.errors import ModelError
from stepmap.mechanics.system import System
from stepmap.registry import Registry
from stepmap.systems import _file as files
from stepmap.systems._file import Maker, from_file

__all__ = ["Maker", "example", "files", "from_file", "get", "is_own", "maker", "names", "source"]


@cache
def _own() -> Mapping[str, str]:
    """Modules by the name of their system."""
    modules = [module.name for module in pkgutil.walk_packages(__path__, f"{__name__}.") if not module.ispkg]
    names = {module.rpartition(".")[2]: module for module in modules}
    return {name: module for name, module in names.items() if not name.startswith("_")}


def _load(name: str) -> Maker:
    found: Maker = getattr(import_module(_own()[name]), name)
    return found


SYSTEMS = Registry[Maker]("stepmap.systems", "system", _own, _load)

names, is_own, maker = SYSTEMS.names, SYSTEMS.is_own, SYSTEMS.get


def get(name: str, **arguments: Any) -> System:
    """A system of the catalog, built with the given arguments."""
    make = maker(name)
    known = inspect.signature(make).parameters
    for argument in arguments:
        if argument not in known:
            raise ModelError(f"system {name!r} takes no {argument!r}; it takes {', '.join(known) or 'no arguments'}")
    return make(**arguments)


def example(name: str) -> Mapping[str, float]:
    """A pose of that system from which something happens; coordinates not named keep their start."""
    pose: Mapping[str, float] = getattr(sys.modules[maker(name).__module__], "EXAMPLE", {})
    return pose


def source(name: str) -> bytes | None:
    """The Python files of the package a system comes from; None for the catalog's own, which are a part of stepmap."""
    if is_own(name):
        return None
    top = import_module(maker(name).__module__.partition(".")[0])
    if hasattr(top, "__path__"):
        files = sorted(file for folder in top.__path__ for file in Path(folder).rglob("*.py"))
    else:
        files = [Path(inspect.getfile(top))]
    return b"".join(file.read_bytes() for file in files)
