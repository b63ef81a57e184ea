"""The group of all commands: turns errors into one line and an exit code, and finds commands of other packages."""

from __future__ import annotations

import signal
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from stepmap.cli import plugins
from stepmap.cli.output import complain
from stepmap.errors import StepmapError

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130  # what typer makes of Ctrl-C
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
        raise interrupt

    def _settles(self) -> bool:
        """Whether an interrupt is on its way up. One that a command took, and went on, is gone."""
        return self._interrupt is not None and self._interrupt() is not None


class Root(TyperGroup):
    """Commands of stepmap itself come first; entry points of the group ``stepmap.commands`` add more."""

    _ending = Ending()

    # Contexts and commands are Any: typer carries its own copy of click, or not, depending on its version.

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return [*own, *(name for name in plugins.names() if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or plugins.command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and super().get_command(ctx, args[0]) is None:
            plugins.require(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _complain(self._ending.word)
            raise typer.Exit(FAILED) from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
        if not standalone_mode:
            return run()
        self._ending = Ending()
        with warnings.catch_warnings(), self._ending.heeded():
            warnings.showwarning = _show_warning
            try:
                result = run()
            except KeyboardInterrupt:
                result = INTERRUPTED
            except Exception as error:
                if not self._ending.told or _foreseen(error):
                    sys.exit(explain(error))
                result = INTERRUPTED  # what fails on the way out, such as a terminal that is gone
            if result == INTERRUPTED:  # before a command had begun, or after it could say so
                _complain(self._ending.word)
                result = FAILED
        # With -m CPython ends by the signal where Ctrl-C came while code made from a string ran, as in many an import,
        # caught or not; code from another string makes it forget that.
        exec("")
        sys.exit(result if isinstance(result, int) else DONE)


def explain(error: Exception) -> int:
    """Says what went wrong in a line and returns the exit code; an error nobody foresaw is raised again."""
    message = getattr(error, "format_message", None)
    if message is not None:  # click's own: a wrong option, a missing argument
        context = getattr(error, "ctx", None)
        path = "stepmap" if context is None else context.command_path
        complain(f"{message().rstrip('.')}. See {path} --help.".replace("?.", "?"))
        return int(getattr(error, "exit_code", USAGE))
    if isinstance(error, typer.Abort):
        complain("aborted")
        return FAILED
    if isinstance(error, StepmapError):
        complain(str(error))
        # Errors that are also ValueErrors are the caller's: arguments that mean nothing.
        return USAGE if isinstance(error, ValueError) else FAILED
    if isinstance(error, OSError):
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return FAILED
    if isinstance(error, MemoryError):
        complain(f"not enough memory; ask for fewer steps ({error})")
        return FAILED
    raise error


def _foreseen(error: Exception) -> bool:
    """Whether an error is one of a command, and not of the system around it."""
    return isinstance(error, StepmapError | typer.Abort) or hasattr(error, "format_message")


def _complain(text: str) -> None:
    """To a terminal that may be gone."""
    with suppress(OSError):
        complain(text)


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    complain(str(message), kind="warning")
