"""The step with events on small systems: laws of gaps, forces and energy, purity, events, bad input."""

from __future__ import annotations

import contextlib
import math
import pickle
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.steps.check import difference

DT = 0.01


def ball(wire: bool = False) -> sm.System:
    """A mass in a plane on a string whose length is an input."""
    b = sm.Builder("ball")
    x, z = b.coordinate("x", unit="m"), b.coordinate("z", unit="m")
    length = b.coordinate("length", unit="m", kinematic=True, start=1.0)
    bob = b.world.tx(x).tz(z, name="bob")
    b.mass(bob, 0.5)
    b.gravity((0, 0, -9.81))
    (b.distance if wire else b.string)(b.world, bob, length, name="line")
    b.marker(bob, axes="xz")
    return b.build()


def slope(restitution: float, angle: float = 0.3) -> sm.System:
    """A mass that falls onto a slope."""
    b = sm.Builder("slope")
    x, z = b.coordinate("x", unit="m"), b.coordinate("z", unit="m")
    bob = b.world.tx(x).tz(z, name="bob")
    b.mass(bob, 0.5)
    b.gravity((0, 0, -9.81))
    b.contact(bob, b.world.ry(angle, name="plane"), restitution=restitution, name="slope")
    return b.build()


def arm(restitution: float = 0.6) -> sm.System:
    """Two links, the hand on a string to a hook that moves, beside a wall."""
    b = sm.Builder("arm")
    first, second = b.coordinate("first", unit="rad"), b.coordinate("second", unit="rad")
    hook_x = b.coordinate("hook_x", unit="m", kinematic=True)
    length = b.coordinate("length", unit="m", kinematic=True, start=0.45)
    elbow = b.world.ry(first).tz(-0.4)
    hand = elbow.ry(second).tz(-0.5, name="hand")
    b.mass(elbow, 0.3, inertia=(0.01, 0.02, 0.03))
    b.mass(hand, 0.2, inertia=(0.01, 0.01, 0.01))
    b.gravity((0, 0, -9.81))
    b.drive(second, b.input("torque", unit="N m"))
    b.damping(first, 0.05)
    b.string(b.world.tx(hook_x).tz(-0.5, name="hook"), hand, length, name="line")
    b.contact(hand, b.world.tx(-0.25).ry(math.pi / 2, name="wall"), restitution=restitution, name="wall")
    return b.build()


def arm_run(step: sm.StepMap, steps: int = 300) -> sm.Trajectory:
    """The arm swings against string and wall while its hook and length move."""
    t = DT * np.arange(1, steps + 1)
    U = np.column_stack([0.6 * np.sin(3 * t), 0.1 * np.sin(9 * t), 0.45 + 0.03 * np.sin(7 * t)])
    return step.rollout(arm_start(step), U)


def arm_start(step: sm.StepMap) -> np.ndarray:
    return step.from_velocity({"first": 0.1, "second": 0.2}, {"first": 2.0, "second": -5.0}, instant=True)


@pytest.fixture(scope="module")
def swung() -> tuple[sm.StepMap, sm.Trajectory]:
    step = sm.discretize(arm(), DT)
    return step, arm_run(step)


def test_a_string_that_stays_taut_is_the_wire_to_the_last_bit() -> None:
    string, wire = sm.discretize(ball(), DT), sm.discretize(ball(wire=True), DT)
    x0 = string.rest({"x": math.sin(0.6), "z": -math.cos(0.6)})
    U = 1.05 - 0.05 * np.cos(3 * DT * np.arange(1, 301))[:, None]
    ours, theirs = string.rollout(x0, U), wire.rollout(x0, U)
    assert ours.events == ()
    assert ours.modes == (("line",),) * 300
    assert np.array_equal(ours.x, theirs.x)
    assert np.array_equal(ours.multipliers, theirs.multipliers)


