"""The extended Kalman filter on any step map with sensors.

One belief or a batch of them: x is (..., nx) and P is (..., ndx, ndx), so a Monte Carlo study is one filter run.
"""

from __future__ import annotations

import warnings
from dataclasses import InitVar, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers, rows, weight
from stepmap.errors import ModelError, ShapeError
from stepmap.estimate.measurement import MeasuredMap, MeasurementModel, MechanicalReadings, measurement_model
from stepmap.estimate.protocol import Belief, Flags, Innovation
from stepmap.estimate.runs import CompiledFilter, FilterRuns


@dataclass(frozen=True, eq=False)
class ExtendedKalmanFilter:
    """Filter with process noise Q (ndx, ndx) of a step and measurement noise R (nz, nz) of the sensor channels.

    Q, P and gains live in the tangent space of the state's layout: an update moves x by ``layout.retract``. Channels
    are taken one after the other, so nothing is inverted; a full R is made diagonal first. ``gate`` is the largest
    normalized innovation, in standard deviations, that is still believed. ``constraint_projection`` moves q onto the
    constraints after an update, by the least change, and onto gaps that were closed before it or that it passes.
    ``joseph`` uses the update that keeps P positive whatever the gain.
    """

    step: MeasuredMap
    process: Array
    measurement: Array
    gate: float | None = None
    constraint_projection: bool = True
    joseph: bool = False
    put_back: InitVar[bool | None] = None  # the old name of constraint_projection, until the next release

    def __post_init__(self, put_back: bool | None) -> None:
        if put_back is not None:
            warnings.warn("put_back: call it constraint_projection", DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "constraint_projection", put_back)
        channels = len(self._model.sensor_channels)
        object.__setattr__(self, "process", weight(self.process, 0, self.step.ndx, "process"))
        object.__setattr__(self, "measurement", weight(self.measurement, 0, channels, "measurement", definite=True))
        if self.gate is not None and not self.gate > 0:
            raise ModelError(f"gate: must be a positive number of standard deviations, got {self.gate}")

    @cached_property
    def _model(self) -> MeasurementModel:
        return measurement_model(self.step)

    def start(self, x: ArrayLike, P: ArrayLike) -> Belief:
        """A checked first belief."""
        nx, n = self.step.nx, self.step.ndx
        x, P = rows(x, nx, "x"), numbers(P, "P")
        if P.shape[-2:] != (n, n):
            raise ShapeError(f"P: expected {n}x{n} matrices, got shape {P.shape}")
        for matrix in P.reshape(-1, n, n):
            weight(matrix, 0, n, "P")
        try:
            shape = np.broadcast_shapes(x.shape[:-1], P.shape[:-2])
        except ValueError as error:
            raise ShapeError(f"x, P: {x.shape[:-1]} states do not go with {P.shape[:-2]} covariances") from error
        return Belief(np.array(np.broadcast_to(x, (*shape, nx))), np.array(np.broadcast_to(P, (*shape, n, n))))

    def predict(self, belief: Belief, u: ArrayLike) -> Belief:
        """The belief one step later: x through the map, P through its exact linearization."""
        after, A = self.transition(belief.x, u)
        return Belief(after, self.spread(A, belief.P))

    def transition(self, x: Array, u: ArrayLike) -> tuple[Array, Array]:
        """Next states and A for a batch of states under common or separate inputs."""
        flat = x.reshape(-1, self.step.nx)
        given = rows(u, self.step.nu, "u")
        try:
            inputs = np.broadcast_to(given, (*x.shape[:-1], self.step.nu)).reshape(len(flat), self.step.nu)
        except ValueError as cause:
            raise ShapeError(f"u: shape {given.shape} does not go with states {x.shape}") from cause
        after, A, _ = self.step.linearize_many(flat, inputs)
        return after.reshape(x.shape), A.reshape(*x.shape[:-1], *A.shape[1:])

    def spread(self, A: Array, P: Array) -> Array:
        """A P Aᵀ + Q, symmetric to the last bit."""
        # No update shrinks an antisymmetric part, and unstable maps let it grow from rounding.
        half = A @ (0.5 * P) @ np.swapaxes(A, -1, -2)
        return half + np.swapaxes(half, -1, -2) + self.process

    def update(self, belief: Belief, z: ArrayLike, valid: ArrayLike | None = None) -> tuple[Belief, Innovation]:
        """The belief after a measurement z (..., nz) of the sensor channels; channels not ``valid`` are skipped.

        A channel that is not finite is not valid. Leading axes of belief, z and valid are broadcast.
        """
        nx, n = self.step.nx, self.step.ndx
        measured, usable = self._channels(z, valid)
        try:
            shape = np.broadcast_shapes(belief.x.shape[:-1], measured.shape[:-1])
        except ValueError as cause:
            raise ShapeError(f"z: shape {measured.shape} does not go with states {belief.x.shape}") from cause
        x, P = np.broadcast_to(belief.x, (*shape, nx)), np.broadcast_to(belief.P, (*shape, n, n))
        error = np.where(usable, measured, 0.0) - np.where(usable, self._model.readings(x), 0.0)
        H = self._model.readings_slope(x)
        error, H, variances = self._decorrelate(error, H, usable)
        moved, P, innovation = self._sequential(P, error, H, variances, usable)
        x = self.step.layout.retract(x, moved)
        if not (self.constraint_projection and hasattr(self._model, "project")):
            return Belief(x, P), innovation
        closed = self._model.closed if hasattr(self._model, "closed") else None
        before = None if closed is None else closed(np.broadcast_to(belief.x, x.shape))
        if closed is None or before is None:
            return Belief(self._model.project(x), P), innovation
        x = self._model.project(x, before)
        return Belief(x, P), innovation._replace(closed=closed(x))

    def run(
        self, belief: Belief, u: ArrayLike, z: ArrayLike, *, covariances: bool = False, innovations: bool = False
    ) -> FilterRuns:
        """Predict and update, over and over: a run of N measurements z (..., N, nz), or a batch of runs in one call.

        Inputs u are (N, nu) for all runs or (..., N, nu); channels that are not finite are skipped. Compiled where the
        step is a midpoint step in plain coordinates and the noise of the channels is independent: then a run has the
        same bits alone, in any batch and on any processor, and equals the two calls up to rounding.
        """
        channels = len(self.measurement)
        measured, U = numbers(z, "z"), rows(u, self.step.nu, "u")
        if measured.ndim < 2 or measured.shape[-1] != channels or U.shape[-2:-1] != measured.shape[-2:-1]:
            raise ShapeError(
                f"u, z: expected (N, {self.step.nu}) or (..., N, {self.step.nu}) with (..., N, {channels}), "
                f"got {U.shape} and {measured.shape}"
            )
        lead = measured.shape[:-2]
        try:
            x = np.broadcast_to(belief.x, (*lead, self.step.nx))
            P = np.broadcast_to(belief.P, (*lead, self.step.ndx, self.step.ndx))
            U = U if U.ndim == 2 else np.broadcast_to(U, (*lead, *U.shape[-2:]))
        except ValueError as cause:
            raise ShapeError(f"z: runs {lead} do not go with beliefs {belief.x.shape} or inputs {U.shape}") from cause
        found = self._compiled_run(x, P, U, measured, covariances, innovations)
        return found if found is not None else self._looped_run(x, P, U, measured, covariances, innovations)

    @cached_property
    def _compiled(self) -> CompiledFilter | None:
        diagonal = np.array_equal(self.measurement, np.diag(np.diagonal(self.measurement)))
        plain = isinstance(self._model, MechanicalReadings) and diagonal and not self.joseph
        return CompiledFilter.of(self.step) if plain else None

    def _compiled_run(self, x: Array, P: Array, U: Array, z: Array, every: bool, told: bool) -> FilterRuns | None:
        if self._compiled is None:
            return None
        flat = tuple(np.ascontiguousarray(e.reshape(-1, *e.shape[-k:])) for e, k in ((x, 1), (P, 2), (z, 2)))
        inputs = np.ascontiguousarray(U if U.ndim == 2 else U.reshape(-1, *U.shape[-2:]))
        noise = np.ascontiguousarray(self.process), np.ascontiguousarray(np.diagonal(self.measurement))
        options = self.gate, self.constraint_projection, every, told
        found = self._compiled.run((flat[0], flat[1]), inputs, flat[2], noise, options)
        if found is None:
            return None
        lead = z.shape[:-2]
        X, Ps = (e.reshape(*lead, *e.shape[1:]) for e in found[:2])
        seen = found.innovation
        return FilterRuns(X, Ps, seen if seen is None else Innovation(*(e.reshape(z.shape) for e in seen[:4])))

    def _looped_run(self, x: Array, P: Array, U: Array, z: Array, every: bool, told: bool) -> FilterRuns:
        belief, states, covariances, seen = Belief(x, P), [], [], []
        for k in range(z.shape[-2]):
            belief, innovation = self.update(self.predict(belief, U[..., k, :]), z[..., k, :])
            states.append(belief.x)
            covariances.append(belief.P if every else None)
            seen.append(innovation[:4] if told else None)
        last = np.stack([e for e in covariances if e is not None], axis=-3) if every and states else belief.P
        shown = [np.stack(e, axis=-2) for e in zip(*(e for e in seen if e is not None), strict=True)]
        return FilterRuns(
            np.stack(states, axis=-2) if states else np.empty((*z.shape[:-1], self.step.nx)),
            last,
            Innovation(*shown) if told and shown else None,
        )

    def estimate(self, belief: Belief) -> Belief:
        """The belief itself."""
        return belief

    def _channels(self, z: ArrayLike, valid: ArrayLike | None) -> tuple[Array, Flags]:
        """The measurement and which of its channels can be used."""
        channels = len(self.measurement)
        measured = numbers(z, "z")
        flags = np.asarray(True if valid is None else valid, dtype=bool)
        if measured.shape[-1:] != (channels,):
            raise ShapeError(f"z: expected {channels} channels, got shape {measured.shape}")
        try:
            measured, flags = np.broadcast_arrays(measured, flags)
        except ValueError as error:
            raise ShapeError(f"valid: shape {flags.shape} does not go with z, {measured.shape}") from error
        return measured, flags & np.isfinite(measured)

    def _decorrelate(self, error: Array, H: Array, usable: Flags) -> tuple[Array, Array, Array]:
        """Channels with independent noise; a full R mixes those that are usable among themselves."""
        variances = np.diagonal(self.measurement)
        if np.array_equal(self.measurement, np.diag(variances)):
            return error, H, variances
        both = usable[..., :, None] & usable[..., None, :]
        inverse = np.linalg.inv(np.linalg.cholesky(np.where(both, self.measurement, np.eye(len(variances)))))
        return np.einsum("...ij,...j->...i", inverse, error), inverse @ H, np.ones(len(variances))

    def _sequential(
        self, P: Array, error: Array, H: Array, variances: Array, usable: Flags
    ) -> tuple[Array, Array, Innovation]:
        """How far the state is moved, in the tangent space, with the new P; H may leave out the last dimensions."""
        nq, channels = H.shape[-1], H.shape[-2]
        moved = np.zeros(P.shape[:-1])
        shape = (*P.shape[:-2], channels)
        residual, variance = np.zeros(shape), np.ones(shape)
        used, gated = np.zeros(shape, bool), np.zeros(shape, bool)
        for i in range(channels):
            h = H[..., i, :]
            Ph = np.einsum("...ij,...j->...i", P[..., :nq], h)
            S = np.einsum("...i,...i->...", h, Ph[..., :nq]) + variances[i]
            e = error[..., i] - np.einsum("...i,...i->...", h, moved[..., :nq])
            inside = True if self.gate is None else e**2 <= self.gate**2 * S
            use = usable[..., i] & inside
            gain = np.where(use[..., None], Ph / S[..., None], 0.0)
            moved = moved + gain * e[..., None]
            P = self._shrink(P, gain, np.where(use[..., None], Ph, 0.0), S, h, variances[i])
            residual[..., i], variance[..., i] = e, S
            used[..., i], gated[..., i] = use, usable[..., i] & ~np.asarray(inside)
        return moved, P, Innovation(residual, variance, used, gated)

    def _shrink(self, P: Array, gain: Array, Ph: Array, S: Array, h: Array, variance: float) -> Array:
        if not self.joseph:
            half = Ph / np.sqrt(S)[..., None]
            return P - half[..., :, None] * half[..., None, :]  # the product is symmetric to the last bit
        keep = np.broadcast_to(np.eye(P.shape[-1]), P.shape).copy()
        keep[..., : h.shape[-1]] -= gain[..., :, None] * h[..., None, :]
        return keep @ P @ np.swapaxes(keep, -1, -2) + variance * gain[..., :, None] * gain[..., None, :]
