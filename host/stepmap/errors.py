"""Every error stepmap raises; each names what is wrong and what to do."""

from __future__ import annotations

from typing import Any


class StepmapError(Exception):
    """Base of all errors raised on purpose by stepmap.

    The text says what is wrong; ``cause``, where there is one, says why, and ``hint`` what to do. The command line
    prints each as a line of its own, and a traceback has them as notes.
    """

    cause = ""
    hint = ""

    def __init__(self, *arguments: object, cause: str = "", hint: str = "") -> None:
        super().__init__(*arguments)
        if cause:
            self.cause = cause
            self.add_note(f"cause: {cause}")
        if hint:
            self.hint = hint
            self.add_note(f"hint: {hint}")


class ModelError(StepmapError, ValueError):
    """A mechanism or a choice of arguments that cannot mean anything physical."""


class ShapeError(StepmapError, ValueError):
    """An array of the wrong shape, or with entries that are not finite."""


class JobError(StepmapError, ValueError):
    """A job file, or a file it names, that cannot mean anything; carries the file and the line."""

    def __init__(self, message: str, *, file: str, line: int | None = None, cause: str = "", hint: str = "") -> None:
        said = f"{file}:{line}: {message}" if line is not None else f"{file}: {message}"
        super().__init__(said, cause=cause, hint=hint)
        self.file = file
        self.line = line


class TrustError(StepmapError):
    """A file or folder with code in it that somebody else could have written; the text says what to do."""


class DamagedError(StepmapError):
    """A file that was damaged, or made to mislead: what it holds cannot be what a program of ours wrote."""


class ConvergenceError(StepmapError):
    """An equation that could not be solved; carries how far the solver came."""

    def __init__(
        self, message: str, *, iterations: int, residual: float, x: Any, cause: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, cause=cause, hint=hint)
        self.iterations = iterations
        self.residual = residual
        self.x = x


class RangeError(StepmapError):
    """A signal that does not fit a fixed-point format, or an operation that has none.

    Carries, where they are known, the signal's name, the value that does not fit, and the format in words.
    """

    def __init__(
        self,
        message: str,
        *,
        signal: str | None = None,
        value: float | None = None,
        format: str | None = None,
        cause: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, cause=cause, hint=hint)
        self.signal = signal
        self.value = value
        self.format = format


class ToolchainError(StepmapError):
    """An outside tool that failed; carries its command, its log and a remedy, which is the hint.

    The cause is the first line of the log that speaks of an error.
    """

    def __init__(self, message: str, *, command: str, log: str, remedy: str) -> None:
        cause = next((line.strip() for line in log.splitlines() if "error" in line.lower()), "")
        super().__init__(f"{message}\n  command: {command}\n{log}".rstrip(), cause=cause, hint=remedy)
        self.command = command
        self.log = log
        self.remedy = remedy


class LinkError(StepmapError, OSError):
    """A board that does not answer, refuses, or cannot be believed; the text says what to do."""


class BusyError(StepmapError):
    """Another process is at the same work and does not end; the text names it."""
