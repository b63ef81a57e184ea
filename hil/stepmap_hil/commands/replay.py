"""``stepmap replay``: a recording sent to a board once more."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console, figures, working
from stepmap.errors import LinkError
from stepmap.jobs import optimize as optimum
from stepmap_codegen import boards
from stepmap_codegen import generate as generation
from stepmap_codegen.boards import NATIVE, Runs
from stepmap_hil.bench import replay as replaying
from stepmap_hil.boards import without_hardware
from stepmap_hil.commands.options import RunArgument, SystemFileOption
from stepmap_hil.commands.prepare import firmware, own_key
from stepmap_hil.firmware.build import Choices
from stepmap_hil.firmware.tools import require_tools
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.recording import blaming, read_run
from stepmap_hil.wire import key as keys

UPLOADING = [b.name for b in boards.catalog().values() if b.runs is not Runs.SERIAL and b.bank_bytes]
BoardName = Enum("BoardName", {name: name for name in UPLOADING}, type=str)  # type: ignore[misc]
DEFAULT = BoardName(NATIVE.name)


def replay(
    run: RunArgument,
    board: Annotated[BoardName, typer.Option(help="A process, or an emulated chip.")] = DEFAULT,
    system_file: SystemFileOption = None,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")] = Path("build"),
) -> None:
    """Send a recording's measurements to a board again, and compare estimates and commands bit for bit.

    The integer model on this computer is compared, too. Fails where anything differs, or nothing can be compared.
    """
    require_tools(board.value, runs=True)
    with working("reading the recording"):
        file = runs.find(run, build)
        recorded = read_run(file, system_file)
    place = build / "replay"  # apart from what the job is now
    generated = generation.stage(recorded.job, optimum.stage(recorded.job, place), recorded.choices, place)
    with generated.making() as needed:
        if needed:
            generation.write(generated, recorded.controller)
    key_file = own_key(place / recorded.job.name)
    secret = keys.read(key_file)
    _, made = firmware(recorded.job, generated, Choices(board.value, key_file), place)
    with working("replaying"), blaming(file):
        found = replaying.replay(recorded, without_hardware(board.value, made.program), secret)
    reference = {
        True: "the same",
        False: "NOT the same",
        None: "not comparable: floating point, or telemetry is missing",
    }[found.reference_equal]
    rows = [
        ("recorded", f"{recorded.closed.board}, {recorded.closed.mode}, {found.ticks} ticks"),
        (f"on {board.value}", f"{found.equal} of {found.compared} ticks the same, bit for bit"),
        ("integer model", reference),
    ]
    if found.left_out:
        rows.insert(2, ("not compared", f"{found.left_out} ticks: {found.why}"))
    console().print(figures(rows, title=recorded.job.name))
    if found.ticks and not found.compared:
        raise LinkError(f"no tick can be compared: {found.why}")
    if found.first or found.reference_equal is False:
        raise LinkError(f"the replay differs: {found.first or 'the integer model says something else'}")
