"""Built libraries on disk, named by the digest of all that went into them.

A file carries a checksum of its own content: dlopen of a truncated library would crash the process instead of failing.
Files appear by an atomic rename, so a reader never sees half of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import platformdirs

_MARK = b"stepmap-library-1"
_private: dict[str, tempfile.TemporaryDirectory[str]] = {}


def folder() -> Path:
    """$STEPMAP_CACHE, or the user's cache folder; where that cannot be written, one that ends with the process."""
    asked = os.environ.get("STEPMAP_CACHE")
    path = Path(asked) if asked else Path(platformdirs.user_cache_dir("stepmap"))
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        return _private_folder(path, error)


def _private_folder(wanted: Path, error: OSError) -> Path:
    key = str(wanted)
    if key not in _private:
        warnings.warn(
            f"stepmap cannot write its cache folder {wanted} ({error.strerror}); every process builds its models. "
            "Set STEPMAP_CACHE to a folder that can be written.",
            stacklevel=2,
        )
        _private[key] = tempfile.TemporaryDirectory(prefix="stepmap-")
    return Path(_private[key].name)


def valid(path: Path) -> bool:
    """Whether the file is whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    size = len(_MARK) + 32
    body, tail = content[:-size], content[-size:]
    return tail == _MARK + hashlib.sha256(body).digest()


def publish(built: Path, path: Path) -> None:
    """Puts a freshly built file at its place, whole or not at all."""
    body = built.read_bytes()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(body + _MARK + hashlib.sha256(body).digest())
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Holds back a second process that would build the same file; without file locks both build, which is harmless."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path.with_suffix(".lock"), "w") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
