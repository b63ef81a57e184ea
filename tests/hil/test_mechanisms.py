"""The mechanisms of examples/mechanisms: short, in order from names to the board's tools, and one of them runs."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

import pytest

from tests.hil.commands import call
from tests.pil.built import ROOT
from tests.undrawn import STEPMAP

FOLDER = ROOT / "examples" / "mechanisms"
JOBS = sorted(FOLDER.glob("*.toml"))
LINES = {".py": 45, ".toml": 60}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_checks(job: Path, tmp_path: Path) -> None:
    code, told, complaints = call([*STEPMAP, "check", str(job), "--board", "stm32f405", "--build", str(tmp_path)])
    assert (code, complaints) == (0, ""), told


def test_they_are_as_short_as_promised() -> None:
    for path in (*JOBS, *FOLDER.glob("*.py")):
        assert len(path.read_text().splitlines()) <= LINES[path.suffix], path.name


def test_the_page_has_figures_of_all() -> None:
    page = (ROOT / "docs" / "mechanisms.md").read_text()
    shown = re.findall(r"^\| (\w+) \| (native|stm32f405) \|", page, flags=re.MULTILINE)
    assert shown == [(job.stem, board) for job in JOBS for board in ("native", "stm32f405")]


def test_a_rotary_pendulum_begins_its_swing(tmp_path: Path) -> None:
    """A system in a file, a goal in place of a reference, and a plant that is 10 % off, through all stages."""
    job = FOLDER / "furuta.toml"
    code, _, complaints = call([*STEPMAP, "bench", str(job), "--seconds", "1", "--build", str(tmp_path)])
    assert (code, complaints) == (0, "")
    found = json.loads((tmp_path / "furuta" / "bench" / "summary.json").read_text())
    assert (found["ended"], found["ticks"], found["bit_exact_with_host"]) == ("done", 100, True)
    planned = json.loads((tmp_path / "furuta" / "optimize" / "summary.json").read_text())["verdict"]
    assert found["plan_verdict"] == planned
    page = (tmp_path / "furuta" / "bench" / "report.html").read_text()
    assert [one["name"] for one in planned["findings"][:3]] == ["end", "rest", "hold"]
    assert all(escape(one["text"]) in page for one in planned["findings"])
    assert found["plant_differences"] == ["mass = 0.055", "inertia = 0.00055"]
    assert found["open_loop_start_apart_m"] == 0
    assert found["coordinates"]["theta"]["tracking_max"] < 0.1  # rad, of a swing of 2
    assert found["closed_loop_rms_m"] * 2 <= found["open_loop_rms_m"]  # up to here; it falls only later
