"""``stepmap animate``: a recording as a moving picture."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from stepmap.cli.output import console, working
from stepmap.errors import ModelError
from stepmap.files import write_whole
from stepmap_hil.commands.options import RunArgument, SystemFileOption
from stepmap_hil.report.series import moving
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.recording import blaming, read_run

EVEN = "scale=trunc(iw/2)*2:trunc(ih/2)*2"  # players ask for even numbers of pixels


def animate(
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A .gif, or an .mp4 where ffmpeg is installed. [default: beside the recording]"
        ),
    ] = None,
    system_file: SystemFileOption = None,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders are.")] = Path("build"),
) -> None:
    """Draw the mechanism of a recording in motion, as long as the run took: a picture to show and to mail."""
    if out is not None and out.suffix not in (".gif", ".mp4"):
        raise ModelError(f"--out: {out} is neither a .gif nor an .mp4")
    if out is not None and out.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ModelError(
            "--out: an .mp4 needs ffmpeg, which is not installed", hint="apt install ffmpeg, or ask for a .gif."
        )
    with working("reading the recording"):
        file = runs.find(run, build)
        recorded = read_run(file, system_file)
    written = out or file.with_name("run.gif")
    with working("drawing"), blaming(file):
        from stepmap.plots.film import film
        from stepmap.plots.motion import Motion

        rows = moving(recorded.closed)
        if len(rows) < 2:
            raise ModelError(f"{file} has no motion: the run ended before its second tick")
        time = np.array([row.time for row in rows]) - rows[0].time
        system = recorded.controller.plant.step.system
        poses = np.array([row.coordinates[: len(system.coordinates)] for row in rows])
        content = film(Motion.of(system, time, poses))
    write_whole(written, content if written.suffix == ".gif" else _mp4(content), links=False)
    console().print(f"written  {written}", soft_wrap=True)


def _mp4(gif: bytes) -> bytes:
    """The same as a film that players know."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "run.gif", Path(folder) / "run.mp4"
        source.write_bytes(gif)
        words = ["ffmpeg", "-loglevel", "error", "-i", str(source), "-vf", EVEN, "-pix_fmt", "yuv420p", str(target)]
        done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if done.returncode:
            raise ModelError(f"ffmpeg failed: {done.stderr.strip()[:400]}")
        return target.read_bytes()
