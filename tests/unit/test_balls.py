"""Ball joints and free bodies: the step against laws solved elsewhere, what it keeps, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

import stepmap as sm
from tests import turning

ROTATIONS = ("exp", "cayley")


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """Angle of the turn from a quaternion to another [rad]."""
    return 2 * float(np.arcsin(min(1.0, min(np.linalg.norm(a - b), np.linalg.norm(a + b)) / 2))) * 2


def ratios(errors: list[float]) -> np.ndarray:
    return np.array(errors[:-1]) / np.array(errors[1:])


@pytest.mark.parametrize("rotation", ROTATIONS)
@pytest.mark.parametrize("pushed", [False, True], ids=["free", "forced"])
def test_free_body_is_of_second_order(rotation: str, pushed: bool) -> None:
    system, time = turning.free_body(turning.GRAVITY * pushed), 1.0
    force = np.concatenate([turning.PUSH, turning.TWIST]) * pushed
    truth = turning.free_body_truth(time, turning.GRAVITY * pushed, force[:3], force[3:])
    errors = []
    for n in (40, 80, 160):
        step = sm.discretize(system, time / n, rotation=rotation)
        pose, velocity = {"body": (0, 0, 0, *turning.START)}, {"body": (0, 0, 0, *turning.OMEGA)}
        end = step.rollout(step.from_velocity(pose, velocity, instant=True), np.tile(force, (n, 1))).x[-1]
        errors.append(apart(end[3:7], truth[3:]) + float(np.abs(end[:3] - truth[:3]).max()))
    np.testing.assert_allclose(ratios(errors), 4.0, atol=0.3)


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_top_is_of_second_order(rotation: str) -> None:
    time, omega = 1.0, np.array([0.2, 0.4, 15.0])
    start = np.array([np.cos(0.2), np.sin(0.2), 0, 0])
    truth, errors = turning.top_truth(time, start, omega), []
    for n in (160, 320, 640):
        step = sm.discretize(turning.top(), time / n, rotation=rotation)
        x = step.from_velocity({"top": start}, {"top": omega}, instant=True)
        errors.append(apart(step.rollout(x, np.zeros((n, 0))).x[-1][:4], truth))
    np.testing.assert_allclose(ratios(errors), 4.0, atol=0.3)


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_top_keeps_its_momenta(rotation: str) -> None:
    """About its axis and about the vertical, over 1e5 steps; quaternions stay unit ones."""
    step = sm.discretize(turning.top(), 0.01, rotation=rotation)
    x = step.from_velocity({"top": (np.cos(0.2), np.sin(0.2), 0, 0)}, {"top": (0.2, 0.4, 15.0)}, instant=True)
    path = step.rollout(x, np.zeros((100_000, 0))).x
    assert np.abs(np.linalg.norm(path[:, :4], axis=1) - 1).max() <= 1e-14
    w, i, j, k = path[:, :4].T
    down = np.stack([2 * (i * k - w * j), 2 * (j * k + w * i), 1 - 2 * (i * i + j * j)], axis=1)
    for momentum in (path[:, 6], np.sum(down * path[:, 4:], axis=1)):
        assert np.abs(momentum - momentum[0]).max() <= 1e-12


@pytest.mark.parametrize("forces", ["held", "left"])
@pytest.mark.parametrize("rotation", ROTATIONS)
def test_derivatives_are_those_of_differences(rotation: str, forces: str) -> None:
    step = sm.discretize(turning.arm(), 0.02, rotation=rotation, forces=forces)
    rng = np.random.default_rng(2)
    pose = {"shoulder": turning.START, "elbow": 0.7, "wrist": turning.START[[1, 0, 3, 2]]}
    x = step.from_velocity(pose, {"shoulder": (1, 2, -1), "elbow": 2.0, "wrist": (-3, 1, 4)}, instant=True)
    u = 0.3 * rng.normal(size=step.nu)
    spacing = np.concatenate([np.full(step.nd, 1e-3), np.full(step.nd, 1e-5), np.full(step.nu, 1e-3)])
    errors = sm.check_derivatives(step, x, u, rng.normal(size=step.ndx), spacing)
    assert max(errors.A, errors.B) < 1e-9
    assert errors.worst < 1e-7


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_symplectic_form_is_kept(rotation: str) -> None:
    """Aᵀ W(x⁺) A = W(x) without forces: W = [[−p̂, I], [−I, 0]] with p̂ on blocks of balls."""
    step = sm.discretize(turning.arm(), 0.02, rotation=rotation)
    pose = {"shoulder": turning.START, "elbow": 0.7, "wrist": turning.START[[1, 0, 3, 2]]}
    x = step.from_velocity(pose, {"shoulder": (1, 2, -1), "elbow": 2.0, "wrist": (-3, 1, 4)}, instant=True)
    at = step.linearize(x, np.zeros(step.nu))

    def form(state: np.ndarray) -> np.ndarray:
        n, p = step.nd, state[step.layout["p"]]
        out = np.zeros((2 * n, 2 * n))
        out[:n, n:], out[n:, :n] = np.eye(n), -np.eye(n)
        for _, i in step.system.tangent.balls:
            out[i : i + 3, i : i + 3] = np.cross(p[i : i + 3], np.eye(3))
        return out

    np.testing.assert_allclose(at.A.T @ form(at.x) @ at.A, form(x), atol=1e-11)


def test_layout_s_maps_are_inverse() -> None:
    layout = sm.discretize(turning.arm(), 0.02).layout
    rng = np.random.default_rng(5)
    a, b = (layout.normalize(rng.normal(size=(20, layout.nx))) for _ in range(2))
    back = layout.retract(a, layout.difference(a, b))
    np.testing.assert_allclose(layout.difference(back, b), 0.0, atol=1e-13)
    np.testing.assert_allclose(layout.retract(a, np.zeros(layout.ndx)), a, atol=1e-15)
    assert (layout.nx, layout.ndx) == (16, 14)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ((0, 0, 0, 0), "norm 0"),
        ((1.0, 0.1, 0, 0), "norm 1.00499"),
        ((1.0, 0, 0), "expected a quaternion"),
        ("1", "expected a quaternion"),
        (0.5, "expected a quaternion"),
    ],
)
def test_quaternions_off_the_unit_are_refused(value: object, told: str) -> None:
    with pytest.raises(sm.ModelError, match=told):
        turning.top().configuration({"top": value})


def test_quaternions_near_the_unit_are_normalised() -> None:
    q = turning.top().configuration({"top": (0.6, 0, 0.8004, 0)})
    np.testing.assert_allclose(np.linalg.norm(q), 1.0, rtol=1e-15)


def chained() -> sm.System:
    """A free body on a wire from a moved anchor, with a sliding mass, a ball, a hinge, springs and a marker."""
    b = sm.Builder("chained")
    length, anchor = (
        b.coordinate(name, unit="m", kinematic=True, start=s) for name, s in (("L", 1.0), ("anchor", 0.0))
    )
    u = [b.input(f"u{i}") for i in range(6)]
    body = b.world.free("body")
    b.mass(body, 2.0, inertia=(0.05, 0.06, 0.07))
    slide, knee = b.coordinate("slide", unit="m"), b.coordinate("knee", unit="rad")
    car = body.tx(0.1).tx(slide, name="car")
    b.mass(car, 0.3)
    hip = car.tz(-0.2).ball("hip")
    b.mass(hip.tz(-0.2), 0.7, inertia=(0.01, 0.02, 0.01))
    shin = hip.tz(-0.4).rx(knee, name="shin")
    b.mass(shin.tz(-0.2, name="foot"), 0.4, inertia=(0.01, 0.01, 0.002))
    b.damping(hip, 0.05)
    b.drive(hip, u[:3])
    b.wrench(body, force=u[3:])
    hook, high = body.translate(0.05, 0.1, 0.2, name="hook"), b.world.tx(anchor).tz(1.5, name="high")
    b.distance(hook, high, length)
    b.spring(b.frame("foot"), b.world, stiffness=5.0, length=0.3)
    b.coordinate_spring(slide, stiffness=20.0)
    b.gravity((0, 0, -9.81))
    for name in ("foot", "hook", "car"):
        b.marker(b.frame(name))
    return b.build()


def chained_point(step: sm.VariationalStep) -> tuple[np.ndarray, np.ndarray]:
    """A state in motion, and an input that moves anchor and wire."""
    given = {"body": (0, 0, 0.2, *turning.START), "hip": turning.START[[3, 1, 0, 2]], "knee": 0.3, "anchor": 0.2}
    q = step.system.satisfy_constraints(given, ["anchor", "L"])
    rng = np.random.default_rng(4)
    x = step.from_velocity(q, rng.normal(size=step.system.tangent.nv), instant=True)
    u = np.concatenate([rng.normal(size=6), [1.004, 0.205]])
    return step.rollout(x, np.tile(u, (5, 1))).x[-1], u


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_compiled_kernel_is_its_equations(rotation: str) -> None:
    """Balls with a wire, kinematic coordinates, springs, damping: values, A, B and curvature, to rounding."""
    step = sm.discretize(chained(), 0.01, rotation=rotation)
    (x, u), other, par = chained_point(step), step.evaluated(), step.parameter_values
    z = np.random.default_rng(0).normal(size=step.ndx)
    ours = (*step.step(x, u)[:2], *step.linearize(x, u), *step.curvature(x, u, z))
    at = par, step.dt, x, u
    theirs = (*other.step(*at)[1:], *other.linearize(*at)[1:], *other.curvature(*at, z)[1:])
    for a, b in zip(ours, theirs, strict=True):
        assert np.abs(a - b).max() <= 1e-12 * max(1.0, np.abs(b).max())
    assert np.abs(step.system.gaps(step.layout.pose(ours[0]))).max() <= 1e-14


def test_readings_and_slopes_are_those_of_the_tangent_space() -> None:
    system = chained()
    step = sm.discretize(system, 0.01)
    q = step.layout.pose(chained_point(step)[0])
    h, moves = 1e-6, np.eye(system.tangent.nv)
    for value, slope in ((system.readings, system.readings_slope), (system.residuals, system.residuals_slope)):
        ends = [value(system.tangent.retract(q, side * h * moves)) for side in (1, -1)]
        np.testing.assert_allclose(slope(q).T, (ends[0] - ends[1]) / (2 * h), atol=1e-8)


def test_marionette_on_balls_has_exact_derivatives() -> None:
    """Along random directions: 80 tangent dimensions, six wires, 18 kinematic coordinates."""
    system = sm.systems.get("marionette_balls")
    step = sm.discretize(system, 0.01)
    x = step.rest(system.satisfy_constraints(sm.systems.example("marionette_balls")))
    rho = x[step.layout["rho"]] + 0.03 * np.sin(np.arange(step.nk))
    x = step.rollout(x, np.linspace(x[step.layout["rho"]], rho, 20)).x[-1]
    rng = np.random.default_rng(3)
    z, at = rng.normal(size=step.ndx), step.linearize(x, rho)
    bend = step.curvature(x, rho, z)
    for _ in range(3):
        d, v = rng.normal(size=step.ndx) * np.repeat([1.0, 0.1], step.ndx // 2), 0.1 * rng.normal(size=step.nu)
        h = 1e-3

        def moved(k: int, d: np.ndarray = d, v: np.ndarray = v, h: float = h) -> np.ndarray:
            there = step.step(step.layout.retract(x, k * h * d), rho + k * h * v).x
            return step.layout.difference(at.x, there)

        first = sum(w * (moved(k) - moved(-k)) for k, w in ((1, 45 / 60), (2, -9 / 60), (3, 1 / 60))) / h
        np.testing.assert_allclose(at.A @ d + at.B @ v, first, atol=1e-9 * np.abs(first).max())
        second = sum(w * (moved(k) + moved(-k)) for k, w in ((1, 1.5), (2, -0.15), (3, 1 / 90))) / h**2
        exact = d @ bend.xx @ d + 2 * d @ bend.xu @ v + v @ bend.uu @ v
        # Rounding of momenta, 1e-14 of some 10 kg m²/s, over h².
        assert abs(exact - z @ second) <= 1e-7 * max(1.0, np.abs(bend.xx).max()) * float(d @ d)


def test_ball_pendulum_is_brought_to_its_goal() -> None:
    """The projection operator on a group: Newton's method ends quadratically, gains have tangent dimensions."""
    b = sm.Builder("ball_pendulum")
    pivot = b.world.ball("pivot")
    b.mass(pivot.tz(-0.5, name="bob"), 1.0, inertia=(0.02, 0.02, 0.02))
    b.gravity((0, 0, -9.81))
    b.drive(pivot, [b.input(f"u{a}", unit="N m") for a in "xyz"])
    step, n = sm.discretize(b.build(), 0.05), 30
    start, goal = step.rest({"pivot": (1, 0, 0, 0)}), step.rest({"pivot": (0.6, 0.48, -0.64, 0)})
    cost = sm.TrackingCost(np.eye(6), 0.05 * np.eye(3), 50 * np.eye(6), np.tile(goal, (n + 1, 1)), np.zeros((n, 3)))
    found = sm.optimize(sm.Problem(step, cost, start)).require()
    slopes = [-entry.slope for entry in found.history]
    assert found.gains.shape == (n, 3, 6)
    assert np.abs(step.layout.difference(goal, found.trajectory.x[-1])).max() < 0.1
    np.testing.assert_allclose(np.linalg.norm(found.trajectory.x[:, :4], axis=1), 1.0, atol=1e-14)
    # |Dg| is quadratic in the distance from the optimum, whose square a Newton step leaves: the fourth power of it.
    assert slopes[-1] < 1e-3 * slopes[-2] < 1e-5 * slopes[-3] or slopes[-1] < 1e-12


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_filter_on_a_ball_is_consistent(rotation: str) -> None:
    """NEES of 200 runs is within its 95 % band in 95 % of the steps, over eight seeds."""
    found = np.array([watched(seed, rotation) for seed in range(8)])
    # Errors of a run are correlated over steps: parts of one seed scatter by 0.05, the mean of eight by 0.02.
    assert found[:, 0].mean() == pytest.approx(0.95, abs=0.05)
    assert found[:, 0].min() > 0.75
    assert found[:, 1].mean() == pytest.approx(6.0, rel=0.02)  # dimensions


