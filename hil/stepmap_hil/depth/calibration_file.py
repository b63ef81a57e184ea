"""A camera's calibration as a table of a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from stepmap.errors import JobError, StepmapError
from stepmap.files import write_whole
from stepmap_hil.depth.calibrate import Calibration
from stepmap_hil.depth.camera import Camera

NUMBERS = tuple(field.name for field in fields(Camera) if field.name != "pose")
LENGTHS = ("rms", "worst", "deviation")
FIGURES = ("places", *LENGTHS)


def to_toml(calibration: Calibration) -> str:
    """The text of a table [camera]: pose, lens, and what the calibration left."""
    camera = calibration.camera
    pose = "".join(f"  [{', '.join(repr(float(value)) for value in row)}],\n" for row in camera.pose)
    lines = ["[camera]", f"pose = [\n{pose}] # camera to world"]
    lines += [f"{name} = {float(getattr(camera, name))!r}" for name in NUMBERS]
    lines += [f"places = {calibration.places}"]
    lines += [f"{name} = {float(getattr(calibration, name))!r} # m" for name in LENGTHS]
    return "\n".join(lines) + "\n"


def from_table(table: Mapping[str, Any], file: str) -> Calibration:
    """A calibration from a table [camera]; ``file`` is what errors name. All but the pose may be left out."""
    unknown = set(table) - {"pose", *NUMBERS, *FIGURES}
    if unknown:
        raise JobError(f"[camera] has no {', '.join(sorted(unknown))}", file=file)
    if "pose" not in table:
        raise JobError("[camera] needs a pose, 4 rows of 4 numbers", file=file)
    for name in (*NUMBERS, *FIGURES):
        if isinstance(table.get(name, 0.0), bool) or not isinstance(table.get(name, 0.0), int | float):
            raise JobError(f"[camera] {name}: expected a number, got {table[name]!r}", file=file)
    try:
        camera = Camera(**{name: table[name] for name in ("pose", *NUMBERS) if name in table})
    except StepmapError as error:
        raise JobError(f"[camera] {error}", file=file) from error
    figures = [float(table.get(name, float("nan"))) for name in LENGTHS]
    return Calibration(camera, int(table.get("places", 0)), *figures)


def write(calibration: Calibration, path: Path | str) -> None:
    write_whole(Path(path), to_toml(calibration))


def read(path: Path | str) -> Calibration:
    """From a file; what else it holds is left to others."""
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise JobError(f"cannot be read: {error}", file=str(path)) from error
    table = document.get("camera")
    if not isinstance(table, dict):
        raise JobError("has no table [camera]", file=str(path))
    return from_table(table, str(path))
