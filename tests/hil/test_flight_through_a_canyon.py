"""The plan of a helicopter through a canyon, flown by a board: a plant ten percent heavier, three markers, rock."""

from __future__ import annotations

import json
from pathlib import Path

from tests.hil.commands import call
from tests.pil.built import ROOT
from tests.undrawn import STEPMAP


def test_a_board_flies_through_the_canyon(tmp_path: Path) -> None:
    job = ROOT / "examples" / "flight" / "canyon.toml"
    code, told, complaints = call([*STEPMAP, "bench", str(job), "--board", "native", "--build", str(tmp_path)])
    assert (code, complaints) == (0, ""), told
    found = json.loads((tmp_path / "canyon" / "bench" / "summary.json").read_text())
    assert (found["ended"], found["saturations"]) == ("done", 0)
    assert found["plant_differences"] == ["mass = 5.5"]
    assert found["tracking_rms_m"] < 0.1
    (room,) = found["room"]
    assert room["plan_least_m"] > 0.39
    assert room["closed_loop_least_m"] > 0.3  # it keeps off the rock
    assert room["open_loop_least_m"] < -1.0  # and would not without feedback
    assert "obstacles" in told
    page = (tmp_path / "canyon" / "bench" / "report.html").read_text()
    assert "Room between the mechanism and the obstacles" in page
    assert (tmp_path / "canyon" / "bench" / "clearances.png").stat().st_size > 10_000
    planned = json.loads((tmp_path / "canyon" / "optimize" / "summary.json").read_text())
    assert planned["direct"]["room"][0]["least"] > 0.39
