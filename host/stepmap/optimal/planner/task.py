"""A planning task: where to, how inputs may move, and what makes a motion valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, vector
from stepmap.errors import ConvergenceError, ModelError
from stepmap.geometry import Clearances, Shape
from stepmap.mechanics.constraints import Distance
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.terms.clearance import Clearance
from stepmap.optimal.terms.residual import Points, Residual, symbols
from stepmap.steps import VariationalStep

Range = tuple[float, float]


class Fault(Enum):
    """Why an extension of a tree is not kept; the text goes after "lost … by"."""

    STEP = "steps without a solution"
    TENSION = "low tension"
    OBSTACLE = "obstacles"


@dataclass(frozen=True, eq=False)
class Task:
    """What a planner is asked for, checked; q̄ has its entries in the order of the coordinates."""

    step: VariationalStep
    start: Array  # x
    places: Array  # entries of q̄ that the goal names
    goal: Array  # their values
    tolerance: float  # largest distance of one of them
    low: Array  # box of the kinematic coordinates
    high: Array
    rate: Array  # largest speed of each
    push_low: Array  # of the forces
    push_high: Array
    tension_low: float
    strings: Array  # rows of the constraints that are wires or strings
    links: tuple[Clearance, ...]
    rows: tuple[Clearances, ...]
    obstacles: tuple[Shape, ...]

    def distances(self, X: Array) -> Array:
        """Distance (...) of states from the goal, the norm over its coordinates."""
        out: Array = np.linalg.norm(X[..., self.places] - self.goal, axis=-1)
        return out

    def reached(self, X: Array) -> Array:
        """Whether states are within the tolerance in every coordinate of the goal."""
        out: Array = np.abs(X[..., self.places] - self.goal).max(axis=-1) <= self.tolerance
        return out

    def valid(self, X: Array, forces: Array) -> Array:
        """Which of m motions (m, N, nx), with constraint forces (m, N, nc), keep tension and clearances."""
        good, _ = self.sorted_out(X, forces)
        return good

    def sorted_out(self, X: Array, forces: Array) -> tuple[Array, dict[Fault, int]]:
        """Which of m motions are valid, and how many are not, by the first fault of each."""
        good: Array = np.asarray(np.isfinite(X).all(axis=(1, 2)))
        left = [len(good), int(good.sum())]
        if len(self.strings):
            good &= (np.nan_to_num(forces[:, :, self.strings], nan=-np.inf) > self.tension_low).all(axis=(1, 2))
        left.append(int(good.sum()))
        at = np.flatnonzero(good)
        if self.rows and len(at):
            good[at] = self._clear(X[at].reshape(-1, X.shape[-1])).reshape(len(at), -1).all(axis=1)
        left.append(int(good.sum()))
        return good, {fault: before - after for fault, (before, after) in zip(Fault, pairwise(left), strict=True)}

    def goal_within(self) -> str:
        """What speaks against the goal itself, where it names all dynamic coordinates; "" where nothing does."""
        system, nd = self.step.system, self.step.nd
        if not set(range(nd)) <= set(self.places.tolist()):
            return ""
        names = [c.name for c in system.coordinates]
        pose = np.array(self.step.layout.pose(self.start))
        pose[self.places] = self.goal
        room = min((float(rows.evaluate(pose).min()) for rows in self.rows), default=0.0)
        if room < 0:
            return f"the goal itself is {-room:.3g} m within an obstacle"
        try:
            system.satisfy_constraints(pose, fixed=tuple(names[i] for i in self.places))
        except (ConvergenceError, ModelError):
            return "no pose with the goal's coordinates was found on the constraints"
        return ""

    def _clear(self, x: Array) -> Array:
        """Which of K states keep all clearances."""
        out, points = np.ones(len(x), dtype=bool), self._points(x)
        for rows in self.rows:
            size = int(rows.points.numel_out(0))
            places = np.moveaxis(points[:, :size].reshape(len(x), -1, 3), 1, 0)
            for row in rows.rows:
                out &= row.value(places) >= rows.margin
            points = points[:, size:]
        return out

    @cached_property
    def _points(self) -> Callable[[Array], Array]:
        """Probe points of all links at many states, compiled: CasADi's evaluator would take most of a search."""
        at = symbols(self.step)
        pose = at.x[: self.step.layout.pose(self.start).size]
        places = ca.vertcat(*(ca.vec(rows.points(pose, at.parameters)) for rows in self.rows))
        residual = Residual(self.step, at, places)

        def points(x: Array) -> Array:
            u, forces, data = (np.zeros((len(x), int(part.numel()))) for part in (at.u, at.forces, at.data))
            return residual.values(Points(np.ascontiguousarray(x), u, forces, np.zeros(len(x)), data))

        return points


