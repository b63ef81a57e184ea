"""Locks between processes that work in one build folder: one makes a stage, the others wait and find it made."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stepmap.errors import BusyError

PATIENCE_S = 900.0  # of the slowest stage, a firmware on a busy machine, several times over
SILENT_S = 2.0  # a shorter wait is not worth a line
POLL_S = 0.05

_held: set[tuple[int, Path]] = (
    set()
)  # thread and lock: a stage that is being made may make itself ready in several steps


def _tell(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)


@contextmanager
def alone(
    path: Path, what: str, *, patience: float | None = None, tell: Callable[[str], None] = _tell
) -> Iterator[None]:
    """While the block runs, no other process or thread is in such a block with the same `path`, a file of no content.

    Waits for the other one, and says so; raises BusyError after `patience` seconds. The lock is the kernel's: it
    ends with the process that holds it, however that ends. `what` completes "waiting for process 7, which …".
    """
    key = path.absolute()
    mine = threading.get_ident(), key
    if mine in _held:
        yield
        return
    handle = _acquire(key, what, PATIENCE_S if patience is None else patience, tell)
    _held.add(mine)
    try:
        yield
    finally:
        _held.remove(mine)
        key.unlink(missing_ok=True)  # while it is held: whoever waits for this file sees that it is gone, and makes one
        os.close(handle)


def try_alone(path: Path) -> int | None:
    """A handle that holds the lock until it is closed; None where another process has it.

    Raises OSError where the name is that of a link or of no file: what is written there would end up elsewhere.
    """
    handle = _open(path)
    try:
        _require_own(handle, path)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_still(handle, path):
            with suppress(OSError):  # on a full disk those who wait do not learn for whom
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
            return handle
    except BlockingIOError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


NO_LOCK = "is not a file of its own, so it is not used as a lock: remove it"


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a socket or a device, a folder
            raise OSError(error.errno, NO_LOCK, str(path)) from None
        raise


def _require_own(handle: int, path: Path) -> None:
    """Raises where the file is none, or has another name, too."""
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        raise OSError(errno.EINVAL, NO_LOCK, str(path))


def _acquire(path: Path, what: str, patience: float, tell: Callable[[str], None]) -> int:
    begun, told = time.monotonic(), False
    while (handle := try_alone(path)) is None:
        waited = time.monotonic() - begun
        if waited > patience:
            raise BusyError(
                f"waited {waited:.0f} s for {_holder(path)}, which {what}: end it, or work in another folder (--build)"
            )
        if waited > SILENT_S and not told:
            tell(f"waiting for {_holder(path)}, which {what}")
            told = True
        time.sleep(POLL_S)
    return handle


def _is_still(handle: int, path: Path) -> bool:
    """Whether the open file is the one of that name; it is not where its last holder has removed it."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    try:
        return f"process {int(path.read_text(encoding='utf-8'))}"
    except (OSError, ValueError):
        return "another process"
