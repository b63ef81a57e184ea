"""Frames through the real libfreenect API, of fakenect; nothing here stands in for the driver."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from stepmap.errors import ModelError, ShapeError
from stepmap_hil.depth import CameraError, FakeKinect, Kinect, Recorder, RecordingEnd
from stepmap_hil.depth.driver import freenect, worker
from tests.hil.depth_kit import have_fakenect, motion, needs_fakenect, renderer, tracker, truth
from tests.processes import PATIENCE, ended, heed_signals, wait_for
from tests.realtime import real_time

pytestmark = needs_fakenect
Image = NDArray[np.uint16]


def pictures(n: int, seed: int = 0) -> list[Image]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2048, size=(480, 640), dtype=np.uint16) for _ in range(n)]


def recorded(folder: Path, frames: list[Image], *, pace: float = 0.0) -> Path:
    with Recorder(folder) as out:
        for k, frame in enumerate(frames):
            out.add(frame, 1000 + k, clock=1.0 + pace * k if pace else 0.0)
    return folder


# Lock-step


def test_the_driver_hands_over_exactly_what_it_was_fed() -> None:
    frames = pictures(30)
    with FakeKinect() as kinect:
        for k, frame in enumerate(frames):
            shown = kinect.show(frame, timestamp=7 * k)
            assert np.array_equal(shown.depth, frame)
            assert (shown.timestamp, shown.skipped) == (7 * k, 0)
        assert kinect.delivered == 30


def test_render_driver_tracker_in_a_row() -> None:
    """The whole way of a measurement, in lock-step."""
    errors = []
    with FakeKinect() as kinect:
        for k in range(0, 60, 3):
            ball, robot = motion(k)
            frame = kinect.show(renderer().render(ball, robot, number=k), timestamp=2_000_000 * k)
            errors.append(tracker().read(frame.depth, frame.seconds).z - truth(ball, robot))
    assert np.abs(np.mean(errors, axis=0)).max() < 0.002
    assert np.std(errors, axis=0).max() < 0.003


def test_the_extremes_of_timestamps_and_counts_survive() -> None:
    frame = np.zeros((480, 640), dtype=np.uint16)
    frame[0, 0], frame[-1, -1] = 65535, 2047
    with FakeKinect() as kinect:
        shown = kinect.show(frame, timestamp=2**32 - 1)
    assert shown.timestamp == 2**32 - 1
    assert np.array_equal(shown.depth, frame)


def test_frames_do_not_change_after_they_were_given() -> None:
    one, other = pictures(2)
    with FakeKinect() as kinect:
        first = kinect.show(one)
        kinect.show(other)
    assert np.array_equal(first.depth, one)


def test_nothing_reaches_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with FakeKinect() as kinect:
        kinect.show(pictures(1)[0])
        kinect.finish()
        with pytest.raises(RecordingEnd):
            kinect.next()
    assert capfd.readouterr() == ("", "")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    handles = len(os.listdir("/proc/self/fd"))
    folder = tmp_path / "feed"
    with FakeKinect(folder) as kinect:
        for frame in pictures(6):
            kinect.show(frame)
        assert (folder / "INDEX.txt").is_fifo()
        assert len(list(folder.iterdir())) <= 2
        pid = kinect._worker.pid
    assert not folder.exists()
    assert ended(pid)
    assert len(os.listdir("/proc/self/fd")) == handles
    kinect.close()  # again does nothing
    with pytest.raises(CameraError, match="closed"):
        kinect.next()
    with pytest.raises(CameraError, match="finished"):
        kinect.feed(pictures(1)[0])


def test_waiting_has_an_end_and_does_no_harm() -> None:
    with FakeKinect() as kinect:
        begun = time.monotonic()
        assert kinect.next(0.1) is None
        assert kinect.next(0.0) is None
        assert time.monotonic() - begun >= 0.1
        frame = pictures(1)[0]
        assert np.array_equal(kinect.show(frame).depth, frame)


def test_a_feed_nobody_takes_from_says_so() -> None:
    frame = pictures(1)[0]
    with FakeKinect() as kinect:
        for _ in range(4):
            kinect.feed(frame)
        with pytest.raises(CameraError, match="nobody asks"):
            kinect.feed(frame, timeout=0.1)
        for _ in range(4):
            assert kinect.next() is not None


def test_a_finished_feed_gives_what_waits_then_ends() -> None:
    frames = pictures(3)
    with FakeKinect() as kinect:
        for frame in frames:
            kinect.feed(frame)
        kinect.finish()
        given = [frame.depth for frame in kinect.frames()]
        assert np.array_equal(given, frames)
        for _ in range(2):
            with pytest.raises(RecordingEnd, match="no more frames"):
                kinect.next()


def test_a_frame_that_is_shown_is_not_mistaken_for_an_older_one() -> None:
    one, other = pictures(2)
    with FakeKinect() as kinect:
        kinect.feed(one, 1)
        shown = kinect.show(other, 2)
        assert shown.timestamp == 2
        assert np.array_equal(shown.depth, other)


def test_bad_frames_are_refused() -> None:
    with FakeKinect() as kinect:
        with pytest.raises(ShapeError, match="480x640"):
            kinect.feed(np.zeros((240, 320), dtype=np.uint16))
        with pytest.raises(ModelError, match="32 bits"):
            kinect.feed(pictures(1)[0], timestamp=2**32)
        with pytest.raises(ModelError, match="clock"):
            kinect.feed(pictures(1)[0], clock=float("nan"))
        assert kinect.show(pictures(1)[0]) is not None


def test_the_feed_needs_a_new_folder(tmp_path: Path) -> None:
    with pytest.raises(CameraError, match="new folder"):
        FakeKinect(tmp_path)
    assert tmp_path.exists()


# Real time


@pytest.mark.realtime
def test_clocks_set_the_pace() -> None:
    """30 a second: never earlier, and hardly later."""
    with real_time():
        assert _paced() < 13 / 30 + 0.3


def _paced() -> float:
    """Seconds that frames take; they never come too early."""
    frames = pictures(2)
    with FakeKinect() as kinect:
        came = []
        for k in range(16):
            kinect.feed(frames[k % 2], k, clock=5.0 + k / 30)
            if k >= 2:
                frame = kinect.next()
                assert frame is not None
                assert frame.timestamp == k - 2
                came.append(frame.seconds)
    assert came[-1] - came[0] > 13 / 30 - 0.005
    return came[-1] - came[0]


def test_a_slow_reader_gets_the_newest_and_knows_what_it_missed() -> None:
    frames = pictures(4)
    with FakeKinect(every=False) as kinect:
        for k, frame in enumerate(frames):
            kinect.feed(frame, k)
        wait_for(lambda: kinect.delivered >= 4, "the driver has delivered all")
        given = kinect.next()
        assert given is not None
        assert (given.timestamp, given.skipped) == (3, 3)
        assert np.array_equal(given.depth, frames[3])
        assert kinect.next(0.05) is None
        kinect.feed(frames[0], 9)
        kinect.finish()
        last = kinect.next()
        assert last is not None
        assert (last.timestamp, last.skipped) == (9, 0)
        with pytest.raises(RecordingEnd):
            kinect.next()


# What breaks


def test_an_unplugged_camera_says_what_to_do() -> None:
    with FakeKinect() as kinect:
        kinect.show(pictures(1)[0])
        kinect.unplug()
        for _ in range(2):
            with pytest.raises(CameraError, match=r"gone.*USB plug"):
                kinect.next()
    assert issubclass(CameraError, OSError)


def test_a_driver_that_dies_is_noticed_at_once() -> None:
    with FakeKinect() as kinect:
        kinect.show(pictures(1)[0])
        os.kill(kinect._worker.pid, signal.SIGSEGV)
        with pytest.raises(CameraError, match="exit code -11"):
            kinect.next(PATIENCE)


def test_a_driver_that_ends_our_process_ends_only_its_own(tmp_path: Path) -> None:
    """fakenect calls exit when a file of the index is missing."""
    os.mkfifo(tmp_path / "INDEX.txt")
    pipe = os.open(tmp_path / "INDEX.txt", os.O_RDWR)
    try:
        with Kinect(tmp_path) as kinect:
            os.write(pipe, b"d-0.0-1.pgm\n")
            with pytest.raises(CameraError, match="Cannot open file"):
                kinect.next(PATIENCE)
    finally:
        os.close(pipe)


FEEDER = """
import os, sys, time
pipe = os.open(sys.argv[1] + "/INDEX.txt", os.O_WRONLY)
os.write(pipe, b"d-0.0-1.pgm\\n")
print("fed", flush=True)
time.sleep(600)
"""


def test_a_feeder_that_is_killed_ends_the_recording(tmp_path: Path) -> None:
    """Its end of the pipe is closed by the kernel; nobody waits for ever."""
    frame = pictures(1)[0]
    recorded(tmp_path / "sample", [frame])
    shutil.copy(tmp_path / "sample" / "d-0.000000-1000.pgm", tmp_path / "d-0.0-1.pgm")
    os.mkfifo(tmp_path / "INDEX.txt")
    with subprocess.Popen([sys.executable, "-c", FEEDER, str(tmp_path)], stdout=subprocess.PIPE) as feeder:
        try:
            with Kinect(tmp_path) as kinect:
                first = kinect.next(PATIENCE)
                assert first is not None
                assert np.array_equal(first.depth, frame)
                assert kinect.next(0.1) is None
                feeder.kill()
                with pytest.raises(RecordingEnd):
                    kinect.next(PATIENCE)
        finally:
            feeder.kill()


def test_a_feeder_that_never_comes_only_costs_the_timeout(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "INDEX.txt")
    with Kinect(tmp_path) as kinect:
        assert kinect.next(0.1) is None


BENCH = """
import sys, time
import numpy as np
from stepmap_hil.depth import FakeKinect
kinect = FakeKinect(sys.argv[1])
kinect.show(np.zeros((480, 640), dtype=np.uint16))
print(kinect._worker.pid, flush=True)
if sys.argv[2] == "wait":
    with kinect:
        kinect.next(60)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_bench_that_is_ended_leaves_no_process_and_no_folder(tmp_path: Path, how: signal.Signals) -> None:
    folder = tmp_path / "feed"
    state = "wait" if how == signal.SIGINT else "idle"
    with subprocess.Popen(
        [sys.executable, "-c", BENCH, str(folder), state],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=heed_signals,
    ) as bench:
        assert bench.stdout is not None
        pid = int(bench.stdout.readline())
        assert folder.exists()
        bench.send_signal(how)
        bench.wait(PATIENCE)
    wait_for(lambda: ended(pid), "the driver has ended")
    wait_for(lambda: not folder.exists(), "the folder is gone")


