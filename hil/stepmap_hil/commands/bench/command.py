"""The command line of ``stepmap bench``."""

from __future__ import annotations

from pathlib import Path

from stepmap_hil.commands.bench.options import (
    BoardOption,
    FaultsOption,
    KeyOption,
    LiveOption,
    Mode,
    ModeOption,
    NoOpenLoopOption,
    OpenLoopOption,
    PortOption,
    ReferenceOption,
    RigOption,
    RosOption,
    RouterOption,
    RunsOption,
    SecondsOption,
    SeedOption,
    SensorOption,
    UnattendedOption,
)
from stepmap_hil.commands.bench.request import Request
from stepmap_hil.commands.bench.run import run
from stepmap_hil.commands.options import Build, JobFile


def bench(
    file: JobFile,
    board: BoardOption = None,
    port: PortOption = None,
    sensor: SensorOption = None,
    seed: SeedOption = 1,
    mode: ModeOption = Mode.LOCKSTEP,
    seconds: SecondsOption = None,
    reference: ReferenceOption = None,
    faults: FaultsOption = None,
    no_open_loop: NoOpenLoopOption = False,
    open_loop: OpenLoopOption = False,
    key: KeyOption = None,
    rig_file: RigOption = None,
    unattended: UnattendedOption = False,
    live: LiveOption = False,
    ros: RosOption = False,
    ros_connect: RouterOption = None,
    build: Build = Path("build"),
    place_of_runs: RunsOption = None,
) -> None:
    """Run a job on a board that controls a simulated plant; write a recording and a report to FOLDER/<job>/runs.

    Optimizes, generates and builds what has changed, boots the board, uploads the schedule, runs, and writes a
    recording (MCAP), plots, summary.json and one HTML report. No run replaces another; FOLDER/<job>/bench is a link to
    the latest.
    """
    run(
        Request(
            file=file,
            board=None if board is None else board.value,
            port=port,
            sensor=None if sensor is None else sensor.value,
            seed=seed,
            mode=mode.value,
            seconds=seconds,
            reference=reference,
            faults=faults,
            open_loop=open_loop or not no_open_loop,
            key=key,
            rig=rig_file,
            unattended=unattended,
            live=live,
            ros=ros,
            router=ros_connect,
            build=build,
            runs=place_of_runs,
        )
    )
