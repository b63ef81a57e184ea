"""Switching times of laws: exact derivatives against an implementation of its own, and Newton's method on them."""

from __future__ import annotations

import cmath

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal.switching_times import Switching

T, COUNTS = 2.0, (14, 20, 12)
LAWS = ({"torque": "3*sin(2*t)"}, {"torque": "-2*theta - 0.3*p_theta + t*h"}, {"torque": "1.5*cos(theta)"})
RUNNING, TERMINAL = "(theta - 1)**2 + 0.05*torque**2 + 0.1*h*t*theta", "4*(theta - 2)**2 + 0.5*p_theta**2"
START = 0.4
MASS, LENGTH, GRAVITY, DAMPING = 1.2, 0.7, 9.8, 0.1


def pendulum() -> sm.System:
    return sm.systems.get("pendulum", mass=MASS, length=LENGTH, gravity=GRAVITY, damping=DAMPING)


@pytest.fixture(scope="module")
def problem() -> Switching:
    return sm.switching(
        pendulum(), time=T, laws=LAWS, counts=COUNTS, running=RUNNING, terminal=TERMINAL, start={"theta": START}
    )


def by_hand(tau: np.ndarray) -> complex:
    """J with the midpoint rule of the pendulum written out, in complex numbers: its imaginary part is a derivative."""
    inertia, weight = MASS * LENGTH**2, MASS * GRAVITY * LENGTH
    even = T / sum(COUNTS)
    q, p = complex(START), complex(-even / 2 * weight * np.sin(START))
    ends, total, t = [0.0, *tau, T], 0.0 + 0.0j, 0.0 + 0.0j
    for mode, count in enumerate(COUNTS):
        h = (ends[mode + 1] - ends[mode]) / count
        for _ in range(count):
            u = (3 * cmath.sin(2 * t), -2 * q - 0.3 * p + t * h, 1.5 * cmath.cos(q))[mode]
            total += h * ((q - 1) ** 2 + 0.05 * u**2 + 0.1 * h * t * q)
            after = q
            for _ in range(30):
                middle, speed = (q + after) / 2, (after - q) / h
                push = -weight * cmath.sin(middle) + u - DAMPING * speed
                residual = p + h / 2 * push - inertia * speed
                slope = -h / 4 * weight * cmath.cos(middle) - DAMPING / 2 - inertia / h
                after -= residual / slope
            middle, speed = (q + after) / 2, (after - q) / h
            p = h / 2 * (-weight * cmath.sin(middle) + u - DAMPING * speed) + inertia * speed
            q, t = after, t + h
    return total + 4 * (q - 2) ** 2 + 0.5 * p**2


def gradient_by_hand(tau: np.ndarray) -> np.ndarray:
    tiny = 1e-30
    return np.array([by_hand(tau + 1j * tiny * e).imag / tiny for e in np.eye(len(tau))])


def hessian_by_hand(tau: np.ndarray, apart: float = 2e-3) -> np.ndarray:
    """Sixth-order differences of the complex-step gradient: error apart⁶/140, below 1e-12."""
    rows = []
    for e in apart * np.eye(len(tau)):
        parts = ((45, 1), (-9, 2), (1, 3))
        total = sum(w * (gradient_by_hand(tau + k * e) - gradient_by_hand(tau - k * e)) for w, k in parts)
        rows.append(total / (60 * apart))
    return np.array(rows)


@pytest.mark.parametrize("tau", [(0.5, 1.3), (0.9, 1.0), (0.2, 1.9)])
def test_derivatives_are_those_of_an_implementation_by_hand(problem: Switching, tau: tuple[float, ...]) -> None:
    at = np.array(tau)
    J, gradient, hessian = problem.derivatives(at)
    assert pytest.approx(by_hand(at).real, rel=1e-12) == J == pytest.approx(problem.cost(at), rel=1e-14)
    exact, bends = gradient_by_hand(at), hessian_by_hand(at)
    assert np.abs(gradient - exact).max() <= 1e-9 * np.abs(exact).max()
    assert np.abs(hessian - bends).max() <= 1e-7 * np.abs(bends).max()


def test_newton_finds_times_without_slope(problem: Switching) -> None:
    solution = problem.solve([0.9, 1.6]).require()
    assert solution.iterations <= 10
    assert np.abs(gradient_by_hand(solution.tau)).max() <= 1e-5
    assert solution.cost < problem.cost([0.9, 1.6])
    for nearby in solution.tau + 0.02 * np.vstack([np.eye(2), -np.eye(2)]):
        assert by_hand(nearby).real > solution.cost
    plan = solution.plan
    assert plan.acts == (0.0, *solution.tau)
    assert plan.gains.shape == (sum(COUNTS), 1, 2)


def test_kinematic_coordinates_move_by_formulas_and_stay_where_no_law_names_them() -> None:
    system = sm.systems.get("suspended_mass")
    problem = sm.switching(
        system,
        time=1.0,
        laws=[{"xr": "0.1*sin(4*(t + h))"}, {"r_next": "r - 0.2*h"}],
        counts=[20, 20],
        running="xm**2 + ym**2",
        start=system.satisfy_constraints(sm.systems.example("suspended_mass")),
    )
    tau, apart = np.array([0.45]), 1e-3
    run = problem.rollout(tau)
    assert run.x[20, 2] == pytest.approx(0.1 * np.sin(4 * 0.45))
    assert np.ptp(run.x[20:, 2]) == 0.0  # held
    assert run.x[-1, 3] == pytest.approx(run.x[20, 3] - 0.2 * 0.55)
    _, gradient, hessian = problem.derivatives(tau)
    shifted = [problem.derivatives(tau + k * apart) for k in (-2, -1, 1, 2)]
    weights = np.array([1, -8, 8, -1]) / (12 * apart)  # error apart⁴ J⁽⁵⁾/30
    assert gradient[0] == pytest.approx(sum(w * s.cost for w, s in zip(weights, shifted, strict=True)), rel=1e-7)
    assert hessian[0, 0] == pytest.approx(
        sum(w * s.gradient[0] for w, s in zip(weights, shifted, strict=True)), rel=1e-6
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": 0.0}, "time: must be positive"),
        ({"counts": (4, 5)}, "counts: expected one number of steps per law, 3"),
        ({"counts": (4, 5, 0)}, "counts: expected whole numbers"),
        ({"laws": [{"torque": "sin(t"}, {}, {}]}, r"laws\[0\], torque: "),
        ({"laws": [{"push": "1"}, {}, {}]}, "no input is called 'push'; there are torque"),
        ({"laws": [{"torque": "speed"}, {}, {}]}, "unknown name 'speed'"),
        ({"running": "torqe**2"}, "running: .*unknown name 'torqe'"),
        ({"terminal": "h"}, "terminal: .*unknown name 'h'"),
        ({"start": {"thet": 1.0}}, "no coordinate is called 'thet'"),
    ],
)
def test_mistakes_are_told_first(change: dict, message: str) -> None:
    given = {"time": T, "laws": LAWS, "counts": COUNTS, "running": RUNNING, "start": {"theta": 0.0}} | change
    with pytest.raises((sm.ModelError, sm.ShapeError), match=message):
        sm.switching(pendulum(), **given)


def test_times_out_of_order_are_refused(problem: Switching) -> None:
    with pytest.raises(sm.ModelError, match="follow each other between 0 and 2 s"):
        problem.derivatives([1.5, 1.0])
