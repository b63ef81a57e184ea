"""The folder of a campaign: parts of its table while it runs, then the table, its manifest and its report.

``<build>/<campaign>/campaigns/<digest>/``: a campaign with other inputs has another folder, and none replaces another.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepmap.files import overwrite, write_whole
from stepmap.jobs.stage import digest
from stepmap.lock import alone

FORMAT = "stepmap-campaign-1"
CAMPAIGNS, PARTS, LATEST = "campaigns", "parts", "latest"
MANIFEST, SESSIONS, TABLE, REPORT = "manifest.json", "sessions.json", "table.parquet", "report.html"
SHORT = 12  # digits of the digest in the folder's name


@dataclass(frozen=True)
class Folder:
    """The folder of one campaign; ``about`` is what its manifest says from the beginning on."""

    path: Path
    about: Mapping[str, Any]

    @classmethod
    def of(cls, build: Path, name: str, about: Mapping[str, Any]) -> Folder:
        return cls(build / name / CAMPAIGNS / str(about["digest"])[:SHORT], about)

    @property
    def table(self) -> Path:
        return self.path / TABLE

    @property
    def report(self) -> Path:
        return self.path / REPORT

    @property
    def complete(self) -> bool:
        """Whether the table is there, as it was written."""
        try:
            told = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            return bool(
                told.get("format") == FORMAT
                and told.get("digest") == self.about["digest"]
                and told.get("complete") is True
                and told["outputs"][TABLE] == digest(self.table.read_bytes())
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While the block runs, no other process works on this campaign; raises BusyError where one does."""
        with alone(self.path.with_name(f".{self.path.name}.lock"), f"works on {self.path}", patience=0.0):
            yield

    def prepare(self) -> None:
        """Makes the folder; fails now rather than after hours of work."""
        try:
            (self.path / PARTS).mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename) from None
        self._write(MANIFEST, {"format": FORMAT, **self.about, "complete": False})

    def part(self, chunk: tuple[int, int]) -> Path:
        return self.path / PARTS / f"{chunk[0]:08d}.parquet"

    def finish(self, table: bytes, report: str, more: Mapping[str, Any]) -> None:
        """The table, the report, then the manifest that says that they are whole; parts go last."""
        write_whole(self.table, table, links=False)
        write_whole(self.report, report, links=False)
        outputs = {TABLE: digest(table), REPORT: digest(report)}
        self._write(MANIFEST, {"format": FORMAT, **self.about, **more, "complete": True, "outputs": outputs})
        shutil.rmtree(self.path / PARTS, ignore_errors=True)
        self._lead()

    def note(self, session: Mapping[str, Any]) -> None:
        """Adds to what is told of the times in which this campaign was worked on; a full disk may leave it out."""
        with suppress(OSError):
            self._write(SESSIONS, [*self.sessions(), dict(session)])

    def sessions(self) -> Sequence[Mapping[str, Any]]:
        try:
            found = json.loads((self.path / SESSIONS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        return found if isinstance(found, list) else []

    def _write(self, name: str, content: Any) -> None:
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            write_whole(self.path / name, text, links=False)
        except OSError:
            if not (self.path / name).exists():
                raise
            overwrite(self.path / name, text.encode())  # a full disk has room where the file already is

    def _lead(self) -> None:
        """Lets ``latest`` beside it lead here, where there are links."""
        link = self.path.with_name(LATEST)
        fresh = self.path.with_name(f".{LATEST}.{os.getpid()}")
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
            os.symlink(self.path.name, fresh)
            try:
                os.replace(fresh, link)
            except OSError:
                fresh.unlink(missing_ok=True)
                raise
