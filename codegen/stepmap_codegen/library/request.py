"""What the options --library and --prefix ask for: checked before any work, done after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from stepmap.cli.output import console
from stepmap.jobs import Job
from stepmap_codegen.controller import Controller
from stepmap_codegen.generate import StaleError
from stepmap_codegen.library.contents import Library
from stepmap_codegen.library.folder import require_place, stale, write
from stepmap_codegen.library.prefix import default_prefix, require_prefix


@dataclass(frozen=True)
class Request:
    """A library of a job that is to be written to a folder, or with ``check`` only compared with it."""

    job: Job
    folder: Path
    prefix: str
    check: bool

    def finish(self, made: Controller) -> None:
        """Writes the library, unless it is there as it would be; where that is only checked, raises StaleError."""
        files = Library(made, self.job.name, self.prefix).files(self.folder.resolve().name)
        wrong = stale(self.folder, files)
        if self.check and wrong:
            raise StaleError(self.folder, wrong)
        if wrong:
            write(self.folder, files)
        done = "written" if wrong else "up to date"
        console().print(f"library {done}: {self.folder}, names begin with {self.prefix}_", soft_wrap=True)


def requested(job: Job, folder: Path | None, prefix: str | None, check: bool) -> Request | None:
    """What is asked for, if it is; raises where it cannot be done."""
    if folder is None:
        if prefix is not None:
            raise typer.BadParameter("it names a library; give --library DIR, too", param_hint="--prefix")
        return None
    if prefix is None:
        prefix = default_prefix(job.name)
    require_prefix(prefix)
    if not check:
        require_place(folder)
    return Request(job, folder, prefix, check)
