"""Boards start, answer, and leave nothing behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from stepmap.errors import LinkError
from stepmap_codegen.boards import BUILT_IN, Runs
from stepmap_hil.boards import NativeBoard, QemuBoard, SerialBoard
from stepmap_hil.boards.base import Board, BoardError
from stepmap_hil.boards.native import EXIT_POWER_CUT
from tests.firmware.built import ROOT, builds
from tests.processes import PATIENCE, heed_signals, run_python, wait_for

NAMES = [board.name for board in BUILT_IN.values() if board.runs is not Runs.SERIAL]
SOON = 60.0  # s; generous, for a computer that does something else too


def board(name: str) -> NativeBoard | QemuBoard:
    image = builds().image(name)
    return NativeBoard(image) if name == "native" else QemuBoard(name, image)


@pytest.fixture(params=NAMES)
def running(request: pytest.FixtureRequest) -> Iterator[NativeBoard | QemuBoard]:
    with board(request.param) as it:
        it.open().timeout = SOON
        yield it


def read_banner(it: Board) -> str:
    port, line = it.open(), b""
    while not line.endswith(b"\n"):
        byte = port.read(1)
        assert byte, f"only {line!r} came"
        line += byte
    return line.decode().strip()


def test_says_who_it_is(running: NativeBoard | QemuBoard) -> None:
    reason = "power" if running.name == "native" else "unknown"  # QEMU has no reset flags
    assert read_banner(running) == f"stepmap {running.name} reset={reason}"


def test_echoes_300_random_frames(running: NativeBoard | QemuBoard) -> None:
    random.seed(1)
    read_banner(running)
    port = running.open()
    for _ in range(300):
        frame = random.randbytes(random.randint(1, 64))
        assert port.write(frame) == len(frame)
        assert port.read(len(frame)) == frame
    assert port.in_waiting == 0


def test_starts_again_after_a_reset(running: NativeBoard | QemuBoard) -> None:
    first = read_banner(running)
    port = running.open()
    running.reset()
    assert read_banner(running).split(" reset=")[0] == first.split(" reset=")[0]
    port.write(b"still the same port")
    assert port.read(19) == b"still the same port"


def test_a_read_ends_after_its_timeout(running: NativeBoard | QemuBoard) -> None:
    read_banner(running)
    running.open().timeout = 0.05
    started = time.monotonic()
    assert running.open().read(10) == b""
    assert time.monotonic() - started > 0.04


def test_a_board_that_ends_is_an_error_with_its_exit_code(running: NativeBoard | QemuBoard) -> None:
    read_banner(running)
    os.kill(running.child.pid, signal.SIGKILL)
    with pytest.raises(BoardError, match=r"has ended, exit code -9.*\n.*command: (.*\n)+hint: "):
        running.open().read(1)
    with pytest.raises(OSError, match="has ended"):
        running.open().write(b"anyone?")


def test_closing_twice_and_opening_again_is_fine() -> None:
    it = board("native")
    for _ in range(2):
        it.open().timeout = SOON
        assert read_banner(it).startswith("stepmap native")
        it.close()
        it.close()


def test_the_errors_of_qemu_are_shown(tmp_path: Path) -> None:
    (tmp_path / "some.elf").write_bytes(b"nothing")
    with pytest.raises(BoardError, match=r"(?s)exit code 1.*invalid option.*hint: ") as caught:
        QemuBoard("stm32f405", tmp_path / "some.elf", options=("-nonsense",)).open()
    assert "qemu-system-arm -M netduinoplus2" in caught.value.command


def test_an_image_that_is_not_there_has_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"(?s)missing.elf cannot be read: No such file.*pio run -e stm32f405"):
        QemuBoard("stm32f405", tmp_path / "missing.elf").open()


def test_a_program_that_is_not_there_has_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="pio run -e native"):
        NativeBoard(tmp_path / "missing").open()


def test_an_unknown_machine_is_named() -> None:
    with pytest.raises(ValueError, match="no board 'arduino', only stm32f100, stm32f405"):
        QemuBoard("arduino", Path("firmware.elf"))


# Serial ports


def test_a_serial_board_is_whatever_answers_at_a_port() -> None:
    command = [builds().image("native"), "--serial", "pty"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        device = process.stderr.readline().strip()
        try:
            with SerialBoard(device) as it:
                port = it.open()
                port.timeout = SOON
                port.write(b"over a pseudo terminal\x00\x03\xff\n")
                heard = b""  # the banner may have been sent before anyone listened
                while not heard.endswith(b"over a pseudo terminal\x00\x03\xff\n"):
                    byte = port.read(1)
                    assert byte, f"only {heard!r} came"
                    heard += byte
                with pytest.raises(BoardError, match="no reset line"):
                    it.reset()
        finally:
            process.kill()


def test_a_serial_port_that_is_not_there_has_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match=r"there is no port .*ttyUSB0\nhint: Is it plugged in\?"):
        SerialBoard(str(tmp_path / "ttyUSB0")).open()


# Regions of the native board


def test_regions_are_files_of_the_given_folder(tmp_path: Path) -> None:
    with NativeBoard(builds().image("native"), regions=tmp_path) as it:
        it.open().timeout = SOON
        read_banner(it)
    assert {file.name: file.stat().st_size for file in tmp_path.iterdir()} == {
        "bank_a": 2097152,
        "bank_b": 2097152,
        "board_id": 24,
        "journal_a": 1024,
        "journal_b": 1024,
    }
    assert (tmp_path / "bank_a").read_bytes() == b"\xff" * 2097152


def test_without_a_folder_regions_are_memory_that_outlives_a_reset() -> None:
    with NativeBoard(builds().image("native")) as it:
        it.open().timeout = SOON
        inodes = []
        for _ in range(2):
            read_banner(it)
            maps = Path(f"/proc/{it.child.pid}/maps").read_text()
            inodes.append([line.split()[4] for line in maps.splitlines() if "memfd:bank_a" in line])
            it.reset()
    assert inodes[0] == inodes[1] != []


def test_the_exit_code_of_a_power_cut_is_that_of_the_firmware() -> None:
    header = (ROOT / "firmware" / "port" / "native" / "native.h").read_text()
    assert f"NATIVE_EXIT_POWER_CUT = {EXIT_POWER_CUT}" in header


# No orphans

HOLD = """
import sys, time
from pathlib import Path
from stepmap_codegen.boards import BUILT_IN, Runs
from stepmap_hil.boards import NativeBoard, QemuBoard
name, image, how = sys.argv[1:]
it = NativeBoard(Path(image)) if name == "native" else QemuBoard(name, Path(image))
with it:
    print(it.child.pid, flush=True)
    if how == "exception":
        raise SystemExit("something went wrong")
    while True:  # a signal that comes between Python and the kernel's sleep is seen only after it
        time.sleep(0.1)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # a zombie has ended; whoever inherited it has not looked yet


