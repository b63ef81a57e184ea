"""`stepmap flash`: the firmware goes through the real stm32flash into a bootloader, and the chip runs what it got."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stepmap_codegen.boards import BUILT_IN
from stepmap_hil.boards import QemuBoard
from stepmap_hil.boards.stm32_bootloader import Bootloader
from stepmap_hil.firmware.flash import flash_emulated, flash_image
from stepmap_hil.wire.link import Link
from tests.hil.rigs import rig
from tests.pil.built import JOB, KEY, KEY_FILE, OUT, ROOT, alone, firmware
from tests.pil.robot import words
from tests.processes import PATIENCE

START = 0x08000000


@pytest.fixture(params=sorted(b.name for b in BUILT_IN.values() if b.bootloader))
def chip(request: pytest.FixtureRequest) -> Iterator[Bootloader]:
    firmware(request.param)
    with Bootloader(BUILT_IN[request.param]) as it:
        yield it


def flash(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stepmap.cli", "flash", *map(str, arguments), "--build", str(OUT)]
    with alone():
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


def boots(chip: Bootloader, tmp_path: Path) -> None:
    """QEMU runs exactly what is in flash now, and the firmware believes us and names its model."""
    dump = tmp_path / "flash.bin"
    dump.write_bytes(chip.flash)
    with QemuBoard(chip.board.name, dump) as board:
        link = Link(board.open(), KEY)
        beat = link.connect(timeout=20.0)
        assert beat.trusted
        assert bytes(beat.model) == words().model
        assert link.ping(timeout=5.0) < 5.0


def test_a_job_is_flashed_and_boots(chip: Bootloader, tmp_path: Path) -> None:
    name = chip.board.name
    run = flash(JOB, "--board", name, "--port", chip.port, "--key", KEY_FILE)
    assert run.returncode == 0, run.stdout + run.stderr
    image = firmware(name).image.read_bytes()
    assert bytes(chip.flash) == image.ljust(len(chip.flash), b"\xff")
    assert chip.started == START
    assert f"into {name} at {chip.port}" in run.stdout
    boots(chip, tmp_path)


def test_what_was_built_last_is_flashed_without_a_job(chip: Bootloader) -> None:
    name = chip.board.name
    run = flash("--board", name, "--port", chip.port)
    assert run.returncode == 0, run.stdout + run.stderr
    image = firmware(name).image.read_bytes()
    assert bytes(chip.flash[: len(image)]) == image


def test_a_chip_that_is_not_in_its_bootloader_is_explained() -> None:
    with Bootloader(BUILT_IN["stm32f100"]) as chip:
        chip.started = START  # it runs its program
        run = flash("--board", "stm32f100", "--port", chip.port, "--image", firmware("stm32f100").image)
    assert run.returncode == 1
    assert "set BOOT0 high" in run.stderr
    assert "command: stm32flash" in run.stderr


def test_the_bench_flashes_an_emulated_chip(chip: Bootloader, tmp_path: Path) -> None:
    """The real program writes and verifies; what is in flash then, and nothing else, is what QEMU boots."""
    name, parts = chip.board.name, list[float]()
    image = firmware(name).image
    flashed = flash_emulated(name, image, tmp_path, parts.append)
    assert flashed is not None
    assert flashed.content.read_bytes() == image.read_bytes().ljust(len(chip.flash), b"\xff")
    assert flashed.content.stat().st_mode & 0o077 == 0  # the key is inside
    assert (flashed.size, parts[-1]) == (image.stat().st_size, 1.0)
    assert parts == sorted(parts)
    assert 0 < flashed.seconds < PATIENCE
    board = replace(rig(name), flashed=flashed).board()
    assert isinstance(board, QemuBoard)
    assert board.image == flashed.content
    with board:
        assert Link(board.open(), KEY).connect(timeout=20.0).trusted


class LateChip(Bootloader):
    """One that writes a block for longer than stm32flash waits by itself, as if the computer had stalled."""

    def _write(self) -> None:
        if self.flash[256] != 0xFF and self.flash[512] == 0xFF:  # the third block
            time.sleep(2.5)
        super()._write()


def test_a_computer_that_stalls_is_waited_for() -> None:
    image = firmware("stm32f100").image
    with LateChip(BUILT_IN["stm32f100"]) as chip:
        flash_image("stm32f100", image, chip.port)
        assert bytes(chip.flash) == image.read_bytes().ljust(len(chip.flash), b"\xff")


def test_what_cannot_be_flashed_is_booted_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert flash_emulated("native", firmware("native").program, tmp_path) is None
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert flash_emulated("stm32f405", firmware("stm32f405").image, tmp_path) is None
