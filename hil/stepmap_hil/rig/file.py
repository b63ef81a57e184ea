"""Rig files: where a robot is connected, what watches it, and how far it may go (docs/rigs.md).

A rig is a TOML file with tables [rig], [limits], [scene], [camera] and [kinect], all of which may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import JobError, ModelError, StepmapError
from stepmap.files import write_whole
from stepmap.text import nearest
from stepmap.toml.tables import Table, read
from stepmap_codegen import Controller, boards
from stepmap_hil.boards.serial import BAUD
from stepmap_hil.depth import Camera, Scene
from stepmap_hil.depth import calibration_file as camera_table
from stepmap_hil.wire.key import BOARD_ID
from stepmap_hil.wire.ports import require_name

PLANTS = ("simulated", "real")
KINECT = "kinect"
COUNTDOWN = 3.0  # s
HEADER = re.compile(r"\s*\[\s*([a-z]+)\s*\]")
BACKGROUND = re.compile(r"\s*background\s*=")
BESIDE = re.compile(r"\w[\w .+-]*\.npz")
SIZES = ("radius", "box", "body")  # of a Scene


@dataclass(frozen=True)
class RigFile:
    """A rig as its file describes it; paths are relative to the file."""

    file: Path | None = None
    plant: str = "simulated"
    port: str | None = None
    baud: int = BAUD
    board: str | None = None
    board_id: bytes | None = None  # of the only board that is spoken to; any where None
    key: Path | None = None
    sensor: str = KINECT  # of a real robot
    countdown: float = COUNTDOWN
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    camera: Camera = field(default_factory=Camera)
    scene: Scene = field(default_factory=Scene)
    recording: Path | None = None  # frames come from here in place of a Kinect
    latency: float = 0.0  # s from the exposure of a frame to its arrival
    background: Path | None = None  # what the camera sees of the empty scene

    @property
    def real(self) -> bool:
        """Whether motors turn."""
        return self.plant == "real"

    def error(self, message: str, *, hint: str = "") -> JobError:
        return JobError(message, file=str(self.file), hint=hint)


def read_rig(file: Path, *, calibrated: bool = True) -> RigFile:
    """A rig file; raises JobError with the line of what is wrong, or where the camera of a real robot was not
    ``calibrated`` yet. A robot whose board measures, or whose sensor is no Kinect, needs no camera."""
    root = read(file)
    root.only(("rig", "limits", "scene", "camera", "kinect"))
    table, kinect = root.table("rig"), root.table("kinect")
    table.only(("plant", "port", "baud", "board", "board_id", "key", "sensor", "countdown"))
    kinect.only(("recording", "background", "latency"))
    plant = table.choice("plant", PLANTS, "simulated")
    made = RigFile(
        file=file,
        plant=plant,
        port=_port(table),
        baud=_baud(table),
        board=table.choice("board", list(boards.catalog())) if "board" in table else None,
        board_id=_board_id(table),
        key=_path(table, "key", file),
        sensor=table.text("sensor") if "sensor" in table else KINECT,
        countdown=_countdown(table),
        limits={name: _limits(root.table("limits"), name) for name in root.table("limits")},
        camera=_camera(root),
        scene=_scene(root.table("scene")),
        recording=_path(kinect, "recording", file),
        latency=_latency(kinect),
        background=_background(kinect, file),
    )
    if made.real:
        table.need("port", "Name the serial port of the robot's board.")
        table.need("key", "Name the file with the board's key; stepmap key makes one.")
    if made.real and calibrated and made.sensor == KINECT:
        root.need("camera", "stepmap calibrate finds out where the Kinect stands, and writes it.")
        kinect.need("background", "stepmap calibrate records what the Kinect sees of the empty scene.")
    return made


def _path(table: Table, name: str, file: Path) -> Path | None:
    return file.parent / table.text(name) if name in table else None


def _port(table: Table) -> str | None:
    if "port" not in table:
        return None
    try:
        return require_name(table.text("port"))
    except ModelError as error:
        raise table.error(str(error), "port", hint=error.hint) from None


def _background(table: Table, file: Path) -> Path | None:
    """A file beside the rig's own, and no other: stepmap calibrate writes it."""
    if "background" in table and not BESIDE.fullmatch(table.text("background")):
        raise table.error("must be the name of a file beside this one that ends in .npz", "background")
    return _path(table, "background", file)


