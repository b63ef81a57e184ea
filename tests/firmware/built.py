"""Firmware built once for all tests of a process, the way a user without PlatformIO's registry does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIO = ROOT / "firmware" / "platforms" / "pio"
ENVIRONMENTS = ("stm32f405", "stm32f100", "native")

# Python runs this at its start: whoever connects anywhere, or asks for an address, leaves a trace and fails.
TRAP = """
import os, socket

def refuse(what):
    with open(os.environ["CONNECTIONS"], "a") as log:
        print(what, file=log)
    raise OSError("tests connect to nothing")

def connect(self, address, _connect=socket.socket.connect):
    if self.family == socket.AF_UNIX:
        return _connect(self, address)
    refuse(address)

socket.socket.connect = socket.socket.connect_ex = connect
socket.getaddrinfo = lambda *arguments, **options: refuse(arguments)
"""


@dataclass(frozen=True)
class Builds:
    """What `pio run` made, and how it went."""

    folder: Path
    output: str
    connections: Path
    home: Path

    def image(self, name: str, suffix: str = ".elf") -> Path:
        return self.folder / "build" / name / (f"firmware{suffix}" if name != "native" else "program")

    def pio(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs PlatformIO with its files in this folder; never raises."""
        return subprocess.run(
            [PIO, *arguments], cwd=ROOT, env=_environment(self.folder) | variables, capture_output=True, text=True
        )


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder / "trap"),
        "CONNECTIONS": str(folder / "connections"),
        "HOME": str(folder / "home"),
        "STEPMAP_APP": "echo",  # tries the ports alone
        "PLATFORMIO_CORE_DIR": str(folder / "core"),
        "PLATFORMIO_WORKSPACE_DIR": str(folder),
        "PLATFORMIO_BUILD_DIR": str(folder / "build"),
    }


_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


@cache
def builds() -> Builds:
    """The three firmwares that can be built here."""
    _folders.append(tempfile.TemporaryDirectory(prefix="stepmap-firmware-"))
    folder = Path(_folders[-1].name)
    (folder / "home").mkdir()
    (folder / "trap").mkdir()
    (folder / "trap" / "sitecustomize.py").write_text(TRAP)
    made = Builds(folder, "", folder / "connections", folder / "home")
    run = made.pio("run", *(word for name in ENVIRONMENTS for word in ("-e", name)))
    if run.returncode:
        raise RuntimeError(f"pio run failed:\n{run.stdout}\n{run.stderr}")
    return Builds(folder, run.stdout, made.connections, made.home)
