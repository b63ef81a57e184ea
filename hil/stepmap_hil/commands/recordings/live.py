"""``stepmap live``: a recording on the live page."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console, working
from stepmap.extras import require
from stepmap_hil.commands.options import RunArgument, SystemFileOption
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.recording import blaming, read_run


def live(
    run: RunArgument,
    system_file: SystemFileOption = None,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders are.")] = Path("build"),
) -> None:
    """Show a recording in a browser: it plays once, then a slider moves through its ticks. Ctrl-C ends it."""
    require("live", "the live page", "viser")
    with working("reading the recording"):
        file = runs.find(run, build)
        recorded = read_run(file, system_file)
    from stepmap_hil.live.again import AgainPage  # draws, and takes a while to import

    over = threading.Event()
    with blaming(file), AgainPage(recorded) as page:
        console().print(f"live page: {page.url}", soft_wrap=True)
        page.saved(file.parent)
        try:
            over.wait()
        except KeyboardInterrupt:
            over.set()
