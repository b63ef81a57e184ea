"""``stepmap replay`` and ``stepmap report``."""

from __future__ import annotations

import stat
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console, figures, working
from stepmap.errors import LinkError, ModelError
from stepmap.jobs import optimize as optimum
from stepmap_codegen import generate as generation
from stepmap_hil import key as keys
from stepmap_hil import replay as replaying
from stepmap_hil import results, runs
from stepmap_hil.bench_command import firmware, own_key
from stepmap_hil.board import Board
from stepmap_hil.boards import NativeBoard, QemuBoard
from stepmap_hil.build import Choices

WRITTEN = (".html", ".json", ".png", ".svg")  # how names of a report's files end


class BoardName(Enum):
    """Boards that take uploads."""

    NATIVE = "native"
    STM32F405 = "stm32f405"


RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run: its name, its folder, a recording (.mcap), or latest.")
]


def replay(
    run: RunArgument,
    board: Annotated[BoardName, typer.Option(help="A process, or an emulated chip.")] = BoardName.NATIVE,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")] = Path("build"),
) -> None:
    """Send a recording's measurements to a fresh board once more, and compare what it says, bit for bit.

    The integer model on this computer is compared, too. Fails where anything differs, or nothing can be compared.
    """
    with working("reading the recording"):
        file = runs.find(run, build)
        told = replaying.story(file)
    place = build / "replay"  # apart from what the job is now
    generated = generation.stage(told.job, optimum.stage(told.job, place), told.choices, place)
    with generated.making() as needed:
        if needed:
            generation.write(generated, told.controller)
    key_file = own_key(place / told.job.name)
    secret = keys.read(key_file)
    _, made = firmware(told.job, generated, Choices(board.value, key_file), secret, place)
    here: Board = NativeBoard(made.program) if board.value == "native" else QemuBoard(board.value, made.program)
    with working("replaying"), replaying.blaming(file):
        found = replaying.replay(told, here, secret)
    twin = {True: "the same", False: "NOT the same", None: "not comparable: telemetry is missing"}[found.twin]
    rows = [
        ("recorded", f"{told.closed.board}, {told.closed.mode}, {found.ticks} ticks"),
        (f"on {board.value}", f"{found.equal} of {found.compared} ticks the same, bit for bit"),
        ("integer model", twin),
    ]
    if found.left_out:
        rows.insert(2, ("not compared", f"{found.left_out} ticks: {found.why}"))
    console().print(figures(rows, title=told.job.name))
    if found.ticks and not found.compared:
        raise LinkError(f"no tick can be compared: {found.why}")
    if found.first or found.twin is False:
        raise LinkError(f"the replay differs: {found.first or 'the integer model says something else'}")


def report(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to write; usually the recording's folder.")
    ] = None,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders are.")] = Path("build"),
) -> None:
    """Make summary.json, pictures and one HTML report of a recording alone."""
    if out is not None:
        runs.require_place(out, "--out")
    with working("reading the recording"):
        file = runs.find(run, build)
        told = replaying.story(file)
    folder = out or file.parent
    folder.mkdir(parents=True, exist_ok=True)
    _require_files(folder)
    with working("drawing"), replaying.blaming(file):
        summary = results.write(folder, told.controller, told.closed, told.opened, told.facts)
        rows = [*results.table(summary), ("report", str(folder / "report.html"))]
    console().print(figures(rows, title=told.job.name))


def _require_files(folder: Path) -> None:
    """Raises where a file of a report would take the place of anything but a file: the folder may have come with the
    recording."""
    for path in sorted(folder.iterdir()):
        if path.suffix not in WRITTEN or stat.S_ISREG(path.lstat().st_mode):
            continue
        if path.is_symlink():
            raise ModelError(f"{path} is a link, and a report is not written through it: remove it, or give --out")
        raise ModelError(f"{path} is not a file, and a report does not take its place: remove it, or give --out")