@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.8, 1.0])
def test_a_ball_on_a_slope_is_exact(restitution: float) -> None:
    """Parabolas between impacts at times by the quadratic formula; rounding grows with the number of impacts."""
    step = sm.discretize(slope(restitution), DT)
    trajectory = step.rollout(step.from_velocity({"z": 0.5}, {"x": 0.3}, instant=True), np.zeros((300, 0)))
    impacts = [e for e in trajectory.events if e.kind == "impact"]
    pull = 9.81 * math.cos(0.3)
    height, speed, time = 0.5 * math.cos(0.3), 0.3 * math.sin(0.3), 0.0
    for event in impacts[:-1] if restitution in (0.5, 0.8) else impacts:  # the last one of these closes the gap
        flight = (speed + math.sqrt(speed**2 + 2 * pull * height)) / pull
        down, time = pull * flight - speed, time + flight
        speed, height = restitution * down, 0.0
        assert event.time == pytest.approx(time, abs=1e-13 * (1 + len(impacts)))
        assert event.impulse == pytest.approx(0.5 * (1 + restitution) * down, abs=1e-11)
        assert event.energy == pytest.approx(0.25 * (1 - restitution**2) * down**2, abs=1e-11)
    assert impacts
    assert step.system.gaps(trajectory.x[:, :2]).max() <= 1e-12
    if restitution < 1:  # it slides: rest normal to the slope, gravity along it
        assert trajectory.modes[-1] == ("slope",)
        along = trajectory.x[-3:, :2] @ [math.cos(0.3), -math.sin(0.3)]
        assert (along[2] - 2 * along[1] + along[0]) / DT**2 == pytest.approx(9.81 * math.sin(0.3), rel=1e-9)
        assert trajectory.multipliers[-1] == pytest.approx(0.5 * pull, rel=1e-9)


def test_gaps_forces_and_energies(swung: tuple[sm.StepMap, sm.Trajectory]) -> None:
    step, trajectory = swung
    kinds = {(e.name, e.kind) for e in trajectory.events}
    assert kinds == {("line", "impact"), ("line", "release"), ("wall", "impact")}
    assert step.system.gaps(trajectory.x[:, :4]).max() <= 1e-12
    assert trajectory.multipliers is not None
    assert trajectory.multipliers.min() >= -1e-12
    assert min(e.impulse for e in trajectory.events) >= 0
    times = [e.time for e in trajectory.events if e.kind == "impact"]
    assert times == sorted(times)
    assert all(trajectory.t[e.step] <= e.time <= trajectory.t[e.step + 1] for e in trajectory.events if e.impulse)


def test_no_impact_gains_energy() -> None:
    """With held inputs; a hook that moves may strike harder than it is struck."""
    step = sm.discretize(arm(0.9), DT)
    impacts = []
    for speed in np.random.default_rng(1).uniform(-8, 8, (12, 2)):
        x0 = step.from_velocity({"first": 0.1, "second": 0.2}, {"first": speed[0], "second": speed[1]}, instant=True)
        found = step.rollout(x0, np.tile([0.0, 0.0, 0.45], (200, 1)))
        impacts += [e for e in found.events if e.kind == "impact"]
        assert step.system.gaps(found.x[:, :4]).max() <= 1e-12
    assert {e.name for e in impacts} == {"line", "wall"}
    assert len(impacts) > 30
    assert min(e.energy for e in impacts) >= -1e-12


def test_losses_close_the_balance_of_energy() -> None:
    """With held inputs and without damping: what is lost is lost at impacts."""
    step = sm.discretize(ball(), 0.002)
    x0 = step.from_velocity({"x": 0.3, "z": -0.2}, {"x": 1.0, "z": 2.5}, instant=True)
    trajectory = step.rollout(x0, np.ones((1000, 1)))
    energy = step.energy(trajectory.x)
    lost = sum(e.energy for e in trajectory.events)
    assert sum(e.kind == "impact" for e in trajectory.events) >= 1
    assert energy[0] - energy[-1] == pytest.approx(lost, abs=2e-4)
    assert lost > 1.0


