"""Stabilizing gains: along a trajectory, and at an equilibrium for ever."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, product, solved, weight
from stepmap.errors import ConvergenceError, ModelError
from stepmap.optimal.riccati import Quadratic, recursions
from stepmap.steps.layout import Copied
from stepmap.steps.pointwise import as_step_map
from stepmap.steps.protocol import StepMap, Trajectory


def lqr(step: StepMap, trajectory: Trajectory, Q: ArrayLike, R: ArrayLike, Qf: ArrayLike) -> Array:
    """Gains K (N, nu, ndx) of the finite-horizon regulator u = ū − K (x − x̄) along a trajectory."""
    step = as_step_map(step)
    if not isinstance(trajectory, Trajectory):
        raise ModelError(f"trajectory: expected a Trajectory(t, x, u), got {type(trajectory).__name__}")
    A, B = step.linearize_along(trajectory)
    n = trajectory.steps
    return gains(
        A,
        B,
        weight(Q, n, step.ndx, "Q"),
        weight(R, n, step.nu, "R", definite=True),
        weight(Qf, 0, step.ndx, "Qf"),
        step.layout.copied,
    )


def gains(A: Array, B: Array, Q: Array, R: Array, Qf: Array, copied: Copied | None = None) -> Array:
    """Gains of the regulator for given linearizations; weights were checked before."""
    status, K, _, _ = recursions().backward(Quadratic(A, B, Q, R, Qf, copied=copied))
    if status:
        raise ModelError(f"R + BᵀPB is not positive definite at step {status - 1}; scale R and Q closer to each other")
    return K


MARGINAL = 1 + 1e-6  # the largest |eigenvalue| of a loop that is not taken as unstable
NO_REGULATOR = "no steady regulator: some unstable motion cannot be reached by the inputs, or is not seen by Q"


class Regulator(NamedTuple):
    """Steady gain u = ū − K (x − x̄), the cost-to-go P, and the closed loop's largest |eigenvalue|."""

    K: Array
    P: Array
    radius: float


def regulate(step: StepMap, x: ArrayLike, u: ArrayLike, Q: ArrayLike, R: ArrayLike) -> Regulator:
    """The infinite-horizon regulator at an equilibrium (x, u) of the map."""
    step = as_step_map(step)
    at = step.linearize(x, u)
    moved = float(np.abs(step.layout.difference(x, at.x)).max())
    if moved > 1e-6:
        raise ModelError(f"x, u: no equilibrium, the map moves x by {moved:.3g}; find one with step.equilibrium(pose)")
    Q, R = weight(Q, 0, step.ndx, "Q"), weight(R, 0, step.nu, "R", definite=True)
    P = riccati(at.A, at.B, Q, R)
    K, radius = _closed(at.A, at.B, R, P)
    if radius > MARGINAL:  # P is a solution, but not the stabilizing one
        raise ConvergenceError(NO_REGULATOR, iterations=0, residual=radius - 1, x=P)
    return Regulator(K, P, radius)


def _closed(A: Array, B: Array, R: Array, P: Array) -> tuple[Array, float]:
    """The gain of a cost-to-go, and the largest |eigenvalue| of the loop that it closes."""
    BP = product(B.T, P)
    K = solved(R + product(BP, B), product(BP, A))
    return K, float(np.abs(np.linalg.eigvals(A - B @ K)).max())


def _solves(A: Array, B: Array, Q: Array, R: Array, P: Array) -> bool:
    """Whether P is the cost-to-go of the loop that it closes, but for rounding."""
    again = Q + product(A.T, P, A - product(B, _closed(A, B, R, P)[0]))
    return float(np.abs(again - P).max()) <= 1e-6 * float(np.abs(Q).max()) + 1e-10 * float(np.abs(P).max())


def riccati(A: Array, B: Array, Q: Array, R: Array, *, iterations: int = 60) -> Array:
    """The stabilizing solution P of the discrete algebraic Riccati equation.

    Structure-preserving doubling: each turn doubles the horizon, and A is never inverted (it is singular for systems
    with kinematic coordinates). Its products do not go through a BLAS, so gains have the same bits on every processor.
    scipy's solve_discrete_are has others on each, depends on the units of the cost, refuses motions with |λ| = 1 that Q
    does not see, such as a cart whose place has no weight, and stabilizes unstable ones that it does not see without a
    word.
    """
    n, start = len(A), A
    G: Array = product(B, solved(R, B.T))
    H: Array = Q
    residual = np.inf
    with np.errstate(over="ignore", invalid="ignore"):  # what cannot be stabilized grows until it is not finite
        for turn in range(iterations):
            W = np.eye(n) + product(G, H)
            try:
                V = solved(W, np.concatenate([A, G], axis=1))
            except np.linalg.LinAlgError:
                break
            V1, V2 = V[:, :n], V[:, n:]
            G, H_next, A = G + product(A, V2, A.T), H + product(A.T, H, V1), product(A, V1)
            H_next = (H_next + H_next.T) / 2
            G = (G + G.T) / 2
            residual = float(np.abs(H_next - H).max() / max(float(np.abs(H_next).max()), 1e-300))
            H = H_next
            if not np.isfinite(residual):
                break
            # A is the closed loop over the whole horizon: while it is not small, motions Q hardly sees may still grow.
            # Those with |λ| = 1 that Q does not see stay as they are; longer horizons would add up their rounding.
            small = np.abs(A).max() < 1e-6
            settled = residual < 1e-15 and (small or _closed(start, B, R, H)[1] <= MARGINAL)
            if settled or (residual < 1e-11 and turn > 40):
                if _solves(start, B, Q, R, H):
                    return H
                break  # rounding alone makes it look as if the inputs reached what drifts
    raise ConvergenceError(NO_REGULATOR, iterations=iterations, residual=residual, x=H)
