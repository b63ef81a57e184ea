"""The catalog: one short file a system, found by its name.

A file ``systems/<name>.py`` holds a function ``<name>`` that returns the System; its arguments are the system's
parameters and choices. ``EXAMPLE`` in it is a pose from which a simulation is worth looking at.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from stepmap.errors import ModelError
from stepmap.mechanics.system import System
from stepmap.text import did_you_mean


def names() -> list[str]:
    """The systems of the catalog."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


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
    found: Callable[..., System] = getattr(_module(name), name)
    return found


def example(name: str) -> Mapping[str, float]:
    """A pose of that system from which something happens; coordinates not named keep their start."""
    pose: Mapping[str, float] = getattr(_module(name), "EXAMPLE", {})
    return pose


def _module(name: str) -> ModuleType:
    if name not in names():
        near = did_you_mean(name, names())
        raise ModelError(f"no system is called {name!r}; {near}the catalog has {', '.join(names())}")
    return import_module(f"{__name__}.{name}")
