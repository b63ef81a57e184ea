"""What a command starts ends with it: pio starts scons, scons starts compilers, and none of them is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from stepmap_hil.firmware.process_group import SilenceError, guarded, lines
from tests.hil.commands import build_folder, started
from tests.pil.built import JOB, KEY_FILE
from tests.processes import ended, heed_signals, wait_for

TREE = "sleep 60 & sh -c 'sleep 60 & echo $$; wait' & wait"  # a grandchild that tells its number, and its child
ALONE = """\
import subprocess, sys
from stepmap_hil.firmware.process_group import guarded
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_nothing_outlives_a_parent_that_is_killed(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ALONE, TREE], stdout=subprocess.PIPE, text=True, preexec_fn=heed_signals
    ) as parent:
        assert parent.stdout is not None
        group = int(parent.stdout.readline())
        wait_for(lambda: len(members(group)) >= 5, "the whole tree runs")
        parent.send_signal(number)
        assert parent.wait() == -number
    wait_for(lambda: members(group) == [], "nothing of it is left")


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
    wait_for(lambda: members(group) == [], "nothing of it is left")


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_how_it_ended_is_known(command: str, code: int) -> None:
    with guarded(["sh", "-c", f"cat; echo said; {command}"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.read() == "said\n"  # and it has no input
    assert process.returncode == code


def test_it_has_a_group_of_its_own() -> None:
    with guarded(["true"]) as process:
        process.wait()
        assert process.pid != os.getpgrp()


# Those that say nothing any more


def test_lines_of_a_process_that_goes_on() -> None:
    with guarded(
        ["sh", "-c", r"printf 'one\ntwo '; printf 'and \303'; printf '\251\n\nrest'"], stdout=subprocess.PIPE
    ) as process:
        assert list(lines(process, 60.0)) == ["one\n", "two and é\n", "\n", "rest"]


def test_a_process_that_says_nothing_is_ended() -> None:
    group, said = 0, []

    def listen() -> None:
        nonlocal group
        with guarded(["sh", "-c", f"echo begun; {TREE.replace('echo $$;', '')}"], stdout=subprocess.PIPE) as process:
            group = process.pid
            said.extend(lines(process, 1.0))

    with pytest.raises(SilenceError, match="printed nothing for 1 s"):
        listen()
    assert said == ["begun\n"]
    wait_for(lambda: members(group) == [], "nothing of it is left")


STOPPED = """\
import sys
from stepmap_hil.firmware import build
from stepmap.cli import main
build.SILENCE = 3.0
sys.argv = ["stepmap", *sys.argv[1:]]
main()
"""


def test_a_build_that_stands_still_ends_with_a_reason(tmp_path: Path) -> None:
    """SIGSTOP: as an editor's debugger, or a computer that swaps for minutes, does to PlatformIO."""
    build = build_folder(tmp_path)
    (build / "suspended_mass" / "build-native" / "manifest.json").unlink()
    options = ["--board", "native", "--build", str(build), "--key", str(KEY_FILE)]
    with started([sys.executable, "-c", STOPPED, "build", str(JOB), *options]) as made:
        stopped: list[int] = []

        def stop() -> bool:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                words: list[bytes] = []
                with suppress(OSError):  # it has ended meanwhile
                    words = path.read_bytes().split(b"\0")
                if made.owns(int(path.parent.name)) and any(word.endswith(b"/pio") for word in words):
                    os.kill(int(path.parent.name), signal.SIGSTOP)
                    stopped.append(int(path.parent.name))
            return bool(stopped) or made.process.poll() is not None

        wait_for(stop, "PlatformIO runs")
        code, _, complaints = made.end()
        assert stopped, complaints
        assert code == 1
        assert "PlatformIO printed nothing for 3 s and was ended" in complaints
        assert "Traceback" not in complaints
        wait_for(lambda: all(map(ended, stopped)), "PlatformIO has ended")
        wait_for(lambda: made.family() == [], "nothing of it is left")
