"""A library's folder: whose it is, whether it is up to date, and how it is replaced whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepmap.errors import ModelError
from stepmap.files import naming
from stepmap.jobs.stage import digest
from stepmap_codegen.library.contents import FORMAT, MANIFEST

SHOWN = 3  # names in a complaint


def require_place(folder: Path) -> None:
    """Raises where a folder cannot become a library: it holds what others made, or cannot be written."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if folder.resolve() == Path.cwd().resolve() or folder.resolve() in Path.cwd().resolve().parents:
        raise ModelError(f"--library: {folder} is the folder you are in, and it would be replaced; name one inside it")
    others = foreign(folder)
    if others:
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        raise ModelError(
            f"--library: {folder} holds what is not of a generated library or was changed since "
            f"({', '.join(others[:SHOWN])}{more}), and all of it would be replaced",
            hint="Give a folder of its own, or move these files away.",
        )
    parent = _existing(folder.absolute().parent)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(parent))


def foreign(folder: Path) -> list[str]:
    """Paths in a folder that a library of ours did not leave there, or not as they are now; none of a new one's."""
    if not folder.is_dir():
        return []
    known = read_manifest(folder).get("files", {})
    there = [path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]
    names = {path.relative_to(folder).as_posix(): path for path in there}
    wrong = [name for name, path in names.items() if name != MANIFEST and not _is(path, known.get(name))]
    return sorted(wrong + ([MANIFEST] if MANIFEST in names and not known else []))


def read_manifest(folder: Path) -> dict[str, Any]:
    """stepmap.json of a library; empty where there is none that can be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    good = isinstance(manifest, dict) and manifest.get("format") == FORMAT and isinstance(manifest.get("files"), dict)
    return manifest if good else {}


def stale(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """What is wrong with a library's folder, each in a few words; nothing where it is what would be written now."""
    if not folder.is_dir():
        return ["there is no such folder"]
    wrong = [f"{name} is missing" for name in files if not (folder / name).is_file()]
    wrong += [
        f"{name} differs"
        for name, content in files.items()
        if (folder / name).is_file() and (folder / name).read_bytes() != content
    ]
    there = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return [*wrong, *(f"{name} is not generated" for name in sorted(there) if name not in files)]


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replaces the folder by one with these files: it appears under a temporary name and is renamed."""
    require_place(folder)
    place = folder.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    mark = f"{os.getpid()}-{secrets.token_hex(4)}"
    fresh, old = (place.with_name(f".{place.name}.{mark}.{what}") for what in ("new", "old"))
    with naming(folder):
        try:
            for name, content in files.items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                (fresh / name).write_bytes(content)
            _take_place(fresh, place, old)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _take_place(fresh: Path, folder: Path, old: Path) -> None:
    """Renames fresh to folder. A folder that is there steps aside first; it comes back if the second rename fails."""
    if not folder.exists():
        os.replace(fresh, folder)
        return
    os.replace(folder, old)
    try:
        os.replace(fresh, folder)
    except BaseException:
        os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _is(path: Path, known: object) -> bool:
    """Whether a path is a file with this digest."""
    if path.is_symlink() or not path.is_file():
        return False
    return digest(path.read_bytes()) == known
