"""Built libraries on disk, named by the digest of all that went into them.

A file carries a checksum of its own content: dlopen of a truncated library would crash the process instead of failing.
Files appear by an atomic rename, so a reader never sees half of one. What is loaded is run: the folder and its files
must be the user's own (docs/trust.md).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from stepmap.errors import BusyError
from stepmap.files import naming
from stepmap.lock import alone
from stepmap.owned import is_own, make_private, require_folder

_MARK = b"stepmap-library-1"
_private: dict[str, tempfile.TemporaryDirectory[str]] = {}


def folder() -> Path:
    """$STEPMAP_CACHE, or the user's cache folder; where that cannot be written, one that ends with the process.

    Raises TrustError where others could write to it, or put another folder into its place.
    """
    asked = os.environ.get("STEPMAP_CACHE")
    path = (Path(asked) if asked else Path(platformdirs.user_cache_dir("stepmap"))).resolve()
    try:
        _require_own(path)
        make_private(path)
        _require_own(path)  # somebody may have been faster
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        return _private_folder(path, error)


def _require_own(path: Path) -> None:
    require_folder(path, "the cache folder", "set STEPMAP_CACHE to a folder of your own.")


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
    """Whether the file is whole, and nobody else's."""
    return content(path) is not None


def content(path: Path) -> bytes | None:
    """What was published as this file; None where it is not there, not whole, or somebody else's."""
    if not own(path):
        return None
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    size = len(_MARK) + 32
    body, tail = stored[:-size], stored[-size:]
    return body if tail == _MARK + hashlib.sha256(body).digest() else None


def own(path: Path) -> bool:
    """Whether the file is there and may be loaded; one of somebody else is replaced, and that is said."""
    if is_own(path):
        return True
    if os.path.lexists(path):
        warnings.warn(
            f"{path} is a link, or others could have written it: it is not loaded but made anew", stacklevel=2
        )
    return False


def publish(built: Path, path: Path) -> None:
    """Puts a freshly built file at its place, whole or not at all."""
    publish_bytes(built.read_bytes(), path)


def publish_bytes(body: bytes, path: Path) -> None:
    """Puts a file with that content at its place, whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with naming(path), os.fdopen(handle, "wb") as out:
            out.write(body + _MARK + hashlib.sha256(body).digest())
        os.chmod(temporary, 0o700)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Holds back a second process that would build the same file; it says for whom it waits, and not for ever.

    Where the other one takes too long, or where there are no file locks, both build, which is harmless.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(alone(path.with_suffix(".lock"), f"builds the library {path.name}"))
        except BusyError as error:
            warnings.warn(f"{error}. The library is built here, too", stacklevel=2)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        yield
