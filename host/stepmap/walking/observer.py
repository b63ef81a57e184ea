"""An extended Kalman filter that walks: it follows the stance phase, and jumps and is renamed at landings.

A foot switch tells when the swing foot comes down. Until then the filter predicts with the map of the stance phase; the
jump of landing.py moves its estimate, and P by the derivative of the same jump.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.estimate import Belief, ExtendedKalmanFilter
from stepmap.optimal.gaits.cycle import Cycle
from stepmap.optimal.gaits.jump import Jump
from stepmap.optimal.gaits.landing import Landing


@dataclass(eq=False)
class Observer:
    """The filter of a gait of one phase with standard deviations of sensors, of the process and of the first state.

    ``process`` (ndx) is per step. Sensors are those of the system; ``rng`` makes their noise.
    """

    cycle: Cycle
    sensors: Array
    process: Array
    first: Array
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    belief: Belief | None = None
    true: Array = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def _filter(self) -> ExtendedKalmanFilter:
        return ExtendedKalmanFilter(
            self.cycle.maps[0], np.diag(self.process**2), np.diag(self.sensors**2), constraint_projection=False
        )

    @cached_property
    def _jump(self) -> Jump:
        landing = self.cycle.landing(0)
        if not isinstance(landing, Landing):
            raise ModelError("observer: the gait has no landing")
        return landing.jump

    def begin(self, x: Array) -> None:
        """The first belief is about x, off by as much as it says."""
        layout = self.cycle.maps[0].layout
        self.belief = self._held(
            self._filter.start(layout.retract(x, self.first * self.rng.normal(size=layout.ndx)), np.diag(self.first**2))
        )

    def measured(self, x: Array) -> Array:
        """The estimate after readings of the true state."""
        assert self.belief is not None  # begun
        self.true = x
        z = self.cycle.system.readings(self.cycle.maps[0].layout.pose(x))
        noisy = z + self.sensors * self.rng.normal(size=len(z))
        self.belief = self._held(self._filter.update(self.belief, noisy)[0])
        return self.belief.x

    def moved(self, u: Array, landed: float | None) -> None:
        """A tick goes by; where the foot landed, the belief is that right after it, in new names."""
        assert self.belief is not None
        if landed is None:
            self.belief = self._filter.predict(self.belief, u)
            return
        step = self.cycle.maps[0]
        at = step.length_sensitivity(self.belief.x, u, dt=max(landed, 1e-9))
        jumped = self._jump(at.x, self.cycle.system.parameter_values)
        P = self._filter.spread(jumped.slope @ at.A, self.belief.P)
        self.belief = self._held(Belief(jumped.x, P))

    def _held(self, belief: Belief) -> Belief:
        """The belief with the standing foot where it stands; what does not matter in the mode is taken off P."""
        mode, tangent = self.cycle.modes[0], self.cycle.system.tangent
        x, n = belief.x.copy(), tangent.nq
        for _ in range(3):
            rows = [mode.rows[i] for i in mode.normals]
            D = self.cycle.system.residuals_slope(x[:n])[rows]
            x[:n] = tangent.retract(x[:n], -np.linalg.pinv(D) @ self.cycle.system.residuals(x[:n])[rows])
        keep = mode.deviations(x[:n])
        P = keep @ belief.P @ keep.T
        return Belief(x, (P + P.T) / 2)
