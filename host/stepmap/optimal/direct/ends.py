"""Start and goal: poses and velocities by name, checked against limits and constraints before anything is solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.direct.limits import Bounds
from stepmap.optimal.direct.names import stored_names, velocity_names
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
    pose, velocity = _split(system, given, "start")
    q = system.configuration({name: value for name, value in pose.items() if value is not None})
    v = np.array([velocity.get(name, 0.0) for name in velocity_names(system)], dtype=float)
    return End(q, v)


def read_goal(system: System, given: Any) -> End:
    """The goal: coordinates that are not named are free, velocities are zero unless named; None frees one.

    Without a goal the end is free.
    """
    names, speeds = stored_names(system), velocity_names(system)
    if given is None or (isinstance(given, Mapping) and not given):
        return End(np.full(len(names), np.nan), np.full(len(speeds), np.nan))
    pose, velocity = _split(system, given, "goal")
    q = np.array([_or_free(pose.get(name)) for name in names])
    v = np.array([_or_free(velocity.get(name, 0.0)) for name in speeds])
    return End(q, v)


def _or_free(value: float | None) -> float:
    return np.nan if value is None else value


def _split(system: System, given: Any, what: str) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Coordinates and velocities by name."""
    names, speeds = stored_names(system), velocity_names(system)
    if not isinstance(given, Mapping):
        q = system.configuration({} if given is None else given)
        return dict(zip(names, map(float, q), strict=True)), {}
    pose: dict[str, float | None] = {}
    velocity: dict[str, float | None] = {}
    for name, value in given.items():
        if name not in names and name not in speeds:
            raise ModelError(f"{what}: no coordinate is called {name!r}", hint=nearest(str(name), names))
        (pose if name in names else velocity)[name] = None if value is None else number(value, f"{what} {name!r}")
    return pose, velocity


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
    for i, c in enumerate(system.coordinates):
        way = goal.q[i] - start.q[i]
        rate = bounds.v[1, i] if way > 0 else -bounds.v[0, i]
        if not np.isnan(way) and abs(way) > rate * longest * (1 + SLACK):
            raise ModelError(
                f"goal: {c.name} has {abs(way):g} {c.unit or 'units'} to go, and at a rate of {rate:g} per second "
                f"comes {rate * longest:g} far in {longest:g} s",
                hint="Give it more time, or a higher rate.",
            )


def released(system: System, goal: End, closed: tuple[int, ...]) -> list[int]:
    """Coordinates of a goal that are left to the constraints, so that these keep rows of their own.

    Constraints and a whole pose say the same twice, and the rows of such a program depend on each other.
    """
    nd = len(system.dynamic)
    named = [i for i in range(nd) if not np.isnan(goal.q[i])]
    if not closed or not named:
        return []
    q = np.where(np.isnan(goal.q), system.configuration({}), goal.q)
    slope = system.residuals_slope(q)[list(closed), :nd]
    left = [i for i in range(nd) if i not in named]
    freed: list[int] = []
    while (rank := _rank(slope[:, left])) < len(closed) and named:
        # The coordinate whose column adds most to what the free ones reach.
        gains = {i: _reach(slope[:, left], slope[:, i]) for i in named}
        best = max(gains, key=lambda i: gains[i])
        left.append(best)
        if _rank(slope[:, left]) > rank:
            freed.append(best)
        named.remove(best)
    return freed


def _rank(matrix: Array) -> int:
    return int(np.linalg.matrix_rank(matrix, tol=1e-9)) if matrix.size else 0


def _reach(columns: Array, column: Array) -> float:
    """How much of a column is outside of the span of others."""
    if not columns.size:
        return float(np.linalg.norm(column))
    return float(np.linalg.norm(column - columns @ np.linalg.lstsq(columns, column, rcond=None)[0]))
