"""``stepmap examples``: the jobs that come with stepmap."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console, figures
from stepmap.errors import ModelError
from stepmap.files import naming
from stepmap_hil.firmware.sources import sources

FOLDER = "examples"
ENDING = re.compile(r"(?<!\bal)(?<!\bch)(?<!\bFig)\. (?=[A-Z])")  # of a sentence, and not of "et al."


def examples(
    copy: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Copy them all into a new folder, to run and to change.")
    ] = None,
) -> None:
    """List the jobs that come with stepmap, each with what it is about; with --copy they become yours."""
    place = sources() / FOLDER
    if copy is not None:
        count = copied(place, copy)
        console().print(f"copied {count} files: {copy}", soft_wrap=True)
        console().print(f"go on with: stepmap bench {copy / 'suspended_mass.toml'}", soft_wrap=True)
        return
    jobs = sorted(path for path in place.rglob("*.toml") if path.parent.name not in ("faults", "rigs"))
    rows = [(path.relative_to(place).as_posix(), about(path)) for path in jobs]
    console().print(figures(rows, title=f"jobs in {place}"))
    console().print("copy them: stepmap examples --copy FOLDER", soft_wrap=True)


def about(job: Path) -> str:
    """The first sentence of the comment that a job begins with."""
    said: list[str] = []
    for line in job.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        said.append(line.removeprefix("#").strip())
    text = " ".join(said)
    return ENDING.split(text)[0].removesuffix(".")


def copied(place: Path, copy: Path) -> int:
    """How many files were copied into a folder, which is whole then; one that has something in it is left alone."""
    if copy.exists() and (not copy.is_dir() or any(copy.iterdir())):
        raise ModelError(f"--copy: {copy} is there already, and nothing in it is replaced", hint="Name a new folder.")
    with naming(copy):
        copy.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=copy.parent, prefix=f".{copy.name}."))
        try:
            made = fresh / copy.name
            # Contents alone: files of an installed package may be read-only, and the copies are to be changed.
            shutil.copytree(
                place, made, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns("__pycache__", "build")
            )
            for folder in (made, *(path for path in made.rglob("*") if path.is_dir())):
                folder.chmod(0o755)
            if copy.is_dir():
                copy.rmdir()
            made.replace(copy)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return sum(path.is_file() for path in copy.rglob("*"))
