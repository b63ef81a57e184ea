"""Optimal trajectories against an independent library's (data/reference/README.md) and against IPOPT's.

A Newton direction ζ at a trajectory close to the optimum reaches it, its slope is Dg = −ζᵀHζ, and H is the cost's
Hessian up to the curvature of the dynamics. So a result that stopped at Dg is off by |ζ_i| ≤ √(|Dg|/H_ii) in an entry
with weight H_ii, and by |Dg|/2 in the cost. The tolerances below come from this.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import stepmap as sm
from tests import nlp, problems

REFERENCES = ["pend_swingup", "planar_full"]
TOLERANCE = 1e-12  # of optimize on |Dg|


@functools.cache
def ours(name: str) -> sm.Solution:
    return sm.optimize(problems.reference(name)).require()


@functools.cache
def ipopt(name: str) -> nlp.Optimum:
    return nlp.solve(problems.reference(name))


def reach(slope: float, weight: np.ndarray) -> np.ndarray:
    """How far each entry of a result may be from the optimum, from the slope it stopped at."""
    return np.sqrt(abs(slope) / np.diagonal(weight))


def distance(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Largest distance of each entry over time."""
    return np.abs(ours - np.asarray(theirs)).max(axis=0)


@pytest.mark.parametrize(("name", "cost"), [("pend_swingup", 13297.3788946), ("planar_full", 3.14509285)])
def test_cost_is_the_reference_s(name: str, cost: float) -> None:
    assert ours(name).cost == pytest.approx(cost, rel=1e-9)  # all digits of the figure
    assert ours(name).cost == pytest.approx(problems.reference_data(name)["final_cost"], rel=1e-10)


def test_swing_up_is_the_reference_s() -> None:
    """It stopped at |Dg| = 1e-11, which is 1e-7 rad in theta; its p has a weight of 1: 3e-6."""
    data, best = problems.reference_data("pend_swingup"), ours("pend_swingup").trajectory
    assert (distance(best.x, data["X"]) <= reach(data["final_dcost"], np.array(data["Q"]))).all()
    assert (distance(best.u, data["U"]) <= reach(data["final_dcost"], np.array(data["R"]))).all()


def test_planar_mass_is_the_reference_s() -> None:
    """It stopped at |Dg| = 3e-10: 4e-6 in q with its weight of 20, 1.7e-5 in v with its weight of 1.

    rho and p have weights of 0.1, so this bounds them by 5.5e-5 only; but rho has also its rate v weighted, and p is
    a tenth of a velocity, so that all but v are found well within 1e-5.
    """
    data, best = problems.reference_data("planar_full"), ours("planar_full").trajectory
    off_x, off_u = distance(best.x, data["X"]), distance(best.u, data["U"])
    assert (off_x <= reach(data["final_dcost"], np.array(data["Q"]))).all()
    assert (off_u <= reach(data["final_dcost"], np.array(data["R"]))).all()
    assert off_x[:6].max() <= 1e-5
    assert off_u.max() <= 1e-5


def test_where_the_reference_is_off_its_cost_is_higher() -> None:
    """By |Dg|/2, so it is the reference that is off by 1e-5 in v; the digits of the cost leave 1e-14 of it."""
    data = problems.reference_data("planar_full")
    assert data["final_cost"] - ours("planar_full").cost == pytest.approx(-data["final_dcost"] / 2, rel=1e-3)


@pytest.mark.parametrize("name", REFERENCES)
def test_trajectory_is_ipopt_s(name: str) -> None:
    """IPOPT stops at a gradient of 1e-10, far below; what is left is our |Dg| ≤ 1e-12: 1e-6 at a weight of 1."""
    best, other, cost = ours(name).trajectory, ipopt(name).trajectory, problems.reference(name).cost
    assert ours(name).cost == pytest.approx(ipopt(name).cost, rel=1e-12)
    assert (distance(best.x, other.x) <= reach(TOLERANCE, cost.Q)).all()
    assert (distance(best.u, other.u) <= reach(TOLERANCE, cost.R)).all()


def test_reference_gains_are_ours() -> None:
    """Along the reference's own trajectory to rounding, along ours to what the trajectories differ by."""
    data, problem = problems.reference_data("planar_full"), problems.reference("planar_full")
    cost, theirs = problem.cost, sm.Trajectory(data["t"], data["X"], data["U"])
    np.testing.assert_allclose(sm.lqr(problem.step, theirs, cost.Q, cost.R, cost.Qf), data["K"], rtol=0, atol=1e-12)
    K = sm.lqr(problem.step, ours("planar_full").trajectory, cost.Q, cost.R, cost.Qf)
    np.testing.assert_allclose(K, data["K"], rtol=0, atol=1e-5)  # K is of order 1, its slope along x too
    np.testing.assert_array_equal(ours("planar_full").gains, K)


