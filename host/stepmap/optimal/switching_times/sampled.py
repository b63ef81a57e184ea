"""Acts that are samples over their own time: of a file, of motion capture, of a plan that was saved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError, ShapeError

UNEVEN = 3.0  # ratio of the longest to the shortest time between samples, from which they are made evenly spaced
MOST = 20_000  # samples of those
HELD = 4  # knots behind the last sample, where it is held: the spline comes to rest between them


class SampledAct:
    """Values (n, names) of coordinates at times t [s] from 0 on, joined by a cubic spline; the last one is held.

    The spline's second derivative is continuous, so costs of a script are twice differentiable in the act's begin.
    Samples far from evenly spaced are first resampled, without overshoot between them.
    """

    def __init__(self, names: Sequence[str], t: ArrayLike, values: ArrayLike) -> None:
        self.names = tuple(names)
        self.t, self.values = np.array(t, dtype=float), np.array(values, dtype=float)
        if self.t.ndim != 1 or not len(self.t) or self.values.shape != (len(self.t), len(self.names)):
            raise ShapeError(
                f"values: expected one row per time and one column per name, ({len(self.t)}, {len(self.names)}), "
                f"got {self.values.shape}"
            )
        if len(set(self.names)) != len(self.names) or not self.names:
            raise ModelError(f"names: expected one or more, each once, got {', '.join(self.names) or 'none'}")
        if not (np.isfinite(self.t).all() and np.isfinite(self.values).all()):
            raise ModelError("t, values: must be finite numbers")
        if (np.diff(self.t) <= 0).any() or abs(self.t[0]) > 1e-9:
            raise ModelError(f"t: must increase from 0 on, got {self.t[0]:g} first")

    @property
    def end(self) -> float:
        """The time of the last sample [s]."""
        return float(self.t[-1])

    @cached_property
    def _spline(self) -> Any:
        from scipy.interpolate import CubicSpline, PchipInterpolator

        t, values = self.t, self.values
        apart = np.diff(t)
        if len(t) > 2 and apart.max() > UNEVEN * apart.min():  # a spline through them would swing far beyond them
            t = np.linspace(0.0, self.end, min(round(self.end / apart.min()) + 1, MOST))
            values = PchipInterpolator(self.t, self.values)(t)
        knots = (float(np.median(np.diff(t))) if len(t) > 1 else 1.0) * np.arange(1, HELD + 1)
        held = np.tile(values[-1], (HELD, 1))
        return CubicSpline(np.concatenate([t, self.end + knots]), np.concatenate([values, held]), bc_type=BOUNDS)

    def at(self, s: Array) -> Array:
        """Times within the act, values, slopes and second derivatives there, (len(s), 1 + 3 names)."""
        spline = self._spline
        inside = np.clip(s, 0.0, spline.x[-1])
        still = (s < 0) | (s > spline.x[-1])
        slope, bend = (np.where(still[:, None], 0.0, spline(inside, order)) for order in (1, 2))
        return np.hstack([s[:, None], spline(inside), slope, bend])


BOUNDS = ("not-a-knot", "clamped")