def test_the_map_is_pure(swung: tuple[sm.StepMap, sm.Trajectory]) -> None:
    """Steps one by one, many rollouts, lengths as an array and a copy give the same bits."""
    step, trajectory = swung
    x = trajectory.x[0]
    for k in range(120):
        x, forces, _ = step.step(x, trajectory.u[k])
        assert np.array_equal(x, trajectory.x[k + 1])
        assert np.array_equal(forces, trajectory.multipliers[k])
    many = step.rollout_many(trajectory.x[[0, 40]], np.stack([trajectory.u[:100], trajectory.u[40:140]]))
    assert np.array_equal(many.x[0], trajectory.x[:101])
    assert np.array_equal(many.x[1], trajectory.x[40:141])
    steps = step.step_many(trajectory.x[:50], trajectory.u[:50])
    assert np.array_equal(steps.x, trajectory.x[1:51])
    again = pickle.loads(pickle.dumps(step)).rollout(trajectory.x[0], trajectory.u, dt=np.full(300, DT))
    assert np.array_equal(again.x, trajectory.x)
    assert [e[1:] for e in again.events] == [e[1:] for e in trajectory.events]  # times are summed up otherwise
    gains = np.zeros((300, step.nu, step.nx))
    followed = step.follow(trajectory.x[0], trajectory, gains)
    assert np.array_equal(followed.x, trajectory.x)
    assert followed.events == trajectory.events


def test_events_of_one_step(swung: tuple[sm.StepMap, sm.Trajectory]) -> None:
    step, trajectory = swung
    struck = next(e for e in trajectory.events if e.kind == "impact")
    result = step.step(trajectory.x[struck.step], trajectory.u[struck.step])
    (event,) = (e for e in result.events if e.kind == "impact")
    assert event.name == struck.name
    assert event.time == pytest.approx(struck.time - trajectory.t[struck.step], abs=1e-15)
    assert result.modes == trajectory.modes[struck.step]


@pytest.mark.parametrize("options", [{}, {"substeps": 3}, {"forces": "left"}], ids=["plain", "substeps", "left"])
@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_derivatives_with_the_order_of_events_frozen(restitution: float, options: dict[str, Any]) -> None:
    """Where events leave room for a shift, away from the step's begin; the best of some spacings, as each event has its
    own between rounding and the end of its order."""
    step = sm.discretize(arm(restitution), DT, **options)
    trajectory = arm_run(step)
    early = {event.step for event in trajectory.events if 0 < event.time - trajectory.t[event.step] < 1e-3 * DT}
    steps = sorted({event.step for event in trajectory.events} - early)
    assert len(steps) >= 9
    for k in steps:
        z = np.random.default_rng(k).normal(size=step.nx)
        found = []
        for spacing in (1e-7, 3e-6, 1e-4):
            with contextlib.suppress(sm.ConvergenceError):  # too far for this order of events
                found.append(sm.check_derivatives(step, trajectory.x[k], trajectory.u[k], z, spacing))
        assert min(max(errors.A, errors.B) for errors in found) <= 1e-8
        assert min(max(errors[2:]) for errors in found) <= 1e-5


def test_derivatives_by_the_length_of_the_step_and_of_forces(swung: tuple[sm.StepMap, sm.Trajectory]) -> None:
    step, trajectory = swung
    n, z, m = step.nx, np.linspace(-1, 1, step.nx), np.array([0.7, -0.4])
    strong = [e.step for e in trajectory.events if e.impulse > 0.1]
    assert len(strong) >= 4
    for k in strong[:6]:
        x, u = trajectory.x[k], trajectory.u[k]
        frozen, exact, bend = step.frozen(x, u), step.length_sensitivity(x, u), step.second_sensitivity(x, u, z, m)

        def moved(y: np.ndarray, frozen: Any = frozen, x: np.ndarray = x, u: np.ndarray = u) -> np.ndarray:
            found = frozen.step(x + y[:n], u + y[n:-1], DT + y[-1])
            return np.concatenate([found.x, found.multipliers])

        first = difference(moved, np.zeros(n + step.nu + 1), np.full(n + step.nu + 1, 1e-6))
        Y = np.column_stack([exact.A, exact.B, exact.T])
        M = np.column_stack([exact.multipliers_x, exact.multipliers_u, exact.multipliers_t])
        assert np.abs(first[:n] - Y).max() <= 1e-8 * np.abs(Y).max()
        assert np.abs(first[n:] - M).max() <= 1e-7 * np.abs(M).max()
        values = [np.concatenate([z, m]) @ moved(s * np.eye(n + step.nu + 1)[-1]) for s in (1e-5, 0.0, -1e-5)]
        assert (values[0] - 2 * values[1] + values[2]) / 1e-10 == pytest.approx(bend.tt, rel=1e-3)


