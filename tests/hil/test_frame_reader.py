"""Sensors that take long, beside a run that goes by the clock."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from stepmap.arrays import Array
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.sensors.base import SensorError
from stepmap_hil.sensors.frame_reader import FrameReader
from stepmap_hil.sensors.gaussian import Gaussian
from stepmap_hil.sensors.measurement import Measurement
from tests.hil.rigs import quiet, rig
from tests.processes import PATIENCE, run_python, wait_for
from tests.realtime import real_time

SLOW = 0.012  # s
CHANNELS = ("mass.x", "mass.y", "robot", "string")


class Slow(Gaussian):
    """Takes a while to read a frame."""

    threads: set[int]
    seconds = SLOW

    def __init__(self, sigma: Array, seed: int) -> None:
        super().__init__(sigma, seed)
        self.threads = set()

    def look(self, plant: Plant, time: float) -> Measurement:
        return self.read(self.expose(plant), time)

    def expose(self, plant: Plant) -> Array:
        return plant.readings()

    def read(self, exposed: Array, at: float) -> Measurement:
        self.threads.add(threading.get_ident())
        if self.unplugged:
            raise SensorError("the sensor is gone. Check its plug.")
        time.sleep(self.seconds if at > 0 else SLOW)  # the board waits not so long for what calibrates it
        return Measurement(exposed + self.sigma * self.rng.standard_normal(len(exposed)), (1 << len(exposed)) - 1)


@pytest.fixture
def plant() -> Plant:
    made = rig()
    return Plant(made.job, made.controller.axes, made.settings.plant)


def sample(plant: Plant, at: float = 0.0) -> Measurement:
    return Measurement.sample(plant, at, arrived=time.perf_counter())


def awaited(reader: FrameReader) -> Measurement:
    found: list[Measurement] = []

    def taken() -> bool:
        seen = reader.take()
        found.extend([] if seen is None else [seen])
        return bool(found)

    wait_for(taken, "a frame")
    return found[0]


class Held(Slow):
    """Reads a frame only when it may."""

    def __init__(self) -> None:
        super().__init__(np.zeros(4), 1)
        self.may = threading.Event()

    def read(self, exposed: Array, at: float) -> Measurement:
        assert self.may.wait(PATIENCE)
        return super().read(exposed, at)


def test_a_slow_sensor_is_not_waited_for(plant: Plant) -> None:
    sensor = Held()
    reader = FrameReader(sensor, CHANNELS, in_thread=True)
    then = sample(plant, at=1.0)
    reader.start(plant, then)  # returns, although nothing can be read yet
    assert reader.busy
    assert reader.take() is None
    truth = plant.readings().copy()
    plant.advance([1000, 1000, 0, 0], True, 0.1)  # goes on meanwhile; the frame shows what was
    assert np.abs(plant.readings() - truth).max() > 1e-3
    sensor.may.set()
    seen = awaited(reader)
    assert (seen.time, seen.arrived) == (then.time, then.arrived)
    assert seen.coordinates is then.coordinates
    assert np.array_equal(seen.z, truth)
    assert not reader.busy
    assert reader.take() is None
    reader.close()


@pytest.mark.parametrize("sensor", [Slow(np.zeros(4), 1), Gaussian(np.zeros(4), 1)])
def test_where_time_waits_it_is_looked_at_once(sensor: Gaussian, plant: Plant) -> None:
    reader = FrameReader(sensor, CHANNELS, in_thread=False)
    reader.start(plant, sample(plant))
    assert reader.take() is not None
    assert getattr(sensor, "threads", {threading.get_ident()}) == {threading.get_ident()}
    reader.close()


@pytest.mark.parametrize("in_thread", [True, False])
def test_a_sensor_that_is_gone_says_so_when_its_frame_is_asked_for(in_thread: bool, plant: Plant) -> None:
    sensor = Slow(np.zeros(4), 1)
    sensor.unplug()
    reader = FrameReader(sensor, CHANNELS, in_thread=in_thread)
    reader.start(plant, sample(plant))
    with pytest.raises(SensorError, match="is gone"):
        awaited(reader)
    reader.close()


@pytest.mark.realtime
def test_a_run_by_the_clock_goes_on_while_a_frame_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepmap_hil.sensors.gaussian.Gaussian", Slow)
    made = replace(rig(ticks=60), mode="realtime")
    with real_time():
        run = closed_loop(made, None, quiet)
        measured = [row for row in run.rows if row.measured]
        assert len(measured) >= 50
    assert all(row.latency_ms > 1e3 * SLOW for row in measured)
    assert made.job.noise is not None
    sigma = made.job.noise.measurement
    assert all(np.all(np.abs(np.array(row.z) - np.array(row.truth)) < 6 * sigma) for row in measured)


@pytest.mark.realtime
def test_frames_that_come_while_one_is_read_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every frame takes longer than a period: one of two or three is read."""
    monkeypatch.setattr("stepmap_hil.sensors.gaussian.Gaussian", Slow)
    monkeypatch.setattr(Slow, "seconds", 0.045)
    with real_time():
        run = closed_loop(replace(rig(ticks=40), mode="realtime"), None, quiet)
        assert run.misses >= 0.4 * len([row for row in run.rows if row.running])


