"""An emulated robot: its board is a process on a pseudo terminal, its mechanism is simulated in real time, and frames
of a Kinect are rendered and given to fakenect, unless the board measures itself. Its rig file is that of a real robot.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from stepmap.jobs import Job
from stepmap_codegen import Controller
from stepmap_codegen.boards import NATIVE
from stepmap_hil.bench.settings import BenchSettings
from stepmap_hil.boards.child import Child
from stepmap_hil.depth import TICKS, Background, Camera, Renderer, Scene
from stepmap_hil.depth import calibration_file as camera_table
from stepmap_hil.depth.calibrate import Calibration
from stepmap_hil.depth.driver import recording
from stepmap_hil.firmware.build import Firmware
from stepmap_hil.plant.mechanism import Plant
from stepmap_hil.rig.file import write_rig
from stepmap_hil.sensors.kinect_live import write_background
from stepmap_hil.sensors.staging import Staging, stage
from stepmap_hil.sensors.targets import all_seen

# Pins (firmware/port/native/motors.c): enabled, efforts, counts, alarms
MOTORS, ENCODERS = NATIVE.motors, NATIVE.encoders
STEP = 0.001  # s, of the simulation and its motors
MAX_STEPS = 4  # of the simulation per call; the board runs between calls
BEHIND = 0.1  # s that the simulation makes up for; of more it forgets
FRAME = 1 / 30  # s
FILES = 16  # frames whose files are kept for a driver that is late
LATENCY = 0.01  # s from where things are to a frame of them: what rendering takes
TIMEOUT_S = 5.0  # for the board to report its port


class EmulatedRobot:
    """Runs while it is open: ``advance`` follows the clock, step by step, and must be called every millisecond.

    A call that is late is made up for by some steps at once. The pins follow at the motors' top speed by the clock,
    and no call shows more of it than a millisecond's: the board reads encoders every millisecond, and takes for broken
    what counts faster than three times that speed. In a millisecond it sees two calls at most, so twice that speed.
    """

    def __init__(
        self, job: Job, controller: Controller, firmware: Firmware, settings: BenchSettings, key: Path, seed: int
    ) -> None:
        # A board that measures itself needs no camera.
        self.targets = None if controller.encoders else all_seen(job.system)
        self.staging = None if self.targets is None else stage(job, self.targets, Camera(), Scene())
        self.job, self.controller, self.firmware, self.key, self.seed = job, controller, firmware, key, seed
        self._settings = settings
        self._moved = False  # since it was put at its start
        self._put_at_start()
        self._folder: Path | None = None
        self._child: Child | None = None
        self._camera: SpawnProcess | None = None
        self._then = self._shown_at = 0.0

    def _put_at_start(self) -> None:
        """Puts the robot at its start, as an operator does after a run. Encoders go on: they are calibrated anew."""
        before = self._counts() if self._moved else [0] * ENCODERS
        self.plant = Plant(self.job, self.controller.axes, self._settings.plant, self.controller.encoders)
        self._moved = False
        self._zero = [0] * ENCODERS
        self._zero = [old - new for old, new in zip(before, self._counts(), strict=True)]

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the robot is not open")
        return self._folder

    def __enter__(self) -> Self:
        memory = Path("/dev/shm")
        home = memory if os.access(memory, os.W_OK) else None
        self._folder = Path(tempfile.mkdtemp(prefix=f"stepmap-robot-{os.getpid()}-", dir=home))
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def _open(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._place: Any = context.RawArray("d", 0 if self.targets is None else 3 * len(self.targets.frames))
        self._show_place()
        self._pins = np.memmap(self.folder / "pins", dtype=np.int32, mode="w+", shape=2 + MOTORS + ENCODERS)
        self._pins[1 + MOTORS : -1] = self._counts()
        command = [str(self.firmware.program), "--serial", "pty", "--pins", str(self.folder / "pins")]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STEPMAP_")}
        self._child = Child(command, remedy="build it with `stepmap build JOB --board native`", environment=kept)
        if self.staging is not None:
            kinect = self.folder / "kinect"
            kinect.mkdir()
            os.mkfifo(kinect / recording.INDEX)
            filming = (kinect, self.staging, self._place, self.seed, os.getpid())
            self._camera = context.Process(target=_film, args=filming, daemon=True)
            self._camera.start()
        self._then = time.monotonic()

    @property
    def port(self) -> str:
        """The board's serial port."""
        child = self._child
        deadline = time.monotonic() + TIMEOUT_S
        while child is not None and time.monotonic() < deadline:
            output = child.log().split()
            if output and output[0].startswith("/dev/"):
                return output[0]
            if child.exit_code is not None:
                raise child.ended()
            time.sleep(0.01)
        raise RuntimeError("the board does not say where it is")

    def write_rig(self, file: Path) -> None:
        """The rig of this robot and, beside it, what its camera sees of the empty scene, where it has one."""
        rig = {"plant": "real", "port": self.port, "board": "native", "key": str(self.key.resolve())}
        if self.staging is None:
            write_rig(file, {"rig": rig}, "")
            return
        camera, scene = self.staging.camera, self.staging.scene
        background = file.with_suffix(".background.npz")
        write_background(Background.learn(Renderer(camera, scene, seed=self.seed).empty(), camera), background)
        entries = {
            "rig": rig,
            "kinect": {"recording": str(self.folder / "kinect"), "background": background.name, "latency": LATENCY},
        }
        write_rig(file, entries, camera_table.to_toml(Calibration(camera, 0, 0.0, 0.0, 0.0)))

    def advance(self) -> float:
        """Lets the time pass that has passed; seconds until the next call."""
        if self._child is not None and self._child.exit_code is not None:
            raise self._child.ended()
        now = time.monotonic()
        self._then = max(self._then, now - BEHIND)
        for _ in range(MAX_STEPS):
            if self._then + STEP <= now:
                self._step()
        self._turn_encoders()
        self._show_place()
        return min(max(self._then + STEP - time.monotonic(), 0.5 * STEP), STEP)

    def _step(self) -> None:
        enabled, *efforts = (int(pin) for pin in self._pins[: 1 + MOTORS])
        if self._moved and not enabled:
            self._put_at_start()
        self._moved = bool(enabled)
        if enabled or not self.plant.nf:  # what forces hold somebody holds until they do
            self.plant.advance(efforts, bool(enabled), STEP)
        self._then += STEP

    def _turn_encoders(self) -> None:
        """Shows what motors have turned, no more of it than they can in the time since the last call."""
        seconds = min(time.monotonic() - self._shown_at, STEP)
        fastest = max(1.0, self._settings.plant.motor.gain_factor)
        counts = self._counts()
        axes = dict(zip(self.plant.motor_encoders, self.controller.axes[self.plant.nf :], strict=True))
        for k, count in enumerate(counts):
            shown = int(self._pins[1 + MOTORS + k])
            axis = axes.get(k)  # None: an encoder of the mechanism itself
            most = (
                abs(count - shown) if axis is None else int(fastest * axis.top_speed * axis.counts_per_unit * seconds)
            )
            self._pins[1 + MOTORS + k] = shown + max(-most, min(most, count - shown))
        self._shown_at = time.monotonic()  # not earlier: this process may have waited since

    def _counts(self) -> list[int]:
        counts = [*self.plant.counts, *[0] * ENCODERS]
        return [zero + count for zero, count in zip(self._zero, counts, strict=False)]

    def _show_place(self) -> None:
        if self.targets is not None:
            self._place[:] = [float(v) for v in self.targets.places(self.plant.coordinates).ravel()]

    def run(self, goes_on: Callable[[], bool]) -> None:
        """Advances while ``goes_on`` returns true."""
        while goes_on():
            time.sleep(self.advance())

    def _close(self) -> None:
        if self._camera is not None and self._camera.pid is not None:  # has been started
            self._camera.terminate()
            self._camera.join(TIMEOUT_S)
            self._camera.kill()
            self._camera.join()
        if self._child is not None:
            self._child.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._camera = self._child = self._folder = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


