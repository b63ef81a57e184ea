"""docs/tutorial.md as a newcomer goes through it: its files, its commands in order, and the numbers it shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.hil.commands import call
from tests.pages import NUMBER, ROOT, code_lines, consoles, excerpts, files, near
from tests.processes import PATIENCE
from tests.undrawn import STEPMAP

PAGE = ROOT / "docs" / "tutorial.md"
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm", "stm32flash")
COMPILED = ("firmware",)  # rows whose numbers depend on the compiler's version …
ALIKE = 0.05  # … by less than that part


@dataclass(frozen=True)
class Workplace:
    """An empty folder to work in."""

    folder: Path

    def run(self, command: str) -> str:
        words = shlex.split(command)
        if words[0] == "stepmap":
            code, printed, complaints = call([*STEPMAP, *words[1:]], self.folder)
            assert code == 0, f"$ {command}\n{printed}{complaints}"
            return printed
        if words[0] == "python":
            words[0] = sys.executable
        done = subprocess.run(
            words,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout


def first_column(line: str) -> str:
    """The name of a row; a line that is no row begins with its words up to the first number."""
    name = re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]
    return NUMBER.split(name)[0].strip()


def shows(line: str, printed: str) -> bool:
    """Whether a line of the page is this one that was printed; the page may leave out the end of a line."""
    name = first_column(line)
    if first_column(printed) != name:
        return False
    ours, theirs = (NUMBER.findall(re.sub(r", [\d.]+ s of CPU time", "", text)) for text in (line, printed))
    if name in COMPILED:
        return len(ours) == len(theirs) and np.allclose([*map(float, ours)], [*map(float, theirs)], rtol=ALIKE)
    return len(ours) <= len(theirs) and all(near(a, float(b)) for a, b in zip(ours, theirs, strict=False))


@pytest.mark.slow
@pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason="needs the tools of an STM32")
def test_the_tutorial_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    place = Workplace(tmp_path)
    for name, content in files(PAGE).items():
        (tmp_path / name).write_text(content)
    asked = consoles(PAGE)
    assert len(asked) >= 10
    for command, lines in asked:
        printed = place.run(command).splitlines()
        for line in lines:
            assert any(shows(line, one) for one in printed), (
                f"$ {command}\nshows {line!r}, and it prints\n" + "\n".join(printed)
            )
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