def watched(seed: int, rotation: str) -> tuple[float, float]:
    """A ball pendulum seen by two markers: the part of steps at which the sum of 200 runs, χ² with 200 · 6 degrees, is
    within its 95 % band, and the mean per run."""
    runs, steps, rng = 200, 40, np.random.default_rng(seed)
    b = sm.Builder("watched")
    pivot = b.world.ball("pivot")
    b.mass(pivot.tz(-0.4, name="bob"), 0.6, inertia=(0.02, 0.02, 0.02))
    b.gravity((0, 0, -9.81))
    b.marker(b.frame("bob"))
    b.marker(pivot.tx(0.2, name="flag"))
    step = sm.discretize(b.build(), 1 / 30, rotation=rotation)
    start, process = np.repeat([0.05, 0.01], 3), np.repeat([1e-3, 1e-3], 3)
    first = step.from_velocity({"pivot": (0.8, 0.6, 0, 0)}, {"pivot": (0.5, 1.0, 2.0)}, instant=True)
    ekf = sm.ExtendedKalmanFilter(step, np.diag(process**2), 0.003**2 * np.eye(6))
    belief = ekf.start(np.tile(first, (runs, 1)), np.diag(start**2))
    x = step.layout.retract(belief.x, start * rng.normal(size=(runs, 6)))
    low, high = chi2.ppf([0.025, 0.975], 6 * runs)
    inside, mean = 0, 0.0
    for _ in range(steps):
        x = step.layout.retract(step.step_many(x, np.zeros((runs, 0))).x, process * rng.normal(size=(runs, 6)))
        belief = ekf.predict(belief, np.zeros(0))
        z = step.system.readings(step.layout.pose(x)) + 0.003 * rng.normal(size=(runs, 6))
        belief, _ = ekf.update(belief, z)
        off = step.layout.difference(belief.x, x)
        total = np.einsum("ki,kij,kj->", off, np.linalg.inv(belief.P), off)
        inside += low <= total <= high
        mean += total / (runs * steps)
    return inside / steps, mean


@pytest.mark.parametrize("pushed", [False, True], ids=["free", "forced"])
@pytest.mark.parametrize("rotation", ROTATIONS)
def test_arm_is_of_second_order(rotation: str, pushed: bool) -> None:
    """Ball, hinge, ball against pinocchio."""
    time, rates = 0.5, np.array([0.5, 0.8, -0.4, 1.0, -0.6, 0.3, 0.9])
    u = np.array([0.3, -0.2, 0.1, 0.4, 0.02, -0.03, 0.01]) * pushed
    poses = turning.START, 0.7, turning.START[[1, 0, 3, 2]]
    truth, errors = turning.arm_truth(time, poses, rates, u), []
    for n in (200, 400, 800):
        step = sm.discretize(turning.arm(), time / n, rotation=rotation)
        q = np.concatenate([poses[0], [poses[1]], poses[2]])
        end = step.rollout(step.from_velocity(q, rates, instant=True), np.tile(u, (n, 1))).x[-1][:9]
        errors.append(float(np.linalg.norm(step.system.tangent.difference(truth, end))))
    np.testing.assert_allclose(ratios(errors), 4.0, atol=0.3)
