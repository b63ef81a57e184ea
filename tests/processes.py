"""Processes that tests start, and conditions to wait for instead of a length of time."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 600.0
"""Seconds for something that certainly happens, on a machine of which a test may get a tenth."""

TIED = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
"""Words before a command that make it end with the thread that starts it: nothing outlives tests that are killed."""

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heed_signals() -> None:
    """In a child before it starts: shells and nohup make what they start ignore signals, and children inherit that."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)


def wait_for(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Returns when the condition holds; fails, and says for what it waited, when it never does."""
    begun = asked = time.monotonic()
    while not condition():
        now = time.monotonic()
        assert now < begun + seconds, f"waited {seconds:g} s in vain: {what}"
        time.sleep(max(0.005, 3.0 * (now - asked)))  # some conditions look at all processes: leave time to the others
        asked = time.monotonic()


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def has_loaded(pid: int, library: str) -> bool:
    """Whether a shared library whose path contains this word is part of a process by now."""
    try:
        return library in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def ended(pid: int) -> bool:
    """Whether a process is gone; one that only waits for its parent is."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, which heeds signals."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        preexec_fn=heed_signals,
    )
