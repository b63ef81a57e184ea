"""Writes a firmware into a chip: through PlatformIO, or a given image with the command platformio.ini names."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

from serial.tools import list_ports

from stepmap.errors import LinkError, ModelError, ToolchainError
from stepmap.files import write_private
from stepmap.jobs import Stage
from stepmap_codegen import boards
from stepmap_codegen.boards import Runs
from stepmap_hil.boards.stm32_bootloader import Bootloader
from stepmap_hil.firmware.build import REMEDIES, Choices, Firmware, Progress, pio, workshop
from stepmap_hil.firmware.image import require_image
from stepmap_hil.firmware.process_group import guarded
from stepmap_hil.firmware.sources import sources
from stepmap_hil.wire.ports import require_port

BY_HAND = "set BOOT0 high, press reset, and see that no other program uses the port"
ADAPTER = re.compile(r"/(ttyUSB|ttyACM|cu\.(usb|wch|SLAB))")
DONE = re.compile(rb"\((\d+\.\d+)%\)")  # how far stm32flash is

Part = Callable[[float], None]
"""Called with the part of an image that is written and verified."""


def require(board: str) -> None:
    """Raises where a board has nothing that could be flashed."""
    if boards.find(board).runs is Runs.PROCESS:
        raise ModelError(f"--board {board}: a process of this computer is not flashed; stepmap build makes it")


def find_port(given: str | None) -> str:
    """The port that was given, or the only adapter at a USB; a computer's own ports may lead anywhere."""
    ports = sorted(port.device for port in list_ports.comports())
    there = f"there {'are' if len(ports) > 1 else 'is'} {', '.join(ports) or 'no serial port on this computer'}"
    if given is not None:
        try:
            return require_port(given)
        except (ModelError, LinkError) as error:
            raise ModelError(f"--port: {error}; {there}", hint=error.hint) from None
    adapters = [port for port in ports if ADAPTER.search(port)]
    if len(adapters) == 1:
        return adapters[0]
    raise ModelError(f"--port: say which one the board is at; {there}")


def flash_job(made: Stage, generated: Path, choices: Choices, port: str, progress: Progress | None = None) -> None:
    """Flashes what the stage has built; PlatformIO finds nothing left to build."""
    firmware = Firmware(made.folder, choices.board)
    arguments = ("run", "-e", choices.board, "-t", "upload", "--upload-port", port)
    pio(made, generated, choices, arguments, progress)
    flashed = workshop(made) / choices.board / "firmware.bin"
    if flashed.read_bytes() != firmware.image.read_bytes():
        raise ToolchainError(
            f"what was flashed is not {firmware.image}",
            command=f"compare with {flashed}",
            log="",
            remedy="the sources were changed meanwhile: flash again",
        )


def flash_image(board: str, image: Path, port: str, progress: Part | None = None) -> None:
    """Flashes a file into an STM32."""
    require_image(board, image)
    command = _command(board, image, port)
    if shutil.which(command[0]) is None:
        raise ToolchainError(
            f"{command[0]} is not there", command=command[0], log="", remedy=f"apt-get install {command[0]}"
        )
    code, log = _run(command, progress or (lambda part: None))
    if code:
        remedy = next((advice for sign, advice in REMEDIES.items() if sign in log), BY_HAND)
        raise ToolchainError(f"{image} could not be flashed", command=shlex.join(command), log=log, remedy=remedy)


def _run(command: list[str], progress: Part) -> tuple[int, str]:
    """Exit code and all that was printed."""
    said = b""
    with guarded(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0) as process:
        assert process.stdout is not None
        while some := process.stdout.read(4096):
            said += some
            for part in DONE.findall(some)[-1:]:
                progress(float(part) / 100.0)
    return process.returncode, said.replace(b"\r", b"\n").decode(errors="replace")


@dataclass(frozen=True)
class Flashed:
    """What is in the flash of an emulated chip."""

    content: Path
    """All of it, as a file that QEMU boots."""
    size: int
    """Bytes that were written."""
    seconds: float


def flash_emulated(board: str, image: Path, folder: Path, progress: Part | None = None) -> Flashed | None:
    """Flashes an image through the bootloader of an emulated STM32, with the program that flashes real ones.

    None for a board without that bootloader, and where the program is not installed.
    """
    spec = boards.find(board)
    if spec.bootloader is None or shutil.which("stm32flash") is None:
        return None
    begun = time.monotonic()
    with Bootloader(spec) as chip:
        flash_image(board, image, chip.port, progress)
        content = folder / "flash.bin"
        write_private(content, bytes(chip.flash))  # the key is inside
    return Flashed(content, image.stat().st_size, time.monotonic() - begun)


def _command(board: str, image: Path, port: str) -> list[str]:
    """upload_command of platformio.ini."""
    ini = ConfigParser(interpolation=None)
    ini.read(sources() / "platformio.ini")
    section = ini[boards.find(board).environment["extends"]]
    values = {
        "$UPLOAD_SPEED": section["upload_speed"],
        "$UPLOAD_FLAGS": "-m 8n1" if port.startswith("/dev/pts/") else "",  # a pseudo terminal refuses parity
        "$SOURCE": str(image),
        "$UPLOAD_PORT": port,
    }
    words: list[str] = []
    for word in section["upload_command"].split():
        words += values[word].split() if word == "$UPLOAD_FLAGS" else [values.get(word, word)]
    return words


def find_image(board: str, builds: Path) -> Path:
    """The image of the only job that was built for this board."""
    found = sorted(builds.glob(f"*/build-{board}/firmware.bin"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise ModelError(f"JOB: nothing was built for {board} in {builds}; name a job, or an --image")
    raise ModelError(f"JOB: name one, for these were built for {board}: {_names(found)}")


def _names(images: Iterable[Path]) -> str:
    return ", ".join(image.parent.parent.name for image in images)
