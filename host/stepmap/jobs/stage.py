"""Stages: folders of files that follow from digested inputs, made whole or not at all, and not made twice.

A stage writes ``<out>/<job>/<stage>/`` with a ``manifest.json`` that names the digests of what went in and came out.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stepmap.files import naming
from stepmap.lock import alone

FORMAT = "stepmap-stage-1"
MANIFEST = "manifest.json"
SOURCES = (".py", ".c", ".h")


def digest(content: bytes | str) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def digest_data(data: Any) -> str:
    """Digest of plain data; the order of keys does not matter."""
    return digest(json.dumps(data, sort_keys=True, allow_nan=False, default=str))


def digest_sources(package: str, parts: Sequence[str]) -> str:
    """Digest of the Python and C files of some modules and folders of a package."""
    found = import_module(package).__file__
    assert found is not None  # a package with a file
    root = Path(found).parent
    files: list[Path] = []
    for part in parts:
        path = root / part
        files += [path] if path.is_file() else [file for file in path.rglob("*") if file.suffix in SOURCES]
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file.relative_to(root).as_posix()} {digest(file.read_bytes())}\n".encode())
    return total.hexdigest()


@dataclass(frozen=True)
class Stage:
    """One folder: of which stage of which job, where, and the digests and versions of what it is made from."""

    name: str
    job: str
    out: Path
    inputs: Mapping[str, str]
    versions: Mapping[str, str]
    place: Path | None = None  # where the folder is, if not in ``out``

    @property
    def folder(self) -> Path:
        return self.place or self.out / self.job / self.name

    @property
    def digest(self) -> str:
        """Of all inputs and versions."""
        return digest_data({"stage": self.name, "inputs": dict(self.inputs), "versions": dict(self.versions)})

    def unchanged(self) -> bool:
        """Whether the folder holds a complete result of these very inputs, and every file is as it was written."""
        manifest = read_manifest(self.folder)
        if manifest is None or not manifest.get("complete") or manifest.get("digest") != self.digest:
            return False
        outputs = manifest.get("outputs", {})
        return all(_digest_file(self.folder / name) == known for name, known in outputs.items())

    @contextmanager
    def making(self, *, force: bool = False) -> Iterator[bool]:
        """Whether the stage has to be made; while the block runs no other process makes it.

        One that finds another at work waits for it, and then most often has nothing left to do.
        """
        if not force and self.unchanged():  # without a lock: the folder may be read-only
            yield False
            return
        self.prepare()
        with self.alone():
            yield force or not self.unchanged()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While the block runs, no other process works on this stage."""
        with alone(self.folder.with_name(f".{self.folder.name}.lock"), f"makes {self.folder}"):
            yield

    def prepare(self) -> None:
        """Makes the folder that the stage's own will lie in; fails now rather than after hours of work."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:  # something else is there
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename) from None
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.folder))
        try:  # permissions do not tell: file systems may be full or read-only
            trial = tempfile.mkdtemp(prefix=f".{self.name}.", suffix=".trial", dir=self.folder.parent)
            with suppress(FileNotFoundError):  # swept by another process
                os.rmdir(trial)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from error  # not the temporary name

    @contextmanager
    def replace(self, *, complete: bool = True) -> Iterator[Path]:
        """A new, empty folder to write to. It takes the place of the old one when the block ends without an error.

        A result that is not ``complete`` is kept for inspection and never taken for unchanged.
        """
        self.prepare()
        with self.alone():
            self._sweep()
            mark = f"{os.getpid()}-{secrets.token_hex(4)}"
            fresh = self.folder.with_name(f".{self.name}.{mark}.new")
            fresh.mkdir()
            try:
                with naming(self.folder):
                    yield fresh
                    (fresh / MANIFEST).write_text(
                        json.dumps(self._manifest(fresh, complete), indent=2) + "\n", encoding="utf-8"
                    )
                _take_place(fresh, self.folder, self.folder.with_name(f".{self.name}.{mark}.old"))
            finally:
                shutil.rmtree(fresh, ignore_errors=True)

    def _sweep(self) -> None:
        """Removes what a process left that was killed; nobody else works on this stage now.

        One that was killed between two renames has left the folder under another name: that comes back.
        """
        for old in sorted(self.folder.parent.glob(f".{self.name}.*.old")):
            if self.folder.exists():
                shutil.rmtree(old, ignore_errors=True)
            else:
                os.replace(old, self.folder)
        for pattern in (f".{self.name}.*.new", f".{self.name}.*.trial"):
            for fresh in self.folder.parent.glob(pattern):
                shutil.rmtree(fresh, ignore_errors=True)

    def _manifest(self, folder: Path, complete: bool) -> dict[str, Any]:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {
            "format": FORMAT,
            "stage": self.name,
            "job": self.job,
            "complete": complete,
            "digest": self.digest,
            "inputs": dict(self.inputs),
            "versions": dict(self.versions),
            "outputs": {path.relative_to(folder).as_posix(): digest(path.read_bytes()) for path in files},
        }


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a stage's folder, or None where there is none that can be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None


def versions(*packages: str) -> dict[str, str]:
    """Installed versions of packages that decide what comes out."""
    return {name: version(name) for name in packages}


def _digest_file(path: Path) -> str | None:
    try:
        return digest(path.read_bytes())
    except OSError:
        return None


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
