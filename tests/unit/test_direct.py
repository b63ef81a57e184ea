"""Direct optimal control: optima against collocation in continuous time, plans on their own map, and refusals."""

from __future__ import annotations

import math
from typing import Any

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.graph import compiler
from stepmap.optimal import Status
from stepmap.optimal.direct.search import levels
from tests.collocation import optimum

SWING = {"start": {"theta": 0.0}, "goal": {"x": 0.0, "theta": math.pi}, "running": "force**2/1000"}


@pytest.fixture(scope="module")
def cart() -> sm.System:
    return sm.systems.get("cart_pendulum")


@pytest.fixture(scope="module")
def swing(cart: sm.System) -> sm.DirectSolution:
    return sm.direct(cart, steps=80, time=2.0, **SWING).require()


def off_map(found: sm.DirectSolution) -> float:
    """How far each state of a trajectory is from the step before it, at most."""
    path, step = found.trajectory, found.step
    ends = [step.step(x, u).x for x, u in zip(path.x[:-1], path.u, strict=True)]
    return float(max(np.abs(step.layout.difference(a, b)).max() for a, b in zip(ends, path.x[1:], strict=True)))


def effort(q: ca.MX, v: ca.MX, u: ca.MX) -> ca.MX:
    return ca.sumsqr(u) / 1000


def test_costs_converge_with_order_two_to_those_of_collocation(cart: sm.System, swing: sm.DirectSolution) -> None:
    truth, _ = optimum(cart, 2.0, np.zeros(2), np.array([0.0, math.pi]), effort, swing.trajectory)
    costs = [sm.direct(cart, steps=n, time=2.0, guess=swing, **SWING).require().cost for n in (80, 160, 320)]
    errors = np.array(costs) - truth
    # Order 2: errors fall by 4 per halving; at these N the next term, of order 4, is below 2 % of the error.
    assert errors[:-1] / errors[1:] == pytest.approx([4.0, 4.0], abs=0.1)
    assert errors[-1] < 1e-3 * truth


def test_free_times_converge_too(cart: sm.System) -> None:
    given: Any = SWING | {"running": "1 + force**2/1000", "time": (1.0, 4.0)}
    found = [sm.direct(cart, steps=n, **given).require() for n in (60, 120)]
    cost, time = optimum(
        cart,
        (1.0, 4.0),
        np.zeros(2),
        np.array([0.0, math.pi]),
        lambda q, v, u: 1 + effort(q, v, u),
        found[1].trajectory,
    )
    errors = np.array([one.cost for one in found]) - cost
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.2)
    late = [time - one.time for one in found]
    assert late[0] / late[1] == pytest.approx(4.0, abs=0.2)  # of order 2 as well
    assert found[1].step.dt == pytest.approx(found[1].time / 120, rel=1e-12)


def test_plans_lie_on_their_own_map(swing: sm.DirectSolution) -> None:
    assert swing.status.ok
    assert off_map(swing) < 1e-9  # the solver's tolerance; 1e-6 is promised
    end = swing.trajectory.x[-1]
    np.testing.assert_allclose(end, [0.0, math.pi, 0.0, 0.0], atol=1e-9)


def test_gains_bring_a_disturbed_start_back(swing: sm.DirectSolution) -> None:
    plan, step = swing.plan, swing.step
    assert plan.gains.shape == (80, 1, 4)
    assert not plan.fading
    x0 = plan.trajectory.x[0] + [0.2, 0.15, 0.0, 0.0]
    closed = step.follow(x0, plan.trajectory, plan.gains)
    hold = sm.Trajectory(
        step.dt * np.arange(201), np.tile(plan.trajectory.x[-1], (201, 1)), np.tile(plan.trajectory.u[-1] * 0, (200, 1))
    )
    after = step.follow(closed.x[-1], hold, np.tile(plan.gains[-1], (200, 1, 1)))
    assert np.abs(after.x[-1, :2] - [0.0, math.pi]).max() < 0.01


def test_limits_of_states_and_inputs_hold(cart: sm.System) -> None:
    limits = {"x": (-0.8, 0.8), "force": (-80.0, 80.0), "v_x": (-2.5, 2.5)}
    found = sm.direct(cart, steps=60, time=3.0, limits=limits, **SWING).require()
    x, u = found.trajectory.x, found.trajectory.u
    assert np.abs(x[:, 0]).max() <= 0.8 + 1e-9
    assert np.abs(u).max() <= 80.0
    assert np.abs(np.diff(x[:, 0]) / found.step.dt).max() <= 2.5 + 1e-6
    assert np.abs(x[:, 0]).max() > 0.79  # they do bind


def test_rates_of_forces_hold(cart: sm.System, swing: sm.DirectSolution) -> None:
    free = np.abs(np.diff(swing.trajectory.u[:, 0])).max() / swing.step.dt
    for time in (2.0, (1.9, 2.1)):
        limits = {"force": {"low": -200.0, "high": 200.0, "rate": 0.7 * free}}
        found = sm.direct(cart, steps=80, limits=limits, **(SWING | {"time": time})).require()
        rate = np.abs(np.diff(found.trajectory.u[:, 0])).max() / found.step.dt
        assert rate == pytest.approx(0.7 * free, rel=1e-6)


