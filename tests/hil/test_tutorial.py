"""docs/tutorial.md as a newcomer goes through it: its files, its commands in order, and the numbers it shows."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.pages import ROOT, code_lines, excerpts
from tests.tutorials import Workplace

PAGE = ROOT / "docs" / "tutorial.md"
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm", "stm32flash")


@pytest.mark.slow
@pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason="needs the tools of an STM32")
def test_the_tutorial_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    place = Workplace(tmp_path)
    assert place.walk(PAGE) >= 10
    for name, shown in excerpts(PAGE):
        rest = iter(code_lines((tmp_path / name).read_text()))
        assert all(line in rest for line in code_lines(shown)), f"{name} has other lines, or in another order"
    assert (tmp_path / "swing.png").exists()
    runs = place.run("stepmap runs crane")
    assert runs.count("passed") == 3
    weigh(place)


def weigh(place: Workplace) -> None:
    """What the page says a heavier weight of the commands does."""
    code = """
import pathlib, numpy as np
from stepmap import jobs
text = pathlib.Path("crane.toml").read_text()
for weight in (1, 1000):
    changed = pathlib.Path(f"weight{weight}.toml")
    changed.write_text(text.replace("rho_next = 1 ", f"rho_next = {weight} "))
    job = jobs.load(changed)
    away = np.abs(job.solve().require().trajectory.x - job.cost().x_ref).max(axis=0)
    print(away[job.step.state_names.index("trolley")], away[job.step.state_names.index("x")])
"""
    usual, heavy = (
        [round(100 * float(v)) for v in line.split()]
        for line in place.run(shlex.join(["python", "-c", code])).splitlines()
    )
    told = re.search(
        r"within (\d+) cm of its reference instead of (\d+), .* up to (\d+) cm instead of (\d+)", PAGE.read_text()
    )
    assert told is not None
    assert [int(v) for v in told.groups()] == [heavy[0], usual[0], heavy[1], usual[1]]


def test_the_tutorial_reckons_with_the_instructions_it_shows() -> None:
    text = PAGE.read_text()
    shown = re.search(r"(\d+) instructions per tick", text)
    told = re.search(r"(\d+) instructions are (\d+) µs", text)
    assert shown is not None
    assert told is not None
    assert told[1] == shown[1]
    assert round(int(told[1]) / 168) == int(told[2])  # 168 MHz