def test_a_state_beyond_a_gap() -> None:
    step = sm.discretize(ball(), DT)
    with pytest.raises(sm.ModelError, match=r"beyond gap 'line' by 0.1 m"):
        step.rest({"z": -1.1})
    x = step.rest({"z": -1.0})
    x[1] = -1.0 - 5e-7  # pulled back quietly
    assert abs(step.system.gaps(step.step(x, [1.0]).x[:3])[0]) < 1e-15
    x[1] = -1.0 - 5e-6
    with pytest.raises(sm.ModelError, match=r"x is beyond gap 'line' by 5e-06 m; .*satisfy_constraints"):
        step.step(x, [1.0])
    with pytest.raises(sm.ModelError, match="beyond gap 'line'"):
        step.rollout(x, np.ones((3, 1)))


def test_a_string_out_of_reach_is_named() -> None:
    """Pinned at both ends by strings that become shorter than their distance."""
    b = sm.Builder("tied")
    x = b.coordinate("x", unit="m")
    length = b.coordinate("length", unit="m", kinematic=True, start=1.0)
    bead = b.world.tx(x, name="bead")
    b.mass(bead, 1.0)
    b.string(b.world.tx(-0.9), bead, length, name="left")
    b.string(b.world.tx(0.9), bead, length, name="right")
    step = sm.discretize(b.build(), DT)
    assert step.step(step.rest({}), [0.95]).events == ()
    with pytest.raises(sm.ConvergenceError, match=r"gap '(left|right)'.*out of reach"):
        step.step(step.rest({"length": 0.95}), [0.8])


def test_options_are_checked() -> None:
    system = ball()
    with pytest.raises(sm.ModelError, match="substeps: expected a whole number"):
        sm.discretize(system, DT, substeps=0)
    with pytest.raises(sm.ModelError, match="contacts: no gap is called 'foot'; there are line"):
        sm.discretize(system, DT, contacts=("foot",))
    with pytest.raises(sm.ModelError, match="contacts: expected names"):
        sm.discretize(system, DT, contacts="line")
    with pytest.raises(sm.ModelError, match="substeps: is of systems with gaps"):
        sm.discretize(ball(wire=True), DT, substeps=2)
    with pytest.raises(sm.ModelError, match="cannot open"):
        sm.VariationalStep(system, DT)


def test_a_gap_that_is_not_in_the_map_is_passed() -> None:
    system = slope(0.5)
    step = sm.discretize(system, DT, contacts=())
    trajectory = step.rollout(step.from_velocity({"z": 0.5}, {}, instant=True), np.zeros((100, 0)))
    assert trajectory.events == ()
    assert trajectory.x[-1, 1] == pytest.approx(0.5 - 0.5 * 9.81, abs=1e-12)


def test_substeps_are_steps_of_that_length() -> None:
    """Positions of ten parts are those of ten steps; x after a whole step has the momentum of the last part."""
    fine, cut = sm.discretize(ball(), DT / 10), sm.discretize(ball(), DT, substeps=10)
    x0 = fine.from_velocity({"x": 0.3, "z": -0.2}, {"x": 1.0, "z": 0.5}, instant=True)
    theirs, ours = fine.rollout(x0, np.ones((500, 1))), cut.rollout(x0, np.ones((50, 1)))
    assert np.abs(ours.x - theirs.x[::10]).max() < 1e-12
    assert len(ours.events) == len(theirs.events) > 0
    assert [e.time for e in ours.events] == pytest.approx([e.time for e in theirs.events], abs=1e-9)


def test_a_foot_that_sticks() -> None:
    """A rod falls onto its foot, which stays where it landed until its force would have to pull; then it slides."""
    b = sm.Builder("rod")
    x, z, turn = b.coordinate("x", unit="m"), b.coordinate("z", unit="m"), b.coordinate("turn", unit="rad")
    rod = b.world.tx(x).tz(z).ry(turn)
    b.mass(rod, 1.0, inertia=(0.0, 0.02, 0.0))
    b.gravity((0, 0, -9.81))
    b.contact(rod.tz(-0.3, name="foot"), b.world, friction=math.inf, name="ground")
    step = sm.discretize(b.build(), DT)
    trajectory = step.rollout(step.from_velocity({"z": 0.35, "turn": 0.2}, {"x": 0.4}, instant=True), np.zeros((40, 0)))
    (event,) = trajectory.events
    k = event.step + 1
    feet = step.system.positions(trajectory.x[k:, :3])[:, step.system.frame_names.index("foot")]
    sticks = trajectory.multipliers[k:, 1] != 0
    assert np.abs(feet[1:] - feet[:-1])[sticks].max() < 1e-13
    assert 15 < sticks.sum() < len(sticks)
    assert np.abs(feet[:, 2]).max() < 1e-13
    assert (trajectory.multipliers[k:, 0] > 0).all()
    assert event.energy > 0


