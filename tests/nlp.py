"""The discrete optimal control problem posed to IPOPT: an optimum from another algorithm and another derivative code.

States, inputs and multipliers of all steps are variables and the equations of the step are constraints, written here
from the system's energies; nothing of the step maps, the projection or the recursions is used.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import casadi as ca
import numpy as np

import stepmap as sm


@dataclass(frozen=True, eq=False)
class Optimum:
    """What IPOPT found, and the CPU time of its solve alone."""

    trajectory: sm.Trajectory
    cost: float
    iterations: int
    cpu_s: float


def step_equations(step: sm.VariationalStep) -> ca.Function:
    """Residual of the midpoint step at (x, u, x_next, lam); zero where x_next = f(x, u)."""
    e, dt, nd, nk = step.system.expressions, step.dt, step.nd, step.nk
    nq, forces = nd + nk, step.nu - nk
    x, after = ca.SX.sym("x", step.nx), ca.SX.sym("after", step.nx)
    u, lam = ca.SX.sym("u", step.nu), ca.SX.sym("lam", step.nc)
    parameters = ca.DM(step.system.parameter_values)
    energies = [ca.gradient(e.lagrangian, e.q)[:nd], ca.gradient(e.lagrangian, e.v)[:nd], e.force]
    at_middle = ca.Function("at_middle", [e.q, e.v, e.u, e.parameters], energies)
    constraint = ca.Function("h", [e.q, e.parameters], [e.residual, ca.jacobian(e.residual, e.q)[:, :nd]])
    q1, q2 = x[:nq], after[:nq]
    Lq, Lv, F = at_middle((q1 + q2) / 2, (q2 - q1) / dt, u[:forces], parameters)
    impulse = constraint(q1, parameters)[1].T @ lam if step.nc else 0
    left = step.left  # part of a force's impulse at the step's begin
    equations = [
        x[nq : nq + nd] + dt / 2 * Lq - Lv + left * dt * F - impulse,
        after[nq : nq + nd] - dt / 2 * Lq - Lv - (1 - left) * dt * F,
    ]
    if step.nc:
        equations += [constraint(q2, parameters)[0]]
    if nk:
        equations += [after[nd:nq] - u[forces:], after[nq + nd :] - (after[nd:nq] - x[nd:nq]) / dt]
    return ca.Function("step", [x, u, after, lam], [ca.vertcat(*equations)])


@dataclass(frozen=True, eq=False)
class Box:
    """Bounds of states x_1 … x_N, (N, nx) or (nx), infinite where there are none."""

    low: np.ndarray
    high: np.ndarray


def solve(
    problem: sm.Problem, guess: sm.Trajectory | None = None, tolerance: float = 1e-10, states: Box | None = None
) -> Optimum:
    """IPOPT's optimum from a guess, or from the problem's own, within the limits of the inputs and of ``states``."""
    step, cost = problem.step, problem.cost
    assert isinstance(step, sm.VariationalStep)
    n = cost.horizon
    first = problem.first_guess() if guess is None else guess
    x, u, lam = ca.MX.sym("x", step.nx, n), ca.MX.sym("u", step.nu, n), ca.MX.sym("lam", step.nc, n)
    start = ca.DM(problem.start)
    before = ca.horzcat(start, x[:, :-1])
    equations = ca.vec(step_equations(step).map(n)(before, u, x, lam))
    bounds, forces = problem.bounds, step.nu - step.nk
    change = u[forces:, :] - before[step.nd : step.nd + step.nk, :]
    rated = bounds is not None and step.nk and np.isfinite(bounds.change).any()
    most = np.tile(bounds.change[forces:], n) if rated and bounds is not None else np.zeros(0)
    program = {
        "x": ca.veccat(x, u, lam),
        "f": _cost(cost, before, x[:, -1], u),
        "g": ca.veccat(equations, change) if rated else equations,
    }
    none = np.zeros(equations.numel())
    low, high = (np.full((n, step.nx), sign * np.inf) for sign in (-1, 1))
    if states is not None:
        low[:], high[:] = states.low, states.high
    least, largest = (np.tile(np.full(step.nu, sign * np.inf), (n, 1)) for sign in (-1, 1))
    if bounds is not None:
        least[:], largest[:] = bounds.low, bounds.high
    free = np.full(n * step.nc, np.inf)
    ipopt = {"print_level": 0, "sb": "yes", "tol": tolerance, "max_iter": 500, "nlp_scaling_method": "none"}
    if bounds is not None or states is not None:  # at the bounds themselves, and not pushed away from a good start
        ipopt |= {"bound_relax_factor": 0.0, "warm_start_init_point": "yes", "mu_init": 1e-6}
        ipopt |= {"warm_start_bound_push": 1e-9, "warm_start_bound_frac": 1e-9}
    options = {"print_time": False, "ipopt": ipopt}
    solver = ca.nlpsol("solver", "ipopt", program, options)
    pull = np.zeros((n, step.nc)) if first.multipliers is None else _impulses(step, first)
    w0 = np.concatenate([first.x[1:].ravel(), first.u.ravel(), pull.ravel()])
    begun = time.process_time()
    found = solver(
        x0=w0,
        lbg=np.concatenate([none, -most]),
        ubg=np.concatenate([none, most]),
        lbx=np.concatenate([low.ravel(), least.ravel(), -free]),
        ubx=np.concatenate([high.ravel(), largest.ravel(), free]),
    )
    cpu_s = time.process_time() - begun
    stats = solver.stats()
    if not stats["success"]:
        raise RuntimeError(f"IPOPT: {stats['return_status']}")
    w = np.asarray(found["x"])[:, 0]
    reached = np.vstack([problem.start, w[: n * step.nx].reshape(n, step.nx)])
    inputs = w[n * step.nx : n * (step.nx + step.nu)].reshape(n, step.nu)
    return Optimum(sm.Trajectory(first.t, reached, inputs), float(found["f"]), stats["iter_count"], cpu_s)


def _cost(cost: sm.TrackingCost, before: ca.MX, last: ca.MX, u: ca.MX) -> ca.MX:
    """½ Σ dxᵀQ dx + duᵀR du + ½ terminal, and the soft limits, from the definition."""
    total = ca.MX(0)
    for k in range(cost.horizon):
        dx, du = before[:, k] - cost.x_ref[k], u[:, k] - cost.u_ref[k]
        Q, R = (M if M.ndim == 2 else M[k] for M in (cost.Q, cost.R))
        total += ca.bilin(Q, dx, dx) / 2 + ca.bilin(R, du, du) / 2
        for limit in cost.limits:
            value = (u if limit.of_input else before)[limit.index, k]
            if np.isfinite(limit.high):
                total += limit.weight / 2 * ca.fmax(value - limit.high, 0) ** 2
            if np.isfinite(limit.low):
                total += limit.weight / 2 * ca.fmax(limit.low - value, 0) ** 2
    dx = last - cost.x_ref[-1]
    return total + ca.bilin(cost.Qf, dx, dx) / 2


def _impulses(step: sm.VariationalStep, path: sm.Trajectory) -> np.ndarray:
    """Multipliers of the step's equations from the string tensions of a trajectory."""
    e = step.system.expressions
    pull = ca.Function("pull", [e.q, e.parameters], [e.pull])
    nq = step.nd + step.nk
    unit = np.asarray(pull(path.x[:-1, :nq].T, step.system.parameter_values)).T.reshape(path.steps, step.nc)
    return path.multipliers * step.dt / unit
