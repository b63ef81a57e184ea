"""A step with the order of events of one point, whatever the point: smooth, so that it can be differenced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, vector
from stepmap.errors import ConvergenceError
from stepmap.steps.events.kernel import Point
from stepmap.steps.kernels.info import OK
from stepmap.steps.protocol import Linearization, StepResult

if TYPE_CHECKING:
    from stepmap.steps.events.step import EventStep


class FrozenStep:
    """The map that the derivatives of a step with events at (x, u) belong to.

    The gaps of each of its segments are closed as they are there, whether they would pull or are beyond at the
    begin, and the same gaps are struck in the same order.
    """

    def __init__(self, step: EventStep, x: ArrayLike, u: ArrayLike) -> None:
        self.of, self.about = step, _point(step, x, u, step.dt)

    def step(self, x: ArrayLike, u: ArrayLike, dt: float | None = None) -> StepResult:
        after, forces, _ = self._solve(x, u, dt)
        return StepResult(after, forces, 0)

    def linearize(self, x: ArrayLike, u: ArrayLike) -> Linearization:
        after, _, Y = self._solve(x, u, None)
        return Linearization(after, Y[:, : self.of.ndx], Y[:, self.of.ndx : -1])

    def _solve(self, x: ArrayLike, u: ArrayLike, dt: float | None) -> tuple[Array, Array, Array]:
        step = self.of
        at = _point(step, x, u, step.dt if dt is None else dt)
        info, after, forces, Y, _ = step.kernel.frozen(step.parameter_values, self.about, at)
        if info.status != OK:
            away = max(np.abs(b - a).max(initial=0.0) for a, b in zip(self.about[1:], at[1:], strict=True))
            raise ConvergenceError(
                f"the events of the step cannot happen in the same order {away:.3g} away: take a smaller spacing",
                iterations=info.iterations,
                residual=info.residual,
                x=at.x.copy(),
            )
        return after, forces, Y


def _point(step: EventStep, x: ArrayLike, u: ArrayLike, dt: float) -> Point:
    return Point(dt, vector(x, step.nx, "x"), vector(u, step.nu, "u"))
