"""Planning: a tree until it reaches the goal, then a motion that is smooth, has gains, and is as valid as before."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.geometry import Shape
from stepmap.optimal.plan import Plan
from stepmap.optimal.planner.smoothing import Smoothed, gain_weights, smoothed
from stepmap.optimal.planner.task import Range, Task, read_task
from stepmap.optimal.planner.tree import Tree
from stepmap.optimal.problem import Iteration
from stepmap.steps import VariationalStep
from stepmap.steps.protocol import Trajectory

LINGER = 5_000  # extensions more once the goal is reached: among its nodes one will hardly move, and can stop there
Progress = Callable[[int, float, int], None]  # nodes, distance of the best, extensions


class PlanStatus(Enum):
    """How planning ended; the text is what to do."""

    REACHED = "reached the goal"
    EXHAUSTED = (
        "did not reach the goal with the extensions it had; allow more, a wider box, higher rates or a larger "
        "tolerance, or try another seed"
    )
    LATE = (
        "did not reach the goal in the time it had; allow more seconds, a wider box, higher rates or a larger tolerance"
    )
    INTERRUPTED = "interrupted; the motion that came nearest to the goal is kept"

    @property
    def ok(self) -> bool:
        return self is PlanStatus.REACHED

    @property
    def interrupted(self) -> bool:
        return self is PlanStatus.INTERRUPTED

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False)
class PlannedMotion:
    """The motion that the tree found, or that came nearest to the goal, and the tree itself."""

    status: PlanStatus
    trajectory: Trajectory
    distance: float  # of its end from the goal
    extensions: int  # of the tree
    tree: Tree
    task: Task
    weights: tuple[Array, Array]  # Q and R of the gains
    seed: int  # of the tree
    seeds: int = 1  # that were tried

    @property
    def nodes(self) -> Array:
        """States of the tree, (count, nx)."""
        return self.tree.x[: self.tree.count]

    @cached_property
    def _smoothed(self) -> Smoothed:
        return smoothed(self.task, self.trajectory, self.weights)

    @cached_property
    def room(self) -> float:
        """Least distance [m] of the smoothed motion from obstacles; infinite where there are none."""
        pose = self.task.step.layout.pose(self.plan.trajectory.x)
        return min((float(rows.evaluate(pose).min()) for rows in self.task.rows), default=np.inf)

    @property
    def plan(self) -> Plan:
        """The motion, smoothed where that keeps it valid and led on to rest where it can be, with gains along it.

        Its reference is the tree's motion, and the way to rest that smoothing began with.
        """
        return self._smoothed.plan

    @property
    def rest(self) -> bool:
        """Whether the plan ends at rest: in an equilibrium that its last input holds."""
        return self._smoothed.rest

    @property
    def moving(self) -> str:
        """Why the plan ends in motion, where it reaches the goal so."""
        return self._smoothed.moving

    @property
    def cost(self) -> float:
        """Of the smoothed motion; 0 where there is none."""
        return self._smoothed.cost

    @property
    def history(self) -> tuple[Iteration, ...]:
        """Iterations of the smoothing."""
        return self._smoothed.history

    @property
    def advice(self) -> str:
        """How far it came and what kept it from the goal, where it did not reach it."""
        if self.status.ok:
            return ""
        tries = f"{self.seeds} seeds" if self.seeds > 1 else f"seed {self.seed}"
        told = f"nearest {self.distance:.3g} from the goal, of {self.task.distances(self.task.start):.3g} at the start"
        lost = ", ".join(f"{count} by {fault.value}" for fault, count in self.tree.lost.items() if count)
        lost = f"; of {self.extensions} extensions were lost {lost}" if lost else ""
        within = self.task.goal_within()
        if self.trajectory.steps and bool(self.task.reached(self.plan.trajectory.x[-1])):
            within = "smoothed, this motion is within the tolerance"
        return f"{self.status} ({told}, {self.tree.count} nodes, {tries}{lost}{f'; {within}' if within else ''})"

    def require(self) -> PlannedMotion:
        """Itself where the goal was reached; raises ConvergenceError otherwise."""
        if not self.status.ok:
            raise ConvergenceError(
                f"planning {self.advice}", iterations=self.extensions, residual=self.distance, x=self.trajectory.x[-1]
            )
        return self


def plan(
    step: VariationalStep,
    start: Mapping[str, Any] | ArrayLike,
    goal: Mapping[str, float],
    *,
    links: Sequence[tuple[str, str]] = (),
    radius: float = 0.0,
    obstacles: Sequence[Shape] = (),
    box: Mapping[str, Range] | None = None,
    rate: float | Mapping[str, float] = 0.5,
    tension_low: float = 0.0,
    tolerance: float = 0.1,
    seed: int = 0,
    seeds: int = 1,
    extensions: int = 400_000,
    seconds: float | None = None,
    weights: tuple[ArrayLike, ArrayLike] | None = None,
    progress: Progress | None = None,
) -> PlannedMotion:
    """A motion from the pose or state ``start`` to within ``tolerance`` of the ``goal``'s coordinates.

    ``links`` are pairs of frames, capsules of a ``radius`` that must stay clear of the ``obstacles``. Kinematic
    coordinates keep within their ``box``, by default their range, and below ``rate``; wires and strings keep a tension
    above ``tension_low``. The same seed gives the same motion, bit for bit. So many ``seeds`` are tried one after the
    other, each with so many ``extensions``; where none reaches the goal, within ``seconds``, or at Ctrl-C, the motion
    that came nearest is returned. ``weights``, Q and R, are those of the gains along it.
    """
    given = {"goal": goal, "links": links, "radius": radius, "obstacles": obstacles, "box": box, "rate": rate}
    given |= {"tension_low": tension_low, "tolerance": tolerance, "seed": seed, "seeds": seeds}
    task = checked(step, start, {**given, "extensions": extensions, "seconds": seconds, "weights": weights})
    budget = _Budget(extensions, seconds, progress)
    Q_R = gain_weights(step, weights)
    best: PlannedMotion | None = None
    for number, at in enumerate(_seeds(seed, seeds), start=1):
        tree = Tree(task, np.random.default_rng(at))
        status, node = budget.grow(tree)
        if best is None or node is not None or tree.distance < best.distance:
            found = step.rollout(task.start, tree.path(tree.best if node is None else node))
            off = float(task.distances(found.x[-1]))
            best = PlannedMotion(status, found, off, tree.extensions, tree, task, Q_R, at)
        best = replace(best, status=status, seeds=number)
        if status is not PlanStatus.EXHAUSTED:
            break
    assert best is not None
    return best


def checked(step: VariationalStep, start: Mapping[str, Any] | ArrayLike, options: Mapping[str, Any]) -> Task:
    """The task of ``plan``'s arguments, before any search; raises ModelError where they make no sense."""
    if not isinstance(step, VariationalStep) or not step.layout.plain:
        raise ModelError("step: a planner needs a map from sm.discretize whose coordinates are plain numbers")
    if not step.nk and not step.system.inputs:
        raise ModelError(f"step: {step.name!r} has no inputs; nothing can be planned")
    o = options
    room = o.get("links", ()), o.get("radius", 0.0), o.get("obstacles", ())
    rest = o.get("rate", 0.5), o.get("tension_low", 0.0), o.get("tolerance", 0.1)
    _Budget(o.get("extensions", 1), o.get("seconds"), None)
    _seeds(o.get("seed", 0), o.get("seeds", 1))
    gain_weights(step, o.get("weights"))
    return read_task(step, start, o["goal"], room, o.get("box") or {}, *rest)


