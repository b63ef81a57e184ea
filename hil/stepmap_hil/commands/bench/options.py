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
        help="Kind of board: a process of this computer (native), or an emulated chip. An ESP32 is not emulated. "
        "[default: native, or the rig's]"
    ),
]
PortOption = Annotated[
    str | None, typer.Option(metavar="PORT", help="Serial port of a real board, flashed with this job.")
]
SensorOption = Annotated[
    SensorName | None, typer.Option(help="Sensor that measures the plant. [default: the sensor in [bench] of the job]")
]
SeedOption = Annotated[int, typer.Option(metavar="N", min=0, max=MOST_SEED, help="Seed of all noise, 0 to 2⁵³ − 1.")]
ModeOption = Annotated[
    Mode, typer.Option(help="Time passes with messages, as fast as the board goes, or by the clock.")
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Length of the run; after the trajectory its last set point is held. "
        "[default: the length of the trajectory, and of the reference behind it]",
    ),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Set-points to follow after the plan: a CSV file, a joystick's device, or the word joystick. "
        "docs/streams.md describes them.",
    ),
]
FaultsOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Faults to inject (TOML); docs/bench.md describes them.")
]
NoOpenLoopOption = Annotated[
    bool, typer.Option("--no-open-loop", help="Do not compare with a run of feedforward only.")
]
OpenLoopOption = Annotated[bool, typer.Option("--open-loop", hidden=True)]  # what is done anyway
KeyOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Key file of the board. [default: that of stepmap key with --port, else one in the build folder]",
    ),
]
RigOption = Annotated[
    Path | None,
    typer.Option("--rig", metavar="FILE", help="Port, camera, limits (TOML); docs/rigs.md describes it."),
]
UnattendedOption = Annotated[bool, typer.Option("--unattended", help="With a real robot: do not ask, and ignore keys.")]
LiveOption = Annotated[bool, typer.Option("--live", help="Show the run in a browser, on this computer only.")]
RosOption = Annotated[
    bool, typer.Option("--ros", help="Publish the run as messages of ROS 2, through Zenoh; docs/ros.md describes them.")
]
RouterOption = Annotated[
    str | None,
    typer.Option(
        "--ros-connect",
        metavar="ENDPOINT",
        help="Zenoh router that --ros connects to, as tcp/HOST:PORT. [default: the local one, where there is one]",
    ),
]
RunsOption = Annotated[
    Path | None, typer.Option("--runs", metavar="FOLDER", help="Where runs go. [default: FOLDER/<job>/runs]")
]
