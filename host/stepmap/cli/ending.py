"""Signals that tell a command to end: Ctrl-C, SIGTERM and SIGHUP are one and the same to it."""

from __future__ import annotations

import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SETTLING = 10.0  # s for a command to leave things in order, in which nothing interrupts it again
ENDINGS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if hasattr(signal, "SIGHUP"):
    ENDINGS[signal.SIGHUP] = "terminated: the terminal is gone"


class Told(KeyboardInterrupt):
    """A signal told this process to end."""


class Ending:
    """Whether and how this process was told to end: SIGTERM and SIGHUP are KeyboardInterrupts as Ctrl-C is."""

    def __init__(self) -> None:
        self.word = ENDINGS[signal.SIGINT]
        self._at = 0.0
        self._interrupt: weakref.ref[Told] | None = None

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
        usual = (signal.SIG_DFL, signal.default_int_handler)
        before = {number: signal.getsignal(number) for number in ENDINGS}
        taken = [number for number, handler in before.items() if handler in usual]
        for number in taken:
            signal.signal(number, self._heed)
        try:
            yield
        finally:
            for number in taken:  # whoever was told to end is on the way out, and ends in order
                signal.signal(number, signal.SIG_IGN if self.told else before[number])

    def _heed(self, number: int, frame: FrameType | None) -> None:
        """Interrupts, unless an interrupt is still being dealt with: another one would leave that half done."""
        if self._settles() and time.monotonic() - self._at < SETTLING:
            return
        interrupt = Told()
        self._at, self.word, self._interrupt = time.monotonic(), ENDINGS[signal.Signals(number)], weakref.ref(interrupt)
        try:
            raise interrupt
        finally:
            del interrupt  # else this frame, which the interrupt knows, would keep it alive

    def _settles(self) -> bool:
        """Whether an interrupt is on its way up. One that a command took, and went on, is gone."""
        return self._interrupt is not None and self._interrupt() is not None
