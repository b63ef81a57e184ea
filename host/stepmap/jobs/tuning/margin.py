"""Stability margin of the loop that holds a plan's end: regulator, steady filter and map, broken at the inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array

FREQUENCIES = 400
SLOWEST = 1e-4  # rad per tick
SETTLED = 2000  # updates of the covariance at most
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class End:
    """The map around a plan's end, x⁺ = A x + B u with readings z = H x, and the filter's steady gain there."""

    A: Array
    B: Array
    H: Array
    gain: Array


def steady_gain(A: Array, H: Array, process: Array, measurement: Array, P: Array) -> Array:
    """The Kalman gain that updates settle at, from a covariance P on."""
    old: Array = np.zeros(0)
    gain: Array = np.zeros(H.T.shape)
    for _ in range(SETTLED):
        S = H @ P @ H.T + measurement
        gain = np.linalg.solve(S, H @ P).T
        P = A @ (P - gain @ H @ P) @ A.T + process
        P = (P + P.T) / 2
        if old.size and np.abs(gain - old).max() <= SAME * np.abs(gain).max():
            break
        old = gain
    return gain


def modulus_margin(end: End, K: Array, span: Array) -> float:
    """The least distance of the loop from −1: min over frequencies of the least singular value of 1 + L.

    L is the loop broken at the inputs, each counted in units of its ``span``. 0 where the loop is unstable. With a
    margin m, a factor of 1/(1 + m) to 1/(1 − m) on all inputs, or a phase of 2 asin(m/2), leaves it stable.
    """
    A, B, H, gain = end.A, end.B, end.H, end.gain
    n, keep = len(A), np.eye(len(A)) - gain @ H
    law = A - B @ K
    # z = H x; x̂ is what the filter predicted; u = −K (x̂ + gain (z − H x̂)); x̂⁺ = (A − B K)(…)
    loop = np.block([[A - B @ K @ gain @ H, -B @ K @ keep], [law @ gain @ H, law @ keep]])
    if np.abs(np.linalg.eigvals(loop)).max() > 1.0 + 1e-6:
        return 0.0
    # From the input to the command that the law answers with, −L.
    a = np.block([[A, np.zeros((n, n))], [law @ gain @ H, law @ keep]])
    b, c = np.vstack([B, np.zeros_like(B)]), np.hstack([-K @ gain @ H, -K @ keep])
    # Half a step off each grid point, no frequency is an eigenvalue on the circle.
    z = np.exp(1j * np.geomspace(SLOWEST, np.pi, FREQUENCIES + 1)[:-1] * 1.0007)
    answered = c @ np.linalg.solve(z[:, None, None] * np.eye(2 * n) - a, np.broadcast_to(b, (len(z), *b.shape)))
    difference = np.eye(B.shape[1]) - answered * span / span[:, None]
    return float(np.linalg.svd(difference, compute_uv=False)[:, -1].min())