def read_task(
    step: VariationalStep,
    start: Mapping[str, Any] | ArrayLike,
    goal: Mapping[str, float],
    obstacles: tuple[Sequence[tuple[str, str]], float, Sequence[Shape]],
    box: Mapping[str, Range],
    rate: float | Mapping[str, float],
    tension_low: float,
    tolerance: float,
) -> Task:
    """The task, once all of it makes sense: names, ranges, a start that is clear and a goal that is within reach."""
    system = step.system
    names = [c.name for c in system.coordinates]
    x0 = (
        step.rest(start) if isinstance(start, Mapping) or np.size(start) != step.nx else vector(start, step.nx, "start")
    )
    places, values = _goal(system, names, goal)
    low, high = _box(system, box)
    _require_within(system, places, values, (low, high), tolerance)
    rates = _rates(system, rate)
    distances = [i for i, c in enumerate(_owners(system)) if isinstance(c, Distance)]
    links = _clearances(*obstacles)
    task = Task(
        step,
        x0,
        places,
        values,
        number(tolerance, "tolerance"),
        low,
        high,
        rates,
        *_pushes(system, box),
        number(tension_low, "tension_low"),
        np.array(distances, dtype=int),
        links,
        tuple(link.of(system) for link in links),
        tuple(obstacles[2]),
    )
    if not task.tolerance > 0:
        raise ModelError(f"tolerance: must be positive, got {tolerance}")
    _require_possible(task)
    return task


def _require_possible(task: Task) -> None:
    """Raises where the start touches an obstacle or lies outside the box."""
    pose, kinematic = task.step.layout.pose(task.start), task.step.system.kinematic
    for rows, link in zip(task.rows, task.links, strict=True):
        room = rows.evaluate(pose)
        if room.min() < 0:
            raise ModelError(
                f"start: link {link.frame} is {-room.min():.3g} m within an obstacle; move one of them, or make radius "
                "smaller"
            )
    for c, at, low, high in zip(kinematic, pose[task.step.nd :], task.low, task.high, strict=True):
        if not low <= at <= high:
            raise ModelError(f"start: {c.name} is {at:g}, outside its box of {low:g} to {high:g}")


def _goal(system: System, names: list[str], goal: Mapping[str, float]) -> tuple[Array, Array]:
    if not isinstance(goal, Mapping) or not goal:
        raise ModelError(f"goal: expected values by coordinate, at least one, got {goal!r}")
    places, values = [], []
    for name, value in goal.items():
        if name not in names:
            raise ModelError(f"goal: no coordinate is called {name!r}; there are {', '.join(names)}")
        c = system.coordinates[names.index(name)]
        at = number(value, f"goal, {name}")
        if (c.low is not None and at < c.low) or (c.high is not None and at > c.high):
            raise ModelError(f"goal: {name} = {at:g} is outside its range of {c.low} to {c.high}")
        places.append(names.index(name))
        values.append(at)
    return np.array(places), np.array(values)


def _require_within(system: System, places: Array, values: Array, box: tuple[Array, Array], tolerance: float) -> None:
    """Raises where the goal has a kinematic coordinate out of its box."""
    nd = len(system.dynamic)
    for at, value in zip(places, values, strict=True):
        if at >= nd and not box[0][at - nd] - tolerance <= value <= box[1][at - nd] + tolerance:
            raise ModelError(
                f"goal: {system.coordinates[at].name} = {value:g} is outside its box of {box[0][at - nd]:g} to "
                f"{box[1][at - nd]:g}"
            )


def _box(system: System, box: Mapping[str, Range]) -> tuple[Array, Array]:
    moved = [c.name for c in system.kinematic]
    known = [*moved, *(i.name for i in system.inputs)]
    for name in box:
        if name not in known:
            raise ModelError(
                f"box: no kinematic coordinate or force is called {name!r}; there are {', '.join(known) or 'none'}"
            )
    low, high = [], []
    for c in system.kinematic:
        least, most = box.get(c.name, (c.low, c.high))
        if least is None or most is None:
            raise ModelError(f"box: {c.name} has no range; give it (low, high) here, or in the system")
        if not least < most:
            raise ModelError(f"box: {c.name} has low {least:g} not below high {most:g}")
        low.append(float(least))
        high.append(float(most))
    return np.array(low), np.array(high)


def _pushes(system: System, box: Mapping[str, Range]) -> tuple[Array, Array]:
    """Ranges that forces are drawn from."""
    low, high = [], []
    for i in system.inputs:
        least, most = box.get(i.name, (i.low, i.high))
        if least is None or most is None:
            raise ModelError(
                f"box: force {i.name} has no range to draw from; give it (low, high) here, or in the system"
            )
        if not least <= most:
            raise ModelError(f"box: {i.name} has low {least:g} above high {most:g}")
        low.append(float(least))
        high.append(float(most))
    return np.array(low), np.array(high)


def _rates(system: System, rate: float | Mapping[str, float]) -> Array:
    values = []
    for c in system.kinematic:
        if isinstance(rate, Mapping) and c.name not in rate:
            raise ModelError(f"rate: {c.name} has none; give one number for all, or one per kinematic coordinate")
        value = number(rate[c.name] if isinstance(rate, Mapping) else rate, f"rate of {c.name}")
        if not value > 0:
            raise ModelError(f"rate of {c.name}: must be positive, got {value:g}")
        values.append(value)
    return np.array(values)


def _owners(system: System) -> list[object]:
    """The constraint that each row belongs to."""
    return [c for c in system.constraints for _ in c.labels]


def _clearances(links: Sequence[tuple[str, str]], radius: float, shapes: Sequence[Shape]) -> tuple[Clearance, ...]:
    if not shapes:
        return ()
    if not links:
        raise ModelError("links: name pairs of frames, the links that must not touch the obstacles")
    return tuple(Clearance(pair, radius, tuple(shapes)) for pair in links)
