"""Is a filter as sure as it may be? NEES and NIS against their chi-square bands."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ShapeError


class Consistency(NamedTuple):
    """Mean of a chi-square statistic over runs, the band it should lie in, and whether it does."""

    mean: float
    low: float
    high: float

    @property
    def ok(self) -> bool:
        return self.low <= self.mean <= self.high

    def __str__(self) -> str:
        if self.ok:
            verdict = "consistent"
        else:
            verdict = "overconfident: raise the noise" if self.mean > self.high else "too cautious: lower the noise"
        return f"{self.mean:.3f} in [{self.low:.3f}, {self.high:.3f}]: {verdict}"


def nees(error: ArrayLike, P: ArrayLike) -> Array:
    """Normalized estimation error squared eᵀ P⁺ e, for errors (..., ndx) with covariances (..., ndx, ndx).

    Both are in the tangent space: e is ``layout.difference(estimate, truth)``, truth − estimate for plain vectors.
    The pseudo-inverse leaves out directions without uncertainty, such as those across a constraint.
    """
    e, covariance = np.asarray(error, dtype=float), np.asarray(P, dtype=float)
    if covariance.shape[-2:] != (e.shape[-1], e.shape[-1]):
        raise ShapeError(f"P: expected (..., {e.shape[-1]}, {e.shape[-1]}), got {covariance.shape}")
    inverse = np.linalg.pinv(covariance, rcond=1e-12, hermitian=True)
    square: Array = np.einsum("...i,...ij,...j->...", e, inverse, e)
    return square


def chi_square_band(degrees: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Band of the mean of ``runs`` independent chi-square variables with ``degrees`` degrees of freedom."""
    from scipy.special import chdtri  # of scipy's parts one that is loaded quickly

    total, tail = degrees * runs, (1 - confidence) / 2
    return float(chdtri(total, 1 - tail)) / runs, float(chdtri(total, tail)) / runs


def consistency(values: ArrayLike, degrees: int, confidence: float = 0.95) -> Consistency:
    """Whether the mean of one statistic a run (NEES or NIS at one time) lies in its band."""
    statistic = np.asarray(values, dtype=float).ravel()
    if not len(statistic) or not np.isfinite(statistic).all():
        raise ShapeError("values: expected at least one, all finite")
    low, high = chi_square_band(degrees, len(statistic), confidence)
    return Consistency(float(statistic.mean()), low, high)