def test_conditions_of_paths_and_ends(cart: sm.System) -> None:
    path = {"bob.x": (-0.6, None), "force*v_x": (None, 150.0)}
    found = sm.direct(
        cart,
        steps=60,
        time=2.5,
        start={},
        goal={"theta": math.pi},
        running="force**2/1000",
        path=path,
        boundary={"end.x - start.x": 0.4},
    ).require()
    x, u = found.trajectory.x, found.trajectory.u[:, 0]
    assert (x[1:-1, 0] + np.sin(x[1:-1, 1])).min() >= -0.6 - 1e-8
    assert (u * np.diff(x[:, 0]) / found.step.dt).max() <= 150.0 + 1e-6
    assert x[-1, 0] == pytest.approx(0.4, abs=1e-9)


def test_functions_of_symbols_are_costs(cart: sm.System, swing: sm.DirectSolution) -> None:
    given: Any = SWING | {"running": lambda at: at["force"] ** 2 / 1000}
    assert sm.direct(cart, steps=80, time=2.0, **given).cost == pytest.approx(swing.cost, rel=1e-9)


def test_at_the_period_of_a_board(swing: sm.DirectSolution) -> None:
    fixed = swing.at_period(0.03).require()
    assert fixed.step.dt == pytest.approx(0.03, rel=1e-12)
    assert fixed.time == pytest.approx(2.01)
    assert off_map(fixed) < 1e-9


def test_the_same_without_compiled_stages_and_by_fatrop(cart: sm.System, swing: sm.DirectSolution) -> None:
    for options in ({"compiled": False}, {"solver": "fatrop"}):
        found = sm.direct(cart, steps=80, time=2.0, **SWING, **options)
        assert found.status.ok
        assert found.cost == pytest.approx(swing.cost, rel=1e-6)


def test_stages_are_compiled_once_for_all_grids_times_and_limits(
    cart: sm.System, swing: sm.DirectSolution, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*given: object, **options: object) -> None:
        raise AssertionError("the library is in the cache, by the digest of its expressions")

    monkeypatch.setattr(compiler, "build", build)
    heavier = cart.with_parameters(mass=1.1)
    found = sm.direct(heavier, steps=60, time=2.2, limits={"force": (-190.0, 190.0)}, **SWING)
    assert found.status.ok
    assert found.cost != pytest.approx(swing.cost, rel=1e-3)


def test_several_starts_tell_their_spread(cart: sm.System, swing: sm.DirectSolution) -> None:
    found = sm.direct(cart, steps=40, time=2.0, starts=3, seed=1, **SWING).require()
    assert len(found.starts) == 3
    assert found.spread >= 0.0
    assert found.cost <= min(one.cost for one in found.starts if one.status.ok) * (1 + 1e-6)


def test_kinematic_coordinates_and_wires() -> None:
    system = sm.systems.get("suspended_mass")
    goal = {"xm": 0.6, "ym": 0.2, "xr": 0.6, "r": 0.8}
    found = sm.direct(
        system, steps=60, time=2.0, goal=goal, running="v_xr**2 + v_r**2", limits={"xr": {"rate": 1.0}}
    ).require()
    path, step = found.trajectory, found.step
    assert off_map(found) < 1e-9
    assert np.abs(system.gaps(path.x[:, :4])).max() < 1e-9
    np.testing.assert_allclose(path.x[-1, :4], [goal[name] for name in step.state_names[:4]], atol=1e-6)
    still = np.concatenate([path.x[-1, :6], np.zeros(2)])  # the robot stops
    assert np.abs(step.velocity(still)).max() < 1e-9
    forces = [step.step(x, u).multipliers for x, u in zip(path.x[:-1], path.u, strict=True)]
    np.testing.assert_allclose(found.multipliers, forces, atol=1e-7)
    assert np.abs(np.diff(path.x[:, 2])).max() <= 1.0 * step.dt + 1e-9


def test_a_swing_up_on_a_wire_is_that_of_angles() -> None:
    b = sm.Builder("wired_cart")
    x, bx, by = b.coordinate("x", low=-2, high=2), b.coordinate("bx"), b.coordinate("by", start=-1.0)
    cart, bob = b.world.tx(x, name="cart"), b.world.tx(bx).ty(by, name="bob")
    b.mass(cart, 10.0)
    b.mass(bob, 1.0)
    b.gravity((0, -9.8, 0))
    b.drive(x, b.input("force", low=-200, high=200))
    b.distance(cart, bob, 1.0, name="rod")
    wired, angles = b.build(), sm.systems.get("cart_pendulum", damping=0.0)
    turn = np.linspace(0.0, math.pi, 51)
    states = np.column_stack([0 * turn, np.sin(turn), -np.cos(turn), np.zeros((51, 3))])
    guess = sm.Trajectory(np.linspace(0.0, 3.0, 51), states, np.zeros((50, 1)))
    costs = []
    for n in (50, 100):
        one = sm.direct(
            wired, steps=n, time=3.0, goal={"x": 0.0, "bx": 0.0, "by": 1.0}, running="force**2/1000", guess=guess
        )
        assert one.require().status is Status.CONVERGED
        assert off_map(one) < 1e-8
        assert np.abs(one.step.velocity(one.trajectory.x[-1])).max() < 1e-6
        costs.append(one.cost)
    limit = [sm.direct(angles, steps=n, time=3.0, **SWING).require().cost for n in (100, 200)]
    # Both are of order 2: extrapolations to h = 0 agree up to what is left of order 4.
    extrapolated = (4 * costs[1] - costs[0]) / 3, (4 * limit[1] - limit[0]) / 3
    assert extrapolated[0] == pytest.approx(extrapolated[1], rel=1e-3)


