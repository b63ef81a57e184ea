"""libfreenect's async API, and the process that runs it.

The driver lives in a process of its own: it prints to its standard output, ends the process it runs in when a file is
missing, and waits without a limit when nothing comes. Run as a script this file is that process; it needs nothing
but Python's standard library. `stepmap_hil.depth.driver.kinect` is the other side.

A byte on the request pipe asks for one frame, its end asks to finish. An answer is an `ANSWER` record; the pixels of a
frame are in the shared memory by then. Where ``every`` frame is wanted the driver runs only while one is asked for;
otherwise it runs freely and the newest frame is given.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 640, 480
BYTES = 2 * WIDTH * HEIGHT
COUNTER = struct.Struct("=Q")  # frames the driver has delivered, at the beginning of the shared memory
PIXELS = 4096  # where they begin
SHARED = PIXELS + BYTES
ANSWER = struct.Struct("=cIdQ")  # kind, timestamp, monotonic seconds, frames skipped since the last
READY, FRAME, END = b"r", b"f", b"e"

# Exit codes
NO_LIBRARY, NO_CONTEXT, NO_DEVICE, NOT_OPENED, NOT_STARTED, GONE = 10, 11, 12, 13, 14, 15

CAMERA = 0x02
MEDIUM, ELEVEN_BIT = 1, 0
ERRORS_ONLY = 1
PATIENCE = 0.05  # s that one call of the driver may wait for events


class FrameMode(ctypes.Structure):
    """freenect_frame_mode."""

    _fields_ = (
        ("reserved", ctypes.c_uint32),
        ("resolution", ctypes.c_int),
        ("format", ctypes.c_int32),
        ("bytes", ctypes.c_int32),
        ("width", ctypes.c_int16),
        ("height", ctypes.c_int16),
        ("data_bits_per_pixel", ctypes.c_int8),
        ("padding_bits_per_pixel", ctypes.c_int8),
        ("framerate", ctypes.c_int8),
        ("is_valid", ctypes.c_int8),
    )


class Timeval(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("microseconds", ctypes.c_long))


DepthCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)

SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "freenect_init": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p]),
    "freenect_shutdown": (ctypes.c_int, [ctypes.c_void_p]),
    "freenect_set_log_level": (None, [ctypes.c_void_p, ctypes.c_int]),
    "freenect_process_events_timeout": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Timeval)]),
    "freenect_num_devices": (ctypes.c_int, [ctypes.c_void_p]),
    "freenect_select_subdevices": (None, [ctypes.c_void_p, ctypes.c_int]),
    "freenect_open_device": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int]),
    "freenect_close_device": (ctypes.c_int, [ctypes.c_void_p]),
    "freenect_set_depth_callback": (None, [ctypes.c_void_p, DepthCallback]),
    "freenect_find_depth_mode": (FrameMode, [ctypes.c_int, ctypes.c_int]),
    "freenect_set_depth_mode": (ctypes.c_int, [ctypes.c_void_p, FrameMode]),
    "freenect_start_depth": (ctypes.c_int, [ctypes.c_void_p]),
    "freenect_stop_depth": (ctypes.c_int, [ctypes.c_void_p]),
}


def load(library: str) -> ctypes.CDLL:
    """The library with the types of every function that is used."""
    loaded = ctypes.CDLL(library)
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


class DriverError(Exception):
    """The driver refused; carries the exit code that says which call."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Driver:
    """An open depth stream; `pump` hands every frame to ``deliver`` as (address of its pixels, timestamp)."""

    def __init__(self, library: str, deliver: Callable[[int, int], None]) -> None:
        try:
            self._api = load(library)
        except (OSError, AttributeError) as error:
            raise DriverError(NO_LIBRARY, str(error)) from error
        self._callback = DepthCallback(lambda device, pixels, timestamp: deliver(pixels, timestamp))
        self._context, self._device = ctypes.c_void_p(), ctypes.c_void_p()
        self._need(self._api.freenect_init(ctypes.byref(self._context), None), NO_CONTEXT, "freenect_init")
        self._api.freenect_set_log_level(self._context, ERRORS_ONLY)
        self._api.freenect_select_subdevices(self._context, CAMERA)
        if self._api.freenect_num_devices(self._context) < 1:
            raise DriverError(NO_DEVICE, "freenect_num_devices: none")
        opened = self._api.freenect_open_device(self._context, ctypes.byref(self._device), 0)
        self._need(opened, NOT_OPENED, "freenect_open_device")
        mode = self._api.freenect_find_depth_mode(MEDIUM, ELEVEN_BIT)
        if not mode.is_valid or mode.bytes != BYTES:
            raise DriverError(NOT_STARTED, f"freenect_find_depth_mode: a frame has {mode.bytes} bytes, not {BYTES}")
        self._need(self._api.freenect_set_depth_mode(self._device, mode), NOT_STARTED, "freenect_set_depth_mode")
        self._api.freenect_set_depth_callback(self._device, self._callback)
        self._need(self._api.freenect_start_depth(self._device), NOT_STARTED, "freenect_start_depth")

    @staticmethod
    def _need(result: int, code: int, call: str) -> None:
        if result < 0:
            raise DriverError(code, f"{call}: {result}")

    def pump(self) -> bool:
        """Lets the driver work for a moment; False when it has nothing more."""
        wait = Timeval(0, int(PATIENCE * 1e6))
        return bool(self._api.freenect_process_events_timeout(self._context, ctypes.byref(wait)) >= 0)

    def close(self) -> None:
        self._api.freenect_stop_depth(self._device)
        self._api.freenect_close_device(self._device)
        self._api.freenect_shutdown(self._context)


