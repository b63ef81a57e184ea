"""The key host and board share: a file of 32 bytes in hexadecimal that only its owner can read."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from stepmap.errors import LinkError

SIZE = 32
BOARD_ID = 12  # bytes of a board's id


@dataclass(frozen=True, repr=False)
class BoardKey:
    """Keys that one board has alone, with the host."""

    link: bytes
    """Signs frames."""
    upload: bytes
    """Authenticates schedules."""


@dataclass(frozen=True, repr=False)
class Key:
    """The secret and what is derived from it; one key is never used for two purposes."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != SIZE:
            raise LinkError(f"a key has {SIZE} bytes, not {len(self.secret)}")

    def derive(self, purpose: str, board_id: bytes = b"") -> bytes:
        """HMAC-SHA-256(secret, purpose, id of a board)."""
        return hmac.digest(self.secret, purpose.encode() + board_id, "sha256")

    def of_board(self, board_id: bytes) -> BoardKey:
        """The keys of one board: what is made for it is nothing to any other, though all have this key."""
        if len(board_id) != BOARD_ID:
            raise LinkError(f"the id of a board has {BOARD_ID} bytes, not {len(board_id)}")
        return BoardKey(self.derive("stepmap link", board_id), self.derive("stepmap upload", board_id))

    @property
    def name(self) -> str:
        """Eight digits that tell keys apart and say nothing about them."""
        return self.derive("stepmap name").hex()[:8]

    def __repr__(self) -> str:
        return f"Key({self.name})"


def default_path() -> Path:
    """$STEPMAP_KEY, or `key` in the user's configuration folder."""
    asked = os.environ.get("STEPMAP_KEY")
    return Path(asked) if asked else Path(platformdirs.user_config_dir("stepmap")) / "key"


def create(path: Path) -> Key:
    """A new random key in a new file; never replaces one."""
    key = Key(secrets.token_bytes(SIZE))
    if path.is_dir():
        raise LinkError(f"{path} is a folder: name a file, such as {path / 'key'}")
    if path.exists():
        raise LinkError(
            f"{path} already holds a key, which boards may have been built with; move it away to make a new one"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # not through a link, nor over a new file
    except OSError as error:
        raise LinkError(f"cannot write the key file {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(handle, 0o600)  # whatever the umask says
            file.write(key.secret.hex() + "\n")
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()  # half a key would stand in the way of a new one
        raise
    return key


def read(path: Path) -> Key:
    """The key in a file; refuses one that others can read, for then it is no secret."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        which = "" if path == default_path() else f" --file {shlex.quote(str(path))}"
        raise LinkError(f"there is no key file {path}", hint=f"Make one with `stepmap key{which}`.") from None
    except OSError as error:
        raise LinkError(f"cannot read the key file {path}: {error.strerror}") from error
    about = os.fstat(handle)  # of the file that is open, not of one that was put in its place
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        raise LinkError(f"{path} is not a file")
    with os.fdopen(handle, "rb") as file:
        if os.name == "posix" and stat.S_IMODE(about.st_mode) & 0o077:
            raise LinkError(f"others can read the key file {path}: chmod 600 it, and make a new key if they may have")
        text = file.read(2 * SIZE + 3)
    try:
        secret = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != SIZE:
        raise LinkError(f"{path} is not a key file: it must hold {2 * SIZE} hexadecimal digits and nothing else")
    return Key(secret)
