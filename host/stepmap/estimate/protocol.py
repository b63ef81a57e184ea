"""What a filter is: pure calls on a belief that only the filter itself looks into."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepmap.arrays import Array
from stepmap.estimate.measurement import MeasuredMap

Flags = NDArray[np.bool_]
B = TypeVar("B")


class Belief(NamedTuple):
    """A state estimate and its covariance, which lives in the tangent space at x."""

    x: Array  # (..., nx)
    P: Array  # (..., ndx, ndx)


class Innovation(NamedTuple):
    """What an update saw: residual and variance of each channel when its turn came, and which were used."""

    residual: Array  # (..., nz)
    variance: Array  # (..., nz)
    used: Flags  # (..., nz): valid and inside the gate
    gated: Flags  # (..., nz): valid but outside the gate
    closed: Flags | None = None  # (..., nc): rows of gaps that are closed after it; None for a map without gaps

    @property
    def nis(self) -> Array:
        """Normalized innovation squared over the channels that were used."""
        total: Array = np.sum(np.where(self.used, self.residual**2 / self.variance, 0.0), axis=-1)
        return total


class Filter(Protocol[B]):
    """A state estimator with a step map and its noise. Pure: the same arguments give the same result, bit for bit.

    What a belief is, is the filter's own matter: an estimate and its covariance, a square root of it, or samples.
    ``estimate`` gives x and P of it. Beliefs may have leading axes, one entry per run of a Monte Carlo study.
    """

    def start(self, x: ArrayLike, P: ArrayLike) -> B:
        """A checked first belief: estimates x (..., nx) with covariances P (..., ndx, ndx)."""

    def predict(self, belief: B, u: ArrayLike) -> B:
        """The belief one step later, under one input (nu) for all or one per belief (..., nu)."""

    def update(self, belief: B, z: ArrayLike, valid: ArrayLike | None = None) -> tuple[B, Innovation]:
        """The belief after a measurement z (..., nz); channels that are not ``valid`` or not finite are skipped."""

    def estimate(self, belief: B) -> Belief:
        """x and P of a belief."""


class MakeFilter(Protocol):
    """What an entry point of the group ``stepmap.filters`` loads to: a class, or a function that returns a filter."""

    def __call__(
        self, step: MeasuredMap, process: Array, measurement: Array, *, gate: float | None = None
    ) -> Filter[Any]:
        """A filter on a step map with process noise (ndx, ndx) of a step and measurement noise (nz, nz)."""
