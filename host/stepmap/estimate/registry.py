"""Filters by name, found by entry points of the group ``stepmap.filters``.

An entry point's name is that of the filter; it loads to a class or a function, see ``protocol.MakeFilter``.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import cast

from stepmap.errors import ModelError
from stepmap.estimate.ekf import ExtendedKalmanFilter
from stepmap.estimate.protocol import MakeFilter

GROUP = "stepmap.filters"
DEFAULT = "ekf"
OWN: dict[str, MakeFilter] = {DEFAULT: ExtendedKalmanFilter}  # come first: no other package replaces them


def names() -> list[str]:
    """The filters that are installed."""
    return sorted({*OWN, *(entry.name for entry in entry_points(group=GROUP))})


def added(name: str) -> EntryPoint | None:
    """The entry point of another package's filter; None for those of stepmap and those that are not there."""
    return None if name in OWN else next(iter(entry_points(group=GROUP, name=name)), None)


def maker(name: str) -> MakeFilter:
    """What makes the filter of that name; raises ModelError where there is none, or it cannot be loaded."""
    if name in OWN:
        return OWN[name]
    entry = added(name)
    if entry is None:
        raise ModelError(f"no filter is called {name!r}; there are {', '.join(names())}")
    try:
        loaded = entry.load()
        if not callable(loaded):
            raise TypeError(f"expected a class or a function, got {type(loaded).__name__}")
    except (Exception, SystemExit) as error:  # whatever another package does while it is imported
        owner = f" of {entry.dist.name}" if entry.dist is not None else ""
        raise ModelError(
            f"filter {name!r}{owner} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}; reinstall that "
            "package or remove it"
        ) from error
    return cast(MakeFilter, loaded)
