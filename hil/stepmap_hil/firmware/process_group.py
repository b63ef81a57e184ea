"""A process that, with all it starts, does not outlive this one, however this one ends."""

from __future__ import annotations

import codecs
import os
import select
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


class SilenceError(Exception):
    """A process has printed nothing for longer than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"printed nothing for {seconds:g} s")


def lines(process: subprocess.Popen[Any], silence: float) -> Iterator[str]:
    """What a process prints, line by line, to its end; raises SilenceError when ``silence`` seconds bring nothing.

    Its output must be a pipe that nobody else reads.
    """
    assert process.stdout is not None
    number, decoder, begun = process.stdout.fileno(), codecs.getincrementaldecoder("utf-8")("replace"), ""
    poll = select.poll()
    poll.register(number, select.POLLIN)
    while True:
        if not poll.poll(1e3 * silence):
            raise SilenceError(silence)
        part = os.read(number, 1 << 16)
        *whole, begun = (begun + decoder.decode(part, final=not part)).split("\n")
        yield from (f"{line}\n" for line in whole)
        if not part:
            break
    if begun:
        yield begun