class _Budget:
    """Extensions of a tree, and seconds of all of them."""

    def __init__(self, extensions: int, seconds: float | None, progress: Progress | None) -> None:
        if seconds is not None and not seconds > 0:
            raise ModelError(f"seconds: must be positive, got {seconds}; leave it out for no limit")
        if not extensions > 0:
            raise ModelError(f"extensions: must be positive, got {extensions}")
        self.extensions, self.progress = extensions, progress
        self.end = None if seconds is None else time.monotonic() + seconds

    def grow(self, tree: Tree) -> tuple[PlanStatus, int | None]:
        """How it ended, and the node that reached the goal."""
        if tree.task.reached(tree.task.start):
            return PlanStatus.REACHED, 0
        end = self.extensions
        try:
            while tree.extensions < end:
                if self.end is not None and time.monotonic() >= self.end:
                    break
                tree.extend()
                if self.progress is not None:
                    self.progress(tree.count, tree.distance, tree.extensions)
                if tree.slowest[1] >= 0 and end == self.extensions:
                    end = min(end, tree.extensions + LINGER)
        except KeyboardInterrupt:
            return PlanStatus.INTERRUPTED, tree.end
        late = PlanStatus.LATE if tree.extensions < end else PlanStatus.EXHAUSTED
        return (late if tree.end is None else PlanStatus.REACHED), tree.end


def _seeds(first: int, count: int) -> range:
    for name, value, least in (("seed", first, 0), ("seeds", count, 1)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ModelError(f"{name}: expected a whole number from {least} on, got {value!r}")
    return range(int(first), int(first) + int(count))
