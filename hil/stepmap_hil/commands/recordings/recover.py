"""``stepmap recover``: a recording that was cut off, as a whole file again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console
from stepmap_hil.commands.options import RunArgument
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.recover import recover as rewrite


def recover(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write. [default: recovered.mcap beside the recording]")
    ] = None,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders are.")] = Path("build"),
) -> None:
    """Write what is whole of a recording that was cut off to another file, with the index that viewers look for."""
    file = runs.find(run, build)
    written = out or file.with_name("recovered.mcap")
    count = rewrite(file, written)
    console().print(f"recovered  {written}, {count} messages", soft_wrap=True)