@pytest.mark.parametrize("how", ["exception", "SIGINT", "SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("name", ["native", "stm32f405"])
def test_no_process_outlives_its_parent(name: str, how: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLD, name, str(builds().image(name)), how],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(["host", "codegen", "hil", "."])},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=heed_signals,
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        if how != "exception":
            assert alive(child)
            parent.send_signal(signal.Signals[how])
        parent.wait(PATIENCE)
    wait_for(lambda: not alive(child), "the board has ended with it")


def test_a_board_outlives_the_thread_that_opened_it() -> None:
    it = board("native")
    thread = Thread(target=it.open)
    thread.start()
    thread.join()
    try:
        it.open().timeout = SOON
        time.sleep(0.05)
        assert read_banner(it).startswith("stepmap native")
    finally:
        it.close()


def test_a_folder_for_regions_that_is_not_there_is_named(tmp_path: Path) -> None:
    command = [builds().image("native"), "--regions", tmp_path / "none"]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert run.returncode == 64
    assert f"{tmp_path / 'none'}/bank_a: No such file or directory; --regions wants a folder" in run.stderr


def test_an_interrupt_at_any_time_does_not_keep_a_process_from_ending() -> None:
    """Hundreds of them while a process is looked at, as in a run; then it is stopped."""
    code = """
import random, signal
from stepmap_hil.boards.child import Child

def interrupt(number, frame):
    raise KeyboardInterrupt

child = Child(["sleep", "1000"], remedy="")
signal.signal(signal.SIGALRM, interrupt)
chance = random.Random(1)
for _ in range(1000):
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 1e-3))
        while child.exit_code is None:
            pass
    except KeyboardInterrupt:
        pass
child.stop()
print(child.exit_code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-15\n", "")


def test_starting_a_child_leaves_no_thread_that_python_waits_for_at_its_end() -> None:
    """An interrupt at the wrong moment would leave such a thread without anybody to wake it, and Python would wait."""
    code = """
import threading
from stepmap_hil.boards.child import Child

Child(["true"], remedy="").stop()
print([t.name for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()])
"""
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
