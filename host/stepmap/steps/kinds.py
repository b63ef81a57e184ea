"""Kinds of steps, found by entry points of the group ``stepmap.steps``.

An entry point's name is the kind; it loads to a class of steps, called as ``Kind(system, dt, **options)``. A class that
defines ``layout``, ``equations`` and ``input_names`` on top of MechanicalStep is one.
"""

from __future__ import annotations

import inspect
from importlib.metadata import entry_points
from typing import Any, cast

from stepmap.errors import ModelError
from stepmap.mechanics.system import System
from stepmap.steps.euler import EulerStep
from stepmap.steps.mechanical import MechanicalStep
from stepmap.steps.variational import Forces, VariationalStep
from stepmap.text import did_you_mean

GROUP = "stepmap.steps"
MIDPOINT = "midpoint"
OWN: dict[str, type[MechanicalStep]] = {MIDPOINT: VariationalStep, "euler": EulerStep}


def names() -> list[str]:
    """The kinds that are installed."""
    return sorted({*OWN, *(entry.name for entry in entry_points(group=GROUP))})


def find(kind: str) -> type[MechanicalStep]:
    """The class of a kind; raises ModelError where there is none, or it cannot be loaded."""
    if kind in OWN:
        return OWN[kind]
    entry = next(iter(entry_points(group=GROUP, name=kind)), None)
    if entry is None:
        known = names()
        raise ModelError(
            f"kind: no kind of step is called {kind!r}; {did_you_mean(kind, known)}there are {', '.join(known)}"
        )
    try:
        loaded = entry.load()
        if not callable(loaded):
            raise TypeError(f"expected a class of steps, got {type(loaded).__name__}")
    except (Exception, SystemExit) as error:  # whatever another package does while it is imported
        owner = f" of {entry.dist.name}" if entry.dist is not None else ""
        raise ModelError(
            f"kind: the step {kind!r}{owner} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}; "
            "reinstall that package or remove it"
        ) from error
    return cast(type[MechanicalStep], loaded)


def make(kind: str, system: System, dt: float, **options: Any) -> MechanicalStep:
    """The step of a kind, compiled now, or loaded from the cache."""
    chosen = find(kind)
    known = [name for name in inspect.signature(chosen).parameters if name not in ("system", "dt")]
    for name in options:
        if name not in known:
            there = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ModelError(f"{name}: a step of kind {kind!r} has no such option; {there}")
    step = chosen(system, dt, **options)
    _ = step.kernel
    return step


def discretize(system: System, dt: float, *, forces: Forces = "held") -> VariationalStep:
    """The one-step map of a system at a time step dt [s]; compiled now, or loaded from the cache.

    ``forces``: "held", half of a force's impulse at each end of the step, as motors give it; or "left", all of it at
    the step's begin, as in the papers.
    """
    return cast(VariationalStep, make(MIDPOINT, system, dt, forces=forces))


def euler(system: System, dt: float) -> EulerStep:
    """The explicit Euler step of a system at a time step dt [s]."""
    return cast(EulerStep, make("euler", system, dt))
