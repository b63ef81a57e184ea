"""Switching times of several systems and laws: beside implementations by hand, beside differences, from bad starts."""

from __future__ import annotations

import cmath
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal.switching_times import Switching
from stepmap.optimal.switching_times.newton import spread

Numbers = list[complex]
Law = Callable[[Numbers, Numbers, complex, complex], Sequence[complex]]
Slopes = Callable[[Numbers, Numbers], tuple[Numbers, Numbers]]
G = 9.8


def cart_slopes(q: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    """L_q and L_v of a point mass of 1 kg on a rod of 1 m under a cart of 10 kg."""
    c, s = cmath.cos(q[1]), cmath.sin(q[1])
    return [0, -v[0] * v[1] * s - G * s], [11 * v[0] + v[1] * c, v[0] * c + v[1]]


def double_slopes(q: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    """The same of two point masses of 1 kg on rods of 1 m, the second angle relative to the first."""
    (a, b), (w, z) = q, v
    c, s = cmath.cos(b), cmath.sin(b)
    low = -G * cmath.sin(a + b)
    return [low - 2 * G * cmath.sin(a), low - w * (w + z) * s], [3 * w + z + 2 * w * c + z * c, (w + z) + w * c]


class ByHand:
    """J(τ) with the discrete Euler–Lagrange equations of two coordinates, in complex numbers."""

    def __init__(
        self, slopes: Slopes, damping: float, forced: float, start: Sequence[float], time: float, counts: Sequence[int]
    ) -> None:
        self.slopes, self.damping, self.forced = slopes, damping, forced  # part of the impulse at the step's begin
        self.start, self.time, self.counts = [complex(q) for q in start], time, counts

    def __call__(self, tau: Sequence[complex], laws: Sequence[Law], running: Law, terminal: Law) -> complex:
        q, ends = list(self.start), [0.0, *tau, self.time]
        p = [self.time / sum(self.counts) / 2 * e for e in self.slopes(q, [0, 0])[0]]  # at rest
        total, t = 0j, 0j
        for mode, count in enumerate(self.counts):
            h = (ends[mode + 1] - ends[mode]) / count
            for k in range(count):
                t = ends[mode] + k * h
                u = laws[mode](q, p, t, h)
                total += h * sum(running(q, p, t, h)) + h * 0.01 * sum(e**2 for e in u)
                q, p = self.step(q, p, u, h)
        return total + sum(terminal(q, p, t, 0))

    def step(self, q: Numbers, p: Numbers, u: Sequence[complex], h: complex) -> tuple[Numbers, Numbers]:
        """Newton's method with a real matrix, whose error shrinks by its imaginary part, 1e-30, per iteration."""

        def momenta(after: Numbers) -> tuple[Numbers, Numbers]:
            v = [(b - a) / h for a, b in zip(q, after, strict=True)]
            lq, lv = self.slopes([(a + b) / 2 for a, b in zip(q, after, strict=True)], v)
            push = [f - self.damping * w for f, w in zip(u, v, strict=True)]
            begin = [a - h / 2 * b - self.forced * h * f for a, b, f in zip(lv, lq, push, strict=True)]
            return begin, [a + h / 2 * b + (1 - self.forced) * h * f for a, b, f in zip(lv, lq, push, strict=True)]

        after = list(q)
        for _ in range(7):
            residual = np.array(momenta(after)[0]) - p
            columns = [np.array(momenta([after[0] + a, after[1] + b])[0]) for a, b in ((1e-7, 0), (0, 1e-7))]
            J = np.array([(c - residual - p).real for c in columns]).T / 1e-7
            after = [a - b for a, b in zip(after, np.linalg.solve(J, residual), strict=True)]
        return after, momenta(after)[1]


def gradient_of(value: Callable[[np.ndarray], complex], tau: np.ndarray) -> np.ndarray:
    return np.array([value(tau + 1e-30j * e).imag / 1e-30 for e in np.eye(len(tau))])


def differences(of: Callable[[np.ndarray], Any], tau: np.ndarray, apart: float) -> np.ndarray:
    """Sixth-order differences along each time: error apart⁶/140 times the seventh derivative."""
    parts = ((45, 1), (-9, 2), (1, 3))
    return np.array(
        [
            sum(w * (of(tau + k * e) - of(tau - k * e)) for w, k in parts) / (60 * apart)
            for e in apart * np.eye(len(tau))
        ]
    )


CART = (
    ({"force": "20*sin(3*t)"}, {"force": "-30*theta - 5*p_theta + 2*x"}, {}, {"force": "3*exp(-t)*h"}),
    (
        lambda q, p, t, h: (20 * cmath.sin(3 * t), 0),
        lambda q, p, t, h: (-30 * q[1] - 5 * p[1] + 2 * q[0], 0),
        lambda q, p, t, h: (0, 0),
        lambda q, p, t, h: (3 * cmath.exp(-t) * h, 0),
    ),
)
DOUBLE = (
    (
        {"torque1": "5*cos(2*t)", "torque2": "-theta2"},
        {"torque2": 3.0},
        {"torque1": "tanh(theta1) - h*p_theta2"},
        {},
        {"torque1": "t**2"},
        {"torque2": "sin(theta1 + theta2)"},
    ),
    (
        lambda q, p, t, h: (5 * cmath.cos(2 * t), -q[1]),
        lambda q, p, t, h: (0, 3.0),
        lambda q, p, t, h: (cmath.tanh(q[0]) - h * p[1], 0),
        lambda q, p, t, h: (0, 0),
        lambda q, p, t, h: (t**2, 0),
        lambda q, p, t, h: (0, cmath.sin(q[0] + q[1])),
    ),
)


@pytest.mark.parametrize(("name", "forces"), [("cart_pendulum", "left"), ("double_pendulum", "held")])
def test_derivatives_are_those_of_an_implementation_by_hand(name: str, forces: Any) -> None:
    """Three and five switches, counts that differ, laws of time, state and h, costs with t and h."""
    cart = name == "cart_pendulum"
    laws, by_hand = CART if cart else DOUBLE
    counts, T = ((9, 7, 13, 5), 1.7) if cart else ((4, 8, 3, 6, 5, 7), 1.0)
    tau = np.array([0.4, 0.8, 1.5] if cart else [0.15, 0.3, 0.5, 0.7, 0.85])
    names, start = (("x", "theta"), (0.0, 2.5)) if cart else (("theta1", "theta2"), (2.0, 1.0))
    pushed = "force" if cart else "torque1"
    running = f"{names[0]}**2 + 0.2*{names[1]}*t + h*sin({names[1]}) + 0.01*({pushed}**2"
    running += ")" if cart else " + torque2**2)"
    problem = sm.switching(
        sm.systems.get(name),
        time=T,
        laws=laws,
        counts=counts,
        running=running,
        terminal=f"2*{names[1]}**2 + 0.1*p_{names[1]}**2 + {names[0]}*{names[1]}",
        start=dict(zip(names, start, strict=True)),
        forces=forces,
    )
    hand = ByHand(
        cart_slopes if cart else double_slopes,
        0.01 if cart else 0.0,
        1.0 if forces == "left" else 0.5,
        start,
        T,
        counts,
    )

    def value(at: np.ndarray) -> complex:
        return hand(
            list(at),
            by_hand,
            lambda q, p, t, h: (q[0] ** 2, 0.2 * q[1] * t, h * cmath.sin(q[1])),
            lambda q, p, t, h: (2 * q[1] ** 2, 0.1 * p[1] ** 2, q[0] * q[1]),
        )

    J, gradient, hessian = problem.derivatives(tau)
    assert pytest.approx(value(tau).real, rel=1e-12) == J
    exact = gradient_of(value, tau)
    assert np.abs(gradient - exact).max() <= 1e-9 * np.abs(exact).max()
    bends = differences(lambda at: gradient_of(value, at), tau, 7e-4)
    assert np.abs(hessian - bends).max() <= 1e-7 * np.abs(bends).max()


def wired(name: str, time: float, laws: list[dict[str, str]], counts: list[int], running: str) -> Switching:
    system = sm.systems.get(name)
    start = system.satisfy_constraints(sm.systems.example(name))
    return sm.switching(system, time=time, laws=laws, counts=counts, running=running, terminal="t", start=start)


def spherical() -> Switching:
    return sm.switching(
        sm.systems.get("spherical_pendulum"),
        time=1.0,
        laws=[{"x": "0.05 + 0.1*sin(5*(t + h))"}, {"y_next": "y + 0.2*h"}, {"x": "x - 0.3*h*v_x"}],
        counts=[20, 15, 10],
        running="pivot.x**2 + v_y**2 + x**2 + p_pivot.ry",
        terminal="pivot.y",
        start=sm.systems.example("spherical_pendulum"),
    )


def marionette() -> Switching:
    """Coordinates of robots have a hyphen in their names."""
    hook = "upper_torso_string-length"
    laws = [{hook: f"{hook}+0.1*h*sin(9*t)"}, {f"{hook}_next": f"{hook} - 0.2*h*t", "left_arm_string-x": "0.1"}]
    laws[1]["left_arm_string-x"] = "left_arm_string-x - 0.1*h"
    return wired("marionette", 0.3, laws, [5, 7], "lelbow_rx**2 + rhip_rx**2")


def falling() -> Switching:
    """A mass that falls into its string: an impact is in the first mode or the second."""
    return sm.switching(
        sm.systems.get("suspended_mass_string"),
        time=1.0,
        laws=[{"xr": "0.1*sin(9*(t + h))"}, {"r": "r - 0.4*h"}],
        counts=[15, 15],
        running="xm**2 + ym**2",
        terminal="p_xm**2",
        start=sm.systems.example("suspended_mass_string"),
    )


@pytest.mark.parametrize(
    ("make", "tau", "apart"),
    [
        (spherical, [0.4, 0.8], 1e-3),
        (marionette, [0.12], 1e-3),
        (falling, [0.5], 1e-3),
        (falling, [0.2], 1e-3),
    ],
)
def test_derivatives_of_balls_wires_and_strings_are_differences(
    make: Callable[[], Switching], tau: list[float], apart: float
) -> None:
    problem, at = make(), np.array(tau)
    _, gradient, hessian = problem.derivatives(at)
    slopes = differences(problem.cost, at, apart)
    bends = differences(lambda where: problem.derivatives(where).gradient, at, apart)
    assert np.abs(gradient - slopes).max() <= 1e-9 * np.abs(slopes).max()
    assert np.abs(hessian - bends).max() <= 1e-7 * np.abs(bends).max()


@pytest.mark.parametrize("tau", [[0.3, 0.8], [1e-6, 2e-6], [1.0999, 1.09999], [0.55, 0.5500001]])
def test_order_is_kept_where_a_mode_would_rather_not_be(tau: list[float]) -> None:
    """An arm that the second law only disturbs: its phase shrinks to what it may, and others take the rest."""
    system = sm.systems.get("planar_arm")
    problem = sm.switching(
        system,
        time=1.1,
        laws=[{"x": "x + 0.3*h*sin(3*t)"}, {"L_next": "L - 0.2*h"}, {"x": "0.97*x + 0.015", "L": "L - 0.05*h"}],
        counts=[10, 14, 8],
        running="theta1**2 + (theta2 - 0.5)**2 + 0.1*v_x**2 + x_next**2",
        terminal="theta2**2 + p_theta1**2",
        start=system.satisfy_constraints({"theta1": -0.9, "theta2": 0.6, "x": 0.5, "L": 1.2}),
    )
    seen: list[np.ndarray] = []
    solution = problem.solve(tau, monitor=lambda number, at, cost: seen.append(at)).require()
    assert solution.vanished == (1,)
    assert np.diff(solution.tau)[0] == pytest.approx(14 * 1e-3 * 1.1 / 32)
    for at in [*seen, solution.tau]:
        assert (np.diff([0.0, *at, 1.1]) > 0).all()
    # With the interval as it is, the other time has no slope.
    assert abs(solution.gradient.sum()) <= 1e-8 * np.abs(solution.gradient).max()


def test_times_that_nearly_coincide_are_moved_apart() -> None:
    least = np.array([0.1, 0.1, 0.2])
    assert np.array_equal(spread(np.array([0.3, 0.5]), least, 1.0), [0.3, 0.5])
    apart = np.diff([0.0, *spread(np.array([0.5, 0.5]), least, 1.0), 1.0])
    assert apart == pytest.approx([0.1 + 0.6 * 4 / 7, 0.1, 0.2 + 0.6 * 3 / 7])  # what is left, as it was shared


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"running": "sqrt(theta - 0.3)"}, "running: is nan at t = 0.1 s"),
        ({"terminal": "sqrt(-1 - theta**2)"}, "terminal: is nan at t = 2 s"),
        ({"laws": [{"torque": "1/t"}, {}]}, r"laws\[0\], torque: is inf at t = 0 s"),
        ({"laws": [{}, {"torque": "1e9*theta**9 + 1e6"}]}, r"laws\[1\], torque: is inf at t = 1.2 s"),
    ],
)
def test_numbers_that_are_none_are_told_with_their_time(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"laws": [{}, {}], "counts": [10, 10], "running": "theta**2", "start": {"theta": 0.3}}
    problem = sm.switching(sm.systems.get("pendulum"), time=2.0, **(given | change))
    with pytest.raises(sm.ConvergenceError, match=message):
        problem.solve([1.0])


@pytest.mark.parametrize("law", ["r - 4*h", "r - 4*h + 0*xm"])
def test_a_string_that_would_get_no_length_is_too_long_a_step_of_the_search(law: str) -> None:
    """At the start times it is all right; the search tries longer second modes, and goes on."""
    system = sm.systems.get("suspended_mass")
    problem = sm.switching(
        system,
        time=1.0,
        laws=[{}, {"r": law}],
        counts=[10, 10],
        terminal="(r - 0.1)**2",
        start=system.satisfy_constraints({"xm": 0.2}),
    )
    with pytest.raises(sm.ConvergenceError, match=r"r_next must stay positive|out of reach"):
        problem.cost([0.6])
    solution = problem.solve([0.9]).require()
    assert solution.trajectory.x[-1, 3] == pytest.approx(0.1, abs=1e-6)