def test_grids_go_from_coarse_to_fine() -> None:
    assert levels(256) == [32, 64, 256]
    assert levels(200) == [25, 50, 200]
    assert levels(30) == [30]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"time": (3.0, 1.0)}, "time: the range is upside down"),
        ({"time": -1.0}, "time: must be positive"),
        ({"steps": 1}, "steps: expected a whole number"),
        ({"start": {"x": 5.0}}, "start: x = 5 is outside its limits"),
        ({"goal": {"x": 5.0}}, "goal: x = 5 is outside its limits"),
        ({"goal": {"y": 5.0}}, "goal: no coordinate is called 'y'"),
        ({"running": "force**2 + wind"}, "running: unknown name 'wind'"),
        ({"running": "force**2 + bob.q"}, "unknown name 'bob.q'"),
        ({"terminal": "force"}, "terminal: unknown name 'force'"),
        ({"path": {"x*y": (0, 1)}}, "path 'x\\*y': unknown name 'y'"),
        ({"path": {"x": (1, 0)}}, "path 'x': low"),
        ({"path": {"bob.y": (0, 1)}}, "path 'bob.y': is -1 at the start, outside of 0 to 1"),
        ({"path": {"theta": (0, 3)}}, "path 'theta': is 3.142 at the goal, outside of 0 to 3"),
        ({"rest": True, "goal": {"x": 0.0, "v_x": 1.0}}, "rest: needs a goal at rest"),
        ({"rest": True, "goal": {"x": 0.0, "theta": 1.0}}, "rest: no inputs hold the goal"),
        ({"boundary": {"end.y": 0}}, "boundary 'end.y': unknown name 'end.y'"),
        ({"limits": {"forze": (0, 1)}}, "limits: no coordinate, velocity, momentum or input is called 'forze'"),
        ({"limits": {"force": (1, 0)}}, "limits of 'force': low"),
        ({"goal": {"x": 1.5}, "limits": {"x": {"rate": 0.1}}}, "goal: x has 1.5 m to go"),
        ({"solver": "snopt"}, "solver: expected 'ipopt' or 'fatrop'"),
        ({"guess": 3}, "guess: expected a Trajectory"),
        ({"starts": 0}, "starts: expected a whole number"),
    ],
)
def test_mistakes_are_named_before_anything_is_solved(cart: sm.System, options: dict[str, Any], said: str) -> None:
    with pytest.raises(sm.StepmapError, match=said):
        sm.direct(cart, **({"steps": 40, "time": 2.0, **SWING} | options))


def test_a_pose_off_its_wire_is_refused() -> None:
    with pytest.raises(sm.ModelError, match="goal: the pose is off constraint 'string'"):
        sm.direct(sm.systems.get("suspended_mass"), goal={"xm": 0.0, "ym": 0.5, "xr": 0.0, "r": 0.8}, running="v_r**2")


def test_what_cannot_be_done_has_a_status_that_says_what(cart: sm.System) -> None:
    found = sm.direct(cart, steps=20, time=0.2, limits={"force": (-5.0, 5.0)}, **SWING)
    assert found.status is Status.UNMET
    assert "found no motion that meets all conditions" in found.advice
    assert "length of the step" not in found.advice  # which is only handed on
    with pytest.raises(sm.ConvergenceError, match="give it more time"):
        found.require()


def test_an_end_at_rest_is_held_by_its_last_input(cart: sm.System) -> None:
    """Upright, where it would fall under any other force; the step that holds it is on the map like all others."""
    found = sm.direct(cart, steps=40, time=2.0, rest=True, **SWING).require()
    path = found.trajectory
    assert path.steps == 41
    assert abs(path.u[-1, 0]) < 1e-12
    np.testing.assert_allclose(path.x[-1], path.x[-2], atol=1e-7)
    assert off_map(found) < 1e-8
    assert found.plan.gains.shape == (41, 1, 4)
    assert not found.plan.fading


def test_ctrl_c_keeps_the_best_iterate(cart: sm.System) -> None:
    count = 0

    def press(iteration: Any) -> None:
        nonlocal count
        count += 1
        if count == 6:
            raise KeyboardInterrupt

    found = sm.direct(cart, steps=40, time=2.0, monitor=press, **SWING)
    assert found.status is Status.INTERRUPTED
    assert found.trajectory.steps == 40
    assert len(found.history) == 6
