"""A plan: what every search ends in, and what goes to the board."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.optimal.lqr import lqr, riccati
from stepmap.steps.protocol import StepMap, Trajectory
from stepmap.steps.variational import VariationalStep


@dataclass(frozen=True, eq=False)
class Plan:
    """A trajectory, the gains (N, nu, nx) that stabilize it, the reference it was sought for, its events.

    u = trajectory.u[k] − gains[k] (x − trajectory.x[k]). The last gain can be held for ever wherever the end can be. A
    search without a reference gives the trajectory itself; a map without events gives none.
    """

    trajectory: Trajectory
    gains: Array
    reference: Trajectory
    events: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        found, wanted = self.trajectory, self.reference
        shape = (found.steps, found.u.shape[1], found.x.shape[1])
        if np.shape(self.gains) != shape:
            raise ShapeError(f"gains: expected {shape} along this trajectory, got {np.shape(self.gains)}")
        if wanted.x.shape != found.x.shape or wanted.u.shape != found.u.shape:
            raise ShapeError(
                f"reference: expected states {found.x.shape} and inputs {found.u.shape}, "
                f"got {wanted.x.shape} and {wanted.u.shape}"
            )


def gains_with_steady_end(step: StepMap, trajectory: Trajectory, Q: Array, R: Array, otherwise: Array) -> Array:
    """Gains whose terminal weight is the infinite-horizon cost of holding the end of the trajectory.

    Gains of a finite horizon fade towards its end, and the last of them hold nothing that falls. ``otherwise`` is
    returned as it is where there is no steady regulator. Of weights that change with time the last ones hold the end.
    """
    last_Q, last_R = (M if M.ndim == 2 else M[-1] for M in (Q, R))
    try:
        at = step.linearize(trajectory.x[-1], held_input(step, trajectory.x[-1], trajectory.u[-1]))
        return lqr(step, trajectory, Q, R, riccati(at.A, at.B, last_Q, last_R))
    except (ConvergenceError, ModelError):
        return otherwise


def held_input(step: StepMap, x: Array, u: Array) -> Array:
    """The input that holds kinematic coordinates where x has them, with the forces of u."""
    held = np.array(u, dtype=float)
    nk = getattr(step, "nk", 0)
    # Inputs of a variational step end with the next rho, those of other steps with its acceleration.
    held[len(held) - nk :] = step.unpack(x).rho if isinstance(step, VariationalStep) else 0.0
    return held
