"""[stream] of a job, the tangent of equilibria, and the limiter that the board has bit for bit."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepmap import jobs
from stepmap.errors import JobError, ModelError
from stepmap.systems import get
from stepmap.toml.tables import parse_text
from stepmap_codegen.emit.schedule import Schedule, unpack
from stepmap_codegen.model.scalar import Scalar
from stepmap_codegen.stream.follower import Follower, RawLimits, raw_limits, slowed, toward
from stepmap_codegen.stream.settings import MOST, Quantity, Stream, read_stream
from stepmap_codegen.stream.tangent import extremes, require_inside, tangent
from tests.pages import ROOT

STREAMS = ROOT / "examples" / "streams"


def streamed(*names: str, job: str = "mass") -> tuple[jobs.Job, Stream]:
    made = jobs.load(STREAMS / f"{job}.toml")
    whole = read_stream(made.root, made.system)
    assert whole is not None
    return made, Stream(tuple(q for q in whole.quantities if q.name in names), whole.hold) if names else whole


def test_equilibria_of_the_suspended_mass() -> None:
    """The robot is above the mass, the string as long as the mass is below the rail, and both move with it."""
    job, stream = streamed()
    step = job.step
    x, u = step.equilibrium({"xm": 0.0, "ym": 0.3, "xr": 0.0, "r": 0.7})
    at = tangent(stream, step, x, u)
    mass, dt = 0.1, 1 / 30
    #                xm ym xr r  p_xm      p_ym      v_xr    v_r     xr r
    assert pytest.approx(np.array([[1, 0, 1, 0, 0, 0, 0, 0, 1, 0], [0, 1, 0, -1, 0, 0, 0, 0, 0, -1]]), abs=1e-9) == at.D
    moving = [[0, 0, 0, 0, mass / dt, 0, 1 / dt, 0, 1, 0], [0, 0, 0, 0, 0, mass / dt, 0, -1 / dt, 0, -1]]
    assert pytest.approx(np.array(moving), abs=1e-7) == at.E
    for s in ([0.2, 0.4], [-0.3, 0.25]):
        found, held = np.split(at.reference(np.array(s), np.zeros(2)), [step.nx])
        assert step.step(found, held).x == pytest.approx(found, abs=1e-12)
        ds = np.array([0.004, -0.002])  # a tick of a motion at constant speed is one of the model
        now, push = np.split(at.reference(np.array(s), ds), [step.nx])
        assert step.step(now, push).x == pytest.approx(at.reference(np.array(s) + ds, ds)[: step.nx], abs=1e-12)


def test_torques_of_the_arm_follow_its_weight() -> None:
    """Against the torques that hold poses nearby, by static balance; the error is of second order."""
    job, stream = streamed(job="arm")
    step, pose = job.step, np.array([0.6, 1.2, -0.5])
    torque = step.holding_forces(pose)
    assert torque is not None
    at = tangent(stream, step, step.rest(pose, torque), torque)
    for k in range(3):
        off = 1e-4 * np.eye(3)[k]
        ahead, behind = step.holding_forces(pose + off), step.holding_forces(pose - off)
        assert ahead is not None
        assert behind is not None
        assert at.D[k, step.nx :] == pytest.approx((ahead - behind) / 2e-4, abs=1e-5)


def test_what_cannot_be_set_is_refused() -> None:
    job, stream = streamed()
    step = job.step
    x, u = step.equilibrium({"xm": 0.0, "ym": 0.3, "xr": 0.0, "r": 0.7})
    both = Stream((stream.quantities[0], Quantity("xr", "m", 2, -0.4, 0.4, 0.4, 0.8)))
    with pytest.raises(ModelError, match="xm, xr cannot be set each by itself"):
        tangent(both, step, x, u)
    at = tangent(stream, step, x, u)
    deep = Stream((stream.quantities[0], Quantity("ym", "m", 1, -0.8, 0.5, 0.2, 0.4)))
    with pytest.raises(ModelError, match=r"ym = -0.8 r would be 1.8 m, outside its limits"):
        require_inside(deep, step, at, np.zeros((step.nu, step.nx)))
    away = Stream((Quantity("xm", "m", 0, 0.1, 0.4, 0.2, 0.4), stream.quantities[1]))
    with pytest.raises(ModelError, match=r"the plan ends at 0 m, outside 0.1 … 0.4"):
        require_inside(away, step, at, np.zeros((step.nu, step.nx)))


TABLES = {
    "[stream]\n": r":1: .*names no coordinate",
    "[stream.of]\nxn = { rate = 1 }\n": r":2: .*no coordinate is called 'xn'",
    "[stream.of]\nxm = { low = -0.1 }\n": r":2: .*'rate' is missing",
    "[stream.of]\nxm = { rate = 0 }\n": r":2: .*must be positive, got 0",
    "[stream.of]\nxm = { rate = 1, acceleration = -1 }\n": r":2: .*must be positive, got -1",
    "[stream.of]\nxm = { rate = 1, low = -9 }\n": r":2: .*beyond the system's limit, -1",
    "[stream.of]\nxm = { rate = 1, low = 0.2, high = 0.1 }\n": r":2: .*low must be below high",
    "[stream]\nhold = 0\n[stream.of]\nxm = { rate = 1 }\n": r":2: .*must be above 0 and at most 60 s",
}


@pytest.mark.parametrize("text", TABLES)
def test_a_bad_table_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(JobError) as caught:
        read_stream(parse_text(text.encode(), "job.toml", {}), get("suspended_mass"))
    assert re.search(TABLES[text], str(caught.value)), str(caught.value)


def test_messages_carry_as_many_as_a_job_may_stream() -> None:
    xml = ElementTree.parse(ROOT / "firmware" / "dialect" / "stepmap.xml")
    entry = xml.find("./enums/enum[@name='STEPMAP_STREAM_LIMIT']/entry")
    assert entry is not None
    assert int(entry.get("value", "")) == MOST


@given(st.integers(-(2**30), 2**30), st.integers(-(2**30), 2**30), st.integers(2**16, 2**26), st.floats(0.02, 2.0))
def test_a_value_arrives_without_overshoot(start: int, target: int, most: int, share: float) -> None:
    """Within its rate and acceleration, and not much later than the fastest way there."""
    change = max(int(share * most), 1)
    value, speed, ticks = start, 0, 0
    low, high = sorted((start, target))
    fastest = abs(target - start) / most + 2 * most / change
    while (value != target or speed) and ticks < 2 * fastest + 10:
        made = toward(target - value, speed, most, change)
        assert abs(made) <= most
        assert abs(made - speed) <= change
        value, speed, ticks = value + made, made, ticks + 1
        assert low <= value <= high
    assert (value, speed) == (target, 0)


@given(st.integers(-(2**29), 2**29), st.integers(1, 2**30))
def test_slowing_down_ends_at_rest(speed: int, change: int) -> None:
    assert abs(slowed(speed, change)) == max(abs(speed) - change, 0)


def test_a_lost_host_lets_it_roll_out() -> None:
    made = Follower([RawLimits(-1000, 1000, 20, 5)], [0], np.array([0, 0]), np.zeros((2, 2)), 32)
    made.take([5000])
    for _ in range(10):
        made.step(moves=True, lost=False)
    assert made.target == [1000]
    assert made.next[0] - made.value[0] == 20
    for _ in range(5):
        made.step(moves=True, lost=True)
    assert made.next == made.value
    assert made.value[0] < 1000
    made.step(moves=False, lost=False)
    assert made.next == made.value  # motors that may not follow


def test_limits_are_rounded_inwards() -> None:
    stream = Stream((Quantity("x", "m", 0, -0.1, 0.1, 0.3, 1.0),))
    (raw,) = raw_limits(stream, [10], 1 / 30)
    assert raw == RawLimits(-102, 102, 10, 1)  # 102.4, 10.24 and 1.1 of 1024


def test_ranges_are_measured_up_to_the_corners() -> None:
    _, stream = streamed()
    path = extremes(stream, np.array([0.0, 0.3]), 1 / 30)
    assert path.min(axis=0) == pytest.approx([-0.4, 0.2])
    assert path.max(axis=0) == pytest.approx([0.4, 0.5])
    assert path[-1] == pytest.approx([0.0, 0.3])
    assert np.abs(np.diff(path, axis=0)).max(axis=0) == pytest.approx(np.array([0.4, 0.2]) / 30)


def test_a_schedule_carries_its_tangent() -> None:
    rows = np.arange(6, dtype=np.int64).reshape(3, 2)
    slopes = np.array([[7, -8], [9, 10]], dtype=np.int64)
    for hold in (None, np.array([5, 6], dtype=np.int64)):
        made = Schedule("00" * 8, Scalar.FIXED32, 32, 10000, (3, 4), rows, hold, slopes)
        found = unpack(made.pack())
        assert found.streams == 1
        assert np.array_equal(found.rows, rows)
        assert found.tangent is not None
        assert np.array_equal(found.tangent, slopes)
        assert (found.hold is None) == (hold is None)
