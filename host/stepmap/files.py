"""Files that appear whole or not at all, files for their owner alone, and files that are nothing else."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def open_file(path: Path, *, links: bool = False) -> IO[bytes]:
    """A file to read from; raises OSError where that name has anything else, and with ``links`` follows them.

    Folders from elsewhere may hold pipes, for which one would wait, and devices, which have no end.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    handle = os.open(path, flags if links else flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        require_regular(handle, path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_regular(handle: int, path: Path) -> None:
    """Raises OSError where what was opened is neither a file nor a folder, or a folder."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))


def read_file(path: Path, most: int) -> bytes:
    """The content of a file of ``most`` bytes; raises OSError where it is no file, a link, or larger."""
    with open_file(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def overwrite(path: Path, content: bytes) -> None:
    """Writes into a file that is there, which needs no more room on a full disk; never through a link."""
    flags = os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags)
    with os.fdopen(handle, "wb") as out:
        require_regular(handle, path)
        out.truncate(0)
        out.write(content)


def write_whole(path: Path, content: bytes | str, *, links: bool = True) -> None:
    """Writes a file under a temporary name beside its place, then renames it; makes the folder if it is missing.

    Without ``links`` whatever has that name is replaced: a link, too, and not the file that it leads to.
    """
    data = content.encode() if isinstance(content, str) else content
    if links and path.exists() and not path.is_file():
        path.write_bytes(data)  # a device or a pipe: a rename would take its place
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _replace(path.resolve() if links else path, data)  # resolved: a link keeps pointing at the file
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # not the temporary name


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Makes an error of the system that has no file name, as that of a full disk has none, one that names ``path``."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None or error.strerror is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


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
