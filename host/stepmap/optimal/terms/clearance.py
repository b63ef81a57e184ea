"""Room between what moves and obstacles: one object for costs, constraints of direct searches, and planners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.geometry import Capsule, Clearances, Shape, Sphere
from stepmap.geometry.arithmetic import number
from stepmap.geometry.probes import Part as MovingPart
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.system import System
from stepmap.optimal.terms.residual import Points, Residual, end_of, steps_of, symbols
from stepmap.optimal.terms.squares import later
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part, forces_count, require_horizon
from stepmap.optimal.terms.weights import weight_rows
from stepmap.steps.layout import MechanicalLayout
from stepmap.steps.protocol import StepMap, Trajectory


@dataclass(frozen=True, eq=False)
class Clearance:
    """Parts on a frame that keep ``margin`` [m] from the shapes of ``world``.

    ``shape`` is a radius, for a ball at the frame's origin, a Sphere or a Capsule in the frame's axes, or several of
    these; on a pair of frames, the radius of a capsule between their origins. As a term of a cost it is
    ½ weight Σ max(0, margin + r − d)² over all parts and obstacles at every state of a trajectory, with one weight, one
    per row, or rows of these per state, (N+1, 1) or (N+1, rows); ``of(system)`` has the distances themselves.
    """

    frame: str | Frame | tuple[str | Frame, str | Frame]
    shape: MovingPart | Sequence[MovingPart]
    world: Shape | Sequence[Shape]
    margin: float = 0.0
    weight: ArrayLike = 1.0

    def __post_init__(self) -> None:
        pair = isinstance(self.frame, (tuple, list))
        names = [_name(frame) for frame in (self.frame if pair else [self.frame])]  # type: ignore[union-attr]
        if pair and (len(names) != 2 or names[0] == names[1]):
            raise ModelError(f"frame: expected one frame, or two different ones, got {self.frame!r}")
        object.__setattr__(self, "frame", tuple(names) if pair else names[0])
        object.__setattr__(self, "shape", _parts(self.shape, pair))
        world = tuple(self.world) if isinstance(self.world, (tuple, list)) else (self.world,)
        for shape in world:
            if not isinstance(shape, Shape):
                raise ModelError(f"world: expected shapes, such as sm.Sphere(center, radius), got {shape!r}")
        if not world:
            raise ModelError("world: there is no shape in it")
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "margin", number(self.margin, "margin", least=0.0))

    @staticmethod
    def example(step: StepMap, steps: int) -> Clearance:
        """The last frame of a mechanism, well within an obstacle."""
        system = _system(step)
        place = system.positions(system.configuration({}))[-1]
        return Clearance(
            system.frame_names[-1], 0.02, Sphere(place + np.array([0.11, 0.07, -0.05]), 0.4), 0.05, weight=3.0
        )

    def of(self, system: System) -> Clearances:
        """Its rows for a mechanism: distances less radii and margin, as expressions and for many poses at once."""
        return Clearances(system, self.frame, self.shape, self.world, self.margin)  # type: ignore[arg-type]

    def on(self, step: StepMap) -> BoundTerm:
        rows = self.of(_system(step))
        return _Hinges(step, rows, weight_rows(self.weight, rows.count, "row of distances"))


class _Hinges:
    """½ weight Σ max(0, −row)²: Gauss–Newton's part is positive, the rows' own second derivatives are the rest."""

    def __init__(self, step: StepMap, rows: Clearances, weights: Array) -> None:
        self.step, self.rows, self.factors = step, rows, weights
        self.horizon = len(weights) - 1 if len(weights) > 1 else None
        at = symbols(step, data=rows.data_size)
        points = rows.points(at.x[: rows.points.numel_in(0)], at.parameters)
        self.residual = Residual(step, at, rows.expression(points, at.data))

    def value(self, trajectory: Trajectory) -> float:
        self._require(trajectory)
        if self.rows.data_size:  # a grid's distances alone cost less than its second derivatives
            found = self.rows.evaluate(self.step.layout.pose(trajectory.x))
        else:
            u, forces = (np.zeros((len(trajectory.x), size)) for size in (self.step.nu, forces_count(self.step)))
            found = self.residual.values(Points(trajectory.x, u, forces, trajectory.t, np.zeros((len(u), 0))))
        return 0.5 * float(np.sum(self.factors * np.minimum(found, 0.0) ** 2))

    def expand(self, trajectory: Trajectory) -> Expanded:
        self._require(trajectory)
        running, end = self._points(trajectory)
        before = self.factors if self.horizon is None else self.factors[:-1]
        return Expanded((self._part(running, before),), (self._part(end, self.factors[-1:]),))

    def _points(self, trajectory: Trajectory) -> tuple[Points, Points]:
        """The points with inputs, and the last state, with expansions of grids where there are any."""
        data = np.zeros((trajectory.steps + 1, 0))
        if self.rows.data_size:
            data = self.rows.expansions(self.rows.probes(self.step.layout.pose(trajectory.x)))
        return steps_of(self.step, trajectory, data[:-1]), end_of(self.step, trajectory, data[-1:])

    def _require(self, trajectory: Trajectory) -> None:
        if self.horizon is not None:
            require_horizon(trajectory, self.horizon, "weight of Clearance")

    def _part(self, points: Points, weights: Array) -> Part:
        r, J = self.residual.slopes(points)
        y: Array = weights * np.minimum(r, 0.0)
        active = (weights * (r < 0))[..., None] * J
        slope = np.einsum("ki,kij->kj", y, J)
        return Part(self.residual.at, slope, np.swapaxes(J, 1, 2) @ active, later(self.residual, points, y))


def _name(frame: Any) -> str:
    if not isinstance(frame, (str, Frame)):
        raise ModelError(f"frame: expected a frame's name, got {frame!r}")
    return frame.name if isinstance(frame, Frame) else frame


def _parts(shape: Any, pair: bool) -> tuple[MovingPart, ...]:
    given = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    if not given:
        raise ModelError("shape: there is nothing in it; give a radius, a Sphere or a Capsule")
    if pair and (len(given) > 1 or isinstance(given[0], (Sphere, Capsule))):
        raise ModelError("shape: between two frames it is one number, the radius of a capsule between their origins")
    return tuple(
        part if isinstance(part, (Sphere, Capsule)) else number(part, "shape (a radius)", least=0.0) for part in given
    )


def _system(step: StepMap) -> System:
    system = getattr(step, "system", None)
    if not isinstance(system, System) or not isinstance(step.layout, MechanicalLayout):
        raise ModelError("step: clearances are those of a mechanism's frames; this map has none")
    return system
