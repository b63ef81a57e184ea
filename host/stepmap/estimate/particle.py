"""The particle filter on any step map with sensors: a belief is a cloud of weighted states.

It follows beliefs with several peaks, such as a pendulum whose height alone is seen, where a Kalman filter has to
choose one side. Process noise goes through momenta and inputs where a mechanism has constraints, so that the map
itself keeps every particle on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers, rows, weight
from stepmap.errors import ModelError, ShapeError
from stepmap.estimate.ekf import ExtendedKalmanFilter
from stepmap.estimate.measurement import MeasuredMap, MeasurementModel, measurement_model
from stepmap.estimate.protocol import Belief, Innovation
from stepmap.steps.layout import MechanicalLayout

MEANS = 3  # turns of the mean on a manifold; each squares its error


class Particles(NamedTuple):
    """Weighted states; ``draws`` counts the calls that drew random numbers, so that calls stay pure."""

    x: Array  # (..., n, nx)
    weights: Array  # (..., n), of sum 1
    draws: int

    @property
    def effective(self) -> Array:
        """Effective number of particles, 1/Σ w² (...)."""
        out: Array = 1.0 / np.sum(self.weights**2, axis=-1)
        return out


@dataclass(frozen=True, eq=False)
class ParticleFilter:
    """Filter with process noise Q (ndx, ndx) of a step and measurement noise R (nz, nz) of the sensor channels.

    Bootstrap filter: ``particles`` states go through the map with noise, measurements weigh them, and systematic
    resampling follows where fewer than ``resample`` of them are effective. Of a mechanism with constraints Q acts
    through its momenta, and through the next values of kinematic coordinates. Random numbers come from ``seed``; runs
    of a batch share them. ``gate`` is that of the mean innovation, in standard deviations.
    """

    step: MeasuredMap
    process: Array
    measurement: Array
    gate: float | None = None
    particles: int = 1000
    resample: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        channels = len(self._model.sensor_channels)
        object.__setattr__(self, "process", weight(self.process, 0, self.step.ndx, "process"))
        object.__setattr__(self, "measurement", weight(self.measurement, 0, channels, "measurement", definite=True))
        if self.gate is not None and not self.gate > 0:
            raise ModelError(f"gate: must be a positive number of standard deviations, got {self.gate}")
        if isinstance(self.particles, bool) or not isinstance(self.particles, int) or self.particles < 2:
            raise ModelError(f"particles: expected a whole number from 2 on, got {self.particles!r}")
        if not 0 < self.resample <= 1:
            raise ModelError(f"resample: expected a part of the particles, up to 1, got {self.resample}")

    @cached_property
    def _model(self) -> MeasurementModel:
        return measurement_model(self.step)

    @cached_property
    def _kalman(self) -> ExtendedKalmanFilter:
        """Checks beliefs and measurements; its noise plays no part."""
        return ExtendedKalmanFilter(self.step, self.process, self.measurement)

    @cached_property
    def _roots(self) -> tuple[Array, Array]:
        """Factors of the noise of the state and of the inputs, (ndx, ndx) and (nu, nu)."""
        layout, Q = self.step.layout, np.array(self.process)
        of_inputs = np.zeros((self.step.nu, self.step.nu))
        system = getattr(self.step, "system", None)
        if isinstance(layout, MechanicalLayout) and system is not None and system.constraints and "p" in layout.parts:
            parts = layout.tangent_slices
            moved, p = parts["rho"], parts["p"]
            of_inputs[layout.forces :, layout.forces :] = Q[moved, moved]
            kept = np.zeros_like(Q)
            kept[p, p] = Q[p, p]
            Q = kept
        return _root(Q), _root(of_inputs)

    def start(self, x: ArrayLike, P: ArrayLike) -> Particles:
        """A cloud about x (..., nx) with covariance P (..., ndx, ndx), moved onto the constraints."""
        first = self._kalman.start(x, P)
        noise = self._draw(0, self.step.ndx)
        spread = np.einsum("...ij,nj->...ni", _root(first.P), noise)
        cloud = self.step.layout.retract(first.x[..., None, :], spread)
        project = getattr(self._model, "project", None)
        cloud = np.asarray(cloud) if project is None else project(cloud)
        return Particles(cloud, np.full(cloud.shape[:-1], 1.0 / self.particles), 1)

    def predict(self, belief: Particles, u: ArrayLike) -> Particles:
        """Every particle one step later, each with its own noise; one that the map cannot move loses its weight."""
        given, lead = rows(u, self.step.nu, "u"), belief.x.shape[:-2]
        try:
            inputs = np.broadcast_to(given, (*lead, self.step.nu))
        except ValueError as cause:
            raise ShapeError(f"u: shape {given.shape} does not go with beliefs {lead}") from cause
        state, by_input = self._roots
        noise = self._draw(belief.draws, self.step.ndx + self.step.nu)
        x = self.step.layout.retract(belief.x, noise[:, : self.step.ndx] @ state.T)
        U = inputs[..., None, :] + noise[:, self.step.ndx :] @ by_input.T
        flat, controls = x.reshape(-1, self.step.nx), np.broadcast_to(U, (*x.shape[:-1], self.step.nu))
        after, failed = self._moved(flat, controls.reshape(len(flat), self.step.nu))
        lost = failed.reshape(belief.weights.shape)
        weights = np.where(lost, 0.0, belief.weights)
        total = weights.sum(axis=-1, keepdims=True)
        weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1.0 / self.particles)
        return Particles(after.reshape(x.shape), weights, belief.draws + 1)

    def _moved(self, X: Array, U: Array) -> tuple[Array, Array]:
        many = getattr(self.step, "step_many", None)
        if many is None:
            return self.step.linearize_many(X, U)[0], np.zeros(len(X), dtype=bool)
        found = many(X, np.ascontiguousarray(U), strict=False)
        return np.where(found.failed[:, None], X, found.x), found.failed

    def update(self, belief: Particles, z: ArrayLike, valid: ArrayLike | None = None) -> tuple[Particles, Innovation]:
        """Weights by the likelihood of z (..., nz), then resampling where few particles are effective."""
        measured, usable = self._kalman._channels(z, valid)
        lead = belief.x.shape[:-2]
        try:
            measured, usable = (np.broadcast_to(part, (*lead, measured.shape[-1])) for part in (measured, usable))
        except ValueError as cause:
            raise ShapeError(f"z: shape {measured.shape} does not go with beliefs {lead}") from cause
        readings, w = self._model.readings(belief.x), belief.weights[..., None]
        error = np.where(usable, measured, 0.0)[..., None, :] - np.where(usable[..., None, :], readings, 0.0)
        mean = np.sum(w * error, axis=-2)
        variance = np.sum(w * (error - mean[..., None, :]) ** 2, axis=-2) + np.diagonal(self.measurement)
        inside = np.ones_like(usable) if self.gate is None else mean**2 <= self.gate**2 * variance
        used = usable & inside
        seen = Innovation(mean, variance, used, usable & ~inside)
        log = np.log(np.maximum(belief.weights, 1e-300)) - 0.5 * self._distances(error, used)
        weights = np.exp(log - log.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        weights = np.where(used.any(axis=-1, keepdims=True), weights, belief.weights)
        return self._resampled(Particles(belief.x, weights, belief.draws)), seen

    def _distances(self, error: Array, used: Array) -> Array:
        """eᵀR⁻¹e of the channels that are used, (..., n)."""
        both = used[..., :, None] & used[..., None, :]
        inverse = np.linalg.inv(np.linalg.cholesky(np.where(both, self.measurement, np.eye(len(self.measurement)))))
        white = np.einsum("...ij,...nj->...ni", inverse, np.where(used[..., None, :], error, 0.0))
        out: Array = np.sum(white**2, axis=-1)
        return out

    def _resampled(self, belief: Particles) -> Particles:
        few = belief.effective < self.resample * self.particles
        if not np.any(few):
            return belief
        offset = float(np.random.default_rng([self.seed, belief.draws]).random())
        chosen = systematic(belief.weights, offset)
        cloud = np.take_along_axis(belief.x, chosen[..., None], axis=-2)
        x = np.where(few[..., None, None], cloud, belief.x)
        weights = np.where(few[..., None], 1.0 / self.particles, belief.weights)
        return Particles(x, weights, belief.draws + 1)

    def estimate(self, belief: Particles) -> Belief:
        """Mean and covariance of the cloud in the tangent space at the mean, which lies on the constraints."""
        layout, w = self.step.layout, belief.weights[..., None]
        best = np.argmax(belief.weights, axis=-1)[..., None, None]
        mean = np.take_along_axis(belief.x, best, axis=-2)
        for _ in range(1 if layout.plain else MEANS):
            mean = layout.retract(mean, np.sum(w * layout.difference(mean, belief.x), axis=-2, keepdims=True))
        dx = layout.difference(mean, belief.x)
        P = np.einsum("...n,...ni,...nj->...ij", belief.weights, dx, dx)
        x = mean[..., 0, :]
        project = getattr(self._model, "project", None)
        return Belief(np.asarray(x) if project is None else project(x), (P + np.swapaxes(P, -1, -2)) / 2)

    def _draw(self, number: int, size: int) -> Array:
        """Standard normal numbers (particles, size), in pairs of opposite sign: their mean is 0."""
        half = np.random.default_rng([self.seed, number]).standard_normal(((self.particles + 1) // 2, size))
        return np.concatenate([half, -half])[: self.particles]


def systematic(weights: ArrayLike, offset: float) -> Array:
    """Indices (..., n) of a systematic resampling: particles at the places (i + offset)/n of the sum of weights."""
    w = numbers(weights, "weights")
    n = w.shape[-1]
    places = (np.arange(n) + offset) / n
    sums = np.cumsum(w, axis=-1)
    sums[..., -1] = 1.0  # rounding
    flat = [np.searchsorted(row, places, side="right") for row in sums.reshape(-1, n)]
    out: Array = np.minimum(np.array(flat).reshape(w.shape), n - 1)
    return out


def _root(matrix: Array) -> Array:
    """A factor L of a positive semidefinite matrix, L Lᵀ (..., n, n)."""
    values, vectors = np.linalg.eigh(matrix)
    out: Array = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return out
