"""Published figures: one file a figure, found by its name; each has a function ``make(progress) -> Published``.

Other packages add figures by entry points of the group ``stepmap.figures``, which load to such a function. One that
also takes a ``recording`` is made from a run.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from stepmap.errors import ModelError
from stepmap.figures.published import Progress, Published

GROUP = "stepmap.figures"


def names() -> list[str]:
    """The figures that can be made."""
    return sorted({*_own(), *(entry.name for entry in entry_points(group=GROUP))})


def make(name: str, progress: Progress | None = None, recording: Path | None = None) -> Published:
    """The figure of that name; from a recording, where it is made from one."""
    maker, told = _maker(name), progress or (lambda part, text: None)
    if recording is None:
        made: Published = maker(told)
    elif "recording" in inspect.signature(maker).parameters:
        made = maker(told, recording)
    else:
        raise ModelError(f"{name} is computed, not made from a recording: leave out {recording}")
    return made


def _own() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__) if module.name != "published"]


def _maker(name: str) -> Callable[..., Any]:
    if name in _own():
        found: Callable[..., Any] = import_module(f"{__name__}.{name}").make
        return found
    for entry in entry_points(group=GROUP, name=name):
        loaded: Callable[..., Any] = entry.load()
        return loaded
    raise ModelError(f"no figure is called {name!r}; there are {', '.join(names())}")


__all__ = ["Progress", "Published", "make", "names"]
