"""What a command starts ends with it: pio starts scons, scons starts compilers, and none of them is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stepmap_hil.guarded import guarded

TREE = "sleep 60 & sh -c 'sleep 60 & echo $$; wait' & wait"  # a grandchild that tells its number, and its child
ALONE = """\
import subprocess, sys
from stepmap_hil.guarded import guarded
with guarded(["sh", "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True) as process:
    print(process.pid, flush=True)
    process.stdout.read()
"""


def members(group: int) -> list[str]:
    """Processes of a group that still run; zombies wait for their parent alone."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state != "Z":
            found.append(path.parent.name)
    return found


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_nothing_outlives_a_parent_that_is_killed(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", ALONE, TREE], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        group = int(parent.stdout.readline())
        wait_for(lambda: len(members(group)) >= 5)
        parent.send_signal(number)
        assert parent.wait() == -number
    wait_for(lambda: members(group) == [])


def test_nothing_outlives_a_block_that_fails() -> None:
    group = 0

    def fail() -> None:
        nonlocal group
        with guarded(["sh", "-c", TREE], stdout=subprocess.PIPE, text=True) as process:
            group = process.pid
            assert process.stdout.readline().strip().isdigit()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    wait_for(lambda: members(group) == [])


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_how_it_ended_is_known(command: str, code: int) -> None:
    with guarded(["sh", "-c", f"cat; echo said; {command}"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.read() == "said\n"  # and it has no input
    assert process.returncode == code


def test_it_has_a_group_of_its_own() -> None:
    with guarded(["true"]) as process:
        process.wait()
        assert process.pid != os.getpgrp()
