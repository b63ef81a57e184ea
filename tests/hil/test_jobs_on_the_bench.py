"""The jobs of the repository on the bench, as users run them; the main job with its Kinect and its chip."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stepmap import figures as published
from stepmap_codegen import generate as generation
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.recording import read_run
from tests.hil.commands import build_folder, call, command
from tests.pages import near
from tests.pil.built import KEY, ROOT, solution


def summary(build: Path, job: str) -> Any:
    return json.loads((build / job / "bench" / "summary.json").read_text())


@pytest.mark.slow
def test_the_main_job_with_its_kinect(tmp_path: Path) -> None:
    build = build_folder(tmp_path, "stm32f405")
    code, _, complaints = call(command(build, "--board", "stm32f405", "--seed", "1", sensor="kinect"))
    assert (code, complaints) == (0, "")
    found = summary(build, "suspended_mass")
    assert (found["board"], found["sensor"], found["ticks"], found["ended"]) == ("stm32f405", "kinect", 300, "done")
    assert found["deadline_misses"] == found["saturations"] == found["faults"] == 0
    assert found["tracking_rms_m"] * 5 <= found["open_loop_rms_m"]
    assert found["estimate_rms_m"] * 2 <= found["raw_measurement_rms_m"]
    assert found["command_roughness_filtered"] * 5 <= found["command_roughness_raw"]
    assert found["bit_exact_with_host"] is True
    as_documented(build / "suspended_mass" / "bench" / "run.mcap", found)


def as_documented(recording: Path, found: Any) -> None:
    """The numbers that README.md and docs/bench.md tell of this very run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "controller", lambda *_: solution()[1])  # of this job; it need not be designed again
        told = dict(published.make("fig2", recording=recording).key_figures)
    opened, closed = (float(told[name].split()[0]) for name in ("open loop", "closed loop"))  # mm from the set point
    pages = {name: " ".join((ROOT / name).read_text().split()) for name in ("README.md", "docs/bench.md")}
    (swing,) = re.findall(r"the mass swings (\d+) mm to either side", pages["docs/bench.md"])
    assert opened == pytest.approx(float(swing), abs=1.0)
    for name, pattern in (("docs/bench.md", r"stays within (\d+) mm"), ("README.md", r"holds it within (\d+) mm")):
        (within,) = re.findall(pattern, pages[name])
        assert float(within) - 1 < closed < float(within), name
    (count,) = re.findall(r"A tick of this job takes ([\d ]+) instructions at -Os", pages["README.md"])
    assert found["instructions_per_tick"] == pytest.approx(float(count.replace(" ", "")), rel=0.01)
    first_screen(pages["README.md"], found)


def first_screen(readme: str, found: Any) -> None:
    """The four figures at the top of README.md; sizes depend a little on the compiler."""
    ((closed, opened),) = re.findall(r"\*\*([\d.]+) mm\*\* RMS with feedback, (\d+) mm without", readme)
    (count,) = re.findall(r"\*\*([\d ]+)\*\* instructions per 33-ms period", readme)
    (flash,) = re.findall(r"\*\*(\d+) kB\*\* of flash", readme)
    assert near(closed, 1e3 * found["closed_loop_rms_m"])
    assert round(1e3 * found["open_loop_rms_m"]) == int(opened)
    assert found["instructions_per_tick"] == pytest.approx(float(count.replace(" ", "")), rel=0.01)
    assert found["flash_bytes"] == pytest.approx(1e3 * float(flash), rel=0.03)
    assert found["bit_exact_with_host"] is True


@pytest.mark.slow
def test_a_satellite_finds_its_attitude(tmp_path: Path) -> None:
    """States with a quaternion, a gyro and directions, ten percent more inertia than the model has."""
    job = ROOT / "examples" / "turning" / "satellite.toml"
    code, _, complaints = call(command(tmp_path, "--board", "native", job=job))
    assert (code, complaints) == (0, "")
    found = summary(tmp_path, "satellite")
    assert (found["ticks"], found["ended"], found["saturations"], found["faults"]) == (300, "done", 0, 0)
    assert found["bit_exact_with_host"] is True
    for name in ("hub.rx", "hub.ry", "hub.rz"):
        of = found["coordinates"][name]
        assert of["unit"] == "rad"
        assert of["closed_loop_rms"] * 4 < of["open_loop_rms"]
        assert of["estimate_rms"] < 0.005  # half of what the sun sensor errs by at one tick


@pytest.mark.slow
def test_a_planned_motion_goes_around_a_ball_and_rests(tmp_path: Path) -> None:
    """A marionette's arm of ten percent more mass than its model, along a motion that a tree has found."""
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text(f"{KEY.secret.hex()}\n")
    code, _, complaints = call(command(tmp_path, job=ROOT / "examples" / "plans" / "reach.toml", key=key))
    assert (code, complaints) == (0, "")
    planned = json.loads((tmp_path / "reach" / "optimize" / "summary.json").read_text())
    assert (planned["plan"]["rest"], planned["verdict"]["ok"]) == (True, True)
    found = summary(tmp_path, "reach")
    assert (found["ticks"], found["ended"], found["saturations"], found["faults"]) == (planned["steps"], "done", 0, 0)
    assert found["bit_exact_with_host"] is True
    assert found["tracking_rms_m"] * 1.2 <= found["open_loop_rms_m"]
    assert found["tracking_rms_m"] < 0.002
    assert found["estimate_rms_m"] * 2 <= found["raw_measurement_rms_m"]


