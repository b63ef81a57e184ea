"""Messages of ROS 2 that the main job does not send: forces, a real robot, counters that change."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import stepmap as sm
from stepmap.errors import DamagedError
from stepmap_hil.ros.messages import Message, Messages
from stepmap_hil.ros.ticks import Event, Signals, Tick, namespace

SECOND = 10**9


def crane() -> sm.mechanics.System:
    b = sm.Builder("crane")
    x, r = b.coordinate("x", unit="m"), b.coordinate("r", unit="m", kinematic=True, start=1.0)
    force = b.input("force", unit="N")
    cart = b.world.tx(x, name="cart")
    b.mass(cart, 1.0)
    b.mass(cart.ty(r, name="load"), 0.5)
    b.drive(x, force)
    return b.build()


def told(*, simulated: bool) -> tuple[Messages, Tick]:
    names = Signals(
        namespace("crane"), ("x", "r"), ("x", "r", "p_x", "v_r"), ("force",), ("r",), ("cart.x",), simulated
    )
    tick = Tick(
        stamp=1_700_000_000 * SECOND + 5,
        tick=3,
        state="running",
        reason="",
        plant=(0.25, 1.5) if simulated else (),
        estimate=(0.5, 2.0, 0.125, 0.0),
        reference=(0.75, 1.75, 0.0, 0.0),
        command=(-3.5, 1.625),
        measured=(math.nan,),
        counts=(0, 0, 0, 0),
    )
    return Messages(names, crane()), tick


def read(made: Messages, message: Message) -> Any:
    return made.types.store.deserialize_cdr(message.data, message.topic.type)


def by_topic(made: Messages, tick: Tick) -> dict[str, Any]:
    return {message.topic.name: read(made, message) for message in made.of(tick)}


def test_forces_are_efforts_and_positions_positions() -> None:
    command = by_topic(*told(simulated=True))["/crane/command"]
    assert command.name == ["force", "r"]
    assert command.effort[0] == -3.5
    assert command.position[1] == 1.625
    assert math.isnan(command.effort[1])
    assert math.isnan(command.position[0])
    assert (command.header.stamp.sec, command.header.stamp.nanosec) == (1_700_000_000, 5)


@pytest.mark.parametrize(("simulated", "pose"), [(True, (0.25, 1.5)), (False, (0.5, 2.0))])
def test_frames_are_those_of_the_estimate_where_no_plant_is_known(simulated: bool, pose: tuple[float, float]) -> None:
    made, tick = told(simulated=simulated)
    found = by_topic(made, tick)
    assert ("/crane/plant" in found) is simulated
    assert (made.topics.plant in made.topics.live) is simulated
    places = {one.child_frame_id: one.transform.translation for one in found["/tf"].transforms}
    assert (places["load"].x, places["load"].y) == pose
    assert {one.header.frame_id for one in found["/tf"].transforms} == {"world"}


def test_all_that_is_told_has_an_announced_topic() -> None:
    made, tick = told(simulated=True)
    messages = [*made.of(tick), made.event(Event(tick.stamp, "armed"))]
    assert {message.topic for message in messages} == set(made.topics.live)


def test_the_supervisor_is_told_of_when_it_changes_and_every_second() -> None:
    made, tick = told(simulated=True)
    health = "/diagnostics"
    assert by_topic(made, tick)[health].status[0].level == 0
    assert health not in by_topic(made, replace(tick, stamp=tick.stamp + SECOND // 2))
    assert health in by_topic(made, replace(tick, stamp=tick.stamp + SECOND))
    fault = replace(tick, stamp=tick.stamp + SECOND + 1, state="fault", reason="a motor is late", counts=(1, 2, 3, 4))
    (status,) = by_topic(made, fault)[health].status
    assert (status.level, status.message) == (2, "fault: a motor is late")
    assert {pair.key: pair.value for pair in status.values} == {
        "state": "fault",
        "tick": "3",
        "saturations": "1",
        "gated": "2",
        "faults": "3",
        "dropped by the bridge": "4",
    }


@pytest.mark.parametrize("stamp", [-1, 2**31 * SECOND])
def test_stamps_that_ros_does_not_have(stamp: int) -> None:
    made, tick = told(simulated=True)
    with pytest.raises(DamagedError, match="ROS 2 has no such time"):
        list(made.of(replace(tick, stamp=stamp)))


def test_events_that_are_bad_are_warnings() -> None:
    made, tick = told(simulated=True)
    levels = [read(made, made.event(Event(tick.stamp, text))).level for text in ("armed", "fault: cut", "an error")]
    assert levels == [20, 30, 30]
