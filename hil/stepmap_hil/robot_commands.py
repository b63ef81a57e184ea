"""``stepmap robot``, a robot to rehearse with, and ``stepmap calibrate``, where a rig's Kinect stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from stepmap import jobs
from stepmap.arrays import Array
from stepmap.cli.output import console, figures, working
from stepmap.errors import ModelError
from stepmap.files import write_whole
from stepmap_codegen.size import require_counts
from stepmap_hil import build as building
from stepmap_hil import key as keys
from stepmap_hil.bench_command import controller_of, firmware, own_key
from stepmap_hil.depth import Background, Kinect, calibrate, sight
from stepmap_hil.depth import rig as camera_table
from stepmap_hil.kinect_eye import write_background
from stepmap_hil.operators import Terminal
from stepmap_hil.priority import keep_time
from stepmap_hil.rig import RigFile, read_rig, replace_camera
from stepmap_hil.run import MOST_SEED
from stepmap_hil.settings import read_settings

FRAMES = 20  # of the empty scene, and of the ball at a place
EMPTY = "empty"


def robot(
    file: Annotated[Path, typer.Argument(metavar="JOB", help="A job file (TOML); docs/jobs.md describes it.")],
    rig: Annotated[Path | None, typer.Option(metavar="FILE", help="Where its rig file goes.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of the camera's noise.")] = 1,
    build: Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")] = Path("build"),
) -> None:
    """Be a robot until Ctrl-C: a board at a pseudo terminal, motors and mechanism by the clock, a Kinect's frames.

    Leaves a rig file, FOLDER/<job>/rig.toml, with which `stepmap bench JOB --rig FILE` finds it as it would a real one.
    """
    from stepmap_hil.emulated_robot import EmulatedRobot

    with working("reading the job"):
        job, settings = jobs.load(file), read_settings(file)
        require_counts(job.system, "native")
    controller, generated, _ = controller_of(job, file, build)
    key = own_key(build / job.name)
    _, program = firmware(job, generated, building.Choices("native", key), keys.read(key), build)
    place = rig or build / job.name / "rig.toml"
    keep_time()
    with EmulatedRobot(job, controller, program, settings, key, seed) as made, suppress(KeyboardInterrupt):
        made.write_rig(place)
        console().print(f"a robot is at {made.port}, its rig is {place}; in another terminal:", soft_wrap=True)
        console().print(f"\n    stepmap bench {file} --rig {place}\n\nCtrl-C ends it.", soft_wrap=True)
        made.run(lambda: True)
    console().print("the robot is gone")


def calibrate_rig(
    file: Annotated[Path, typer.Argument(metavar="RIG", help="A rig file (TOML); docs/rigs.md describes it.")],
    at: Annotated[
        list[str], typer.Option(metavar="X,Y,Z", help="A place [m] where the ball is held; give four or more.")
    ],
    recordings: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Recordings (fakenect-record) empty, 1, 2, … instead of the Kinect."),
    ] = None,
    rolled: Annotated[
        bool, typer.Option("--rolled", help="The Kinect does lean by more than 45°; otherwise that is an error.")
    ] = False,
) -> None:
    """Find out where a rig's Kinect stands: it looks at the empty scene, then at the ball at known places.

    Writes the table [camera] of the rig and, beside it, what the camera sees of the empty scene. Data that do not give
    a pose are refused, and the file stays as it was.
    """
    rig = read_rig(file, calibrated=False)
    places = [_place(text) for text in at]
    if recordings is not None:
        frames = _Recorded(recordings)
        empty, held = frames.take(EMPTY), [frames.take(str(k + 1)) for k in range(len(places))]
    else:
        empty, held = _ask(rig, places)
    background = Background.learn(empty, rig.camera)
    seen = [sight(one, background, rig.camera, rig.scene.radius) for one in held]
    found = calibrate(seen, places, rig.camera, rolled=rolled)
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
    """Frames of a Kinect, each set after someone has put things into place."""
    with Terminal() as someone, Kinect(rig.recording, every=False) as kinect:
        wait = _waiting(someone, kinect)
        empty = wait("Take the ball and the robot out of the camera's sight.")
        held = [wait(f"Hold the ball at {', '.join(f'{v:g}' for v in place)} m.") for place in places]
    return empty, held


def _waiting(someone: Terminal, kinect: Kinect) -> Callable[[str], list[Array]]:
    def wait(text: str) -> list[Array]:
        if not someone.agrees(text):
            raise ModelError("left: the rig file stays as it was")
        frames = kinect.frames()
        next(frames)  # may be older than the answer
        return [next(frames).depth for _ in track(range(FRAMES), "looking", transient=True)]

    return wait
