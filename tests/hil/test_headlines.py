"""What summary, table and report say is so: same ticks on both sides, no clock where none is kept, causes in order."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from stepmap_hil.bench.execute import closed_loop, open_loop
from stepmap_hil.bench.facts import facts
from stepmap_hil.report import sentences
from stepmap_hil.report import write as results
from stepmap_hil.report.series import rms, roughness, series
from stepmap_hil.report.summary import comparison, summarize
from stepmap_hil.runs.diagnosis import (
    GATED_LIMIT,
    HOLD_S,
    NIS_LIMIT,
    NIS_WINDOW,
    Circumstances,
    Diagnosis,
    diagnose,
    too_slow,
)
from stepmap_hil.runs.log import Run, Stop, errors
from stepmap_hil.wire.reasons import Reason
from tests.hil.rigs import quiet, rig
from tests.pil.built import ROOT, solution

FACTS = {"seed": 1, "sensor": "gaussian", "flash_bytes": None, "ram_bytes": None, "instructions_per_tick": None}


@cache
def closed(faults: str | None = None) -> Run:
    return closed_loop(rig(faults=faults, ticks=90), None, quiet)


@cache
def opened() -> Run:
    return open_loop(rig(ticks=90), quiet)


def summary(run: Run, other: Run | None = None) -> dict[str, object]:
    controller = solution()[1]
    mine, theirs = series(controller, run), None if other is None else series(controller, other)
    return summarize(controller, run, mine, {**comparison(controller, mine, theirs), **FACTS})


def table(found: dict[str, object]) -> dict[str, str]:
    return dict(sentences.table(found))


# The same span


def test_open_and_closed_loop_are_compared_over_the_same_ticks() -> None:
    """The board stops this run after a third of it; the open loop went on, and farther away."""
    run, controller = closed("wrong_object"), solution()[1]
    found = summary(run, opened())
    mine, other = series(controller, run), series(controller, opened())
    count = len(mine.tick)
    assert 30 < count < 60 < len(other.tick)
    assert (found["compared_ticks"], found["ticks"]) == (count, count)
    # by hand: the first ticks of the open loop
    far = errors(controller, other.coordinates, other.reference)
    assert found["open_loop_rms_m"] == pytest.approx(np.sqrt(np.mean(far[:count] ** 2)))
    assert found["open_loop_rms_m"] != pytest.approx(np.sqrt(np.mean(far**2)), rel=0.01)
    assert found["closed_loop_rms_m"] == found["tracking_rms_m"]
    told = table(found)["with feedback"]
    a, b, n, ratio = map(float, re.findall(r"[\d.]+", told))
    assert a == pytest.approx(1e3 * float(str(found["open_loop_rms_m"])), rel=0.01)
    assert b == pytest.approx(1e3 * float(str(found["closed_loop_rms_m"])), rel=0.01)
    assert (n, ratio) == (count, pytest.approx(max(a / b, b / a), rel=0.02))
    assert ("better" in told) == (a > b)


def test_both_begin_in_the_same_state() -> None:
    """From arming on, to the bit, whatever the gains: nothing moves before the command to run."""
    before = [[row.coordinates for row in run.rows if not row.running] for run in (closed(), opened())]
    assert len(before[0]) >= 10
    assert before[0] == before[1]
    assert summary(closed(), opened())["open_loop_start_apart_m"] == 0.0


def test_a_start_that_differs_is_told() -> None:
    rows = [replace(row, coordinates=[row.coordinates[0] + 0.01, *row.coordinates[1:]]) for row in opened().rows]
    found = summary(closed(), replace(opened(), rows=rows))
    assert found["open_loop_start_apart_m"] == pytest.approx(0.01)
    assert "they began 10 mm apart" in table(found)["with feedback"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (6.7e-3, 5.3e-3, ": 1.26 times better"),
        (5.3e-3, 6.7e-3, ": 1.26 times worse"),
        (0.5, 0.01, ": 50.0 times better"),
        (1e-3, 1e-3, ": no difference"),
        (1e-3, 0.0, ""),
    ],
)
def test_a_ratio_says_which_way(before: float, after: float, told: str) -> None:
    assert sentences._times_better(before, after) == told


def test_measurements_and_estimates_are_compared_at_the_same_ticks_and_channels() -> None:
    run, controller = closed("goes_on"), solution()[1]
    found, s = summary(run), series(controller, run)
    seen = s.valid.all(axis=1)
    assert 0 < np.sum(~seen) < 30  # some frames are lost
    own = rms(s.estimate[seen, :2] - s.truth[seen, :2])  # this job measures where its one mass is
    assert found["filtered_measurement_rms_m"] == pytest.approx(own)
    assert found["raw_measurement_rms_m"] == pytest.approx(rms((s.measured - s.truth)[seen, :2]))
    assert found["measured_channels"] == "mass.x, mass.y"


def test_roughness_is_of_ticks_that_follow_each_other() -> None:
    s = series(solution()[1], closed())
    whole = roughness(s.command, s)
    jumped = s.at(np.arange(len(s.tick)) % 10 < 5)  # telemetry that is lost makes no jump of commands
    assert whole is not None
    assert roughness(jumped.command, jumped) == pytest.approx(whole, rel=0.5)
    assert rms(np.diff(jumped.command, 2, axis=0)) > 2 * whole


# No clock in lock-step; whose fault it was


def test_lock_step_has_no_latency() -> None:
    found = summary(closed())
    assert found["latency_ms"] is None
    assert found["jitter_ms"] is None
    assert not {"latency", "jitter"} & set(table(found))
    assert all(row.latency_ms == 0.0 for row in closed().rows)


def test_faults_of_the_board_and_injected_ones_are_told_apart() -> None:
    found = summary(closed("wrong_object"))
    assert (found["faults"], found["injected_faults"]) == (0, 1)
    told = table(found)
    assert "0 faults of its own" in told["board counted"]
    assert told["injected faults"] == "1 of 1 happened"
    stuck = summary(closed("encoder"))
    assert (stuck["faults"], stuck["injected_faults"]) == (1, 1)


# Why it ended


def ended(faults: str) -> tuple[str, list[str]]:
    run = closed(faults)
    return run.ended, run.suspects


def test_a_gated_channel_is_named_with_its_size() -> None:
    told, causes = ended("wrong_object")
    found = re.fullmatch(
        r"stopped: measurements stayed implausible at tick (\d+) \(([\d.]+) s\): mass\.x \+([\d.e+]+) σ \(gate 5 σ\), "
        r"the last of 10 measurements in a row",
        told,
    )
    assert found is not None, told
    assert float(found[3]) > 20  # 0.3 m
    assert float(found[2]) == pytest.approx(int(found[1]) / 30, abs=0.04)
    assert causes[0].startswith("the injected fault jump in mass.x, which began 0.3")
    assert "tracker" in causes[1]


def test_a_sensor_that_is_as_the_job_says_is_no_suspect() -> None:
    """The same innovations in a bench without a fault: what it simulates is wrong, not what it measures with."""
    run = replace(closed("wrong_object"), stop=Stop("stopped", "gated", 3.0), suspects=[])
    exact, tracked = (Circumstances("lockstep", "simulated", name, "native") for name in ("gaussian", "kinect"))
    diagnose(solution()[1], run, exact)
    assert run.suspects[0] == "mass.x alone disagrees: something acts there that [noise.process] does not allow for"
    diagnose(solution()[1], run, tracked)
    assert run.suspects[0].startswith("mass.x alone disagrees: its tracker or encoder")


def test_a_blocked_motor_is_named() -> None:
    told, causes = ended("stuck")
    assert re.search(
        r"fault: a motor did not follow its target at tick \d+ .*: xr [+-][\d.]+ mm from its command", told
    )
    assert causes[0].startswith("the injected fault stuck")


def test_blindness_is_told_with_its_length() -> None:
    told, causes = ended("occluded")
    assert re.search(r"stopped: .* at tick \d+ \(1\.2\d s\): no channel was taken for 0\.2\d s \(limit 0\.2 s\)", told)
    assert causes[0].startswith("the injected fault occluded")


def test_a_fault_that_still_acts_is_a_suspect_however_long_ago_it_began(tmp_path: Path) -> None:
    """It has a count of frames, and no length of time. All channels come in one frame, and are missing together."""
    file = tmp_path / "faults.toml"
    file.write_text('[[fault]]\nkind = "dropped"\nvalue = 0.6\ncount = 1000\n')
    run = closed_loop(rig(faults=file, ticks=150), None, quiet)
    assert run.stop is not None
    first, second, *others = run.suspects
    found = re.fullmatch(r"the injected fault dropped, which began ([\d.]+) s before", first)
    assert found is not None, first
    assert float(found[1]) > 3
    assert re.match(r"all channels were missing in \d+ of the last 16 ticks: ", second)
    assert not any("missing" in text for text in others)


def test_a_fault_that_ended_long_before_is_no_suspect(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    lost = '[[fault]]\nkind = "dropped"\ncount = 3\n'
    file.write_text(lost + '[[fault]]\nkind = "jump"\nat = 3.0\nfor = 1.0\nchannels = ["mass.x"]\n')
    run = closed_loop(rig(faults=file, ticks=120), None, quiet)
    injected = [text for text in run.suspects if "injected" in text]
    assert len(injected) == 1
    assert injected[0].startswith("the injected fault jump in mass.x")


def test_a_restart_is_called_so() -> None:
    told, causes = ended("reset")
    assert "the board restarted in the middle of the run" in told
    assert causes[0].startswith("the injected fault reset")


def with_plant(**changes: object) -> Run:
    made = rig(ticks=90)
    plant = replace(made.settings.plant, **changes.pop("plant", {}))  # type: ignore[arg-type]
    return closed_loop(replace(made, settings=replace(made.settings, plant=plant, **changes)), None, quiet)  # type: ignore[arg-type]


def test_innovations_that_end_a_run_are_told_with_their_limit() -> None:
    """The model finds what the board found: the mean is just above the limit when the board stops."""
    run = with_plant(latency=0.02)
    found = re.fullmatch(
        r"stopped: measurements and model disagree more than the noise allows at tick \d+ \([\d.]+ s\): mean squared "
        r"innovation ([\d.]+) σ² \(limit 5, 1 is expected\); largest in (\S+), [+-][\d.]+ σ now and [\d.]+ σ RMS over "
        r"16 ticks",
        run.ended,
    )
    assert found is not None, run.ended
    assert 5.0 <= float(found[1]) < 6.5
    assert run.suspects[0].startswith("measurements are 20 ms old, and the board takes 0 ms")
    assert not any("deadline" in text for text in run.suspects)  # in lock-step there are none


def test_a_plant_far_from_its_model_is_the_first_suspect() -> None:
    run = with_plant(plant={"system": {"mass": 0.3, "damping": 0.3}})
    assert run.suspects[0].startswith(
        "the plant differs from the model as plant in [bench] says: mass 0.3 instead of 0.1"
    )
    assert not any("tracker on the wrong" in text for text in run.suspects)  # this sensor tracks nothing


def test_innovations_are_those_of_the_board() -> None:
    """The model's innovations are the board's own: telemetry has them of channels that were taken."""
    controller = solution()[1]
    found = Diagnosis(controller, closed(), Reason.INNOVATION)
    assert 0.3 < found.ticks[-1].nis < 3  # 1 is expected
    sizes = found.sizes()
    assert set(sizes) == {0, 1, 2, 3}
    assert all(0.2 < size < 4 for size in sizes.values())


def test_deadlines_come_before_masses_and_lengths() -> None:
    controller = solution()[1]
    run = replace(closed(), stop=Stop("stopped", "innovation", 3.0), mode="realtime", misses=20, suspects=[])
    how = Circumstances("realtime", "simulated", "gaussian", "native", errors=rig().settings.plant)
    diagnose(controller, run, how)
    assert "mean squared innovation" in run.ended
    assert "(limit 5, 1 is expected)" in run.ended
    assert run.suspects[0].startswith("20 deadlines were missed in 90 ticks")
    assert any("compare mass" in text or "differs from the model" in text for text in run.suspects[1:])
    calm = replace(run, misses=0)
    diagnose(controller, calm, how)
    assert not any("deadline" in text for text in calm.suspects)


def test_a_latency_that_the_board_does_not_know_of_is_named() -> None:
    run = replace(closed(), stop=Stop("stopped", "gated", 3.0), suspects=[])
    diagnose(solution()[1], run, Circumstances("lockstep", "simulated", "gaussian", "native", late=0.07))
    assert (
        run.suspects[0]
        == "measurements are 70 ms old, and the board takes 0 ms; set sensor_delay = 0.07 in [board] of the job"
    )


@pytest.mark.parametrize("mode", ["realtime", "lockstep"])
@pytest.mark.parametrize("sensor", ["gaussian", "kinect"])
@pytest.mark.parametrize("board", ["native", "stm32f405"])
def test_advice_names_nothing_that_is_done_already(mode: str, sensor: str, board: str) -> None:
    told = too_slow(Circumstances(mode, "simulated", sensor, board))
    assert ("--sensor gaussian" in told) == (sensor != "gaussian")
    assert ("--board native" in told) == (board != "native")
    assert ("lockstep" in told) == (mode == "realtime")
    assert "--" not in too_slow(Circumstances("realtime", "real", "kinect", "stm32f405", port=True))


def test_limits_are_those_of_the_firmware() -> None:
    text = (ROOT / "firmware" / "core" / "sm_supervisor_defaults.c").read_text()

    def limit(name: str) -> float:
        found = re.search(rf"\.{name} = (\d+)U", text)
        assert found is not None
        return float(found[1])

    assert (limit("nis_limit"), 2 ** limit("nis_window")) == (NIS_LIMIT, NIS_WINDOW)
    assert (limit("gated_limit"), limit("hold_us") / 1e6) == (GATED_LIMIT, HOLD_S)


def test_the_report_begins_with_what_happened(tmp_path: Path) -> None:
    made = rig(faults="wrong_object", ticks=90)
    known = facts(made, tmp_path)
    results.write(tmp_path, made.controller, closed("wrong_object"), opened(), known)
    page = (tmp_path / "report.html").read_text()
    assert re.search(r"<p>Ended early, after \d+ of 90 ticks\. Stopped: measurements stayed implausible at tick", page)
    assert "Injected faults: 1, all with the expected reaction." in page
    assert "differs from the model the board knows: mass = 0.11" in page
    assert "likely cause" in page


def test_files_of_a_report_take_the_place_of_others(tmp_path: Path) -> None:
    """None is written in place: what has another name, too, or is linked to, stays; an error names the file."""
    controller, other, linked = solution()[1], tmp_path / "other", tmp_path / "linked"
    for name in ("summary.json", "tracking.png", "report.html"):
        (tmp_path / name).write_text("old")
    os.link(tmp_path / "summary.json", other)
    (tmp_path / "tracking.png").rename(linked)
    (tmp_path / "tracking.png").symlink_to(linked)
    (tmp_path / "tracking.svg").mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        results.write(tmp_path, controller, closed(), None, FACTS)
    assert caught.value.filename == str(tmp_path / "tracking.svg")
    assert (other.read_text(), linked.read_text(), (tmp_path / "report.html").read_text()) == ("old", "old", "old")
    assert not (tmp_path / "tracking.png").is_symlink()
    (tmp_path / "tracking.svg").rmdir()
    results.write(tmp_path, controller, closed(), None, FACTS)
    assert (tmp_path / "report.html").read_text() != "old"
    assert not list(tmp_path.glob(".*"))
