"""Signals that tell a command to end: Ctrl-C, SIGTERM and SIGHUP are one and the same to it."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from types import FrameType

SETTLING = 10.0  # s for a command to leave things in order, in which nothing interrupts it again
AGAIN = 0.002  # s until a signal that came at a bad time is tried again
UNINTERRUPTED = ("casadi", "mcap")  # packages whose work an exception must not cut short
ENDINGS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if hasattr(signal, "SIGHUP"):
    ENDINGS[signal.SIGHUP] = "terminated: the terminal is gone"


def leave_on_signals() -> None:
    """Until a command heeds them, signals end the process at once: nothing has been begun that could be left undone.

    An exception would not do: imports drop it in places, and where they do not it comes out as a traceback. A signal
    that is ignored, as SIGHUP after nohup, stays so.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        return
    for number in ENDINGS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _leave)
            # Python gives signals back to the system when it ends, and one that comes then would look like a failure.
            atexit.register(signal.signal, number, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, f"error: {ENDINGS[signal.Signals(number)]}\n".encode())
    finally:
        os._exit(1)


class Told(KeyboardInterrupt):
    """A signal told this process to end; its text says which."""


class Ending:
    """Whether and how this process was told to end: SIGTERM and SIGHUP are KeyboardInterrupts as Ctrl-C is."""

    def __init__(self) -> None:
        self.word = ENDINGS[signal.SIGINT]
        self._at = 0.0
        self._interrupt: weakref.ref[Told] | None = None
        self._timer = hasattr(signal, "setitimer")
        self._waiting: int | None = None  # number of a signal that came at a bad time
        self._over = False  # the block has ended: a signal has nothing left to interrupt

    @property
    def told(self) -> bool:
        """Whether a signal has come."""
        return self._interrupt is not None

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """While the block runs. A signal that is ignored, as SIGHUP after nohup, stays so."""
        if threading.current_thread() is not threading.main_thread():  # only that one hears signals
            yield
            return
        usual = (signal.SIG_DFL, signal.default_int_handler, _leave)
        before = {number: signal.getsignal(number) for number in ENDINGS}
        taken = [number for number, handler in before.items() if handler in usual]
        for number in taken:
            signal.signal(number, self._heed)
        self._timer = self._timer and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
        if self._timer:
            signal.signal(signal.SIGALRM, self._retry)
        try:
            yield
        finally:
            self._over = True
            if self._timer:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
            for number in taken:  # whoever was told to end is on the way out, and ends in order
                signal.signal(number, signal.SIG_IGN if self.told else before[number])

    def _heed(self, number: int, frame: FrameType | None) -> None:
        """Interrupts, unless an interrupt is still being dealt with: another one would leave that half done."""
        if self._over or (self._settles() and time.monotonic() - self._at < SETTLING):
            return
        if self._timer and _is_bad_time(frame):
            self._waiting = number
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
            return
        word = ENDINGS[signal.Signals(number)]
        interrupt = Told(word)
        self._at, self.word, self._interrupt = time.monotonic(), word, weakref.ref(interrupt)
        try:
            raise interrupt
        finally:
            del interrupt  # else this frame, which the interrupt knows, would keep it alive

    def _retry(self, number: int, frame: FrameType | None) -> None:
        if self._waiting is not None:
            number, self._waiting = self._waiting, None
            self._heed(number, frame)

    def _settles(self) -> bool:
        """Whether an interrupt is on its way up. One that a command took, and went on, is gone."""
        return self._interrupt is not None and self._interrupt() is not None


def _is_bad_time(frame: FrameType | None) -> bool:
    """Whether an exception would get lost here, or do harm.

    CasADi, when it converts arguments, drops exceptions or makes them errors of its own; the import system cleans up in
    callbacks of weak references, whose exceptions Python prints and forgets; mcap would leave a record half
    written, and nothing behind it could be read; a library in C++ whose import fails halfway crashes when Python ends;
    up to 3.11 a class that is made turns exceptions of ``__set_name__`` into a RuntimeError.
    """
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        return True
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in UNINTERRUPTED or _loads_library(frame):
            return True
        if frame.f_code.co_name == "__set_name__":
            return True
        frame = frame.f_back
    return False


def _loads_library(frame: FrameType) -> bool:
    """Whether this is where the import system begins with a compiled library, which may call Python meanwhile."""
    return (
        frame.f_code.co_name in ("create_module", "exec_module")
        and frame.f_code.co_filename.startswith("<frozen importlib")
        and isinstance(frame.f_locals.get("self"), ExtensionFileLoader)
    )
