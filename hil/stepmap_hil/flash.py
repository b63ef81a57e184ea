"""Writes a firmware into a chip: through PlatformIO, or a given image with the command platformio.ini names."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterable
from configparser import ConfigParser
from pathlib import Path

from serial.tools import list_ports

from stepmap.errors import ModelError, ToolchainError
from stepmap.jobs import Stage
from stepmap_hil.build import ESP32, Choices, Firmware, Progress, checkout, pio, workshop

BY_HAND = "set BOOT0 high, press reset, and see that no other program uses the port"


def require(board: str) -> None:
    """Raises where a board has nothing that could be flashed."""
    if board == "native":
        raise ModelError("--board native: a process of this computer is not flashed; stepmap build makes it")


def find_port(given: str | None) -> str:
    """The port that was given, or the only one there is."""
    if given is not None:
        return given
    ports = sorted(port.device for port in list_ports.comports())
    if len(ports) == 1:
        return ports[0]
    there = f"there are {', '.join(ports)}" if ports else "there is no serial port on this computer"
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


def flash_image(board: str, image: Path, port: str) -> None:
    """Flashes a file into an STM32."""
    if board in ESP32:
        raise ModelError(f"--image: an image alone is not all that {board} needs; give the job instead")
    if not image.is_file():
        raise ModelError(f"--image: there is no file {image}")
    command = _command(board, image, port)
    if shutil.which(command[0]) is None:
        raise ToolchainError(
            f"{command[0]} is not there", command=command[0], log="", remedy=f"apt-get install {command[0]}"
        )
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if run.returncode:
        raise ToolchainError(
            f"{image} could not be flashed", command=shlex.join(command), log=run.stdout + run.stderr, remedy=BY_HAND
        )


def _command(board: str, image: Path, port: str) -> list[str]:
    """upload_command of platformio.ini."""
    ini = ConfigParser(interpolation=None)
    ini.read(checkout() / "platformio.ini")
    section = ini[ini[f"env:{board}"].get("extends", f"env:{board}")]
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
