"""Planning: a tree until it reaches the goal, then a motion that is smooth, has gains, and is as valid as before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.geometry import Shape
from stepmap.optimal.plan import Plan
from stepmap.optimal.planner.smoothing import smoothed
from stepmap.optimal.planner.task import Range, Task, read_task
from stepmap.optimal.planner.tree import Tree
from stepmap.steps import VariationalStep
from stepmap.steps.protocol import Trajectory

Progress = Callable[[int, float, int], None]  # nodes, distance of the best, extensions


class PlanStatus(Enum):
    """How planning ended; the text is what to do."""

    REACHED = "reached the goal"
    EXHAUSTED = (
        "did not reach the goal with the extensions it had; allow more, a wider box, higher rates or a larger "
        "tolerance, or try another seed"
    )
    INTERRUPTED = "interrupted; the motion that came nearest to the goal is kept"

    @property
    def ok(self) -> bool:
        return self is PlanStatus.REACHED

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False)
class PlannedMotion:
    """The motion that the tree found, or that came nearest to the goal, and the tree itself."""

    status: PlanStatus
    trajectory: Trajectory
    distance: float  # of its end from the goal
    extensions: int
    tree: Tree
    task: Task

    @property
    def nodes(self) -> Array:
        """States of the tree, (count, nx)."""
        return self.tree.x[: self.tree.count]

    @cached_property
    def plan(self) -> Plan:
        """The motion, smoothed where that keeps it valid, with gains along it; the tree's motion is its reference."""
        return smoothed(self.task, self.trajectory)

    def require(self) -> PlannedMotion:
        """Itself where the goal was reached; raises ConvergenceError otherwise."""
        if not self.status.ok:
            raise ConvergenceError(
                f"planning {self.status} (nearest {self.distance:.3g}, {self.tree.count} nodes)",
                iterations=self.extensions,
                residual=self.distance,
                x=self.trajectory.x[-1],
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
    extensions: int = 400_000,
    progress: Progress | None = None,
) -> PlannedMotion:
    """A motion from the pose or state ``start`` to within ``tolerance`` of the ``goal``'s coordinates.

    ``links`` are pairs of frames, capsules of a ``radius`` that must stay clear of the ``obstacles``. Kinematic
    coordinates keep within their ``box``, by default their range, and below ``rate``; wires and strings keep a tension
    above ``tension_low``. The same seed gives the same motion, bit for bit. After so many ``extensions``, or Ctrl-C,
    the motion that came nearest is returned.
    """
    if not isinstance(step, VariationalStep) or not step.layout.plain:
        raise ModelError("step: a planner needs a map from sm.discretize whose coordinates are plain numbers")
    if not step.nk and not step.system.inputs:
        raise ModelError(f"step: {step.name!r} has no inputs; nothing can be planned")
    task = read_task(step, start, goal, (links, radius, obstacles), box or {}, rate, tension_low, tolerance)
    tree = Tree(task, np.random.default_rng(seed))
    status, node = PlanStatus.EXHAUSTED, 0 if task.reached(task.start) else None
    try:
        while node is None and tree.extensions < extensions:
            node = tree.extend()
            if progress is not None:
                progress(tree.count, tree.distance, tree.extensions)
        status = PlanStatus.EXHAUSTED if node is None else PlanStatus.REACHED
    except KeyboardInterrupt:
        status = PlanStatus.INTERRUPTED
    end = tree.best if node is None else node
    found = step.rollout(task.start, tree.path(end))
    return PlannedMotion(status, found, float(task.distances(found.x[-1])), tree.extensions, tree, task)
