"""The process that runs libfreenect, seen from the process that wants its frames."""

from __future__ import annotations

import ctypes.util
import mmap
import os
import select
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from stepmap.arrays import Array
from stepmap_hil.depth.camera import HEIGHT, WIDTH
from stepmap_hil.depth.driver import freenect
from stepmap_hil.depth.errors import CameraError

PATIENCE = 3.0  # s a driver may take to put its camera in order

INSTALL = "Install it (Debian, Ubuntu: apt install libfreenect0.5)."
PLUG = "Check its power supply and its USB plug (a Kinect wants a USB controller of its own), then try again."
GONE = f"the Kinect is gone. {PLUG}"
REASONS = {
    freenect.NO_LIBRARY: f"libfreenect cannot be loaded. {INSTALL}",
    freenect.NO_CONTEXT: "libfreenect cannot use USB here. Is this a container without access to USB devices?",
    freenect.NO_DEVICE: f"no Kinect is connected. {PLUG}",
    freenect.NOT_OPENED: "the Kinect cannot be opened. Does another program use it, or are you not in the group that "
    "may (Debian: plugdev)?",
    freenect.NOT_STARTED: f"the Kinect does not start its depth stream. {PLUG}",
    freenect.GONE: GONE,
}


@dataclass(frozen=True)
class Answer:
    """What the driver's process says: `freenect.READY`, `FRAME` or `END`, and about a frame when it came."""

    kind: bytes
    timestamp: int
    seconds: float
    skipped: int


class Worker:
    """A process with a driver. It ends when this object is closed, or when this process dies in whatever way."""

    def __init__(self, library: str, *, recording: Path | None, every: bool, litter: Path | None) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `close`)
        self._file = _memory_file()
        self._memory = mmap.mmap(self._file.fileno(), freenect.SHARED)
        self._pixels: Array = np.frombuffer(self._memory, "<u2", WIDTH * HEIGHT, freenect.PIXELS)
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        numbers = (self._file.fileno(), requests, answers)
        wanted = "every" if every else "newest"
        arguments = [library, *map(str, numbers), wanted, str(litter or "")]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FAKENECT_")}
        if recording is not None:
            environment |= {"FAKENECT_PATH": str(recording.absolute()), "FAKENECT_LOOP": "0"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", freenect.__file__, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=numbers,
                env=environment,
                process_group=0,  # Ctrl-C is ours to handle
            )
        finally:
            os.close(requests)
            os.close(answers)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def delivered(self) -> int:
        """Frames the driver has handed over, asked for or not; 0 after the end."""
        return 0 if self._memory.closed else int(freenect.COUNTER.unpack_from(self._memory, 0)[0])

    def pixels(self) -> Array:
        """A copy of the frame that was answered last."""
        return self._pixels.astype(np.uint16).reshape(HEIGHT, WIDTH)

    def ask(self) -> None:
        """For one frame."""
        try:
            os.write(self._requests, b"n")
        except BrokenPipeError:
            raise self._ended() from None

    def answer(self, timeout: float) -> Answer | None:
        """What it says within ``timeout`` seconds, if anything."""
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        if not poll.poll(max(0.0, timeout) * 1e3):
            return None
        record = os.read(self._answers, freenect.ANSWER.size)
        if not record:
            raise self._ended()
        return Answer(*freenect.ANSWER.unpack(record))

    def _ended(self) -> CameraError:
        """Why the process is not there any more."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        said = " ".join(os.pread(self._log.fileno(), 2000, 0).decode(errors="replace").split())
        reason = REASONS.get(code, f"the driver ended by itself (exit code {code}). Start again.")
        return CameraError(f"{reason} The driver said: {said}" if said else reason)

    def kill(self) -> None:
        """Ends the process at once: the camera is left as it is."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Lets the process put its camera in order and end; a second call does nothing."""
        if self._log.closed:
            return
        os.close(self._requests)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            os.close(self._answers)
            self._pixels = np.empty(0, dtype="<u2")  # the memory stays open as long as an array shows it
            self._memory.close()
            self._file.close()
            self._log.close()


def _memory_file() -> IO[bytes]:
    """A file without a name, in memory where the system can, large enough for a frame."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("stepmap-kinect"), "r+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115
    file.truncate(freenect.SHARED)
    return file


def libfreenect() -> str:
    """The name or path of the driver for a Kinect; STEPMAP_LIBFREENECT overrides it."""
    return os.environ.get("STEPMAP_LIBFREENECT") or ctypes.util.find_library("freenect") or "libfreenect.so.0.5"


def fakenect() -> str:
    """The path of the driver that replays; STEPMAP_FAKENECT overrides it. It has the name of the other one."""
    chosen = os.environ.get("STEPMAP_FAKENECT")
    if chosen:
        return chosen
    triplet = sysconfig.get_config_var("MULTIARCH") or f"{os.uname().machine}-linux-gnu"
    homes = [Path(root) / "lib" / part for root in ("/usr", "/usr/local") for part in (triplet, "", "../lib64")]
    homes += [Path(home) for home in os.environ.get("LD_LIBRARY_PATH", "").split(":") if home]
    homes.append(Path("/opt/homebrew/lib"))
    for home in homes:
        found = sorted(path for path in (home / "fakenect").glob("libfreenect.*") if path.suffix != ".a")
        if found:
            return str(found[0])
    raise CameraError(
        f"fakenect is not there; it comes with libfreenect. {INSTALL} Or set STEPMAP_FAKENECT to its path."
    )