def test_no_library_and_no_camera_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPMAP_LIBFREENECT", str(tmp_path / "none.so"))
    with pytest.raises(CameraError, match=r"cannot be loaded.*apt install libfreenect0\.5"):
        Kinect()
    monkeypatch.setenv("STEPMAP_LIBFREENECT", "libc.so.6")  # a library that is not libfreenect
    with pytest.raises(CameraError, match="cannot be loaded"):
        Kinect()


def plugged() -> bool:
    """Whether the kernel sees the camera of a Kinect."""
    return any(path.read_text().strip() == "02ae" for path in Path("/sys/bus/usb/devices").glob("*/idProduct"))


@pytest.mark.skipif(plugged(), reason="a Kinect is connected")
def test_without_a_kinect_the_real_driver_says_so() -> None:
    with pytest.raises(CameraError, match=r"no Kinect is connected|cannot use USB"):
        Kinect()


def test_fakenect_is_found_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert have_fakenect()
    monkeypatch.setenv("STEPMAP_FAKENECT", "elsewhere.so")
    assert worker.fakenect() == "elsewhere.so"
    monkeypatch.delenv("STEPMAP_FAKENECT")
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    with pytest.raises(CameraError, match="libfreenect0"):
        worker.fakenect()


def test_the_frame_mode_is_as_long_as_the_header_says() -> None:
    """Three ints, an int, two shorts and four bytes."""
    import ctypes

    assert ctypes.sizeof(freenect.FrameMode) == 24


