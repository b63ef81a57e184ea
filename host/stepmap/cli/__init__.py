"""The command line: ``stepmap --help``. Exit codes: 0 done, 1 the job failed, 2 wrong usage."""

from __future__ import annotations

import sys

from stepmap.cli.app import app


def main() -> None:
    """Runs the command line and ends the process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # units like m/s² on a terminal that has no ²
    app()


__all__ = ["app", "main"]
