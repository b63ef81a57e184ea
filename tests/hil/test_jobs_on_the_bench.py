"""The jobs of the repository on the bench, as users run them; the main job with its Kinect and its chip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hil.commands import build_folder, command, run
from tests.pil.built import ROOT


def summary(build: Path, job: str) -> Any:
    return json.loads((build / job / "bench" / "summary.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(("board", "seed"), [("stm32f405", 1), ("native", 3)])
def test_the_main_job_with_its_kinect(board: str, seed: int, tmp_path: Path) -> None:
    """Of seed 3 a frame is lost while the board calibrates."""
    build = build_folder(tmp_path, board)
    code, _, complaints = run(command(build, "--board", board, "--seed", str(seed), sensor="kinect"))
    assert (code, complaints) == (0, "")
    found = summary(build, "suspended_mass")
    assert (found["board"], found["sensor"], found["ticks"], found["ended"]) == (board, "kinect", 300, "done")
    assert found["deadline_misses"] == found["saturations"] == found["faults"] == 0
    assert found["tracking_rms_m"] * 5 <= found["open_loop_rms_m"]
    assert found["estimate_rms_m"] * 2 <= found["raw_measurement_rms_m"]
    assert found["command_roughness_filtered"] * 5 <= found["command_roughness_raw"]
    assert found["bit_exact_with_host"] is True


@pytest.mark.slow
def test_a_force_on_a_cart_swings_up_its_pendulum(tmp_path: Path) -> None:
    """A job of another kind: two encoders and a force, no robot that carries the mechanism, no metres alone."""
    code, table, complaints = run(command(tmp_path, job=ROOT / "examples" / "cart_pendulum.toml"))
    assert (code, complaints) == (0, "")
    found = summary(tmp_path, "cart_pendulum")
    assert (found["ended"], found["bit_exact_with_host"], found["command_unit"]) == ("done", True, "N")
    assert found["tracking_rms_m"] * 5 <= found["open_loop_rms_m"]  # upright nothing stays without feedback
    assert found["estimate_rms_m"] < 0.002
    assert " N RMS second difference" in table
