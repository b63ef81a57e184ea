"""Who stands beside a real robot: is asked before it moves, and stops it with any key."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Protocol, Self

from stepmap.errors import ModelError
from stepmap.text import printable

ENTER = "\r\n"


class Operator(Protocol):
    """The person beside a robot, who agrees before it moves and can stop it."""

    def report(self, text: str) -> None: ...

    def confirms(self, question: str) -> bool:
        """Waits for an answer."""
        ...

    def stop_requested(self) -> bool:
        """Whether a key was pressed since the last call; does not wait."""
        ...


class Terminal:
    """An operator at the keyboard of this program. Keys are taken as they are pressed, without Enter, and not shown."""

    def __init__(self) -> None:
        if sys.stdin is None or not sys.stdin.isatty():
            raise ModelError(
                "a real robot is stopped with any key, and this program has no keyboard: start it in a terminal, or "
                "give --unattended where something else can stop the robot"
            )
        self._keyboard = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._keyboard)

    def __enter__(self) -> Self:
        tty.setcbreak(self._keyboard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        termios.tcflush(self._keyboard, termios.TCIFLUSH)
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._before)

    def report(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)

    def confirms(self, question: str) -> bool:
        termios.tcflush(self._keyboard, termios.TCIFLUSH)  # keys pressed before the question are no answer
        self.report(f"{question} Press Enter to go on, any other key to leave.")
        return os.read(self._keyboard, 1).decode(errors="replace") in ENTER

    def stop_requested(self) -> bool:
        if not select.select([self._keyboard], [], [], 0.0)[0]:
            return False
        os.read(self._keyboard, 1024)  # the end of the input counts, too: the operator is gone
        return True


class Unattended:
    """No operator: a limit switch or a rehearsal with an emulated robot takes the place."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def report(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)

    def confirms(self, question: str) -> bool:
        return True

    def stop_requested(self) -> bool:
        return False
