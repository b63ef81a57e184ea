"""A Kinect's depth frames, from the camera, from a recording, or from whoever feeds fakenect."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from stepmap.arrays import Array
from stepmap_hil.depth.driver import freenect, recording, worker
from stepmap_hil.depth.driver.worker import Worker
from stepmap_hil.depth.errors import CameraError, RecordingEnd

OPENING = 15.0  # s a driver may take to open its camera
STALL = 2.0  # s without a frame after which a camera counts as gone
TICKS = 60e6
"""Steps a second of a Kinect's timestamps."""


@dataclass(frozen=True, eq=False)
class Frame:
    """One depth frame."""

    depth: Array
    """(480, 640) uint16 counts."""
    timestamp: int
    """The camera's own clock: 60 million a second, 32 bits."""
    seconds: float
    """`time.monotonic` when the driver delivered it."""
    skipped: int
    """Frames that came since the one before and were not asked for in time."""


class Kinect:
    """Frames of a Kinect, or of a recording in a folder (as fakenect-record makes them).

    A camera gives its newest frame and skips those nobody asked for. A recording gives ``every`` frame, not before the
    time its file name says; with ``every`` false it runs on like a camera.
    """

    def __init__(self, folder: Path | str | None = None, *, every: bool = True, temporary: bool = False) -> None:
        """``temporary``: the folder is removed at the end."""
        self.folder = None if folder is None else Path(folder)
        self._asked: float | None = None
        self._failure: CameraError | None = None
        if self.folder is not None:
            recording.check(self.folder)
        self._worker = Worker(
            worker.libfreenect() if self.folder is None else worker.fakenect(),
            recording=self.folder,
            every=every and self.folder is not None,
            litter=self.folder if temporary else None,
        )
        try:
            if self._worker.answer(OPENING) is None:
                raise CameraError(f"the driver has not opened the camera within {OPENING:g} s. {worker.PLUG}")
        except BaseException:
            self.close()
            raise

    def next(self, timeout: float = 1.0) -> Frame | None:
        """The next frame; None when none came within ``timeout`` seconds.

        Raises `RecordingEnd` after the last frame of a recording and `CameraError` when the camera is gone; from then
        on always.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return self._next(timeout)
        except CameraError as error:
            self._failure = error
            raise

    def _next(self, timeout: float) -> Frame | None:
        if self._asked is None:
            self._asked = time.monotonic()
            self._worker.ask()
        answer = self._worker.answer(timeout)
        if answer is None:
            if self.folder is None and time.monotonic() - self._asked > STALL:
                raise CameraError(f"no frame for {STALL:g} s: {worker.GONE}")
            return None
        if answer.kind == freenect.END:
            raise RecordingEnd(f"{self.folder}: there are no more frames")
        self._asked = None
        return Frame(self._worker.pixels(), answer.timestamp, answer.seconds, answer.skipped)

    def frames(self, timeout: float = 1.0) -> Iterator[Frame]:
        """Frame after frame, to the end of a recording; raises when none came within ``timeout`` seconds."""
        while True:
            try:
                frame = self.next(timeout)
            except RecordingEnd:
                return
            if frame is None:
                raise CameraError(f"no frame within {timeout:g} s. Is the camera, or who feeds it, still there?")
            yield frame

    @property
    def delivered(self) -> int:
        """Frames the driver has handed over, asked for or not."""
        return self._worker.delivered

    def close(self) -> None:
        self._worker.close()
        self._failure = self._failure or CameraError("the camera is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
