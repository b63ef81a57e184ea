"""Files that appear whole or not at all, and files for their owner alone."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes | str) -> None:
    """Writes a file under a temporary name beside its place, then renames it; makes the folder if it is missing."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # a device or a pipe: a rename would take its place
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _replace(path.resolve(), data)  # resolved: a link keeps pointing at the file
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # not the temporary name


def write_private(path: Path, content: bytes, *, executable: bool = False) -> None:
    """A new file that is its owner's alone from its first byte on; never one that is there, nor through a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags, 0o700 if executable else 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(content)


def _replace(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes files only their owner can read
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    """The process's umask; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
