"""Programs that a firmware is built, flashed and run with: whether they are installed, before anything takes time."""

from __future__ import annotations

import importlib.util
import shutil

from stepmap.errors import ToolchainError
from stepmap_codegen import boards
from stepmap_codegen.boards import NATIVE, Runs
from stepmap_codegen.toolchain import Target
from stepmap_hil.firmware.build import PLATFORMIO
from stepmap_hil.firmware.sources import sources


def require_tools(board: str, *, runs: bool = False, registry: bool = False) -> list[str]:
    """The programs that a board needs, all of them there; raises ToolchainError where one is missing.

    ``runs``: for more than to build, in QEMU where the board is a chip. With ``registry`` PlatformIO has its own
    compilers.
    """
    sources()
    if importlib.util.find_spec("platformio") is None and shutil.which("pio") is None:
        raise ToolchainError("PlatformIO is not installed", command="pio", log="", remedy=PLATFORMIO)
    found, spec = ["PlatformIO"], boards.find(board)
    if spec.target is None:
        return found
    if not registry:
        found += _there(board, spec.target, spec.target.compilers, "is built with")
    if runs and spec.runs is Runs.QEMU:
        found += _there(board, spec.target, spec.target.emulator[:1], "runs in")
    return found


def _there(board: str, target: Target, names: tuple[str, ...], how: str) -> list[str]:
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        other = f"; or take --board {NATIVE.name}" if board != NATIVE.name else ""
        raise ToolchainError(
            f"{board} {how} {missing[0]}, which is not installed",
            command=missing[0],
            log="",
            remedy=f"{target.install}{other}",
        )
    return list(names[:1])
