"""Controllers that the loop is tried with beside those of the repository, each designed once per process."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from stepmap import jobs
from stepmap.jobs import task
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_codegen.emit.encoders import Encoder
from stepmap_codegen.model.scalar import Form, Scalar
from tests.firmware.native_core import ROOT
from tests.sil.controllers import streaming

MAIN = ROOT / "examples" / "suspended_mass.toml"
WALKER = Path(__file__).parent / "rolling_wheel.toml"


def of_job(file: Path, **options: object) -> Controller:
    """What `stepmap generate` makes of a job, with other choices."""
    job = jobs.load(file)
    plan = job.solve().require().plan
    chosen = generation.with_options(generation.read_choices(file), **options)
    return generation.controller(task.for_board(job), task.planned(task.for_board(job), plan), chosen)


def late() -> Controller:
    """The main job with measurements that are 10 ms old when they arrive."""
    return replace(of_job(MAIN), sensor_delay=0.01)


def measuring(scalar: Scalar) -> Controller:
    """The cart with its encoders at the board, which measures by itself."""
    return replace(streaming(scalar)[0], encoders=(Encoder("x", 20000.0), Encoder("theta", 16384 / (2 * math.pi))))


def two_periods_late() -> Controller:
    """The cart with measurements that are two periods old when they arrive."""
    made = streaming()[0]
    return replace(made, sensor_delay=2 * made.program.period)


def unplanned() -> Controller:
    """The cart with a schedule of another model in its image."""
    made = streaming()[0]
    return replace(made, schedule=replace(made.schedule, model="00" * 8))


KINDS: dict[str, Callable[[], Controller]] = {
    "rows": lambda: of_job(MAIN, form=Form.ROWS),
    "float32": lambda: of_job(MAIN, scalar=Scalar.FLOAT32),
    "late": late,
    "many": lambda: of_job(ROOT / "tests" / "many.toml"),
    "stream": lambda: streaming()[0],
    "stream_float32": lambda: streaming(Scalar.FLOAT32)[0],
    "stream_late": two_periods_late,
    "unplanned": unplanned,
    "encoders": lambda: measuring(Scalar.FIXED32),
    "encoders_float32": lambda: measuring(Scalar.FLOAT32),
    "walk": lambda: of_job(WALKER),
    "walk_float32": lambda: of_job(WALKER, scalar=Scalar.FLOAT32),
}


@functools.cache
def controller(name: str) -> Controller:
    return KINDS[name]()
