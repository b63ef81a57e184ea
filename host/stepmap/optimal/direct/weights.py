"""Weights of the feedback along a plan, where none are given.

With ω the rate of the fastest motion at the end, 8/T at least, and u the range of an input,

    Q = dt ω diag(1/s²),  s_q = 0.3,  s_p = M_ii ω s_q,   R = dt ω diag(1/u²)

so 0.3 m or rad off are worth all of an input, whatever its unit. Ends of plans that are no equilibria are fine.
"""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.optimal.goals.natural import fastest
from stepmap.optimal.plan import held_input
from stepmap.steps.protocol import Trajectory
from stepmap.steps.variational import VariationalStep

MUCH = 0.3  # m or rad
TURNS = 8.0  # that a regulator has to settle within a plan, as ω T


def regulator_weights(step: VariationalStep, found: Trajectory, size: Array) -> tuple[Array, Array]:
    """Q (ndx, ndx) and R (nu, nu) along a trajectory whose inputs have these sizes (nu)."""
    layout, end = step.layout, found.x[-1]
    A = step.linearize(end, held_input(step, end, found.u[-1])).A
    rate = max(fastest(A, step.dt), TURNS / float(found.t[-1]))
    mass = np.diagonal(step.system.mass_matrix(layout.pose(end)))[: step.nd]
    scale, places = np.full(step.ndx, MUCH), layout.tangent_slices
    scale[places["p"]] = mass * rate * MUCH
    kinematic = size[layout.forces :]
    scale[places["rho"]], scale[places["v"]] = kinematic, rate * kinematic
    return step.dt * rate * np.diag(scale**-2.0), step.dt * rate * np.diag(size**-2.0)
