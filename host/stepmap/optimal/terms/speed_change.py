"""Changes of speed of kinematic coordinates: what keeps robots from jerking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part, require_horizon
from stepmap.optimal.terms.weights import weight_rows
from stepmap.steps.protocol import StepMap, Trajectory


@dataclass(frozen=True, eq=False)
class SpeedChange:
    """½ Σ weight · |v_{k+1} − v_k|² of the kinematic coordinates [m/s]; one weight, one per coordinate, or one row of
    these per step.

    A kinematic input is a position, so without such a cost, or a weight on v, the optimum may jump from step to step.
    """

    weight: ArrayLike = 1.0

    @staticmethod
    def example(step: StepMap, steps: int) -> SpeedChange:
        """One that any map with kinematic coordinates takes."""
        return SpeedChange(3.0)

    def on(self, step: StepMap) -> BoundTerm:
        layout = step.layout
        held = "v" in layout.parts  # its next value is the input; else its acceleration is
        count = len(layout.parts.get("v" if held else "rho_rate", ()))
        if not count:
            raise ModelError("step: there is no kinematic coordinate whose speed could change")
        weights = weight_rows(self.weight, count, "kinematic coordinate")
        eye, inputs = np.eye(count), step.ndx + np.arange(step.nu - count, step.nu)
        if not held:
            return _Linear(step, np.array(inputs), step.dt * eye, weights)
        places = [np.arange(step.ndx)[layout.tangent_slices[name]] for name in ("rho", "v")]
        J = np.hstack([-eye / step.dt, -eye, eye / step.dt])  # (u − rho)/dt − v
        return _Linear(step, np.concatenate([*places, inputs]), J, weights)


class _Linear:
    """½ Σ weight · (J w)² of entries w of states and inputs that are stored as they are."""

    def __init__(self, step: StepMap, at: Array, J: Array, weights: Array) -> None:
        self.at, self.J, self.factors = at, J, weights
        tangent, stored = step.layout.tangent_slices, step.layout.slices
        shift = np.zeros(step.ndx, dtype=int)
        for part, place in tangent.items():  # where a tangent dimension stands among the stored numbers
            shift[place] = stored[part].start - place.start
        self._x = at[at < step.ndx]
        self._stored, self._u = self._x + shift[self._x], at[at >= step.ndx] - step.ndx
        self.horizon = len(weights) if len(weights) > 1 else None
        positive = J.T @ (weights[..., None] * J)
        self.positive: Array = positive if self.horizon else positive[0]

    def _residuals(self, trajectory: Trajectory) -> Array:
        if self.horizon is not None:
            require_horizon(trajectory, self.horizon, "weight of SpeedChange")
        w = np.hstack([trajectory.x[:-1, self._stored], trajectory.u[:, self._u]])
        r: Array = w @ self.J.T
        return r

    def value(self, trajectory: Trajectory) -> float:
        return 0.5 * float(np.sum(self.factors * self._residuals(trajectory) ** 2))

    def expand(self, trajectory: Trajectory) -> Expanded:
        slope = (self.factors * self._residuals(trajectory)) @ self.J
        return Expanded((Part(self.at, slope, self.positive),))
