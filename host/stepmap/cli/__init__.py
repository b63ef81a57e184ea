"""The command line: ``stepmap --help``. Exit codes: 0 done, 1 the job failed, 2 wrong usage."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepmap.cli.application import app


def main() -> None:
    """Runs the command line and ends the process."""
    from stepmap.cli.signals import leave_on_signals

    leave_on_signals()  # first: the imports below take most of a second
    # Matrices are small: threads of a BLAS only wait for each other, and how many there are decides last bits.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(20_000, 20)  # imports make many objects and no garbage
    from stepmap.cli.application import app

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # units like m/s² on a terminal that has no ²
    app()


def __getattr__(name: str) -> Any:
    if name == "app":
        from stepmap.cli.application import app

        return app
    raise AttributeError(f"module 'stepmap.cli' has no attribute {name!r}")


__all__ = ["app", "main"]
