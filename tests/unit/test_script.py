"""Scripts: motion and begins of acts found together, beside IPOPT and differences."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal.switching_times import Script
from tests.nlp import step_equations

N, AT, GIVE, BLEND = 90, (0.8, 1.9), 0.15, 0.4
ACTS = ({}, {"xr": "0.15*sin(3*t)"}, {"xr": 0.1, "r": "1 - 0.05*t"})
SIXTH = ((45, 1), (-9, 2), (1, 3))  # weights of sixth-order differences
Q, R = np.diag([100.0, 100.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 10 * np.eye(2)


@pytest.fixture(scope="module")
def step() -> sm.VariationalStep:
    return sm.discretize(sm.systems.get("suspended_mass"), 1 / 30)


@pytest.fixture(scope="module")
def play(step: sm.VariationalStep) -> Script:
    start, _ = step.equilibrium({})
    return sm.script(step, ACTS, steps=N, at=AT, give=GIVE, blend=BLEND, Q=Q, R=R, Qf=10 * Q, start=start)


def test_the_reference_is_the_acts_one_after_the_other(play: Script, step: sm.VariationalStep) -> None:
    """Written out in numpy: local times, blends, momenta by the discrete Legendre transform."""
    tau = np.array([0.7, 2.0])
    x, u = play.acts.reference(tau)
    pose = np.tile(step.layout.pose(play.start), (N + 1, 1))
    t = step.dt * np.arange(N + 1)
    second, third = pose.copy(), pose.copy()
    second[:, 2] = 0.15 * np.sin(3 * (t - tau[0]))
    third[:, 2], third[:, 3] = 0.1, 1 - 0.05 * (t - tau[1])
    for act, begin in ((second, tau[0]), (third, tau[1])):
        s = np.clip((t - begin) / BLEND, 0, 1)[:, None]
        pose = pose + s**5 * (126 - 420 * s + 540 * s**2 - 315 * s**3 + 70 * s**4) * (act - pose)
    speed = np.diff(pose, axis=0, prepend=pose[:1]) / step.dt
    assert np.abs(x - step.layout.state(pose, speed)).max() < 1e-12
    assert np.abs(u - pose[1:, 2:]).max() < 1e-14


def test_derivatives_of_the_least_cost(play: Script) -> None:
    tau, apart = np.array([0.85, 1.8]), 1e-3
    J, gradient, hessian = play.derivatives(tau)
    found = play.solve(tau, max_iterations=0).trajectory

    def along(e: np.ndarray) -> tuple[float, np.ndarray]:
        parts = [(w, play.derivatives(tau + k * e, found)) for w, k in ((1, -2), (-8, -1), (8, 1), (-1, 2))]
        scale = 12 * np.abs(e).max()  # fourth-order differences
        return sum(w * p.cost for w, p in parts) / scale, sum(w * p.gradient for w, p in parts) / scale

    slopes, bends = zip(*(along(e) for e in apart * np.eye(2)), strict=True)
    assert J > 0
    assert np.abs(gradient - slopes).max() <= 1e-8 * np.abs(gradient).max()
    # Polynomials of degree 9 over 0.4 s have steep fifth derivatives: the differences' own error.
    assert np.abs(hessian - bends).max() <= 1e-4 * np.abs(hessian).max()


def test_motion_and_times_are_those_of_ipopt(play: Script, step: sm.VariationalStep) -> None:
    solution = play.solve().require()
    assert solution.iterations <= 10
    x, u, lam = ca.MX.sym("x", step.nx, N), ca.MX.sym("u", step.nu, N), ca.MX.sym("lam", step.nc, N)
    tau = ca.MX.sym("tau", 2)
    before = ca.horzcat(ca.DM(play.start), x[:, :-1])
    times = ca.DM(play.acts.t).T
    earlier = ca.horzcat(times[0], times[:N])
    same = ca.repmat(tau, 1, N + 1)
    x_ref = play.acts._x._value.map(N + 1)(times, earlier, same, ca.repmat(ca.DM(step.parameter_values), 1, N + 1))
    u_ref = play.acts._u._value.map(N)(times[1:], same[:, :-1], ca.repmat(ca.DM(step.parameter_values), 1, N))
    dx, du = ca.horzcat(ca.DM(play.start), x) - x_ref, u - u_ref
    cost = ca.sum1(ca.sum2(ca.DM(np.diag(Q)) * dx[:, :-1] ** 2)) + 10 * ca.sumsqr(du)
    cost = (cost + 10 * ca.sum1(ca.DM(np.diag(Q)) * dx[:, -1] ** 2) + ca.sumsqr((tau - ca.DM(AT)) / GIVE)) / 2
    program = {
        "x": ca.veccat(x, u, lam, tau),
        "f": cost,
        "g": ca.vec(step_equations(step).map(N)(before, u, x, lam)),
    }
    options = {"print_time": False, "ipopt": {"print_level": 0, "tol": 1e-10, "sb": "yes"}}
    forces = np.zeros(step.nc * N)
    guess = np.concatenate([solution.trajectory.x[1:].ravel(), solution.trajectory.u.ravel(), forces, AT])
    found = ca.nlpsol("play", "ipopt", program, options)(x0=guess, lbg=0, ubg=0)
    assert float(found["f"]) == pytest.approx(solution.cost, rel=1e-9)
    assert np.asarray(found["x"])[-2:, 0] == pytest.approx(solution.tau, abs=1e-5)


def test_a_plan_has_its_acts_and_holds_its_end(play: Script, step: sm.VariationalStep) -> None:
    solution = play.solve()
    plan = solution.plan
    assert plan.acts == (0.0, *solution.tau)
    assert plan.fading == ""
    again = step.rollout(play.start, plan.trajectory.u)
    assert np.abs(again.x - plan.trajectory.x).max() < 1e-9
    changed = sm.script(
        step, ACTS, steps=N, at=(0.9, 1.8), give=GIVE, blend=BLEND, Q=Q, R=R, Qf=10 * Q, start=play.start
    )
    assert changed.solve(guess=solution.trajectory).require().iterations <= solution.iterations


def test_samples_are_as_good_as_formulas(play: Script, step: sm.VariationalStep) -> None:
    """The wave, sampled 60 times per second: the same optimum, to what splines of such samples miss."""
    t = np.arange(0, 181) / 60
    wave = sm.SampledAct(["xr"], t, 0.15 * np.sin(3 * t)[:, None])
    sampled = sm.script(
        step, (ACTS[0], wave, ACTS[2]), steps=N, at=AT, give=GIVE, blend=BLEND, Q=Q, R=R, Qf=10 * Q, start=play.start
    )
    tau = np.array([0.77, 1.95])
    exact, near = play.derivatives(tau), sampled.derivatives(tau)
    assert near.cost == pytest.approx(exact.cost, rel=1e-5)
    # h²/8 of the fourth derivative is missing in the second one of a cubic spline: 5e-4 of it at 60 samples per second.
    assert np.abs(near.gradient - exact.gradient).max() <= 1e-4 * np.abs(exact.gradient).max()
    assert np.abs(near.hessian - exact.hessian).max() <= 1e-3 * np.abs(exact.hessian).max()
    found = sampled.solve().require()
    assert found.iterations <= 10
    np.testing.assert_allclose(found.tau, play.solve().tau, atol=1e-4)


def test_samples_are_differentiated_as_they_are_joined(step: sm.VariationalStep) -> None:
    """Derivatives of the reference in the begins, beside differences: in blends, between them, where it is held."""
    t = np.array([0.0, 0.4, 0.5, 0.9, 1.4])
    rough = sm.SampledAct(["r", "xm"], t, np.column_stack([0.9 + 0.1 * t**2, 0.2 * np.cos(4 * t)]))
    start = step.rest({})
    play = sm.script(
        step, (rough, {}, rough), steps=N, at=(0.3, 1.13), give=GIVE, blend=BLEND, Q=Q, R=R, Qf=Q, start=start
    )
    rng, tau, apart = np.random.default_rng(1), np.array([0.3047, 1.1331]), 1e-4
    wx, wu = rng.standard_normal((N + 1, step.nx)), rng.standard_normal((N, step.nu))

    def told(at: np.ndarray) -> float:
        x, u = play.acts.reference(at)
        return float(np.sum(wx * x) + np.sum(wu * u))

    slope_x, slope_u = play.acts.slopes(tau)
    gradient = np.einsum("ki,kia->a", wx, slope_x) + np.einsum("ki,kia->a", wu, slope_u)
    hessian = play.acts.bend(tau, wx, wu)
    steps = apart * np.eye(2)
    first = [(told(tau + e) - told(tau - e)) / (2 * apart) for e in steps]
    np.testing.assert_allclose(gradient, first, rtol=1e-5)
    second = [(told(tau + e) - 2 * told(tau) + told(tau - e)) / apart**2 for e in steps]
    np.testing.assert_allclose(np.diagonal(hessian), second, rtol=1e-2)
    assert np.isfinite(hessian).all()
    held = rough.at(np.array([4.0]))[0]
    np.testing.assert_allclose(held, [4.0, *rough.values[-1], 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("t", "values", "message"),
    [
        ([0.0, 1.0], [[0.0]], "one row per time"),
        ([0.0, 0.0], [[0.0], [1.0]], "must increase from 0 on"),
        ([0.5, 1.0], [[0.0], [1.0]], "must increase from 0 on, got 0.5 first"),
        ([0.0, 1.0], [[0.0], [np.nan]], "finite"),
    ],
)
def test_samples_that_are_none(t: list[float], values: list[list[float]], message: str) -> None:
    with pytest.raises((sm.ModelError, sm.ShapeError), match=message):
        sm.SampledAct(["xr"], t, values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at": (0.8, 1.0)}, "act 2 begins at 1 s, while the change to act 1 at 0.8 s still lasts"),
        ({"at": (0.8, 3.2)}, "act 2 begins at 3.2 s, outside the script of 3 s"),
        ({"at": (0.8, 2.9)}, "the script ends at 3 s, while the change to act 2"),
        ({"at": (0.8,)}, "at: expected 2 numbers"),
        ({"give": 0.0}, "must be positive"),
        ({"steps": 0}, "steps: expected a whole number"),
        ({"at": (1.9, 0.8)}, "act 2 begins at 0.8 s, before act 1 at 1.9 s"),
        ({"acts": [{}, {"xr": "sqrt(-t)"}, {}]}, "acts: xr is nan at t = 0.8333 s"),
        ({"acts": [{}, {"xq": "1"}, {}]}, r"acts\[1\]: no coordinate is called 'xq'"),
        ({"acts": [{}, {"xr": "sin("}, {}]}, r"acts\[1\], xr: "),
        ({"acts": [{}, sm.SampledAct(["xq"], [0.0], [[1.0]]), {}]}, r"acts\[1\]: no coordinate is called 'xq'"),
    ],
)
def test_mistakes_are_told_first(step: sm.VariationalStep, change: dict, message: str) -> None:
    given = {"acts": ACTS, "steps": N, "at": AT, "give": GIVE, "blend": BLEND, "Q": Q, "R": R, "Qf": Q} | change
    with pytest.raises((sm.ModelError, sm.ShapeError), match=message):
        sm.script(step, start=step.rest({}), **given)


def test_a_play_of_one_act_has_no_times(step: sm.VariationalStep) -> None:
    start, _ = step.equilibrium({})
    play = sm.script(step, [{"xr": "0.1*sin(t)"}], steps=30, at=[], Q=Q, R=R, Qf=Q, start=start)
    solution = play.solve().require()
    assert solution.tau.shape == (0,)
    assert solution.plan.acts == (0.0,)
    problem = sm.Problem(step, sm.TrackingCost(Q, R, Q, *play.acts.reference(solution.tau)), start=start)
    assert solution.cost == pytest.approx(sm.optimize(problem).require().cost, rel=1e-12)


SYSTEMS = {
    # system: dt, steps, acts, begins, forces
    "cart_pendulum": (0.02, 120, ({}, {"x": "0.3*(1 - cos(2*t))"}, {"theta": "0.2*sin(4*t)"}), (0.5, 1.2), "held"),
    "double_pendulum": (0.02, 100, ({"theta1": "0.5*t"}, {"theta2": "0.5*sin(3*t)"}), (0.6,), "left"),
    "puppet_arm": (0.02, 60, ({}, {"elbow": "0.3*sin(3*t) - 1.09", "y": "0.05*t"}), (0.4,), "held"),
    "suspended_mass_string": (0.02, 50, ({}, {"xr": "0.1*sin(3*t)"}), (0.35,), "held"),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_derivatives_are_differences_for_other_systems(name: str) -> None:
    """Forces, wires and strings; acts that name some coordinates, of which robots are sometimes none."""
    dt, steps, acts, at, forces = SYSTEMS[name]
    step = sm.discretize(sm.systems.get(name), dt, forces=forces)
    start = step.rest({}) if not step.system.kinematic else step.equilibrium({})[0]
    weights = np.diag(np.r_[np.full(step.nd, 50.0), np.full(step.ndx - step.nd, 0.5)])
    given = {"Q": weights, "R": 0.1 * np.eye(step.nu), "Qf": weights, "start": start}
    play = sm.script(step, acts, steps=steps, at=at, blend=0.4, **given)
    tau, apart = np.array(at) + 0.03, 1e-3
    _, gradient, hessian = play.derivatives(tau)
    found = play.solve(tau, max_iterations=0).trajectory
    rows = []
    for e in apart * np.eye(len(tau)):
        parts = [(w, play.derivatives(tau + k * e, found), play.derivatives(tau - k * e, found)) for w, k in SIXTH]
        rows.append([sum(w * (a[i] - b[i]) for w, a, b in parts) / (60 * apart) for i in (0, 1)])
    slopes, bends = (np.array([row[i] for row in rows]) for i in (0, 1))
    assert np.abs(gradient - slopes).max() <= 1e-9 * np.abs(slopes).max()
    # Polynomials of degree 9 over 0.4 s, cut at their ends: the differences' own error.
    assert np.abs(hessian - bends).max() <= 1e-5 * np.abs(bends).max()
    solution = play.solve().require()
    assert solution.iterations <= 12
    assert np.abs(play.derivatives(solution.tau, solution.trajectory).gradient).max() <= 1e-4 * np.abs(gradient).max()
