"""``stepmap calibrate``: where the Kinect of a rig stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import track

from stepmap import jobs
from stepmap.arrays import Array
from stepmap.cli.output import console, figures
from stepmap.errors import ModelError
from stepmap.files import write_whole
from stepmap_hil.bench.operator import Terminal
from stepmap_hil.depth import Background, Kinect, calibrate, sight
from stepmap_hil.depth import calibration_file as camera_table
from stepmap_hil.depth.calibrate import WORKSPACE
from stepmap_hil.rig.file import RigFile, read_rig, replace_camera
from stepmap_hil.sensors.kinect_live import write_background
from stepmap_hil.sensors.staging import plan
from stepmap_hil.sensors.targets import targets

FRAMES = 20  # of the empty scene, and of the ball at a place
EMPTY = "empty"
AROUND = 0.1  # m around a planned motion where positions must come out well, too


def calibrate_rig(
    file: Annotated[Path, typer.Argument(metavar="RIG", help="A rig file (TOML); docs/rigs.md describes it.")],
    at: Annotated[
        list[str], typer.Option(metavar="X,Y,Z", help="A place [m] where the ball is held; give four or more.")
    ],
    job: Annotated[
        Path | None,
        typer.Option(metavar="JOB", help="A job: positions must come out well where its mechanism moves."),
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Recordings (fakenect-record) empty, 1, 2, … instead of the Kinect."),
    ] = None,
    rolled: Annotated[bool, typer.Option("--rolled", help="Accept a Kinect that leans by more than 45°.")] = False,
) -> None:
    """Find the pose of a rig's Kinect from frames of the empty scene, then of the ball at known places.

    Writes the table [camera] of the rig and, beside it, what the camera sees of the empty scene. Data that do not give
    a pose are refused, and the file stays as it was.
    """
    rig = read_rig(file, calibrated=False)
    places = [_place(text) for text in at]
    workspace = WORKSPACE if job is None else _workspace(job)
    if recordings is not None:
        frames = _Recorded(recordings)
        empty, held = frames.take(EMPTY), [frames.take(str(k + 1)) for k in range(len(places))]
    else:
        empty, held = _ask(rig, places)
    background = Background.learn(empty, rig.camera)
    seen = [sight(one, background, rig.camera, rig.scene.radius) for one in held]
    found = calibrate(seen, places, rig.camera, workspace=workspace, rolled=rolled)
    background_file = rig.background or file.with_suffix(".background.npz")
    write_background(background, background_file)
    write_whole(
        file, replace_camera(file.read_text(encoding="utf-8"), camera_table.to_toml(found), background_file.name)
    )
    x, y, z = found.camera.eye
    rows = [
        ("camera", f"{x:.3f}, {y:.3f}, {z:.3f} m"),
        ("misfit", f"{1e3 * found.rms:.1f} mm RMS, {1e3 * found.worst:.1f} mm at most, {found.places} places"),
        ("positions", f"within {1e3 * found.deviation:.1f} mm where the mechanism moves, one standard deviation"),
        ("written", f"{file}, {background_file}"),
    ]
    console().print(figures(rows))


def _workspace(file: Path) -> list[Array]:
    """Corners of the box that a job's balls and robot move in, in the axes of the scene."""
    read = jobs.load(file)
    places = targets(read.system).places(plan(read)).reshape(-1, 3)
    low, high = places.min(axis=0) - AROUND, places.max(axis=0) + AROUND
    return [np.where(corner, high, low) for corner in np.ndindex(2, 2, 2)]


def _place(text: str) -> tuple[float, ...]:
    try:
        made = tuple(float(word) for word in text.split(","))
    except ValueError:
        made = ()
    if len(made) != 3:
        raise ModelError(f"--at: expected three numbers like 0.1,0.2,0, got {text!r}")
    return made


class _Recorded:
    """Frames of recordings in the folders of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def take(self, name: str) -> list[Array]:
        if not (self.folder / name).is_dir():
            raise ModelError(f"--recordings: there is no {self.folder / name}; make it with fakenect-record")
        with Kinect(self.folder / name) as kinect:
            return [frame.depth for frame in kinect.frames()]


def _ask(rig: RigFile, places: Sequence[Sequence[float]]) -> tuple[list[Array], list[list[Array]]]:
    """Frames of a Kinect, each set after the operator has put things into place."""
    with Terminal() as operator, Kinect(rig.recording, every=False) as kinect:
        wait = _waiting(operator, kinect)
        empty = wait("Take the ball and the robot out of the camera's sight.")
        held = [wait(f"Hold the ball at {', '.join(f'{v:g}' for v in place)} m.") for place in places]
    return empty, held


def _waiting(operator: Terminal, kinect: Kinect) -> Callable[[str], list[Array]]:
    def wait(text: str) -> list[Array]:
        if not operator.confirms(text):
            raise ModelError("left: the rig file stays as it was")
        frames = kinect.frames()
        next(frames)  # may be older than the answer
        return [next(frames).depth for _ in track(range(FRAMES), "looking", transient=True)]

    return wait
