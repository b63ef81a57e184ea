"""Options of ``stepmap bench``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from stepmap_codegen import boards
from stepmap_codegen.boards import Runs
from stepmap_hil.runs.log import MOST_SEED
from stepmap_hil.sensors import base as sensors


class Mode(Enum):
    LOCKSTEP = "lockstep"
    REALTIME = "realtime"


RUNNING = [board.name for board in boards.catalog().values() if board.runs is not Runs.SERIAL]
BoardName = Enum("BoardName", {name: name for name in RUNNING}, type=str)  # type: ignore[misc]
SensorName = Enum("SensorName", {name: name for name in sensors.names()}, type=str)  # type: ignore[misc]

BoardOption = Annotated[
    BoardName | None,
    typer.Option(
        help="The board: a process of this computer, or an emulated chip. An ESP32 is not emulated. "
        "[default: native, or the rig's]"
    ),
]
PortOption = Annotated[
    str | None, typer.Option(metavar="PORT", help="Serial port of a real board, flashed with this job.")
]
SensorOption = Annotated[
    SensorName | None, typer.Option(help="What sees the plant. [default: the sensor in [bench] of the job]")
]
SeedOption = Annotated[int, typer.Option(metavar="N", min=0, max=MOST_SEED, help="Seed of all noise.")]
ModeOption = Annotated[Mode, typer.Option(help="As fast as the board goes, or by the clock.")]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Length of the run; beyond the trajectory its end is held. [default: the length of the trajectory]",
    ),
]
FaultsOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What goes wrong (TOML); docs/bench.md describes it.")
]
OpenLoopOption = Annotated[
    bool, typer.Option("--open-loop/--no-open-loop", help="Compare with a run of feedforward only.")
]
KeyOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Key of the board; an emulated one has its own.")]
RigOption = Annotated[
    Path | None,
    typer.Option("--rig", metavar="FILE", help="Port, camera, limits (TOML); docs/rigs.md describes it."),
]
UnattendedOption = Annotated[
    bool, typer.Option("--unattended", help="With a real robot: do not ask, and do not heed keys.")
]
LiveOption = Annotated[bool, typer.Option("--live", help="Show the run in a browser, on this computer only.")]
RunsOption = Annotated[
    Path | None, typer.Option("--runs", metavar="FOLDER", help="Where runs go. [default: FOLDER/<job>/runs]")
]