# the same problem posed to IPOPT ---------------------------------------------------------------------------------


def iterations(solution: sm.Solution) -> int:
    """Steps taken; the last entry of the history is the look that found none to be taken."""
    return sum(iteration.length > 0 for iteration in solution.history)


@pytest.mark.parametrize("tight", [True, False])
def test_figure_eight_is_ipopt_s(tight: bool) -> None:
    """From hovering at rest to |Dg| ≤ 1e-12 in at most 7 iterations, the last ones quadratic."""
    problem = problems.figure_eight(tight=tight)
    solution = sm.optimize(problem, tolerance=TOLERANCE).require()
    other = nlp.solve(problem)
    assert solution.cost == pytest.approx(other.cost, rel=1e-12)
    np.testing.assert_allclose(solution.trajectory.x, other.trajectory.x, rtol=0, atol=1e-6)  # √1e-12 at a weight of 1
    assert iterations(solution) <= 7
    assert abs(solution.history[-1].slope) <= TOLERANCE
    slopes = np.abs([i.slope for i in solution.history])[-4:]
    assert [i.method for i in solution.history[-4:]] == ["newton"] * 4
    # Newton's error squares, the slope is quadratic in it: log|Dg| doubles. Digits won grow by a factor of 2 at the
    # limit; 1.5 leaves room for the first of them.
    won = np.log10(slopes[:-1] / slopes[1:])
    assert (won[1:] > 1.5 * won[:-1]).all(), slopes


@pytest.mark.parametrize(
    ("pose", "bound"),
    [
        (problems.cart_swing_up, 60),  # 53 to 57 as rounding falls: the way there is long, and steps are chosen by cost
        (problems.double_pendulum_up, 80),
    ],
)
def test_swing_ups_are_ipopt_s(pose: Callable[[], sm.Problem], bound: int) -> None:
    """From hanging still both find the same of many local optima."""
    problem = pose()
    solution, other = sm.optimize(problem).require(), nlp.solve(problem)
    assert solution.cost == pytest.approx(other.cost, rel=1e-12)
    np.testing.assert_allclose(solution.trajectory.x, other.trajectory.x, rtol=0, atol=1e-5)
    assert iterations(solution) <= bound


@pytest.mark.parametrize("name", ["at once", "at the end", "and down again"])
def test_harder_swing_ups_end_at_an_optimum(name: str) -> None:
    """68 to 80 iterations, as weights and rounding have it; IPOPT, set on the result, stays there."""
    problem = problems.cart_swing_ups()[name]
    solution = sm.optimize(problem).require()
    other = nlp.solve(problem, solution.trajectory)
    assert other.iterations <= 5
    assert solution.cost == pytest.approx(other.cost, rel=1e-12)
    np.testing.assert_allclose(solution.trajectory.x, other.trajectory.x, rtol=0, atol=1e-5)
    assert iterations(solution) <= 100


def test_soft_limits_are_ipopt_s() -> None:
    """A swing-up of a pendulum whose torque and momentum are limited, from the one without limits; both are hit."""
    posed, free = problems.reference("pend_swingup"), ours("pend_swingup")
    limits = [sm.SoftLimit(0, -6.0, 6.0, weight=1e3, of_input=True), sm.SoftLimit(1, -4.0, 4.0, weight=1e3)]
    cost = sm.TrackingCost(posed.cost.Q, posed.cost.R, posed.cost.Qf, posed.cost.x_ref, posed.cost.u_ref, limits)
    limited = sm.Problem(posed.step, cost, posed.start, free.trajectory)
    solution = sm.optimize(limited).require()
    other = nlp.solve(limited)
    assert solution.cost == pytest.approx(other.cost, rel=1e-12)
    np.testing.assert_allclose(solution.trajectory.x, other.trajectory.x, rtol=0, atol=1e-5)
    assert free.cost < solution.cost < cost.value(free.trajectory)
    for limit in limits:
        before, after = (
            np.abs(limit.excess((t.u if limit.of_input else t.x)[:, limit.index])).max()
            for t in (free.trajectory, solution.trajectory)
        )
        assert 0 < after < before
