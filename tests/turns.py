"""Turns that the processes of one test run take: those that need the machine to themselves wait for the others."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """While the block runs nobody else's does if one of them is to be ``alone``; all of a test run share ``folder``.

    Whoever is to be alone closes a gate first, so that the others begin nothing new, and waits until they have ended.
    The locks are the kernel's: they end with the process that holds them.
    """
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with (folder / "gate").open("w") as gate, (folder / "turn").open("w") as main:
        fcntl.flock(gate, kind)
        fcntl.flock(main, kind)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield
