"""Where a contact that sticks would slip: its force leaves the cone of a coefficient of friction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.gaps import Contact
from stepmap.mechanics.quantity import number
from stepmap.steps.protocol import Trajectory

if TYPE_CHECKING:
    from stepmap.steps.events.step import EventStep

LEAST = 1e-9  # N, N s: smaller forces and impulses are rounding
EDGE = 1e-9  # part of a coefficient by which rounding may leave the cone


class Slip(NamedTuple):
    """A step or an impact in which a contact that sticks needs more friction than there is."""

    time: float  # s
    step: int
    name: str  # of the contact
    kind: str  # "force" of a step or "impact"
    needed: float  # |λ_t| / λ_n


def slips(step: EventStep, trajectory: Trajectory, coefficient: float | Mapping[str, float]) -> tuple[Slip, ...]:
    """Steps and impacts with |λ_t| > μ λ_n, in the order of time.

    The force of step k belongs to its node, t_k, or to the impact that it begins with; an impact has impulses.
    """
    rows = _sticking(step)
    limits = _coefficients(rows, coefficient)
    forces = trajectory.multipliers
    if forces is None or forces.shape[1] != step.nc:
        raise ModelError("trajectory: it has no constraint forces; take one that rollout or follow returned")
    found = []
    struck = {(event.step, event.name): event.time for event in trajectory.events if event.kind == "impact"}
    for name, limit in limits.items():
        i = rows[name]
        needed = _ratio(np.hypot(forces[:, i + 1], forces[:, i + 2]), forces[:, i])
        for k in np.flatnonzero(needed > limit * (1 + EDGE)):
            time = struck.get((int(k), name), float(trajectory.t[k]))
            found.append(Slip(time, int(k), name, "force", float(needed[k])))
    names = {i: name for name, i in rows.items() if name in limits}
    for place in sorted({k for k, name in struck if name in limits}):
        found += _impacts(step, trajectory, place, names, limits)
    return tuple(sorted(found, key=lambda slip: (slip.time, slip.kind != "impact")))


def _impacts(
    step: EventStep, path: Trajectory, k: int, names: Mapping[int, str], limits: Mapping[str, float]
) -> list[Slip]:
    """Those of one step, which is solved once more: its events say how large their tangential impulses are."""
    length = float(path.t[k + 1] - path.t[k])
    dt = step.dt if math.isclose(length, step.dt, rel_tol=1e-9) else length
    _, log = step.kernel.recorded(lambda: step.kernel.step(step.parameter_values, dt, path.x[k], path.u[k]), 1)
    found = []
    for entry in log.entries:
        name = names.get(entry.row)
        if entry.release or name is None:
            continue
        needed = float(_ratio(np.array(entry.force), np.array(entry.impulse)))
        if needed > limits[name] * (1 + EDGE):
            found.append(Slip(float(path.t[k]) + entry.time, k, name, "impact", needed))
    return found


def _ratio(tangent: Array, normal: Array) -> Array:
    """|λ_t| / λ_n, 0 where both are rounding."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Array = np.where(tangent <= LEAST, 0.0, np.where(normal > 0.0, tangent / normal, np.inf))
    return out


def _sticking(step: EventStep) -> dict[str, int]:
    """Normal rows of the contacts that stick, by name."""
    rows, at = {}, 0
    for c in step.system.constraints:
        if isinstance(c, Contact) and c.sticks and c.name in step.contacts:
            rows[c.name] = at
        at += len(c.rows)
    if not rows:
        raise ModelError(f"{step.system.name!r} has no contact that sticks: give it friction=math.inf in b.contact")
    return rows


def _coefficients(rows: Mapping[str, int], given: float | Mapping[str, float]) -> dict[str, float]:
    limits = dict(given) if isinstance(given, Mapping) else dict.fromkeys(rows, given)
    for name, value in limits.items():
        if name not in rows:
            raise ModelError(f"coefficient: no contact that sticks is called {name!r}; there are {', '.join(rows)}")
        limits[name] = number(value, f"coefficient of {name!r}")
        if limits[name] < 0:
            raise ModelError(f"coefficient of {name!r}: must not be negative, got {limits[name]:g}")
    return limits