def test_bodies_that_fall_together_are_struck_as_one() -> None:
    """A bead lands on another in flight, plastically. Closed without a force, the two neither part nor strike again.

    The lower one falls √(2 h / g) and bounces with e = ½; the parabola of their common centre leads to the next impact.
    """
    b = sm.Builder("beads")
    low, high = (b.coordinate(name, unit="m") for name in ("low", "high"))
    first, second = b.world.tz(low, name="first"), b.world.tz(high, name="second")
    b.mass(first, 1.0)
    b.mass(second, 0.3)
    b.gravity((0, 0, -9.81))
    b.contact(first, b.world, restitution=0.5, name="floor")
    b.contact(second, first.tz(0.1, name="top"), name="beads")
    bounce = math.sqrt(2 * 0.5 / 9.81)
    up, down = 0.5 * 9.81 * bounce, 0.5 + 9.81 * bounce  # speeds of both after the bounce
    met = bounce + (0.8 - 0.5 * bounce - 9.81 / 2 * bounce**2) / (up + down)
    later = met - bounce
    height, speed = up * later - 9.81 / 2 * later**2, (up - 0.3 * down) / 1.3 - 9.81 * later
    again = met + (speed + math.sqrt(speed**2 + 2 * 9.81 * height)) / 9.81
    for dt in (0.01, 0.005, 0.0025):
        step = sm.discretize(b.build(), dt)
        x0 = step.from_velocity({"low": 0.5, "high": 0.9}, {"high": -0.5}, instant=True)
        run = step.rollout(x0, np.zeros((round(0.5 / dt), 0)))
        impacts = [event for event in run.events if event.time < again + 1e-9]
        assert [(event.name, event.kind) for event in impacts] == [(n, "impact") for n in ("floor", "beads", "floor")]
        assert [event.time for event in impacts] == pytest.approx([bounce, met, again], abs=1e-12)


def test_more_impacts_than_a_step_takes() -> None:
    """A bead between two walls 1 mm apart, at 10 m/s: a thousand elastic impacts in 0.1 s."""
    b = sm.Builder("rattle")
    x = b.coordinate("x", unit="m")
    bead = b.world.tx(x, name="bead")
    b.mass(bead, 0.1)
    b.contact(bead, b.world.ry(math.pi / 2, name="left"), restitution=1.0, name="left")
    b.contact(bead, b.world.tx(1e-3).ry(-math.pi / 2, name="right"), restitution=1.0, name="right")
    step = sm.discretize(b.build(), 0.1)
    with pytest.raises(sm.ConvergenceError, match="more than 200 segments in a step"):
        step.step(step.from_velocity({"x": 5e-4}, {"x": 10.0}, instant=True), [])


def test_a_plane_that_rises_at_a_constant_speed() -> None:
    """Seen from the plane it rests, and the ball has that much more speed: parabolas to rounding."""
    b = sm.Builder("lift")
    z = b.coordinate("z", unit="m")
    floor = b.coordinate("floor", unit="m", kinematic=True)
    ball = b.world.tz(z, name="ball")
    b.mass(ball, 0.3)
    b.gravity((0, 0, -9.81))
    b.contact(ball, b.world.tz(floor, name="plate"), restitution=0.7, name="hit")
    step, speed = sm.discretize(b.build(), DT), 0.8
    x0 = step.from_velocity({"z": 0.4}, {"floor": speed}, instant=True)
    run = step.rollout(x0, speed * DT * np.arange(1, 101)[:, None])
    down = math.sqrt(speed**2 + 2 * 9.81 * 0.4)  # against the plane
    time, wanted = (down - speed) / 9.81, []
    while time < 1.0:
        wanted.append(time)
        down *= 0.7
        time += 2 * down / 9.81
    impacts = [event.time for event in run.events if event.kind == "impact"]
    assert len(wanted) >= 3
    assert impacts[:3] == pytest.approx(wanted[:3], abs=1e-12)