class Server:
    """Answers requests for frames; the driver runs in a thread, since it may wait for long."""

    def __init__(self, library: str, memory: mmap.mmap, answers: int, *, every: bool, recorded: bool) -> None:
        self._memory, self._answers, self._every, self._recorded = memory, answers, every, recorded
        self._slot = ctypes.addressof(ctypes.c_char.from_buffer(memory, PIXELS))
        self._newest = ctypes.create_string_buffer(BYTES)
        self._timestamp, self._seconds = 0, 0.0
        self._delivered = self._answered = 0
        self._asked = self._stop = False
        self._turn = threading.Condition()
        self._driver = Driver(library, self._deliver)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def serve(self, requests: int) -> None:
        """Until nobody can ask any more."""
        os.write(self._answers, ANSWER.pack(READY, 0, 0.0, 0))
        self._thread.start()
        while os.read(requests, 1):
            with self._turn:
                self._asked = True
                self._answer()
                self._turn.notify()
        with self._turn:
            self._stop = True
            self._turn.notify()
        self._thread.join(0 if self._recorded else 2.0)  # a recording has nothing that must be put in order

    def _run(self) -> None:
        more = True
        while more and not self._stop:
            with self._turn:
                self._turn.wait_for(lambda: self._asked or self._stop or not self._every)
            more = self._stop or self._driver.pump()
        if self._stop:
            self._driver.close()
        elif self._recorded:
            with self._turn:
                self._turn.wait_for(lambda: self._asked or self._stop)  # the last frame may still be asked for
                os.write(self._answers, ANSWER.pack(END, 0, time.monotonic(), 0))
        else:
            _leave(GONE, "freenect_process_events_timeout: the camera is gone")

    def _deliver(self, pixels: int, timestamp: int) -> None:
        with self._turn:
            ctypes.memmove(self._newest, pixels, BYTES)
            self._timestamp, self._seconds = timestamp, time.monotonic()
            self._delivered += 1
            COUNTER.pack_into(self._memory, 0, self._delivered)
            self._answer()

    def _answer(self) -> None:
        """Gives the newest frame if it is asked for and was not given before."""
        fresh = self._delivered - self._answered
        if not self._asked or not fresh:
            return
        ctypes.memmove(self._slot, self._newest, BYTES)
        self._asked, self._answered = False, self._delivered
        os.write(self._answers, ANSWER.pack(FRAME, self._timestamp, self._seconds, fresh - 1))


def _leave(code: int, text: str) -> None:
    """Ends the process at once, whatever the driver is waiting for."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
    os._exit(code)


def tidy(folder: Path) -> None:
    """Removes a feed's folder. Both processes do it when they end, so that it is gone whichever lives longer."""
    for path in (*folder.glob("d-*.pgm"), folder / "INDEX.txt"):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def main(arguments: list[str]) -> None:
    """library, file numbers of memory, requests and answers, "every" or "newest", folder to remove or nothing."""
    library, memory, requests, answers, wanted, litter = arguments
    try:
        shared = mmap.mmap(int(memory), SHARED)
        recorded = "FAKENECT_PATH" in os.environ
        server = Server(library, shared, int(answers), every=wanted == "every", recorded=recorded)
        server.serve(int(requests))
    except DriverError as error:
        _leave(error.code, str(error))
    except BrokenPipeError:
        pass  # nobody is there to hear it
    if litter:
        tidy(Path(litter))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