# Recordings


def test_a_recording_is_replayed_bit_for_bit(tmp_path: Path) -> None:
    frames = [renderer().render(*motion(k), number=k) for k in range(8)]
    with Kinect(recorded(tmp_path / "one", frames)) as kinect:
        given = list(kinect.frames())
    assert [frame.timestamp for frame in given] == list(range(1000, 1008))
    assert np.array_equal([frame.depth for frame in given], frames)


def test_a_recording_is_replayed_at_its_pace(tmp_path: Path) -> None:
    with Kinect(recorded(tmp_path / "one", pictures(6), pace=0.05)) as kinect:
        came = [frame.seconds for frame in kinect.frames()]
    assert 0.245 < came[-1] - came[0] < 0.55


def test_video_and_accelerometer_are_passed_over(tmp_path: Path) -> None:
    """As fakenect-record writes them beside the depth."""
    frames = pictures(2)
    folder = recorded(tmp_path / "one", frames)
    (folder / "r-0.000000-5.ppm").write_bytes(b"P6 640 480 255\n" + bytes(640 * 480 * 3))
    (folder / "a-0.000000-5.dump").write_bytes(bytes(12))
    lines = (folder / "INDEX.txt").read_text().splitlines()
    (folder / "INDEX.txt").write_text("\n".join(["r-0.000000-5.ppm", lines[0], "a-0.000000-5.dump", lines[1]]) + "\n")
    with Kinect(folder) as kinect:
        assert np.array_equal([frame.depth for frame in kinect.frames()], frames)


