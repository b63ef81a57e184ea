"""What a Kinect adds to the truth.

Noise along the ray and across it as measured by Nguyen, Izadi & Lovell, "Modeling Kinect sensor noise for improved 3D
reconstruction and tracking", 3DIMPVT 2012. That pixels err in windows and not one by one follows from how a Kinect
works (docs/kinect.md names sources); that a whole window has one error, and which pixels are missing, is our choice: a
small share everywhere, and surfaces seen at a grazing angle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError

GENTLE = np.deg2rad(60.0)
"""Up to here the angle does not count for noise along the ray."""
STEEP = np.deg2rad(80.0)
"""Angles are cut here: both laws have a pole at 90°, and were measured up to about 70°."""


def axial(z: Any, angle: Any = 0.0) -> Any:
    """Standard deviation of depth [m] at depth z [m], θ between ray and normal.

    0.0012 + 0.0019 (z − 0.4)², and 0.0001 / √z θ² / (π/2 − θ)² more where θ is above 60°. It was measured on what a
    Kinect sends, so rounding to counts and what a slanted surface makes of noise across the ray are part of it.
    """
    z, angle = np.asarray(z), np.minimum(angle, STEEP)
    more = np.where(angle > GENTLE, 0.0001 / np.sqrt(z) * np.square(angle / (np.pi / 2 - angle)), 0.0)
    return 0.0012 + 0.0019 * np.square(z - 0.4) + more


def lateral(angle: Any) -> Any:
    """Standard deviation across the ray [pixels]: 0.8 + 0.035 θ / (π/2 − θ), θ between ray and normal."""
    angle = np.minimum(angle, STEEP)
    return 0.8 + 0.035 * angle / (np.pi / 2 - angle)


@cache
def _quantiles() -> Array:
    """The normal distribution at the middles of 65536 equal shares, float32."""
    quantile = NormalDist().inv_cdf
    return np.array([quantile((k + 0.5) / 65536) for k in range(65536)], dtype=np.float32)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    """Normal numbers, float32, 16 random bits each: five times faster than numpy's, and they end at 4.2 σ."""
    size = int(np.prod(shape))
    bits = np.asarray(rng.bit_generator.random_raw(-(-size // 4))).view(np.uint16)[:size]
    return np.asarray(_quantiles().take(bits, mode="wrap")).reshape(shape)


def patches(rng: np.random.Generator, height: int, width: int, window: int) -> Array:
    """Normal numbers for every pixel, the same within squares of ``window`` pixels that lie elsewhere each time."""
    if window == 1:
        return normal(rng, height, width)
    few = normal(rng, height // window + 2, width // window + 2)
    down, right = rng.integers(0, window, 2)
    lines = np.repeat(few, window, axis=1)[:, right : right + width]
    return np.repeat(lines, window, axis=0)[down : down + height]  # whole lines are copied then, and only once


@dataclass(frozen=True)
class Noise:
    """How much of each; 1 is a Kinect, 0 none."""

    axial: float = 1.0
    lateral: float = 1.0
    dropout: float = 0.002
    """Share of pixels without data, anywhere."""
    grazing: float = 1.0
    """Share of pixels without data where surfaces turn away by more than 80°; falls to none at 65°."""
    window: int = 9
    """Width of the squares of pixels that share an error: a Kinect finds disparity by comparing windows of 9x9 or 9x7
    pixels, so neighbours are wrong together, and an average over a ball is much less exact than its number of pixels
    suggests."""

    def __post_init__(self) -> None:
        for name in ("axial", "lateral"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ModelError(f"{name}: must not be negative")
        if self.window < 1:
            raise ModelError(f"window: must be at least 1 pixel, not {self.window}")
        for name in ("dropout", "grazing"):
            if not 0 <= getattr(self, name) <= 1:
                raise ModelError(f"{name}: is a share, 0 to 1")

    def missing(self, angle: Any) -> Any:
        """Probability that a surface at this angle gives no data."""
        first = np.deg2rad(65.0)
        return self.grazing * np.clip((np.asarray(angle) - first) / (STEEP - first), 0.0, 1.0)


NONE = Noise(axial=0.0, lateral=0.0, dropout=0.0, grazing=0.0)
