"""Published figures: one file a figure, found by its name; each has a function ``make(progress) -> Published``.

Other packages add figures by entry points of the group ``stepmap.figures``, which load to such a function. One that
also takes a ``recording`` is made from a run.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from stepmap.errors import ModelError
from stepmap.figures.published import Progress, Published
from stepmap.registry import Registry


@cache
def _own() -> Mapping[str, str]:
    """Modules by the name of their figure; also those of folders here."""
    modules = [module.name for module in pkgutil.walk_packages(__path__, f"{__name__}.") if not module.ispkg]
    found = {module.rpartition(".")[2]: module for module in modules}
    return {name: module for name, module in found.items() if name != "published" and name[0] != "_"}


def _load(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = import_module(_own()[name]).make
    return found


FIGURES = Registry[Callable[..., Any]]("stepmap.figures", "figure", _own, _load)

names = FIGURES.names


def make(name: str, progress: Progress | None = None, recording: Path | None = None) -> Published:
    """The figure of that name; from a recording, where it is made from one."""
    maker, told = FIGURES.get(name), progress or (lambda part, text: None)
    if recording is None:
        made: Published = maker(told)
    elif "recording" in inspect.signature(maker).parameters:
        made = maker(told, recording)
    else:
        raise ModelError(f"{name} is computed, not made from a recording: leave out {recording}")
    return made


__all__ = ["Progress", "Published", "make", "names"]
