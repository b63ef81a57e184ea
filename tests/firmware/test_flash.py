"""Flashing with the real tools, into a bootloader on a pseudo terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import serial

from stepmap_codegen.boards import BUILT_IN
from stepmap_hil.boards import QemuBoard
from stepmap_hil.boards.stm32_bootloader import ACK, NACK, Bootloader
from tests.firmware.built import builds

START = 0x08000000
REGIONS = {"stm32f405": (0x80000, 0x100000), "stm32f100": (0x1F800, 0x20000)}
"""Where flash keeps banks and journals: no image reaches there."""


@pytest.fixture(params=sorted(b.name for b in BUILT_IN.values() if b.bootloader))
def chip(request: pytest.FixtureRequest) -> Iterator[Bootloader]:
    with Bootloader(BUILT_IN[request.param]) as it:
        yield it


def flash(chip: Bootloader, image: Path) -> subprocess.CompletedProcess[str]:
    command = ["stm32flash", "-m", "8n1", "-v", "-w", str(image), "-g", hex(START), chip.port]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def boots(chip: Bootloader, tmp_path: Path) -> bool:
    """Whether QEMU runs exactly what is in flash now, and the firmware answers."""
    dump = tmp_path / "flash.bin"
    dump.write_bytes(chip.flash)
    with QemuBoard(chip.board.name, dump) as board:
        port = board.open()
        port.timeout = 5.0
        banner = f"stepmap {chip.board.name} reset=unknown\n".encode()
        heard = port.read(len(banner))
        port.write(b"flashed?")
        return heard == banner and port.read(8) == b"flashed?"


def test_stm32flash_writes_the_image_and_qemu_boots_it(chip: Bootloader, tmp_path: Path) -> None:
    image = builds().image(chip.board.name, ".bin")
    run = flash(chip, image)
    assert run.returncode == 0, run.stdout + run.stderr
    content = image.read_bytes()
    assert bytes(chip.flash) == content.ljust(len(chip.flash), b"\xff")
    assert chip.started == START
    assert boots(chip, tmp_path)


def test_pio_upload_writes_the_image_and_qemu_boots_it(chip: Bootloader, tmp_path: Path) -> None:
    name = chip.board.name
    run = builds().pio("run", "-e", name, "-t", "upload", "--upload-port", chip.port)
    assert run.returncode == 0, run.stdout + run.stderr
    content = builds().image(name, ".bin").read_bytes()
    assert bytes(chip.flash[: len(content)]) == content
    assert boots(chip, tmp_path)


def test_flashing_again_leaves_banks_and_journals_alone(chip: Bootloader) -> None:
    first, last = REGIONS[chip.board.name]
    kept = os.urandom(last - first)
    chip.flash[first:last] = kept
    for _ in range(2):
        run = flash(chip, builds().image(chip.board.name, ".bin"))
        assert run.returncode == 0, run.stdout + run.stderr
        chip.reset()
    assert bytes(chip.flash[first:last]) == kept


def test_the_regions_are_those_of_the_port(chip: Bootloader) -> None:
    """The link script keeps the image out of the sectors that the port writes."""
    elf = builds().image(chip.board.name)
    headers = subprocess.run(["arm-none-eabi-readelf", "-lW", elf], capture_output=True, text=True, check=True).stdout
    loads = [line.split() for line in headers.splitlines() if line.strip().startswith("LOAD")]
    ends = [int(load[3], 16) + int(load[4], 16) for load in loads]
    assert max(ends) <= START + REGIONS[chip.board.name][0]


def test_a_chip_that_runs_its_program_does_not_answer(chip: Bootloader) -> None:
    image = builds().image(chip.board.name, ".bin")
    assert flash(chip, image).returncode == 0
    assert flash(chip, image).returncode != 0
    chip.reset()
    assert flash(chip, image).returncode == 0


@pytest.fixture
def line(chip: Bootloader) -> Iterator[serial.Serial]:
    with serial.Serial(chip.port, timeout=2.0) as it:
        it.write(b"\x7f")
        assert it.read(1)[0] == ACK
        yield it


def ask(line: serial.Serial, request: bytes) -> int:
    line.write(request)
    return line.read(1)[0]


def checked(data: bytes) -> bytes:
    """With the checksum of AN3155: all bytes together give 0."""
    total = 0
    for byte in data:
        total ^= byte
    return data + bytes([total])


def test_a_tool_that_has_greeted_again_is_refused_once(chip: Bootloader) -> None:
    """stm32flash waits half a second, greets again and takes nothing but a refusal, as a chip gives that has heard
    both. The answer to its first greeting would end it, where a computer stood still for so long."""
    with serial.Serial(chip.port, timeout=30.0) as it:
        it.write(b"\x7f\x7f")
        assert it.read(1)[0] == NACK
        assert ask(it, b"\x31\xce") == ACK


def test_damaged_requests_are_refused(line: serial.Serial) -> None:
    assert ask(line, b"\x31\xcf") == NACK  # 0x31 and not its complement
    assert ask(line, b"\x55\xaa") == NACK  # no such command
    assert ask(line, b"\x31\xce") == ACK
    assert ask(line, b"\x08\x00\x00\x00\x09") == NACK  # wrong checksum
    assert ask(line, b"\x31\xce") == ACK
    assert ask(line, checked(b"\x50\x00\x00\x00")) == NACK  # nothing there


def test_flash_that_is_not_erased_cannot_be_written(chip: Bootloader, line: serial.Serial) -> None:
    chip.flash[0:4] = b"old!"
    for address, answer in ((START, NACK), (START + 4, ACK)):
        assert ask(line, b"\x31\xce") == ACK
        assert ask(line, checked(address.to_bytes(4, "big"))) == ACK
        assert ask(line, checked(b"\x03new!")) == answer
    assert bytes(chip.flash[:8]) == b"old!new!"
