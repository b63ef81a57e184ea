"""The group of all commands: turns errors into a message and an exit code, and finds commands of other packages."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from stepmap.cli import plugins
from stepmap.cli.help import ordered, panel, tidy
from stepmap.cli.output import complain
from stepmap.cli.signals import Ending
from stepmap.cli.usage import complaint
from stepmap.errors import StepmapError
from stepmap.text import nearest_word

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130  # what typer makes of Ctrl-C
TIDY = "help_is_tidy"  # on a command, so that its texts are escaped once


class Root(TyperGroup):
    """Commands of the host come first; entry points of the group ``stepmap.commands`` add more.

    A command is imported when it is called. The list of all takes its texts from their sources.
    """

    _ending = Ending()
    _has_said_why = False
    _lists = False

    # Contexts and commands are Any: typer carries its own copy of click, or not, depending on its version.

    def list_commands(self, ctx: Any) -> list[str]:
        return ordered([*{*super().list_commands(ctx), *plugins.names()}])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        text = plugins.summary(cmd_name) if self._lists else None
        found: Any = super().get_command(ctx, cmd_name)
        if found is None:
            found = plugins.command(cmd_name) if text is None else TyperCommand(cmd_name, help=text)
        if found is not None and not getattr(found, TIDY, False):
            setattr(found, TIDY, True)
            found.rich_help_panel = panel(cmd_name, own=plugins.of_stepmap(cmd_name))
            if text is not None or plugins.is_function(cmd_name):  # a Typer of another package has markup of its own
                tidy(found, ctx)
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if not getattr(self, TIDY, False):
            setattr(self, TIDY, True)
            tidy(self, ctx)
        self._lists = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._lists = False

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and super().get_command(ctx, args[0]) is None:
            plugins.require(args[0])
            near = nearest_word(args[0], plugins.names())
            if self.get_command(ctx, args[0]) is None and near is not None:  # typer looks among its own only
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            self._say_why()
            raise typer.Exit(FAILED) from None

    def _say_why(self) -> None:
        """By which signal a command was ended, once, to a terminal that may be gone."""
        if not self._has_said_why:
            self._has_said_why = True
            with suppress(OSError):
                complain(self._ending.word)

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
        if not _has_folder():
            complain("the folder in which this was started is gone", hint="Go to one that is there: cd")
            sys.exit(FAILED)
        self._ending, self._has_said_why = Ending(), False
        try:
            with warnings.catch_warnings(), self._ending.heeded():
                warnings.showwarning = _WarnOnce()
                try:
                    result = run()
                except Exception as error:
                    if not self._ending.told or _foreseen(error):
                        sys.exit(explain(error))
                    result = INTERRUPTED  # what fails on the way out, such as a terminal that is gone
        except KeyboardInterrupt:  # out here, as one may come between the end of a command and that of its handlers
            result = INTERRUPTED
        if result == INTERRUPTED:  # before a command had begun, or after it could say so
            self._say_why()
            result = FAILED
        # With -m CPython ends by the signal where Ctrl-C came while code made from a string ran, as in many an import,
        # caught or not; code from another string makes it forget that.
        exec("")
        sys.exit(result if isinstance(result, int) else DONE)


def explain(error: Exception) -> int:
    """Says what went wrong and returns the exit code; an error that was not foreseen is raised again."""
    if hasattr(error, "format_message"):  # click's own: a wrong option, a missing argument
        said = complaint(error)
        complain(said.text, hint=said.hint)
        return int(getattr(error, "exit_code", USAGE))
    if isinstance(error, typer.Abort):
        complain("aborted")
        return FAILED
    if isinstance(error, StepmapError):
        complain(str(error), cause=error.cause, hint=error.hint)
        # Errors that are also ValueErrors are the caller's: arguments that mean nothing.
        return USAGE if isinstance(error, ValueError) else FAILED
    if isinstance(error, OSError):
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return FAILED
    if isinstance(error, MemoryError):
        complain(f"not enough memory ({error})", hint="Ask for fewer steps.")
        return FAILED
    raise error


def _has_folder() -> bool:
    """Whether the folder that a command works in is still there."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _foreseen(error: Exception) -> bool:
    """Whether an error is one of a command, and not of the system around it."""
    return isinstance(error, StepmapError | typer.Abort) or hasattr(error, "format_message")


class _WarnOnce:
    """Shows each warning of a command once; Python forgets which it has shown when a library changes filters."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if str(message) not in self._told:
            self._told.add(str(message))
            from stepmap.toml.tables import RenamedKeyWarning  # here, as what only lists commands needs no numpy

            complain(str(message), kind="hint" if issubclass(category, RenamedKeyWarning) else "warning")
