"""Processes that tests start."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """In a child before it starts: shells make background jobs ignore Ctrl-C, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
