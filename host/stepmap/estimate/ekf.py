"""The extended Kalman filter on any step map of a mechanical system.

One belief or a batch of them: x is (..., nx) and P is (..., nx, nx), so a Monte Carlo study is one filter run.
"""

from __future__ import annotations

import warnings
from dataclasses import InitVar, dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepmap.arrays import Array, numbers, rows, weight
from stepmap.errors import ModelError, ShapeError
from stepmap.mechanics.system import System
from stepmap.steps.protocol import StepMap

Flags = NDArray[np.bool_]


class MechanicalMap(StepMap, Protocol):
    """A step map that knows its mechanism; its states begin with q̄."""

    @property
    def system(self) -> System: ...


class Belief(NamedTuple):
    """A state estimate and its covariance."""

    x: Array  # (..., nx)
    P: Array  # (..., nx, nx)


class Innovation(NamedTuple):
    """What an update saw: residual and variance of each channel when its turn came, and which were used."""

    residual: Array  # (..., nz)
    variance: Array  # (..., nz)
    used: Flags  # (..., nz): valid and inside the gate
    gated: Flags  # (..., nz): valid but outside the gate

    @property
    def nis(self) -> Array:
        """Normalized innovation squared over the channels that were used."""
        total: Array = np.sum(np.where(self.used, self.residual**2 / self.variance, 0.0), axis=-1)
        return total


@dataclass(frozen=True, eq=False)
class ExtendedKalmanFilter:
    """Filter with process noise Q (nx, nx) a step and measurement noise R (nz, nz) of the system's sensor channels.

    Channels are taken one after the other, so nothing is inverted; a full R is made diagonal first. ``gate`` is the
    largest normalized innovation, in standard deviations, that is still believed. ``constraint_projection``
    moves q onto the constraints after an update, by the least change. ``joseph`` uses the update that keeps P positive
    whatever the gain.
    """

    step: MechanicalMap
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
        if not isinstance(getattr(self.step, "system", None), System):
            raise ModelError(f"step: expected a step map of a mechanism, got {type(self.step).__name__}")
        channels = len(self.step.system.sensor_channels)
        if not channels:
            raise ModelError(f"system {self.step.system.name!r} has no sensor; add a marker or an encoder to it")
        object.__setattr__(self, "process", weight(self.process, 0, self.step.nx, "process"))
        object.__setattr__(self, "measurement", weight(self.measurement, 0, channels, "measurement", definite=True))
        if self.gate is not None and not self.gate > 0:
            raise ModelError(f"gate: must be a positive number of standard deviations, got {self.gate}")

    def start(self, x: ArrayLike, P: ArrayLike) -> Belief:
        """A checked first belief."""
        nx = self.step.nx
        x, P = rows(x, nx, "x"), numbers(P, "P")
        if P.shape[-2:] != (nx, nx):
            raise ShapeError(f"P: expected {nx}x{nx} matrices, got shape {P.shape}")
        for matrix in P.reshape(-1, nx, nx):
            weight(matrix, 0, nx, "P")
        try:
            shape = np.broadcast_shapes(x.shape[:-1], P.shape[:-2])
        except ValueError as error:
            raise ShapeError(f"x, P: {x.shape[:-1]} states do not go with {P.shape[:-2]} covariances") from error
        return Belief(np.array(np.broadcast_to(x, (*shape, nx))), np.array(np.broadcast_to(P, (*shape, nx, nx))))

    def predict(self, belief: Belief, u: ArrayLike) -> Belief:
        """The belief one step later: x through the map, P through its exact linearization."""
        after, A = self.transition(belief.x, u)
        return Belief(after, self.spread(A, belief.P))

    def transition(self, x: Array, u: ArrayLike) -> tuple[Array, Array]:
        """Next states and A for a batch of states under common or separate inputs."""
        flat = x.reshape(-1, self.step.nx)
        inputs = np.broadcast_to(rows(u, self.step.nu, "u"), (*x.shape[:-1], self.step.nu)).reshape(len(flat), -1)
        after, A, _ = self.step.linearize_many(flat, inputs)
        return after.reshape(x.shape), A.reshape(*x.shape, self.step.nx)

    def spread(self, A: Array, P: Array) -> Array:
        """A P Aᵀ + Q."""
        return A @ P @ np.swapaxes(A, -1, -2) + self.process

    def update(self, belief: Belief, z: ArrayLike, valid: ArrayLike | None = None) -> tuple[Belief, Innovation]:
        """The belief after a measurement z (..., nz) of the sensor channels; channels not ``valid`` are skipped.

        A channel that is not finite is not valid. Leading axes of belief, z and valid are broadcast.
        """
        system = self.step.system
        nx, nq = self.step.nx, self.step.nx // 2
        measured, usable = self._channels(z, valid)
        shape = np.broadcast_shapes(belief.x.shape[:-1], measured.shape[:-1])
        x, P = np.broadcast_to(belief.x, (*shape, nx)), np.broadcast_to(belief.P, (*shape, nx, nx))
        pose = x[..., :nq]
        error = np.where(usable, measured, 0.0) - np.where(usable, system.readings(pose), 0.0)
        H = system.readings_slope(pose)
        error, H, variances = self._decorrelate(error, H, usable)
        x, P, innovation = self._sequential(x, P, error, H, variances, usable)
        if self.constraint_projection and system.constraints:
            x = project(system, x, nd=len(system.dynamic))
        return Belief(x, P), innovation

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
        self, x: Array, P: Array, error: Array, H: Array, variances: Array, usable: Flags
    ) -> tuple[Array, Array, Innovation]:
        nq, channels = H.shape[-1], H.shape[-2]
        moved = np.zeros(x.shape)
        shape = (*x.shape[:-1], channels)
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
        return x + moved, P, Innovation(residual, variance, used, gated)

    def _shrink(self, P: Array, gain: Array, Ph: Array, S: Array, h: Array, variance: float) -> Array:
        if not self.joseph:
            half = Ph / np.sqrt(S)[..., None]
            return P - half[..., :, None] * half[..., None, :]  # the product is symmetric to the last bit
        keep = np.broadcast_to(np.eye(P.shape[-1]), P.shape).copy()
        keep[..., : h.shape[-1]] -= gain[..., :, None] * h[..., None, :]
        return keep @ P @ np.swapaxes(keep, -1, -2) + variance * gain[..., :, None] * gain[..., None, :]


def project(system: System, x: Array, nd: int, *, turns: int = 2) -> Array:
    """x with its dynamic coordinates moved onto the constraints by the least change; rho stays."""
    nq = len(system.coordinates)
    out = np.array(x)
    for _ in range(turns):
        pose = out[..., :nq]
        h, J = system.residuals(pose), system.residuals_slope(pose)[..., :nd]
        out[..., :nd] -= np.einsum("...ij,...j->...i", np.linalg.pinv(J), h)
    return out
