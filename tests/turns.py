"""Turns that the processes of one test run take: those that need the machine to themselves wait for the others."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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


class Turns:
    """One process of a test run: what it holds, it holds over several tests if all of them are to be alone.

    Between two of them nobody begins anything, which would have to be waited for.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: ExitStack | None = None

    @contextmanager
    def turn(self, *, alone: bool, next_alone: bool) -> Iterator[None]:
        """While the block runs nobody else's does if one of them is to be alone; ``next_alone`` keeps it so."""
        held = self._held or ExitStack()
        if self._held is None:
            held.enter_context(turn(self._folder, alone=alone))
        self._held = held if alone and next_alone else None
        try:
            yield
        finally:
            if self._held is None:
                held.close()
