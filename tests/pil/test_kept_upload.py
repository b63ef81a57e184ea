"""A board that was built for one job takes the schedule of another, retuned one that keeps its formats."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stepmap.cli import app
from stepmap_codegen.precision.pinned import FILE
from stepmap_hil.boards import SerialBoard
from stepmap_hil.wire.link import Link
from tests.pil.built import JOB, KEY, KEY_FILE, OUT, firmware, solution

RETUNED = {
    "state": ("q = 100\n", "q = 110\n"),
    "input": ("rho_next = 1\n", "rho_next = 1.5\n"),
    "reference": ("0.43*sin", "0.4*sin"),
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    """The board of the main job at a pseudo terminal."""
    command = [str(firmware("native").program), "--serial", "pty", "--regions", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield process.stderr.readline().strip()
        process.kill()


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder with the firmware of the main job."""
    monkeypatch.setattr("stepmap.jobs.optimize.draw", lambda *_: {})
    monkeypatch.chdir(tmp_path)
    made = firmware("native").folder
    shutil.copytree(made, tmp_path / "build" / "suspended_mass" / made.name)
    return tmp_path / "build"


@pytest.mark.parametrize("what", RETUNED)
def test_a_retuned_job_is_uploaded_without_flashing(what: str, port: str, build: Path) -> None:
    """As the refusal says: copy the formats of the firmware, name them in the job, upload again."""
    old, new = RETUNED[what]
    text = JOB.read_text()
    assert old in text
    job = build.parent / "suspended_mass.toml"
    job.write_text(text.replace(old, new))
    first = run("upload", job, "--port", port, "--key", KEY_FILE)
    assert first.exit_code == 1, first.output
    told = " ".join(first.output.split())
    beside = job.with_suffix(f".{FILE}")
    kept = Path("build") / "suspended_mass" / "build-native" / FILE  # that of generate is of the new job already
    assert f'cp {kept} {beside}, and formats = "{beside.name}" in [codegen]' in told
    shutil.copy(kept, beside)
    job.write_text(f'{job.read_text()}\n[codegen]\nformats = "{beside.name}"\n')
    second = run("upload", job, "--port", port, "--key", KEY_FILE)
    assert second.exit_code == 0, second.output
    assert f"pinned, those of {beside}" in " ".join(second.output.split())
    generated = build / "suspended_mass" / "generate"
    assert json.loads((generated / "signals.json").read_text())["model"] == firmware("native").summary["model"]
    theirs = solution()[2].folder
    for name in ("controller.c", "controller.h", "robot.h"):
        assert (generated / name).read_bytes() == (theirs / name).read_bytes()
    blob = (generated / "schedule.bin").read_bytes()
    assert blob != (theirs / "schedule.bin").read_bytes()
    with SerialBoard(port) as board:
        assert bytes(Link(board.open(), KEY).connect().schedule) == hashlib.sha256(blob).digest()[:8]


def test_a_firmware_folder_has_its_formats() -> None:
    assert (firmware("native").folder / FILE).read_bytes() == (solution()[2].folder / FILE).read_bytes()
    assert OUT in firmware("native").folder.parents
