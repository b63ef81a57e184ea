"""Frames of our own through the real driver: fakenect's index is a pipe, and a line goes in when a frame is ready."""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from pathlib import Path

from stepmap.arrays import Array
from stepmap_hil.depth.driver import recording, worker
from stepmap_hil.depth.driver.freenect import tidy
from stepmap_hil.depth.driver.kinect import Frame, Kinect
from stepmap_hil.depth.errors import CameraError, RecordingEnd

AHEAD = 4
"""Frames that may wait in the pipe."""


class FakeKinect(Kinect):
    """A Kinect that sees what it is fed.

    Lock-step: `show` a frame and get it back through the driver. Real time: `feed` with growing clocks, and the driver
    holds each frame back until its time has come. The folder is new and is removed at the end, in memory if none is
    given.
    """

    def __init__(self, folder: Path | str | None = None, *, every: bool = True) -> None:
        self._fed = self._given = 0
        self._waiting = deque[Path]()
        self._index: int | None = None
        self._finished = False
        self._home = _home(folder)
        try:
            os.mkfifo(self._home / recording.INDEX)
            # For both, so that it does not wait for the driver's end. The kernel closes it if this process dies.
            self._index = os.open(self._home / recording.INDEX, os.O_RDWR)
            super().__init__(self._home, every=every, temporary=True)
        except BaseException:
            self._close_feed()
            raise

    def feed(self, depth: Array, timestamp: int = 0, *, clock: float = 0.0, timeout: float = 1.0) -> None:
        """Puts a frame before the driver; waits up to ``timeout`` seconds if it has not taken those before.

        ``clock`` [s] sets the pace of those that are not 0; 0 is as fast as the driver goes.
        """
        if self._finished or self._index is None:
            raise CameraError("the feed is finished")
        if self._failure is not None:
            raise self._failure
        self._make_room(timeout)
        name = recording.frame_name(clock, timestamp, number=self._fed)
        (self._home / name).write_bytes(recording.frame_bytes(depth))
        os.write(self._index, f"{name}\n".encode())
        self._waiting.append(self._home / name)
        self._fed += 1

    def show(self, depth: Array, timestamp: int = 0, *, timeout: float = 2.0) -> Frame:
        """The frame as it comes out of the driver; those that were fed before it and not taken are skipped."""
        self.feed(depth, timestamp, timeout=timeout)
        while True:
            frame = self.next(timeout)
            if frame is None:
                raise CameraError(f"the driver did not hand over a frame within {timeout:g} s")
            if self._given == self._fed:
                return frame

    def unplug(self) -> None:
        """As if the plug were pulled: `next` raises from now on."""
        self._failure = CameraError(worker.GONE)
        self._worker.kill()

    def finish(self) -> None:
        """No more frames: `next` gives those that wait, then raises `RecordingEnd`."""
        self._finished = True

    def next(self, timeout: float = 1.0) -> Frame | None:
        # The pipe stays open: were it closed before the driver opened its end, what waits in it would be lost.
        if self._finished and self._given == self._fed and self._failure is None:
            self._failure = RecordingEnd("the feed is finished: there are no more frames")
        frame = super().next(timeout)
        self._given += 0 if frame is None else 1 + frame.skipped
        return frame

    def close(self) -> None:
        super().close()
        self._close_feed()

    def _close_feed(self) -> None:
        self._finished = True
        if self._index is not None:
            os.close(self._index)
            self._index = None
        tidy(self._home)

    def _make_room(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            while len(self._waiting) > self._fed - self.delivered:
                self._waiting.popleft().unlink(missing_ok=True)
            if len(self._waiting) < AHEAD:
                return
            if time.monotonic() > deadline:
                raise CameraError(f"{AHEAD} frames wait for the driver and nobody asks for them")
            time.sleep(0.001)


def _home(folder: Path | str | None) -> Path:
    """A new folder."""
    if folder is None:
        memory, prefix = Path("/dev/shm"), f"stepmap-kinect-{os.getpid()}-"
        return Path(tempfile.mkdtemp(prefix=prefix, dir=memory if os.access(memory, os.W_OK) else None))
    try:
        Path(folder).mkdir(parents=True)
    except FileExistsError:
        raise CameraError(f"{folder} exists already: the feed needs a new folder") from None
    return Path(folder)
