"""Whose files these are: code is loaded from files only that nobody but the user, or the superuser, could have written.

Systems without POSIX's owners and modes are not checked.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from stepmap.errors import TrustError


def require_folder(path: Path, what: str, remedy: str, *, group: bool = False) -> None:
    """Raises TrustError where others could put files into a folder, or another folder into its place.

    Where it is not there yet, that goes for the folder it would be made in. With ``group`` members of the folder's
    group may: whoever shares a project shares its folders.
    """
    if os.name != "posix":
        return
    place = path.resolve()
    while not place.exists():
        place = place.parent
    for folder, own in ((place, True), *((parent, False) for parent in place.parents)):
        problem = _problem(folder, own=own and folder == path.resolve(), group=group)
        if problem is not None:
            raise TrustError(
                f"{what} {path} is not used: {problem}. stepmap runs code from there. {_how(folder)}{remedy}"
            )


def is_own(path: Path) -> bool:
    """Whether a path is a file, not a link to one, that nobody else could have written."""
    try:
        about = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(about.st_mode) and (os.name != "posix" or _fault(path, about, group=False) is None)


def make_private(path: Path) -> None:
    """Makes a folder, and those above it that are missing, for the user alone."""
    for folder in reversed(list(_missing(path))):
        folder.mkdir(mode=0o700, exist_ok=True)


def _missing(path: Path) -> Iterator[Path]:
    while not path.exists():
        yield path
        path = path.parent


def _problem(folder: Path, *, own: bool, group: bool) -> str | None:
    about = folder.stat()
    if not own and about.st_mode & stat.S_ISVTX and about.st_uid in _trusted():
        return None  # as /tmp: others may add files, but not move those of the user
    return _fault(folder, about, group=group)


def _fault(path: Path, about: os.stat_result, *, group: bool) -> str | None:
    """Why others could change a file or a folder, in words."""
    if about.st_uid not in _trusted():
        return f"{path} belongs to user {_name(about.st_uid)}"
    writers = stat.S_IWOTH | (0 if group or _alone_in(about) else stat.S_IWGRP)
    if about.st_mode & writers:
        return f"others can write to {path} (mode {stat.S_IMODE(about.st_mode):04o})"
    return None


def _trusted() -> tuple[int, int]:
    return 0, os.geteuid()


def _alone_in(about: os.stat_result) -> bool:
    """Whether the group of a file is its owner's private one, as many systems make for each user."""
    import grp
    import pwd

    try:
        owner, members = pwd.getpwuid(about.st_uid), grp.getgrgid(about.st_gid)
    except KeyError:
        return False
    same = owner.pw_gid == members.gr_gid and owner.pw_name == members.gr_name
    return same and set(members.gr_mem) <= {owner.pw_name}


def _name(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _how(folder: Path) -> str:
    """The command that would help, where it is the user's to give."""
    return f"Do `chmod go-w {shlex.quote(str(folder))}`, or " if folder.stat().st_uid == os.geteuid() else "Rather "
