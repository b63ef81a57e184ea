"""Optimal control by Gauss collocation in continuous time: what direct optimal control is to converge to.

States and inputs are polynomials on every interval; the equations of motion are those of the Lagrangian, d/dt L_v =
L_q + F, without any discrete mechanics. Smooth problems are solved to about 1e-9 by some dozens of intervals.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

import stepmap as sm

DEGREE = 4


def acceleration(system: sm.System) -> ca.Function:
    """q̈ of (q, v, u): M⁻¹ (L_q + F − (∂L_v/∂q) v)."""
    e = system.expressions
    momentum = ca.gradient(e.lagrangian, e.v)
    right = ca.gradient(e.lagrangian, e.q) + e.force - ca.jtimes(momentum, e.q, e.v)
    rate = ca.solve(ca.jacobian(momentum, e.v), right)
    rate = ca.substitute(rate, e.parameters, ca.SX(system.parameter_values))
    return ca.Function("acceleration", [e.q, e.v, e.u], [rate])


def optimum(
    system: sm.System,
    time: float | tuple[float, float],
    start: np.ndarray,
    goal: np.ndarray,
    running: Callable[[ca.MX, ca.MX, ca.MX], ca.MX],
    guess: sm.Trajectory,
    intervals: int = 40,
) -> tuple[float, float]:
    """Least ∫ running(q, v, u) dt from rest to rest, and the time it takes, near a trajectory."""
    n, nu = len(system.coordinates), len(system.inputs)
    motion = acceleration(system)
    points = np.array(ca.collocation_points(DEGREE, "legendre"))
    nodes = np.concatenate([[0.0], points])
    basis = [
        np.poly1d(np.poly(np.delete(nodes, j)) / np.prod(nodes[j] - np.delete(nodes, j))) for j in range(DEGREE + 1)
    ]
    slopes = np.array([[polynomial.deriv()(point) for polynomial in basis] for point in points])
    ends = np.array([polynomial(1.0) for polynomial in basis])
    inner = [
        np.poly1d(np.poly(np.delete(points, j)) / np.prod(points[j] - np.delete(points, j))) for j in range(DEGREE)
    ]
    weights = np.array([polynomial.integ()(1.0) for polynomial in inner])
    low, high = time if isinstance(time, tuple) else (time, time)
    opti = ca.Opti()
    T = opti.variable()
    opti.subject_to(opti.bounded(low, T, high) if low < high else low == T)
    h, cost = T / intervals, 0
    opti.set_initial(T, guess.t[-1])
    part = guess.t / guess.t[-1]
    before = opti.variable(2 * n)
    opti.subject_to(before == np.concatenate([start, np.zeros(n)]))
    for k in range(intervals):
        stage = [before, *(opti.variable(2 * n) for _ in range(DEGREE))]
        for j in range(DEGREE):
            u, x = opti.variable(nu), stage[j + 1]
            at = (k + points[j]) / intervals
            place = min(int(at * guess.steps), guess.steps - 1)
            opti.set_initial(u, guess.u[place, :nu])
            opti.set_initial(x[:n], [np.interp(at, part, guess.x[:, i]) for i in range(n)])
            rate = sum(slopes[j, i] * stage[i] for i in range(DEGREE + 1)) / h
            opti.subject_to(rate == ca.vertcat(x[n:], motion(x[:n], x[n:], u)))
            cost += h * weights[j] * running(x[:n], x[n:], u)
        before = opti.variable(2 * n)
        opti.set_initial(before[:n], [np.interp((k + 1) / intervals, part, guess.x[:, i]) for i in range(n)])
        opti.subject_to(before == sum(ends[i] * stage[i] for i in range(DEGREE + 1)))
    opti.subject_to(before == np.concatenate([goal, np.zeros(n)]))
    opti.minimize(cost)
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes", "tol": 1e-11})
    found = opti.solve()
    return float(found.value(cost)), float(found.value(T))
