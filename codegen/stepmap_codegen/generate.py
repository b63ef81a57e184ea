"""The stage ``generate``: a job's controller as C, its schedule, and how to read both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import stepmap
from stepmap.arrays import Array
from stepmap.errors import ModelError, StepmapError
from stepmap.jobs import Job, Stage
from stepmap.jobs.stage import MANIFEST, digest_data, digest_sources, versions
from stepmap.jobs.tables import read
from stepmap.steps.protocol import Trajectory
from stepmap_codegen.controller import Controller, Options, design
from stepmap_codegen.emit import Form, Scalar
from stepmap_codegen.lower import Noise, Plant, Settings
from stepmap_codegen.size import BOARDS

NAME = "generate"
KEYS = ("scalar", "word", "newton", "form", "precision", "board")
FORMS = ("auto", *(form.value for form in Form))


@dataclass(frozen=True)
class Choices:
    """What the table [codegen] of a job says; the command line goes over it."""

    options: Options
    newton: int


def read_choices(file: Path) -> Choices:
    """The table [codegen] of a job file; raises JobError with the line of what is wrong."""
    table = read(file).table("codegen")
    table.only(KEYS)
    usual = Options()
    word = table.whole("word", usual.word)
    newton = table.whole("newton", Settings().newton)
    precision = table.number("precision") if "precision" in table else None
    if not 12 <= word <= 32:
        raise table.error(f"must be 12 to 32 bits, got {word}", "word")
    if not 1 <= newton <= 10:
        raise table.error(f"must be 1 to 10 iterations, got {newton}", "newton")
    if precision is not None and not precision > 0:
        raise table.error(f"must be positive, got {precision:g}", "precision")
    form = table.choice("form", FORMS, "auto")
    board = table.choice("board", list(BOARDS)) if "board" in table else None
    scalar = Scalar(table.choice("scalar", [s.value for s in Scalar], usual.scalar.value))
    chosen = Options(scalar, word, None if form == "auto" else Form(form), precision, board)
    return Choices(chosen, newton)


def plant(job: Job, gains: Array, newton: int) -> Plant:
    """What the code is generated for."""
    noise = job.noise
    if noise is None:
        raise ModelError(f"job {job.name!r} has no table [noise]; a filter needs one")
    if not job.system.sensor_channels:
        raise ModelError(f"system {job.system.name!r} has no sensor; a filter needs a marker or an encoder")
    covariances = Noise(np.diag(noise.process**2), noise.measurement**2, np.diag(noise.start**2))
    return Plant(job.step, covariances, gains, Settings(newton, noise.gate))


def controller(job: Job, trajectory: Trajectory, gains: Array, choices: Choices) -> Controller:
    """The controller of a solved job."""
    return design(plant(job, gains, choices.newton), trajectory, choices.options)


def stage(job: Job, optimum: Stage, choices: Choices, out: Path, place: Path | None = None) -> Stage:
    """The stage's folder."""
    o = choices.options
    made = {
        "scalar": o.scalar.value,
        "word": o.word,
        "newton": choices.newton,
        "form": o.form.value if o.form else "auto",
        "precision": o.precision,
        "board": o.board,
    }
    inputs = {
        "optimize": optimum.digest,
        "choices": digest_data(made),
        "stepmap_codegen": digest_sources("stepmap_codegen", ["."]),
    }
    used = {"stepmap": stepmap.__version__, **versions("casadi", "numpy")}
    return Stage(NAME, job.name, out, inputs, used, place)


def write(made: Stage, controller: Controller) -> None:
    """Replaces the stage's folder, whole or not at all."""
    with made.replace() as folder:
        for name, content in controller.files().items():
            (folder / name).write_bytes(content)


def stale(folder: Path, controller: Controller) -> list[str]:
    """Names of generated files in a folder that are missing, differ from what is made now, or do not belong there."""
    wanted = controller.files()
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    differ = [name for name, content in wanted.items() if name not in found or (folder / name).read_bytes() != content]
    return sorted([*differ, *(found - set(wanted) - {MANIFEST})])


class StaleError(StepmapError):
    """Generated files that are not what would be generated now."""

    def __init__(self, folder: Path, names: Sequence[str], job: Path) -> None:
        super().__init__(
            f"{folder}: {', '.join(names)} would be different now; run stepmap generate {job} --out {folder} and look "
            "at the changes"
        )


def with_options(choices: Choices, **given: object) -> Choices:
    """Choices with what is not None over them."""
    newton = given.pop("newton", None)
    known = {name: value for name, value in given.items() if value is not None}
    options = replace(choices.options, **known)  # type: ignore[arg-type]
    return Choices(options, choices.newton if newton is None else int(str(newton)))
