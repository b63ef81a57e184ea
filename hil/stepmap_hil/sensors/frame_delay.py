"""Frame delay model: a camera exposes frames periodically, the computer behind it delivers them with jitter."""

from __future__ import annotations

import numpy as np


class FrameDelay:
    """Delays of frames [s], seeded: absolute values of Gaussian noise with standard deviation ``jitter``.

    Delays are multiples of ``cycle`` [s], the I/O cycle of the motors, and less than half a period: the board runs a
    tick without a frame that is later, which is the fault "delayed".
    """

    def __init__(self, jitter: float, cycle: float, period: float, seed: int) -> None:
        self.cycle = cycle
        self.sigma = jitter / cycle
        self.max_cycles = max(0, int(0.5 * period / cycle - 1e-9))
        self._rng = np.random.default_rng([seed, 30])  # independent of the sensor's noise

    def next(self) -> float:
        if not self.sigma:
            return 0.0
        return min(round(abs(self._rng.standard_normal()) * self.sigma), self.max_cycles) * self.cycle