@pytest.mark.skipif(
    shutil.which("fakenect-record") is None, reason="fakenect-record is not installed (libfreenect-bin)"
)
def test_what_fakenect_record_makes_is_replayed(tmp_path: Path) -> None:
    """The recorder run on fakenect: what it saved is what it saw."""
    frames = pictures(5)
    source = recorded(tmp_path / "source", frames)
    environment = os.environ | {
        "FAKENECT_PATH": str(source),
        "LD_LIBRARY_PATH": str(Path(worker.fakenect()).parent),
        "FAKENECT_LOOP": "0",
    }
    subprocess.run(
        ["fakenect-record", str(tmp_path / "copy")], env=environment, stdout=subprocess.DEVNULL, check=True, timeout=20
    )
    with Kinect(tmp_path / "copy") as kinect:
        given = list(kinect.frames())
    assert np.array_equal([frame.depth for frame in given], frames)
    assert [frame.timestamp for frame in given] == list(range(1000, 1005))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda f: (f / "INDEX.txt").unlink(), "no recording"),
        (lambda f: (f / "INDEX.txt").write_text(""), "no depth frames"),
        (lambda f: (f / "INDEX.txt").write_text("d-0.0-9.pgm\n"), "incomplete: d-0.0-9.pgm"),
        (lambda f: (f / "INDEX.txt").write_text("d-../../x\n"), "no file name"),
        (lambda f: os.truncate(f / "d-0.000000-1001.pgm", 1000), "damaged: d-0.000000-1001.pgm"),
        (lambda f: os.truncate(f / "d-0.000000-1001.pgm", 0), "damaged: d-0.000000-1001.pgm"),
    ],
)
def test_damaged_recordings_are_refused_before_the_driver_sees_them(tmp_path: Path, damage: object, why: str) -> None:
    folder = recorded(tmp_path / "one", pictures(2))
    assert callable(damage)
    damage(folder)
    with pytest.raises(CameraError, match=why):
        Kinect(folder)


def test_a_recording_is_not_written_over(tmp_path: Path) -> None:
    recorded(tmp_path / "one", pictures(1))
    with pytest.raises(CameraError, match="another folder"):
        Recorder(tmp_path / "one")
