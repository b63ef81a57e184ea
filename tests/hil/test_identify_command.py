"""``stepmap identify`` on a recorded run of the firmware, and a job that takes what it has found."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from stepmap import jobs
from stepmap_hil.runs.fault_verdict import MOVING
from stepmap_hil.runs.log import Row, Run
from stepmap_hil.runs.observed import _stretches
from tests.hil.commands import build_folder, call, command
from tests.pil.built import JOB
from tests.undrawn import STEPMAP

DRAG = 0.02 / 0.12  # 1/s, of the plant


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder with a run of a plant that has drag; firmware and controller are those of all tests."""
    made = build_folder(tmp_path_factory.mktemp("identify"))
    text = JOB.read_text().replace("mass = 0.11 ", "mass = 0.12 ").replace("damping = 0.005", "damping = 0.02")
    job = made / "suspended_mass.toml"
    job.write_text(text.replace("jitter = 0.002", "jitter = 0"))
    code, told, complaints = call(command(made, "--no-open-loop", "--seconds", "6", job=job))
    assert code == 0, told + complaints
    return made


def identify(folder: Path, *words: str) -> tuple[int, str, str]:
    return call([*STEPMAP, "identify", "suspended_mass/latest", *words, "--build", str(folder)])


def test_a_run_is_learnt_from_and_a_job_takes_it(folder: Path) -> None:
    run = "suspended_mass/latest"
    words = ("--parameters", "damping,delay", "--hold", "mass=0.12", "--noise", "--validate", run)
    code, told, complaints = identify(folder, *words)
    assert (code, complaints) == (0, ""), told
    assert "formats still fit" in told
    place = folder / "suspended_mass" / "identify"
    found = json.loads((place / "identify.json").read_text())
    assert abs(found["values"]["damping"] / 0.12 - DRAG) < 3.5 * found["sigma"]["damping"] / 0.12
    assert abs(found["values"]["delay"]) < 2e-3
    assert found["untold"] == []
    assert found["runs"] == [(folder / "suspended_mass" / "bench").resolve().name]  # behind the link
    assert abs(found["fine_plant"]["damping"] - found["values"]["damping"]) < found["sigma"]["damping"]
    before, after = next(iter(found["validation"].values())).values()
    assert after < 0.9 * before
    document = tomllib.loads((place / "identified.toml").read_text())
    assert document["system"] == {"mass": 0.12, "damping": pytest.approx(found["values"]["damping"], rel=1e-6)}
    channels = document["noise"]["measurement"]
    assert channels["mass.x"] == pytest.approx(0.0018, rel=0.25)  # what the Gaussian sensor adds

    job = folder / "better.toml"
    job.write_text(f'identified = "{place / "identified.toml"}"\n' + JOB.read_text())
    loaded = jobs.load(job)
    assert [p.value for p in loaded.system.parameters if p.name == "mass"] == [0.12]
    assert loaded.noise is not None
    assert loaded.noise.measurement[0] == pytest.approx(channels["mass.x"])
    assert loaded.noise.process[0] == pytest.approx(document["noise"]["process"]["xm"])
    assert str(place / "identified.toml") in loaded.files


def test_what_cannot_be_told_is_said(folder: Path) -> None:
    code, told, complaints = identify(folder, "--parameters", "mass,damping", "--check")
    assert code == 1
    assert "only damping/mass" in told
    assert "--hold mass=0.1" in complaints
    code, told, _ = identify(folder, "--parameters", "damping", "--check")
    assert (code, "damping  told" in told) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--parameters", "dampin"), 2, "nothing is called 'dampin'"),
        (("--parameters", "damping", "--hold", "mass"), 2, "NAME=VALUE"),
        (("--parameters", "damping", "--segments", "1"), 2, "--segments"),
        (("--parameters", "damping", "--loss", "cubes"), 2, "--loss"),
        (("--parameters", "damping", "--open-loop"), 2, "open-loop ticks"),
    ],
)
def test_wrong_usage_is_told(folder: Path, words: tuple[str, ...], code: int, message: str) -> None:
    found, _, complaints = identify(folder, *words)
    assert found == code
    assert message in complaints


def test_a_run_is_cut_where_a_blow_strikes() -> None:
    """Nobody commanded it: what came before and after it are two motions."""
    run, dt = Run("job", "native", "lockstep"), 1 / 30
    usual = {"reason": 0, "running": True, "measured": True, "valid": 1, "taken": 1, "z": [0.0], "words": [0]}
    usual |= {
        "estimate": [0],
        "command": [0],
        "coordinates": [0.0],
        "truth": [0.0],
        "latency_ms": 0.0,
        "jitter_ms": 0.0,
    }
    usual |= {"saturations": 0, "gated": 0, "faults": 0, "sequence": 0, "stamp_us": 0, "state": MOVING[0]}
    run.rows = [Row(time=k * dt, tick=k, **usual) for k in range(60)]
    run.events = [(0.3, "fault: jump"), (1.0, "fault: blow"), (1.9, "fault by the operator: blow")]
    found = [(rows[0].tick, rows[-1].tick) for rows in _stretches(run, dt)]
    assert found == [(0, 28), (32, 55)]  # the rest is too short
