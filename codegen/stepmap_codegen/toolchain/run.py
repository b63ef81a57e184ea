"""Runs a built program on bytes: in QEMU, or on this machine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from stepmap.errors import ToolchainError
from stepmap_codegen.toolchain import elf, tools
from stepmap_codegen.toolchain.compile import Built

WELL = 10
ENDINGS = {  # exit codes of runtime/ending.h: what happened and what to do
    11: ("app() returned an error", "the log has its number"),
    12: ("the program crashed", "look at the function named here; a division by zero also ends like this"),
    13: ("the program overflowed its stack", "compare worst_stack() with the target's memory.stack_bytes"),
    14: ("the program could not read or write", "free space in the folder for temporary files"),
    15: ("the program counted for too long", "count a shorter interval; docs/targets.md has the limits"),
}


def run(built: Built, data: bytes = b"", timeout: float = 120.0) -> bytes:
    """What the program wrote, given ``data`` to read. ``timeout`` is in seconds."""
    tools.require(built.target)
    with tempfile.TemporaryDirectory(prefix="stepmap-run-") as name:
        folder = Path(name)
        (folder / "input").write_bytes(data)
        command = built.target.command(built.elf)
        code, log = _execute(command, folder, timeout)
        if code != WELL:
            raise _failure(built, command, code, log, timeout)
        return (folder / "output").read_bytes()


def _execute(command: list[str], folder: Path, timeout: float) -> tuple[int | None, str]:
    """Exit code, None if the time ran out, and what was printed. Nothing is left running, whatever happens here."""
    # The kernel ends the child with this process, even if this process is killed.
    tied = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with (folder / "log").open("w+b") as log:
        child = subprocess.Popen(
            [*tied, *command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None = None
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if child.returncode is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        log.seek(0)
        return code, log.read()[-8000:].decode(errors="replace")


def _failure(built: Built, command: list[str], code: int | None, log: str, timeout: float) -> ToolchainError:
    if code is None:
        what = f"the program did not end within {timeout:g} s"
        remedy = "look for a loop that does not end, or give it a longer timeout"
    elif code < 0:
        what, remedy = f"the program crashed: {signal.Signals(-code).name}", "run it in a debugger"
    else:
        what, remedy = ENDINGS.get(code, (f"unexpected exit code {code}", "the log has what was printed"))
    place = re.search(r"\bpc (0x[0-9a-f]+)", log)
    if place:
        what += f" in {_function(built, int(place[1], 16))}"
    return ToolchainError(f"target {built.target.name}: {what}", command=shlex.join(command), log=log, remedy=remedy)


def _function(built: Built, address: int) -> str:
    functions = elf.functions(built.target, built.elf)
    found = (f.name for f in functions if f.address <= address < f.address + f.size)
    return next(found, f"no function, at {address:#x}")
