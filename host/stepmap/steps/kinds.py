"""Kinds of steps, found by entry points of the group ``stepmap.steps``.

An entry point's name is the kind; it loads to a class of steps, called as ``Kind(system, dt, **options)``. A class that
defines ``layout``, ``equations`` and ``input_names`` on top of MechanicalStep is one.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

from stepmap.errors import ModelError
from stepmap.mechanics.system import System
from stepmap.registry import Registry
from stepmap.steps.euler import EulerStep
from stepmap.steps.events.step import EventStep
from stepmap.steps.mechanical import MechanicalStep
from stepmap.steps.relaxed import RelaxedStep
from stepmap.steps.rotations.maps import Rotation
from stepmap.steps.variational import Forces, VariationalStep

Gaps: TypeAlias = Literal["events", "relaxed"]

MIDPOINT, EVENTS, RELAXED = "midpoint", "events", "relaxed"
OWN: dict[str, type[MechanicalStep]] = {
    MIDPOINT: VariationalStep,
    EVENTS: EventStep,
    RELAXED: RelaxedStep,
    "euler": EulerStep,
}
KINDS = Registry[type[MechanicalStep]].of("stepmap.steps", "kind of step", OWN)

names, find = KINDS.names, KINDS.get


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


def discretize(
    system: System,
    dt: float,
    *,
    forces: Forces = "held",
    rotation: Rotation = "exp",
    gaps: Gaps = "events",
    kappa: float | None = None,
    substeps: int = 1,
    contacts: Sequence[str] | None = None,
) -> VariationalStep:
    """The one-step map of a system at a time step dt [s]; compiled now, or loaded from the cache.

    ``forces``: "held", half of a force's impulse at each end of the step, as motors give it; or "left", all of it at
    the step's begin, as in the papers. Of a system with gaps it is the step with events: ``substeps`` cuts every step
    into so many equal parts, and ``contacts`` names the gaps that exist in the map, where not all of them do.
    ``gaps="relaxed"`` is the step for searches, whose gaps are smoothed by ``kappa``. ``rotation`` tells how
    the turn of a ball follows from its rate: "exp", or "cayley".
    """
    if gaps not in get_args(Gaps):
        raise ModelError(f"gaps: expected 'events' or 'relaxed', got {gaps!r}")
    if gaps == "relaxed":
        if substeps != 1:
            raise ModelError("substeps: a relaxed step has no parts; use a shorter dt")
        smoothing = {} if kappa is None else {"kappa": kappa}
        relaxed = make(RELAXED, system, dt, forces=forces, rotation=rotation, contacts=contacts, **smoothing)
        return cast(VariationalStep, relaxed)
    if kappa is not None:
        raise ModelError("kappa: smooths relaxed gaps; give gaps='relaxed' with it")
    if isinstance(system, System) and system.gap_names:
        made = make(EVENTS, system, dt, forces=forces, rotation=rotation, substeps=substeps, contacts=contacts)
        return cast(VariationalStep, made)
    if substeps != 1 or contacts is not None:
        raise ModelError(
            f"{'contacts' if substeps == 1 else 'substeps'}: is of systems with gaps, and this one has none; "
            "use b.string or b.contact for what may open"
        )
    return cast(VariationalStep, make(MIDPOINT, system, dt, forces=forces, rotation=rotation))


def euler(system: System, dt: float) -> EulerStep:
    """The explicit Euler step of a system at a time step dt [s]."""
    return cast(EulerStep, make("euler", system, dt))
