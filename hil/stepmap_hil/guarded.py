"""A process that, with all it starts, does not outlive this one, however this one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

# Leads the group. Its input is a pipe that nobody writes to: it ends when we do, also where nothing of ours runs any
# more, as after SIGKILL. A signal at the parent's death (see boards/child.py) would reach the first process alone.
LEADER = """\
import os, signal, subprocess, sys, threading

def watch():
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)

child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=watch, daemon=True).start()
code = child.wait()
os._exit(code if code >= 0 else 128 - code)
"""


@contextmanager
def guarded(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """The running command in a process group of its own; the whole group is killed where the block does not end well.

    Options are those of Popen but for stdin: the command has none. A signal that ended it counts as in a shell, 128
    and its number.
    """
    leader = [sys.executable, "-I", "-S", "-c", LEADER]
    with subprocess.Popen([*leader, *command], stdin=subprocess.PIPE, process_group=0, **options) as process:
        try:
            yield process
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
