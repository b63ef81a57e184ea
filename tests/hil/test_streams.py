"""Set-points that come while a board runs: from a CSV file, a joystick, or anywhere, followed within limits."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from stepmap.arrays import Array
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.bench.setup import Setup
from stepmap_hil.commands.bench.prepare import prepare
from stepmap_hil.commands.bench.request import Request, read
from stepmap_hil.report.series import series
from stepmap_hil.report.summary import bit_exact
from stepmap_hil.runs.followed import set_points
from stepmap_hil.runs.log import Run
from stepmap_hil.runs.stage_times import StageClock
from stepmap_hil.setpoints.joystick import JoystickReference
from stepmap_hil.wire import dialect
from tests.hil.commands import call
from tests.hil.rigs import quiet
from tests.pil.built import ROOT
from tests.realtime import real_time
from tests.undrawn import STEPMAP

FOLDER = ROOT / "examples" / "streams"
JOB, TABLE = FOLDER / "mass.toml", FOLDER / "mass.csv"
PLAN = 60  # ticks
RATE, ACCELERATION = np.array([0.4, 0.2]), np.array([0.8, 0.4])  # of the job; the latter twice the rate per second
LOW, HIGH = np.array([-0.4, 0.2]), np.array([0.4, 0.5])
DT = 1 / 30
HELD, FOLLOWED = (dialect.value(f"STEPMAP_STREAM_{name}") for name in ("HOLDING", "FOLLOWING"))


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder with a run of the job on a process, with the set-points of a file."""
    folder = tmp_path_factory.mktemp("streams")
    options = ["--reference", str(TABLE), "--seconds", "5", "--build", str(folder), "--no-open-loop"]
    code, told, complaints = call([*STEPMAP, "bench", str(JOB), *options])
    assert (code, complaints) == (0, ""), told
    return folder


@pytest.fixture(scope="module")
def setup(build: Path) -> Setup:
    request = Request(
        file=JOB,
        board="native",
        port=None,
        sensor=None,
        seed=1,
        mode="lockstep",
        seconds=None,
        reference=None,
        faults=None,
        open_loop=False,
        key=None,
        rig=None,
        unattended=False,
        live=False,
        build=build,
        runs=None,
    )
    return prepare(request, read(request), StageClock()).setup


@dataclass(frozen=True)
class Scripted:
    """Set-points as a function of the time after the plan; a host that may say anything."""

    of: Callable[[float], Array | None]
    seconds: float = 2.0
    repeatable: bool = True

    def open(self, start: Array) -> Scripted:
        return self

    def at(self, t: float) -> Array | None:
        return self.of(t)

    def close(self) -> None:
        pass


def values(setup: Setup, run: Run) -> Array:
    """Set-points that the board followed, from the plan's end on."""
    return np.array([set_points(setup.controller, run.followed[k].value) for k in sorted(run.followed) if k >= PLAN])


@pytest.mark.parametrize("name", ["arm", "crane", "mass"])
def test_the_examples_check(name: str, tmp_path: Path) -> None:
    job, build = str(FOLDER / f"{name}.toml"), str(tmp_path)
    code, told, complaints = call([*STEPMAP, "check", job, "--board", "stm32f405", "--build", build])
    assert (code, complaints) == (0, ""), told


def test_a_file_is_followed_bit_for_bit(build: Path) -> None:
    """The same on a Cortex-M4, which the recording is sent to; what came of it is 10 % off the model."""
    folder = build / "mass" / "bench"
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["ended"], summary["ticks"], summary["bit_exact_with_host"]) == ("done", PLAN + 3 * 30, True)
    assert (summary["set_points"]["ticks"], summary["set_points"]["held_ticks"]) == (3 * 30, 0)
    assert summary["set_points"]["followed"]["ym"]["rms"] < 0.01  # the string lifts the mass; only xm swings
    assert summary["saturations"] == summary["faults"] == 0
    # The file asks for corners that nothing that swings can go around: half the swing of a pendulum of 0.7 m whose
    # hook changes its speed by 0.3 m/s is 0.3 sqrt(0.7/9.8) = 80 mm.
    assert summary["tracking_max_m"] < 0.08
    options = ["--board", "stm32f405", "--build", str(build)]
    code, told, complaints = call([*STEPMAP, "replay", str(folder / "run.mcap"), *options])
    assert (code, complaints) == (0, "")
    assert "160 of 160 ticks the same" in told