def _film(folder: Path, staging: Staging, place: Any, seed: int, parent: int) -> None:
    """The camera: a frame of where things are, thirty times a second, for as long as its robot is there.

    A robot that was killed leaves its folder to the camera, which removes it.
    """
    renderer = Renderer(staging.camera, staging.scene, seed=seed)
    number, due, feed = 0, time.monotonic(), _Feed(folder)
    try:
        while os.getppid() == parent:
            time.sleep(max(0.0, due - time.monotonic()))
            if feed.wanted():
                frame = staging.render(renderer, np.array(place[:]).reshape(-1, 3), number)
                feed.give(frame, round(due * TICKS) & 0xFFFFFFFF)
                number += 1
            due = max(due + FRAME, time.monotonic() - FRAME)
    except KeyboardInterrupt:
        pass  # for the robot, which ends this process then
    finally:
        if os.getppid() != parent:
            shutil.rmtree(folder.parent, ignore_errors=True)


class _Feed:
    """Frames for the driver that reads the folder; its index is a pipe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: int | None = None
        self._files: deque[Path] = deque()
        self._number = 0

    def wanted(self) -> bool:
        """Whether a driver reads the pipe."""
        if self._index is None:
            try:
                self._index = os.open(self._folder / recording.INDEX, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
        return self._index is not None

    def give(self, depth: Any, timestamp: int) -> None:
        name = recording.frame_name(0.0, timestamp, number=self._number)
        self._number += 1
        (self._folder / name).write_bytes(recording.frame_bytes(depth))
        self._files.append(self._folder / name)
        try:
            os.write(self._index or -1, f"{name}\n".encode())
        except (BrokenPipeError, BlockingIOError):
            os.close(self._index or -1)
            self._index = None
        while len(self._files) > FILES:
            self._files.popleft().unlink(missing_ok=True)
