"""Start and goal: poses and velocities by name, checked against limits and constraints before anything is solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array, numbers
from stepmap.errors import ModelError
from stepmap.mechanics.poses.named import pose_places, velocity_places
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.direct.limits import Bounds
from stepmap.optimal.direct.names import stored_names, velocity_names
from stepmap.steps.balance import holding_forces
from stepmap.steps.midpoint_functions import ModelFunctions
from stepmap.text import nearest

SLACK = 1e-9  # beyond a limit, of its size


@dataclass(frozen=True, eq=False)
class End:
    """A pose q̄ and a velocity v̄; not a number where they are free."""

    q: Array
    v: Array

    @property
    def free(self) -> bool:
        """Whether nothing is asked for."""
        return bool(np.isnan(self.q).all() and np.isnan(self.v).all())

    @property
    def full(self) -> bool:
        """Whether the whole pose is given."""
        return not np.isnan(self.q).any()


def read_start(system: System, given: Any) -> End:
    """The start: coordinates that are not named have the system's own start, velocities are zero."""
    q, v = _filled(system, given, "start")
    own = system.configuration({})
    return End(_unit(system, np.where(np.isnan(q), own, q), "start"), np.nan_to_num(v, nan=0.0))


def read_goal(system: System, given: Any) -> End:
    """The goal: coordinates that are not named are free, velocities are zero unless named; None frees one.

    Without a goal the end is free.
    """
    tangent = system.tangent
    if given is None or (isinstance(given, Mapping) and not given):
        return End(np.full(tangent.nq, np.nan), np.full(tangent.nv, np.nan))
    q, v = _filled(system, given, "goal")
    freed = {name for name, value in given.items() if value is None} if isinstance(given, Mapping) else set()
    still = np.array([name not in freed for name in velocity_names(system)])
    return End(_unit(system, q, "goal"), np.where(np.isnan(v) & still, 0.0, v))


def _filled(system: System, given: Any, what: str) -> tuple[Array, Array]:
    """A pose and a velocity from names; not a number where nothing is said."""
    tangent = system.tangent
    if not isinstance(given, Mapping):
        return system.configuration({} if given is None else given), np.full(tangent.nv, np.nan)
    poses = pose_places(tangent, system.balls)
    speeds = {f"v_{name}": at for name, at in velocity_places(tangent, system.balls).items()}
    q, v = np.full(tangent.nq, np.nan), np.full(tangent.nv, np.nan)
    for name, value in given.items():
        if name not in poses and name not in speeds:
            raise ModelError(f"{what}: no coordinate is called {name!r}", hint=nearest(str(name), list(poses)))
        out, at = (q, poses[name]) if name in poses else (v, speeds[name])
        if value is None:
            continue
        if isinstance(at, int):
            out[at] = number(value, f"{what} {name!r}")
            continue
        several = value if isinstance(value, str) else numbers(value, f"{what} {name!r}")
        if isinstance(several, str) or several.shape != (len(at),) or not np.isfinite(several).all():
            raise ModelError(f"{what} {name!r}: expected {len(at)} numbers, got {value!r}")
        out[at] = several
    return q, v


def _unit(system: System, q: Array, what: str) -> Array:
    """A pose with unit quaternions, which are given as a whole or not at all."""
    neutral = system.configuration({})
    for s, _ in system.tangent.balls:
        known = ~np.isnan(q[s : s + 4])
        if known.any() and not known.all():
            raise ModelError(f"{what}: a quaternion is given as a whole, (w, x, y, z), or not at all")
    unit = system.tangent.require_unit(np.where(np.isnan(q), neutral, q), what)
    return np.where(np.isnan(q), np.nan, unit)


