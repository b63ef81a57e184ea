"""Cameras that need time: measurements that are periods old when they arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hil.commands import call, command
from tests.pil.built import JOB, ROOT

LATE = 0.07  # s, two periods and a tenth: a Kinect with its driver


def late_job(folder: Path, *, known: float, actual: float, job: Path = JOB) -> Path:
    """A job whose frames come ``actual`` seconds late, and whose board believes ``known``."""
    text = job.read_text()
    assert "[board]" not in text
    text += "\n[bench]\n" * ("[bench]" not in text)
    text = text.replace("[bench]", f"[bench]\nlatency = {actual}", 1)
    file = folder / f"late_{round(1e3 * known)}.toml"
    file.write_text(f"{text}\n[board]\nsensor_delay = {known}\n")
    return file


def bench(folder: Path, job: Path, *more: str) -> tuple[int, str, Any]:
    code, _, complaints = call(command(folder, *more, job=job))
    return code, complaints, json.loads((folder / job.stem / "bench" / "summary.json").read_text())


@pytest.mark.slow
def test_a_known_latency_of_periods_is_made_up_for(tmp_path: Path) -> None:
    """By filter, state feedback and motors together, on a chip as on the PC, and as the integer model does it."""
    job = late_job(tmp_path, known=LATE, actual=LATE)
    code, complaints, found = bench(tmp_path, job, "--board", "stm32f100", "--no-open-loop", "--seconds", "3")
    assert (code, complaints, found["ended"]) == (0, "", "done")
    assert found["bit_exact_with_host"] is True
    assert found["tracking_rms_m"] < 0.006
    assert found["estimate_rms_m"] * 1.5 < found["raw_measurement_rms_m"]
    recording = tmp_path / job.stem / "bench" / "run.mcap"
    words = [*command(tmp_path)[:3], "replay", str(recording), "--build", str(tmp_path)]  # on the PC
    code, table, complaints = call(words)
    assert (code, complaints) == (0, ""), table


@pytest.mark.slow
def test_a_latency_that_nobody_knows_of_ends_the_run(tmp_path: Path) -> None:
    code, _, found = bench(tmp_path, late_job(tmp_path, known=0.0, actual=LATE), "--no-open-loop")
    assert code == 1
    assert found["ended"].startswith("stopped: measurements")
    assert " σ" in found["ended"]
    assert found["suspects"][0].startswith("measurements are 70 ms old, and the board takes 0 ms")


@pytest.mark.slow
def test_a_force_looks_ahead_too(tmp_path: Path) -> None:
    job = late_job(tmp_path, known=0.02, actual=0.02, job=ROOT / "examples" / "cart_pendulum.toml")
    code, complaints, found = bench(tmp_path, job, "--no-open-loop", "--seconds", "4")
    assert (code, complaints, found["ended"], found["bit_exact_with_host"]) == (0, "", "done", True)