def test_limits_are_those_of_the_board(setup: Setup) -> None:
    """A host that asks for a kilometre at once gets the limits of value, rate and acceleration."""
    wild = Scripted(lambda t: np.array([1e3, -1e3]) if t < 2 else np.array([-1e3, 1e3]), seconds=4.0)
    run = closed_loop(replace(setup, reference=wild), None, quiet)
    followed = values(setup, run)
    assert run.ended == ""
    assert bit_exact(setup.controller, run) is True
    unit = 2.0**-28  # of the coarsest format here, and rates are rounded down
    assert (followed >= LOW - unit).all()
    assert (followed <= HIGH + unit).all()
    speed = np.diff(followed, axis=0) / DT
    assert (np.abs(speed) <= RATE + 1e-6).all()
    assert (np.abs(np.diff(speed, axis=0)) / DT <= ACCELERATION + 1e-4).all()
    assert np.abs(speed).max(axis=0) == pytest.approx(RATE, rel=1e-3)
    assert followed[:, 0].max() == pytest.approx(HIGH[0], abs=1e-6)
    assert followed[:, 1].min() == pytest.approx(LOW[1], abs=1e-6)
    reference = series(setup.controller, run).reference
    assert reference[PLAN:, :2] == pytest.approx(followed[: len(reference) - PLAN], abs=1e-6)


@pytest.mark.prepares
def test_it_stays_where_it_is_when_set_points_stop(setup: Setup) -> None:
    """Half a second later, and goes on when they come back."""
    far, silent = np.array([0.4, 0.3]), (0.2, 1.7)
    lost = Scripted(lambda t: None if silent[0] < t < silent[1] else far, seconds=3.0)
    run = closed_loop(replace(setup, reference=lost), None, quiet)
    assert bit_exact(setup.controller, run) is True
    followed, ticks = values(setup, run)[:, 0], sorted(run.followed)
    states = [run.followed[k].state for k in ticks if k >= PLAN]
    first = states.index(HELD)
    assert first * DT == pytest.approx(silent[0] + 0.5, abs=1.5 * DT)  # hold of the job
    held = [k for k, state in enumerate(states) if state == HELD]
    # braking from the speed after 0.7 s at 0.8 m/s², at most 0.4 m/s, takes 0.4²/1.6 = 0.1 m
    resting = followed[first + 16 : held[-1] + 1]
    assert len(resting) > 5
    assert np.ptp(resting) == 0.0
    assert followed[first] < resting[0] < followed[first] + 0.11
    assert resting[0] < 0.35
    assert followed[-1] > resting[0] + 0.05


def test_a_joystick_moves_the_set_points(setup: Setup, tmp_path: Path) -> None:
    """Events as the kernel sends them (linux/joystick.h): where the sticks are, then pushed right, then let go."""
    pipe = tmp_path / "js0"
    os.mkfifo(pipe)
    keep = os.open(pipe, os.O_RDWR)
    try:
        stick = JoystickReference(pipe, setup.controller.plant.stream)  # type: ignore[arg-type]
        begun = struct.pack("<IhBB", 1, 0, 0x82, 0) + struct.pack("<IhBB", 1, 0, 0x81, 3)
        os.write(keep, begun + struct.pack("<IhBB", 5, 16384, 0x02, 0))
        source = stick.open(np.array([0.0, 0.3]))
        assert source.at(0.0) == pytest.approx([0.0, 0.3])
        assert source.at(0.5) == pytest.approx([0.5 * 0.4 / 2, 0.3], abs=1e-4)  # half of the rate
        os.write(keep, struct.pack("<IhBB", 9, 0, 0x02, 0)[:3])  # an event in two parts
        os.write(keep, struct.pack("<IhBB", 9, 0, 0x02, 0)[3:] + struct.pack("<IhBB", 9, -32767, 0x02, 1))
        assert source.at(1.0) == pytest.approx([0.1, 0.3 + 0.5 * 0.2], abs=1e-4)  # forwards is up
        assert source.at(9.0) == pytest.approx([0.1, 0.5], abs=1e-4)  # and no farther
        source.close()
        os.write(keep, struct.pack("<IhBB", 20, 32767, 0x02, 0))
        run = closed_loop(replace(setup, reference=stick, ticks=PLAN + 45), None, quiet)
    finally:
        os.close(keep)
    assert bit_exact(setup.controller, run) is True
    last = run.followed[max(run.followed)]
    assert last.state == FOLLOWED
    # 1.5 s at the full rate, less the 0.25 s that speeding up to it takes
    assert set_points(setup.controller, last.value)[0] == pytest.approx(1.25 * 0.4, abs=0.12)
    assert run.rows[-1].coordinates[0] > 0.2