def require_possible(system: System, end: End, bounds: Bounds, what: str) -> None:
    """Raises ModelError where a pose is outside its limits, or a whole one off the constraints."""
    for place, value, (low, high) in zip(stored_names(system), end.q, bounds.q.T, strict=True):
        slack = SLACK * max(1.0, abs(value) if np.isfinite(value) else 1.0)
        if not np.isnan(value) and not low - slack <= value <= high + slack:
            raise ModelError(
                f"{what}: {place} = {value:g} is outside its limits, {low:g} to {high:g}",
                hint="Give a pose within them, or wider limits: low and high of the coordinate, or limits={...}.",
            )
    for place, value, (low, high) in zip(velocity_names(system), end.v, bounds.v.T, strict=True):
        if not np.isnan(value) and not low - SLACK <= value <= high + SLACK:
            raise ModelError(f"{what}: {place} = {value:g} is outside its limits, {low:g} to {high:g}")
    if end.full:
        try:
            system.require_on_constraints(end.q)
        except ModelError as error:
            raise ModelError(f"{what}: {error}") from None


def require_reachable(system: System, start: End, goal: End, bounds: Bounds, longest: float) -> None:
    """Raises ModelError where a coordinate cannot come from start to goal within its rate and the longest time."""
    for i, at in zip(*system.tangent.ordinary, strict=True):
        c, way = system.coordinates[i], goal.q[i] - start.q[i]
        rate = bounds.v[1, at] if way > 0 else -bounds.v[0, at]
        if not np.isnan(way) and abs(way) > rate * longest * (1 + SLACK):
            raise ModelError(
                f"goal: {c.name} has {abs(way):g} {c.unit or 'units'} to go, and at a rate of {rate:g} per second "
                f"comes {rate * longest:g} far in {longest:g} s",
                hint="Give it more time, or a higher rate.",
            )


def holding(system: System, q: Array) -> Array | None:
    """The least forces that hold a pose; None where no forces do."""
    return holding_forces(system, ModelFunctions(system.expressions, system.tangent.nd), q)


def require_held(system: System, goal: End, bounds: Bounds) -> None:
    """Raises ModelError where a goal is not at rest, or no pose that inputs within their limits can hold."""
    if np.nan_to_num(goal.v, nan=1.0).any():
        raise ModelError("rest: needs a goal at rest", hint="Name coordinates of a goal, and no velocity.")
    if not goal.full:  # whether the end can be held follows from the search
        return
    forces = holding(system, goal.q)
    if forces is None:
        raise ModelError("rest: no inputs hold the goal", hint="Choose a pose in balance, or leave out rest.")
    for given, force, low, high in zip(system.inputs, forces, *bounds.u, strict=True):
        if not low - SLACK <= force <= high + SLACK:
            raise ModelError(
                f"rest: to hold the goal takes {given.name} = {force:.4g}, and its limits are {low:g} to {high:g}"
            )


def released(system: System, goal: End, closed: tuple[int, ...]) -> list[int]:
    """Coordinates of a goal that are left to the constraints, so that these keep rows of their own.

    Constraints and a whole pose say the same twice, and the rows of such a program depend on each other.
    """
    nd, tangent = system.tangent.nd, system.tangent
    stored, places = tangent.ordinary
    of = {int(at): int(i) for i, at in zip(stored, places, strict=True)}
    named = [at for at in range(nd) if at in of and not np.isnan(goal.q[of[at]])]
    if not closed or not named:
        return []
    turned = [at + k for s, at in tangent.balls for k in range(3) if not np.isnan(goal.q[s])]
    q = np.where(np.isnan(goal.q), system.configuration({}), goal.q)
    slope = system.residuals_slope(q)[list(closed), :nd]
    left = [at for at in range(nd) if at not in named and at not in turned]
    freed: list[int] = []
    while (rank := _rank(slope[:, left])) < len(closed) and named:
        # The coordinate whose column adds most to what the free ones reach.
        gains = {i: _reach(slope[:, left], slope[:, i]) for i in named}
        best = max(gains, key=lambda i: gains[i])
        left.append(best)
        if _rank(slope[:, left]) > rank:
            freed.append(of[best])
        named.remove(best)
    return freed


def _rank(matrix: Array) -> int:
    return int(np.linalg.matrix_rank(matrix, tol=1e-9)) if matrix.size else 0


def _reach(columns: Array, column: Array) -> float:
    """How much of a column is outside of the span of others."""
    if not columns.size:
        return float(np.linalg.norm(column))
    return float(np.linalg.norm(column - columns @ np.linalg.lstsq(columns, column, rcond=None)[0]))
