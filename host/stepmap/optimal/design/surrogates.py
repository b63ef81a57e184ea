"""Surrogates: what is known of J(β) from a few costly values, and where the next one is worth its price.

Parameters are in the unit cube. The spline is the "strawman" of Pekarek's thesis (5.2): the next value is where the
spline through all of them is least. The other one is a Gaussian process with the kernel of Matérn 5/2, whose next value
is where the expected improvement is largest (Jones, Schonlau & Welch 1998); it knows that values scatter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import norm, qmc

from stepmap.arrays import Array

APART = 1e-3  # of a range: values nearer to each other are one
WIDEST = 0.25  # of a range: what a spline says of wider gaps is not trusted
GRID, CANDIDATES = 2001, 2048
LENGTHS, NOISES = (0.05, 3.0), (1e-10, 0.3)  # of a Gaussian process: of the unit cube, and of the variance of values


class Next(NamedTuple):
    """Where to look next, and by how much a value is expected to be less there than all known ones."""

    at: Array
    gain: float


def spline(points: Array, values: Array) -> Next | None:
    """The least value of the cubic spline through all points (N, 1)."""
    curve = through(points[:, 0], values)
    x = np.linspace(0.0, 1.0, GRID)
    y = curve(x)
    x, y = _away(x[:, None], y, points)
    if not len(x):
        return None
    best = int(np.argmin(y))
    return Next(x[best], float(values.min() - y[best]))


def widest(points: Array) -> Array | None:
    """The middle of the widest gap on a line (N, 1), where it is wider than any should be."""
    x = np.sort(points[:, 0])
    gaps = np.diff(x)
    i = int(np.argmax(gaps))
    return np.array([(x[i] + x[i + 1]) / 2]) if gaps[i] > WIDEST * (1 + 1e-9) else None


def through(x: Array, y: Array) -> Callable[[Array], Array]:
    """The cubic spline through points on a line; of fewer than four, the polynomial."""
    order = np.argsort(x)
    made: Callable[[Array], Array] = make_interp_spline(x[order], y[order], k=min(3, len(x) - 1))
    return made


def ego(points: Array, values: Array) -> Next | None:
    """The largest expected improvement by a Gaussian process through all points (N, d)."""
    process = Process.of(points, values)
    d = points.shape[1]
    candidates = qmc.Sobol(d, seed=0).random(CANDIDATES)
    candidates, gains = _away(candidates, process.improvement(candidates), points)
    if not len(candidates):
        return None
    start = candidates[int(np.argmax(gains))]
    found = minimize(lambda x: -float(process.improvement(x[None])[0]), start, bounds=[(0.0, 1.0)] * d)
    at = found.x if np.abs(points - found.x).max(axis=1).min() > APART else start
    return Next(at, float(process.improvement(at[None])[0]))


def _away(points: Array, values: Array, known: Array) -> tuple[Array, Array]:
    """Those that are no value that is there already."""
    far = np.abs(points[:, None] - known[None]).max(axis=2).min(axis=1) > APART
    return points[far], values[far]


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process of constant mean: lengths of its kernel (d), noise as a part of the variance."""

    points: Array
    values: Array
    lengths: Array
    noise: float

    @classmethod
    def of(cls, points: Array, values: Array) -> Process:
        """The most likely one."""
        d = points.shape[1]
        box = [np.log(LENGTHS)] * d + [np.log(NOISES)]

        def unlikely(z: Array) -> float:
            return cls(points, values, np.exp(z[:d]), float(np.exp(z[d])))._minus_log

        starts = [
            np.array([*np.full(d, np.log(length)), np.log(noise)]) for length in (0.1, 0.4) for noise in (1e-6, 0.03)
        ]
        tried = [minimize(unlikely, z, bounds=box, method="L-BFGS-B") for z in starts]
        z = min(tried, key=lambda one: float(one.fun)).x
        return cls(points, values, np.exp(z[:d]), float(np.exp(z[d])))

    def _kernel(self, a: Array, b: Array) -> Array:
        r = np.sqrt(5.0) * np.sqrt((((a[:, None] - b[None]) / self.lengths) ** 2).sum(axis=2))
        out: Array = (1 + r + r**2 / 3) * np.exp(-r)
        return out

    @property
    def _factor(self) -> tuple[Array, bool]:
        covariance = self._kernel(self.points, self.points) + (self.noise + 1e-12) * np.eye(len(self.points))
        made: tuple[Array, bool] = cho_factor(covariance, lower=True)
        return made

    def _fit(self) -> tuple[tuple[Array, bool], float, Array, float]:
        """Factor, mean, what the kernel is multiplied with, and variance of the process."""
        factor, one = self._factor, np.ones(len(self.points))
        mean = float(one @ cho_solve(factor, self.values) / (one @ cho_solve(factor, one)))
        off = self.values - mean
        weights = cho_solve(factor, off)
        return factor, mean, weights, max(float(off @ weights) / len(off), 1e-300)

    @property
    def _minus_log(self) -> float:
        factor, _, _, variance = self._fit()
        return float(len(self.values) / 2 * np.log(variance) + np.log(np.diagonal(factor[0])).sum())

    def predict(self, at: Array) -> tuple[Array, Array]:
        """Mean and standard deviation, without the noise, at points (N, d)."""
        factor, mean, weights, variance = self._fit()
        k = self._kernel(at, self.points)
        left = 1.0 - np.einsum("ij,ji->i", k, cho_solve(factor, k.T))
        return mean + k @ weights, np.sqrt(variance * np.maximum(left, 0.0))

    def improvement(self, at: Array) -> Array:
        """How much less than the least mean at a known point a value is expected to be."""
        least = float(self.predict(self.points)[0].min())
        mean, sigma = self.predict(at)
        sigma = np.maximum(sigma, 1e-300)
        z = (least - mean) / sigma
        out: Array = (least - mean) * norm.cdf(z) + sigma * norm.pdf(z)
        return out


def filling(dimensions: int, count: int) -> list[Array]:
    """Points that fill the unit cube: a Latin hypercube, the same every time."""
    return list(qmc.LatinHypercube(dimensions, seed=0).random(count))


RULES: dict[str, Callable[[Array, Array], Next | None]] = {"spline": spline, "ego": ego}