def _board_id(table: Table) -> bytes | None:
    if "board_id" not in table:
        return None
    try:
        given = bytes.fromhex(table.text("board_id"))
    except ValueError:
        given = b""
    if len(given) != BOARD_ID:
        raise table.error(f"must be the {2 * BOARD_ID} hexadecimal digits that stepmap monitor shows as id", "board_id")
    return given


def _baud(table: Table) -> int:
    baud = table.whole("baud", BAUD)
    if not 1200 <= baud <= 4_000_000:
        raise table.error(f"must be 1200 to 4000000 bits per second, got {baud}", "baud")
    return baud


def _countdown(table: Table) -> float:
    seconds = table.number("countdown", COUNTDOWN)
    if not 1.0 <= seconds <= 60.0:
        raise table.error(
            f"must be 1 to 60 s, in which the filter settles and people step back, got {seconds:g}", "countdown"
        )
    return seconds


def _latency(table: Table) -> float:
    seconds = table.number("latency", 0.0)
    if not 0.0 <= seconds <= 0.065:
        raise table.error(f"must be 0 to 0.065 s, got {seconds:g}", "latency")
    return seconds


def _limits(table: Table, name: str) -> tuple[float, float]:
    given = table.numbers(name, ())
    if len(given) != 2 or not given[0] < given[1]:
        raise table.error("expected [lowest, highest]", name)
    return given[0], given[1]


def _camera(root: Table) -> Camera:
    if "camera" not in root:
        return Camera()
    return camera_table.from_table(root.table("camera").entries, root.file).camera


def _scene(table: Table) -> Scene:
    table.only(SIZES)
    given: dict[str, Any] = {}
    if "radius" in table:
        given["radius"] = table.number("radius")
    for name in SIZES[1:]:
        if name in table:
            given[name] = table.numbers(name, ())
            if len(given[name]) != 3:
                raise table.error("expected three numbers", name)
    try:
        return Scene(**given)
    except StepmapError as error:
        raise table.error(str(error)) from error


def write_rig(file: Path, entries: Mapping[str, Any], camera: str) -> None:
    """A rig file with a table [rig] and others of these entries, and the text of a table [camera]."""
    lines = []
    for name, table in entries.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in table.items()]
        lines.append("")
    write_whole(file, "\n".join(lines) + "\n" + camera)


def replace_camera(text: str, camera: str, background: str) -> str:
    """The text of a rig file with another table [camera] and the name of its background; the rest stays as it is."""
    kept, at = [], ""
    for line in text.splitlines():
        at = header.group(1) if (header := HEADER.match(line)) else at
        if at == "camera" or (at == "kinect" and BACKGROUND.match(line)):
            continue
        kept.append(line)
        if header and at == "kinect":
            kept.append(f"background = {_toml(background)}")
    if not any(HEADER.match(line) and "kinect" in line for line in kept):
        kept += ["", "[kinect]", f"background = {_toml(background)}"]
    return "\n".join(kept).rstrip() + "\n\n" + camera


def _toml(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(v) for v in value)}]"
    return repr(value)


class Workspace:
    """Limits of coordinates: a nominal trajectory that leaves them is refused, and a robot that does is stopped.

    ``units`` are those of the coordinates, for messages.
    """

    def __init__(self, rig: RigFile, names: Sequence[str], units: Sequence[str] = ()) -> None:
        for name in rig.limits:
            if name not in names:
                raise rig.error(f"limits: no coordinate is called {name!r}", hint=nearest(name, names))
        self.rig = rig
        self.bounds = [(names.index(name), name, *limits) for name, limits in rig.limits.items()]
        self.units = [f" {unit}" if unit else "" for unit in units] or [""] * len(names)

    def require(self, controller: Controller) -> None:
        """Raises where the nominal trajectory leaves the limits."""
        plan = controller.schedule.values()
        for index, name, low, high in self.bounds:
            outside = np.flatnonzero((plan[:, index] < low) | (plan[:, index] > high))
            if len(outside):
                at, value, unit = outside[0] * controller.program.period, plan[outside[0], index], self.units[index]
                raise self.rig.error(
                    f"limits.{name}: the plan goes to {value:.3f}{unit} at {at:.2f} s, beyond {low:g} to {high:g}",
                    hint="Plan a smaller motion, or widen the limits.",
                )

    def violation(self, coordinates: Array) -> str | None:
        """Which limit is violated, as a text; None where none is."""
        for index, name, low, high in self.bounds:
            if not low <= coordinates[index] <= high:
                unit = self.units[index]
                return f"{name} is {coordinates[index]:.3f}{unit}, and its limits are {low:g} to {high:g}{unit}"
        return None
