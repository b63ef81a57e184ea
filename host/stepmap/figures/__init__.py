"""Published figures: one file a figure, found by its name; each has a function ``make(progress) -> Published``."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from stepmap.errors import ModelError
from stepmap.figures.published import Progress, Published


def names() -> list[str]:
    """The figures that can be made."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "published")


def make(name: str, progress: Progress | None = None) -> Published:
    """The figure of that name."""
    if name not in names():
        raise ModelError(f"no figure is called {name!r}; there are {', '.join(names())}")
    made: Published = import_module(f"{__name__}.{name}").make(progress or (lambda part, text: None))
    return made


__all__ = ["Progress", "Published", "make", "names"]
