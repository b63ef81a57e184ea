"""Gaits: equations by a checker of its own, multipliers against the map itself, and robots that walk."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import stepmap as sm
from stepmap.optimal.direct import DirectSolution
from stepmap.optimal.gaits.cycle import Cycle, Stretch
from stepmap.optimal.gaits.feedback import periodic_gains, slopes
from stepmap.optimal.gaits.hold import natural, stride, transport
from stepmap.optimal.gaits.modes import Mode
from stepmap.optimal.gaits.renaming import Renaming
from stepmap.optimal.problem import Status
from stepmap.walking.observer import Observer
from stepmap.walking.schedule import Schedule
from stepmap.walking.walk import walk
from tests import walkers
from tests.gaits import Biped, judge

LEGS = {
    "x": "swing.x - stride",
    "y": "swing.y",
    "theta1": "theta1 + theta2 + theta3 + theta4",
    "theta2": "-theta4",
    "theta3": "-theta3",
    "theta4": "-theta2",
}


@functools.cache
def gait(ankle: bool = True) -> DirectSolution:
    system = sm.systems.get("biped_planar", ankle=ankle)
    return sm.direct(
        system,
        phases=[sm.Phase(closed=["stance"], steps=80, time=0.9)],
        periodic=LEGS,
        running="effort",
        clearance={"swing": 0.02},
        landing={"swing": 0.2},
    ).require()


def test_a_gait_keeps_the_equations_of_the_thesis() -> None:
    """1e-8 of momenta of about 10 N m s: the solver's tolerance is 1e-9 of its own rows."""
    found = gait()
    told = judge(Biped(), found.trajectory.x[:, :6], found.trajectory.u, 0.9 / 80)
    assert max(told.motion, told.closed, told.jump, told.periodic) <= 1e-8
    assert told.normal > 0
    assert told.impulse[1] > 0
    assert told.speed >= 0.2 - 1e-8
    assert (told.clearance >= 0.02 * np.sin(np.pi * np.arange(1, 80) / 80) - 1e-8).all()
    assert told.newton <= 2e-2  # the middle of two steps against their common node: order 2 in 11 ms
    assert stride(found.cycle) == pytest.approx(0.56, abs=1e-8)


def test_a_search_that_is_cut_off_ends_at_a_gait() -> None:
    """Least work is not there yet, but the motion next to the last iterate that meets all conditions is."""
    found = sm.direct(
        sm.systems.get("biped_planar"),
        phases=[sm.Phase(closed=["stance"], steps=16, time=0.9)],
        periodic=LEGS,
        running="work",
        limits=dict.fromkeys(("ankle", "stance_knee", "hip", "swing_knee"), (-60.0, 60.0)),
        change=0.5,
        max_iterations=60,
    )
    assert found.status is Status.ITERATIONS
    told = judge(Biped(), found.trajectory.x[:, :6], found.trajectory.u, 0.9 / 16)
    assert max(told.motion, told.closed, told.jump, told.periodic) <= 1e-8
    work = float(np.abs(found.trajectory.u * np.diff(found.trajectory.x[:, 2:6], axis=0)).sum())
    assert found.cost == pytest.approx(work, rel=0.05)  # with parts of the work that are not yet those of its sign


def test_the_landing_of_a_plan_happens_at_its_end() -> None:
    found = gait()
    landed = found.cycle.landed(0)
    assert landed is not None
    assert landed.time == pytest.approx(found.step.dt, abs=1e-12)
    np.testing.assert_allclose(landed.x, found.trajectory.x[0], atol=1e-9)
    told = judge(Biped(), found.trajectory.x[:, :6], found.trajectory.u, 0.9 / 80)
    (event,) = found.plan.events
    assert (event.name, event.kind, event.step) == ("swing", "impact", 79)
    assert event.impulse == pytest.approx(told.impulse[1], rel=1e-7)
    assert event.energy > 0