@pytest.mark.slow
def test_acts_of_a_play_are_events_of_its_run(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text(f"{KEY.secret.hex()}\n")
    play = ROOT / "examples" / "scripts" / "wave.toml"
    code, _, complaints = call(command(tmp_path, "--no-open-loop", job=play, key=key))
    assert (code, complaints) == (0, "")
    found = summary(tmp_path, "wave")
    assert (found["ended"], found["bit_exact_with_host"], found["faults"]) == ("done", True, 0)
    planned = json.loads((tmp_path / "wave" / "optimize" / "summary.json").read_text())["acts"]
    assert [act["name"] for act in found["acts"]] == ["hang", "wave", "aside"]
    for act, plan in zip(found["acts"], planned, strict=True):
        assert act["planned"] == plan["begins"]
        assert 0 <= act["begins"] - act["planned"] < 1 / 30 + 1e-9  # the first tick from there on
        assert 0 < act["tracking_rms_m"] < 0.02
    recorded = read_run(tmp_path / "wave" / "bench" / "run.mcap").closed
    begin = next(at for at, text in recorded.events if text == "running")
    told = [(text, at - begin) for at, text in recorded.events if text.startswith("act: ")]
    assert [text for text, _ in told] == ["act: hang", "act: wave", "act: aside"]
    assert [at for _, at in told] == pytest.approx([act["begins"] for act in found["acts"]], abs=2 / 30)
    page = (tmp_path / "wave" / "bench" / "report.html").read_text(encoding="utf-8")
    assert page.count('"act: wave","event"]') == 1  # once on the time axis
    assert "from the plan, RMS" in page


def test_a_frame_that_is_lost_while_the_board_calibrates(tmp_path: Path) -> None:
    """The first of seed 3; the board is shown more."""
    build = build_folder(tmp_path)
    code, _, complaints = call(command(build, "--seed", "3", "--seconds", "1", "--no-open-loop", sensor="kinect"))
    assert (code, complaints) == (0, "")
    found = summary(build, "suspended_mass")
    assert (found["sensor"], found["ticks"], found["ended"]) == ("kinect", 30, "done")
    assert found["bit_exact_with_host"] is True


@pytest.mark.slow
def test_a_force_on_a_cart_swings_up_its_pendulum(tmp_path: Path) -> None:
    """A job of another kind: two encoders and a force, no robot that carries the mechanism, no metres alone."""
    code, table, complaints = call(command(tmp_path, job=ROOT / "examples" / "cart_pendulum.toml"))
    assert (code, complaints) == (0, "")
    found = summary(tmp_path, "cart_pendulum")
    assert (found["ended"], found["bit_exact_with_host"], found["command_unit"]) == ("done", True, "N")
    assert found["tracking_rms_m"] * 5 <= found["open_loop_rms_m"]  # upright nothing stays without feedback
    assert found["estimate_rms_m"] < 0.002
    assert " N RMS second difference" in table
    stopped_by_a_fault(tmp_path)


def stopped_by_a_fault(build: Path) -> None:
    """The same job with an encoder that is off from 1 s on: what is said is so, and the first run stays."""
    faults = build / "off.toml"
    faults.write_text(
        '[[fault]]\nkind = "jump"\nat = 1.0\nfor = 1.0\nvalue = 0.3\nchannels = ["theta"]\n'
        'expect = { state = "stopped", reason = "gated" }\n'
    )
    before = summary(build, "cart_pendulum")
    code, table, complaints = call(
        command(build, "--faults", str(faults), job=ROOT / "examples" / "cart_pendulum.toml")
    )
    assert (code, complaints) == (0, "")
    found = summary(build, "cart_pendulum")
    assert found["ended"].startswith("stopped: measurements stayed implausible at tick 59 (1.18 s): theta +")
    assert found["suspects"][0].startswith("the injected fault jump in theta")
    assert (found["compared_ticks"], found["latency_ms"], found["injected_faults"], found["faults"]) == (59, None, 1, 0)
    ratio = found["open_loop_rms_m"] / found["closed_loop_rms_m"]
    assert 0.5 < ratio < 1  # the open loop falls over only later; until then an encoder that is off does more harm
    assert f"over the same 59 ticks: {1 / ratio:.2f} times worse" in table
    assert "latency" not in table
    first, second = runs.known(build / "cart_pendulum" / "runs")
    assert json.loads((first.path / "summary.json").read_text()) == before
    assert (build / "cart_pendulum" / "bench").resolve() == second.path.resolve()
