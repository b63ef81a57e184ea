"""Phases of contact modes in direct optimal control: laws of mechanics over a cycle, limits of contacts, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import stepmap as sm

BODY, FOOT, GRAVITY = 4.0, 0.5, 9.81
HOP: Any = {
    "phases": [sm.Phase(closed=["ground"], steps=24, time=(0.1, 0.6)), sm.Phase(steps=20, time=(0.3, 0.6))],
    "periodic": {},
    "running": "effort/100",
}


def hopper(friction: float | None = None) -> sm.System:
    """A body above a foot, a spring and a motor between them."""
    b = sm.Builder("hopper")
    stiff = b.parameter("stiffness", 400.0)
    foot = b.coordinate("foot", unit="m", low=-0.01, high=2.0)
    leg = b.coordinate("leg", unit="m", low=0.2, high=0.8, start=0.5)
    toe = b.world.ty(foot, name="toe")
    b.mass(toe, FOOT)
    b.mass(toe.ty(leg, name="body"), BODY)
    b.gravity((0, -GRAVITY, 0))
    b.coordinate_spring(leg, stiffness=stiff, rest=0.5)
    b.drive(leg, b.input("push", unit="N", low=-200.0, high=200.0))
    b.contact(toe, b.world.rx(-math.pi / 2), friction=friction, name="ground")
    return b.build()


@pytest.fixture(scope="module")
def hop() -> sm.DirectSolution:
    return sm.direct(hopper(), **HOP).require()


def test_in_flight_the_centre_of_mass_falls(hop: sm.DirectSolution) -> None:
    flight = hop.searched.motions[1]
    height = flight.q[:, 0] + BODY / (BODY + FOOT) * flight.q[:, 1]
    # Newton's law; the midpoint rule is exact where the force is constant.
    np.testing.assert_allclose(np.diff(height, 2) / flight.h**2, -GRAVITY, atol=1e-6)
    assert flight.q[1:-1, 0].min() > 0  # the foot is off the ground


def test_over_a_cycle_the_ground_carries_the_weight(hop: sm.DirectSolution) -> None:
    stance = hop.searched.motions[0]
    assert stance.lam.min() >= 0
    others = hop.searched.transcription.others(hop.searched.found.w)
    release, landing = others["transition0"][2], others["transition1"][-1]  # at the last node, and of the impact
    impulse = stance.h * stance.lam.sum() + release + landing
    assert landing > 0
    assert impulse == pytest.approx((BODY + FOOT) * GRAVITY * hop.time, rel=1e-9)


def test_cycles_close_and_phases_have_times_of_their_own(hop: sm.DirectSolution) -> None:
    x, t = hop.trajectory.x, hop.trajectory.t
    np.testing.assert_allclose(x[0, :2], x[-1, :2], atol=1e-9)
    first, second = (motion.time for motion in hop.searched.motions)
    assert 0.3 <= second <= 0.6
    assert t[-1] == pytest.approx(first + second)
    assert t[24] == pytest.approx(first)
    # The body's velocity is the same before and after the landing: the foot alone is stopped.
    leg = hop.searched.motions[1].q[-1, 1] - hop.searched.motions[0].q[0, 1]
    assert abs(leg) < 1e-9


def test_a_landing_has_the_least_speed_that_is_asked_for(hop: sm.DirectSolution) -> None:
    slow = -hop.searched.transcription.others(hop.searched.found.w)["transition1"][0]
    fast = sm.direct(hopper(), **HOP, landing={"ground": slow + 0.5}).require()
    found = -fast.searched.transcription.others(fast.searched.found.w)["transition1"][0]
    assert found >= slow + 0.5 - 1e-8


def test_clearances_are_kept_in_the_middle_of_a_phase() -> None:
    found = sm.direct(hopper(), **HOP, clearance={"ground": 0.2}).require()
    assert found.searched.motions[1].q[10, 0] >= 0.2 - 1e-8


def test_work_is_the_sum_of_its_parts() -> None:
    given = HOP | {
        "running": "work",
        "phases": [sm.Phase(closed=["ground"], steps=20, time=0.3), sm.Phase(steps=20, time=0.4)],
    }
    found = sm.direct(hopper(), **given, limits={"push": {"low": -200, "high": 200, "rate": 4000.0}}).require()
    work = sum(np.abs(one.u[:, 0] * np.diff(one.q[:, 1])).sum() for one in found.searched.motions)
    # Parts of the split above |work| cost what the solver's tolerance leaves.
    assert found.cost == pytest.approx(work, abs=1e-4)
    # The impact costs ½ m v² of the foot, which motors have to bring back.
    speed = found.searched.transcription.others(found.searched.found.w)["transition1"][0]
    assert work >= 0.5 * FOOT * speed**2 - 1e-4


def test_every_start_goes_all_the_way_to_least_work() -> None:
    given = HOP | {"running": "work", "phases": [sm.Phase(["ground"], 20, 0.3), sm.Phase(steps=20, time=0.4)]}
    limits = {"push": {"low": -200, "high": 200, "rate": 4000.0}}
    found = sm.direct(hopper(), **given, limits=limits, starts=4).require()
    costs = [attempt.cost for attempt in found.starts if attempt.status.ok]
    assert len(found.starts) == 4
    assert found.cost == min(costs)
    assert found.spread == pytest.approx((max(costs) - min(costs)) / min(costs))
    alone = sm.direct(hopper(), **given, limits=limits).require()
    assert alone.cost == pytest.approx(costs[0], rel=1e-9)


def test_designs_are_released_last() -> None:
    given = HOP | {"running": "effort/100 + 1e-6*stiffness**2"}
    fixed = sm.direct(hopper(), **given).require()
    found = sm.direct(hopper(), **given, design={"stiffness": (200.0, 900.0)}).require()
    assert found.cost < fixed.cost
    assert 200.0 <= found.design["stiffness"] < 400.0
    assert found.system.parameter_values[0] == found.design["stiffness"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"phases": [sm.Phase(closed=["floor"])]}, "phases: no gap is called 'floor'"),
        ({"periodic": {"knee": "0"}}, "periodic: no coordinate is called 'knee'"),
        ({"periodic": {"leg": "foot"}}, "periodic: different poses get the same coordinates"),
        ({"periodic": {"leg": "leg + hip"}}, "periodic 'leg': unknown name 'hip'"),
        ({"periodic": {"foot": "foot + 1"}}, "the periodic map does not fit the contacts"),
        ({"design": {"knee": (0, 1)}}, "design: the system has no parameter 'knee'"),
        ({"design": {"stiffness": (0, 1)}}, "design of 'stiffness': its value 400 is outside"),
        ({"landing": {"wall": 1}}, "landing: no gap is called 'wall'"),
        ({"goal": {"foot": 0.0}}, "goal: a periodic motion"),
        ({"solver": "fatrop"}, "solver: phases"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(sm.ModelError, match=said):
        sm.direct(hopper(), **(HOP | options))


def test_phases_refuse_what_is_none() -> None:
    with pytest.raises(sm.ModelError, match="closed: expected names of gaps in a list"):
        sm.Phase(closed="ground")