def returned(found: DirectSolution, gains: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The state after a period with feedback, through the landing wherever it happens."""
    cycle, plan = found.cycle, found.trajectory
    step, landing = cycle.maps[0], cycle.landing(0)
    assert landing is not None
    for k in range(80):
        u = plan.u[k] - gains[k] @ (x - plan.x[k])
        x = step.step(x, u).x if k < 79 else landing(x, u).x
    return x


def test_multipliers_are_those_of_the_map_itself() -> None:
    """Differences of the return map: 1e-5 off, errors of second order grow with the open loop's 1e5."""
    found, by = gait(), 1e-6
    gains, start = found.plan.gains, found.trajectory.x[0]
    Z = np.eye(12)[:, [2, 3, 4, 5, 8, 9, 10, 11]]
    columns = [returned(found, gains, start + by * z) - returned(found, gains, start - by * z) for z in Z.T]
    true = np.linalg.eigvals(Z.T @ np.array(columns).T / (2 * by))
    assert np.abs(true).max() == pytest.approx(np.abs(found.plan.floquet).max(), abs=1e-4)
    assert np.abs(found.plan.floquet).max() <= 0.1
    assert np.abs(found.floquet).max() > 1e5


def test_a_landing_at_a_fixed_time_holds_nothing_without_an_ankle() -> None:
    found = gait(ankle=False)
    true, believed = slopes(found.cycle), slopes(found.cycle, fixed=True)
    gains = periodic_gains(believed, *natural(found.system)).gains
    assert np.abs(believed.multipliers(gains)).max() < 0.1
    assert np.abs(true.multipliers(gains)).max() > 1
    assert np.abs(found.plan.floquet).max() <= 0.2


@pytest.mark.parametrize("ankle", [True, False])
def test_robots_with_other_masses_and_friction_walk(ankle: bool) -> None:
    found = gait(ankle)
    schedule = Schedule.of(found.cycle, found.plan.gains)
    robot = found.system.with_parameters(shank_mass=2.0 * 1.05, thigh_mass=3.0 * 0.95, inertia=1.05 / 24, friction=0.05)
    walked = walk(schedule, robot, 20, limits=np.full(len(found.system.inputs), 140.0))
    assert walked.fell == ""
    assert walked.steps == 20
    assert walked.normal > 0
    assert walked.cone < 0.8
    assert np.ptp(walked.off[10:]) < 5e-3  # it comes to a limit cycle of its own


def test_a_filter_that_sees_angles_only_is_renamed() -> None:
    found = gait()
    schedule = Schedule.of(found.cycle, found.plan.gains)
    robot = found.system.with_parameters(shank_mass=2.0 * 0.95, thigh_mass=3.0 * 1.05, friction=0.05)
    process, first = np.array([1e-4] * 6 + [1e-2] * 6), np.array([5e-3] * 6 + [2e-2] * 6)
    observer = Observer(found.cycle, np.full(4, 2e-3), process, first, np.random.default_rng(3))
    walked = walk(schedule, robot, 5, observer=observer)
    assert walked.fell == ""
    assert walked.normal > 0
    assert np.sqrt(np.mean(np.square(walked.errors))) < 6e-3  # largest of four angles, each known to 2 mrad


def test_the_cost_of_transport_is_that_of_the_thesis() -> None:
    """Σ|w|/(m g L) with w = u Δθ: each motor turns one angle."""
    found = gait()
    work = np.abs(found.trajectory.u * np.diff(found.trajectory.x[:, 2:6], axis=0)).sum()
    assert transport(found.cycle) == pytest.approx(work / (10 * 9.81 * 0.56), rel=1e-9)


def test_the_compass_s_multipliers_by_phases() -> None:
    """Goswami, Thuilot & Espiau 1998 at 3°; multipliers by an integration of order 8: −0.1997 ± 0.5445i, 0.1316."""
    system, state, time = sm.systems.get("compass"), np.array([0.2187, -0.3234, -1.0918, -0.3772]), 0.7347
    names = {"x": "x - stride*cos(slope)", "y": "y + stride*sin(slope)", "left": "right", "right": "left"}
    for _ in range(25):  # it attracts: walk until strides repeat, the landing at the end of step 80
        step = sm.discretize(system, time / 80, contacts=("left_foot",))
        q, v = walkers.full(state)
        plan = step.rollout(step.from_velocity(q, v, instant=True), np.zeros((80, 0)))
        cycle = Cycle(system, (Stretch(("left_foot",), 80, time / 80),), Renaming(system, names), plan.x, plan.u)
        landed = cycle.landed(0)
        assert landed is not None
        time = plan.t[79] + landed.time
        after = step.velocity(landed.x)
        state = np.array([*landed.x[2:4], *after[2:]])
    assert time == pytest.approx(0.73472, abs=3e-4)  # order 2: 1.2e-4 s off at 80 steps
    values = slopes(cycle).multipliers()[:3]
    np.testing.assert_allclose(np.sort_complex(values), [-0.1997 - 0.5445j, -0.1997 + 0.5445j, 0.1316], atol=5e-3)


def test_a_hopper_s_two_phases_have_the_multipliers_of_their_maps() -> None:
    """Stance, lift-off, flight, landing: differences of the closed loop through all of them."""
    found = sm.direct(
        sm.systems.get("hopper"),
        phases=[sm.Phase(["ground"], 30, (0.15, 0.6)), sm.Phase([], 30, (0.2, 0.5))],
        periodic={},
        running="effort",
        landing={"ground": 0.5},
    ).require()
    plan, gains, cycle, by = found.trajectory, found.plan.gains, found.cycle, 1e-6
    landing = cycle.landing(1)
    assert landing is not None

    def hop(x: np.ndarray) -> np.ndarray:
        for k in range(60):
            u = plan.u[k] - gains[k] @ (x - plan.x[k])
            x = landing(x, u).x if k == 59 else cycle.maps[k // 30].step(x, u).x
        return x

    np.testing.assert_allclose(hop(plan.x[0]), plan.x[0], atol=1e-7)
    Z = np.eye(4)[:, [1, 3]]  # the foot stands
    columns = [Z.T @ (hop(plan.x[0] + by * z) - hop(plan.x[0] - by * z)) / (2 * by) for z in Z.T]
    true = np.linalg.eigvals(np.array(columns).T)
    np.testing.assert_allclose(np.sort_complex(true), np.sort_complex(found.plan.floquet[:2]), atol=1e-6)
    assert np.abs(found.plan.floquet).max() < np.abs(found.floquet).max() < 1


@pytest.mark.parametrize(
    ("formulas", "text"),
    [
        ({**LEGS, "y": "y"}, "is another one"),
        ({**LEGS, "y": "swing.y + 0.1"}, "takes the place of no contact"),
        ({**LEGS, "theta2": "theta4"}, "is another one"),
        ({**LEGS, "theta4": "theta2 - theta2"}, "same names"),
        ({**LEGS, "knee": "theta2"}, "no coordinate"),
        ({**LEGS, "x": "heel.x"}, "heel.x"),
    ],
)
def test_renamings_that_do_not_fit_are_refused(formulas: dict[str, str], text: str) -> None:
    with pytest.raises(sm.ModelError, match=text):
        Renaming(sm.systems.get("biped_planar"), formulas)


def test_modes_that_cannot_be_are_refused() -> None:
    with pytest.raises(sm.ModelError, match="no contact is called 'heel'"):
        Mode(sm.systems.get("biped_planar"), ("heel",))
    b = sm.Builder("twice")
    y = b.coordinate("y")
    x = b.coordinate("x")
    foot = b.world.tx(x).ty(y, name="foot")
    b.mass(foot, 1.0)
    floor = b.world.rx(-math.pi / 2, name="floor")
    for name in ("one", "two"):
        b.contact(foot, floor, name=name)
    with pytest.raises(sm.ModelError, match="depend on each other"):
        Mode(b.build(), ("one", "two"))
