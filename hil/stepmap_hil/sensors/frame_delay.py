"""How late frames come: a camera takes them by its crystal, the computer behind it hands them on when it can."""

from __future__ import annotations

import numpy as np


class Arrivals:
    """Delays of frames [s], seeded: absolute values of Gaussian noise with deviation ``jitter``.

    They are rounded to ``grid`` [s], the exchanges with the motors, and stay below half a period: the board does a tick
    that is later without its frame, which is the fault "delayed".
    """

    def __init__(self, jitter: float, grid: float, period: float, seed: int) -> None:
        self.grid = grid
        self.sigma = jitter / grid
        self.most = max(0, int(0.5 * period / grid - 1e-9))
        self._rng = np.random.default_rng([seed, 30])  # apart from the sensor's noise

    def next(self) -> float:
        if not self.sigma:
            return 0.0
        return min(round(abs(self._rng.standard_normal()) * self.sigma), self.most) * self.grid