@pytest.mark.realtime
def test_real_time(setup: Setup) -> None:
    made = replace(setup, reference=read_file(setup), mode="realtime", ticks=PLAN + 45)
    with real_time():
        run = closed_loop(made, None, quiet)
        assert run.ended == ""
        assert run.misses <= 5
        assert run.followed[max(run.followed)].state == FOLLOWED
        assert values(setup, run)[-1, 0] > 0.01  # after 1.5 s the file has gone 100 mm to the right
    assert bit_exact(setup.controller, run) is not False


def read_file(setup: Setup) -> JoystickReference:
    from stepmap_hil.setpoints.base import read_reference

    return read_reference(str(TABLE), setup.controller.plant.stream, "mass")  # type: ignore[return-value]


BAD = {
    "t,xn\n0,0\n": r":1: column 2: no streamed coordinate is called 'xn'.*Did you mean 'xm'",
    "xm\n0\n": r":1: no column is called 't'",
    "t,xm [kg]\n0,0\n": r":1: xm is in 'kg', and may be in m, mm, cm",
    "t,xm\n0,0\n1,0\n1,0.1\n": r":4: t must increase from row to row, got 1 after 1",
    "t,xm [mm]\n0,0\n5,450\n": r":3: xm is 0.45 m, outside -0.4 … 0.4",
    "t,ym\n0,0.3\n1,0.5\n1.5,0.25\n": r":4: ym changes by 0.5 m/s up to here, and may by 0.2",
    "t,xm\n0,zero\n": r":2: xm: expected a number, got 'zero'",
    "t,xm\n-1,0\n": r":2: t counts from the end of the plan, got -1",
    "t\n0\n": r":1: has no column but t",
}


@pytest.fixture(params=BAD, ids=lambda text: text.split("\n")[0] + "…")
def bad(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    file = tmp_path / "path.csv"
    file.write_text(request.param)
    return file, BAD[request.param]


def test_a_bad_file_is_refused_before_anything_is_made(bad: tuple[Path, str], tmp_path: Path) -> None:
    file, words = bad
    code, _, complaints = call([*STEPMAP, "bench", str(JOB), "--reference", str(file), "--build", str(tmp_path)])
    assert code == 2
    joined = " ".join(complaints.split())
    assert re.search(words, joined), joined
    assert not (tmp_path / "mass").exists()


def test_other_references_are_refused(tmp_path: Path) -> None:
    def told(job: Path, reference: str) -> str:
        words = [*STEPMAP, "bench", str(job), "--reference", reference, "--build", str(tmp_path)]
        code, _, complaints = call(words)
        assert code == 2
        return " ".join(complaints.split())

    assert "streams no set-points" in told(ROOT / "examples" / "suspended_mass.toml", str(TABLE))
    assert "cannot be read: No such file" in told(JOB, str(tmp_path / "none.csv"))
    if not list(Path("/dev/input").glob("js*")):
        assert "this computer has none (no /dev/input/js*)" in told(JOB, "joystick")