class Stalling(Slow):
    """Reads all frames at once but one, shortly before a run begins, which takes longer than a board may wait."""

    stalled = False

    def read(self, exposed: Array, at: float) -> Measurement:
        if at > 0.1 and not self.stalled:
            self.stalled = True
            time.sleep(0.25)  # a board refuses to run after 0.2 s without a measurement
        return super().read(exposed, at)


@pytest.mark.realtime
def test_a_run_begins_when_the_board_has_a_fresh_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the last frame took before it: the board is at rest, so nothing is lost by waiting."""
    monkeypatch.setattr("stepmap_hil.sensors.gaussian.Gaussian", Stalling)
    with real_time():
        run = closed_loop(replace(rig(ticks=10), mode="realtime"), None, quiet)
        assert run.ended == ""
        assert [text for _, text in run.events] == ["armed", "running", "stopped"]


def test_a_frame_that_is_read_is_taken_before_the_next(plant: Plant) -> None:
    """However late that is asked for: it is there, and the camera is free."""
    sensor = Slow(np.zeros(4), 1)
    reader = FrameReader(sensor, CHANNELS, in_thread=True)
    for k in range(3):
        then = sample(plant, at=1.0 + k)
        reader.start(plant, then)
        wait_for(lambda: reader.wait(0.1), "a frame is read")
        found = reader.take()
        assert found is not None
        assert found.coordinates is then.coordinates
        assert not reader.busy
    reader.close()


def test_an_interrupt_at_any_time_leaves_no_lock() -> None:
    """Thousands of them while frames are asked for, waited for and taken; closing then takes no longer than a frame."""
    code = """
import random, signal, time
from types import SimpleNamespace
from stepmap_hil.sensors.frame_reader import FrameReader
from stepmap_hil.sensors.measurement import Measurement

class Eye:
    def expose(self, plant):
        return 0
    def read(self, exposed, at):
        time.sleep(2e-4)
        return Measurement([], 0)
    look = unplug = close = None

def interrupt(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
chance = random.Random(1)
longest = 0.0
for _ in range(1500):
    reader = FrameReader(Eye(), (), in_thread=True)
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-4, 2e-3))
        while True:
            if not reader.busy:
                reader.start(None, Measurement([], 0))
            reader.wait(1e-4)
            reader.take()
    except KeyboardInterrupt:
        pass
    begun = time.perf_counter()
    reader.close()
    longest = max(longest, time.perf_counter() - begun)
print(longest)
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) < 4.5  # a lock that is left taken costs the whole patience of 5 s
