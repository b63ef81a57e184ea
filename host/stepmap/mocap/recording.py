"""A recorded motion: where the joints of a dancer were, frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.text import did_you_mean

JUMP = 5.0  # times the motion of the frames after it: a first frame that far off is a pose of calibration
COMPARED = 30  # frames


@dataclass(frozen=True, eq=False)
class Recording:
    """Positions of joints and of the ends of limbs, in the file's own unit and axes."""

    names: tuple[str, ...]  # of joints; the end of joint J is "J end"
    positions: Array  # (frames, names, 3)
    period: float  # between two frames [s]
    up: Array  # (3), unit vector
    forward: Array  # (3), where the dancer looks at in the first frame
    dropped: int = 0  # frames that were left out at the begin

    @property
    def t(self) -> Array:
        """Times of the frames [s], from 0 on."""
        return self.period * np.arange(len(self.positions))

    @property
    def duration(self) -> float:
        return self.period * (len(self.positions) - 1)

    def of(self, names: Sequence[str]) -> Array:
        """Positions of the named joints, (frames, names, 3)."""
        for name in names:
            if name not in self.names:
                guess = did_you_mean(name, list(self.names))
                raise ModelError(f"no joint is called {name!r}; {guess}there are {', '.join(self.names)}")
        return self.positions[:, [self.names.index(name) for name in names]]

    def without_calibration(self) -> Recording:
        """The same without a first frame from which everything jumps: a pose for calibration, often with arms out."""
        if len(self.positions) < 4:
            return self
        moved = np.abs(np.diff(self.positions[: COMPARED + 1], axis=0)).max(axis=(1, 2))
        if moved[0] <= JUMP * moved[1:].max():
            return self
        return self.between(self.period, self.duration)

    def between(self, begin: float, end: float) -> Recording:
        """The frames from one time to another [s]; the first of them is the new begin."""
        first = round(begin / self.period)
        last = min(round(end / self.period), len(self.positions) - 1)
        if not 0 <= first < last:
            raise ModelError(
                f"begin, end: the recording lasts {self.duration:.4g} s, so {begin:g} to {end:g} s is no part of it"
            )
        return replace(self, positions=self.positions[first : last + 1], dropped=self.dropped + first)
