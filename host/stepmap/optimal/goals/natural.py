"""Natural weights: what is much of each state and input, from the goal's fastest motion and the inputs' limits.

With ω the rate of the fastest motion at the goal and a the acceleration that the inputs' limits give,

    s_q = max(1, a/ω²),  s_p = M_ii ω s_q,   Q = dt ω diag(1/s²),  R = dt ω diag(1/u²),  Qf = 100 diag(1/s²)

so the cost has no unit, does not depend on dt, and a swing-up pays. A wheel that turns by 10 rad while its mechanism
moves by one has a scale of 10 rad.
"""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.objective import Weights
from stepmap.steps.limits import InputBounds
from stepmap.steps.variational import VariationalStep

TERMINAL = 100.0
NOT_A_MOTION = 0.5  # |λ| below which a motion is gone within a step: kinematic coordinates, which are copied


def natural_weights(step: VariationalStep, x: Array, u: Array, bounds: InputBounds, duration: float) -> Weights:
    """Weights for a task that ends in the equilibrium (x, u); raises ModelError where an input has no limits.

    Where the goal neither grows nor swings, ω is 4/``duration``.
    """
    size = scale_of_inputs(step, bounds)
    at = step.linearize(x, u)
    rate = fastest(at.A, step.dt) or 4.0 / duration
    layout, nd, places = step.layout, step.nd, step.layout.tangent_slices
    mass = step.system.mass_matrix(layout.pose(x))[:nd, :nd]
    forces = layout.forces
    pushes = np.abs(np.linalg.solve(mass, at.B[places["p"], :forces])) @ size[:forces] / step.dt
    far = np.maximum(1.0, pushes / rate**2)
    scale = np.ones(step.ndx)
    scale[places["q"]] = far
    scale[places["p"]] = np.diagonal(mass) * rate * far
    scale[places["rho"]] = size[forces:]
    scale[places["v"]] = rate * size[forces:]
    weigh = step.dt * rate
    return Weights(np.diag(weigh / scale**2), np.diag(weigh / size**2), np.diag(TERMINAL / scale**2))


def scale_of_inputs(step: VariationalStep, bounds: InputBounds) -> Array:
    """Half the range of each input, (nu)."""
    span = bounds.high - bounds.low
    open_ones = [name for name, width in zip(step.input_names, span, strict=True) if not np.isfinite(width)]
    if open_ones:
        raise ModelError(
            f"natural weights: {', '.join(open_ones)} has no limits, so nothing tells what is much of it",
            hint="Give low and high to the input or kinematic coordinate in the system, or weights of your own.",
        )
    return np.where(bounds.tied >= 0, span / 2, np.maximum(np.abs(bounds.low), np.abs(bounds.high)))


def fastest(A: Array, dt: float) -> float:
    """The rate [1/s] of the fastest growing motion; where none grows, of the fastest swinging one, 0 without either."""
    modes = np.linalg.eigvals(A)
    growth = float(np.log(np.abs(modes).max(initial=1.0))) / dt
    if growth * dt > 1e-6:
        return growth
    swinging = np.abs(np.angle(modes[np.abs(modes) > NOT_A_MOTION]))
    fast = float(swinging.max(initial=0.0)) / dt
    return fast if fast * dt > 1e-6 else 0.0
