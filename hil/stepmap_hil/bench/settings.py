"""The table [bench] of a job: the plant's errors, the sensor, I/O cycles per period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from stepmap.errors import StepmapError
from stepmap.jobs.system import read_source
from stepmap.mechanics.system import System
from stepmap.toml.tables import Table, read, shown
from stepmap.units import ANGLES
from stepmap_hil.plant.mechanism import PlantErrors
from stepmap_hil.plant.motors import MotorErrors
from stepmap_hil.sensors import base as sensors

SIZE = 1e3  # m or rad; what is larger is a slip of the pen
MOST_STEPS = 4000  # a board counts to 4095
LARGEST = 1e6  # of arguments of a system, such as a stiffness


@dataclass(frozen=True)
class BenchSettings:
    """How a job is tried out."""

    sensor: str = "gaussian"
    io_cycles: int = 8  # I/O cycles with the motors per tick
    jitter: float = 0.0  # s, how late frames come; in lock-step
    latency: float | None = None  # s, how late they always come; None: as the board believes
    plant: PlantErrors = field(default_factory=PlantErrors)
    steps: int = 50  # that a robot which walks is to make
    angles: str = "rad"  # how report and live page show them
    points: float = 5.0  # Hz, how often a recording has what a depth camera sees


def read_settings(file: Path) -> BenchSettings:
    """The table [bench] of a job file that is not loaded; of one that is, ``settings_in(job.root)``."""
    return settings_in(read(file))


def settings_in(root: Table) -> BenchSettings:
    """The table [bench] of a job's outermost table; raises JobError with the line of what is wrong."""
    table = root.table("bench").renamed({"substeps": "io_cycles"})
    table.only(("sensor", "io_cycles", "jitter", "latency", "plant", "steps", "angles", "points"))
    usual = BenchSettings()
    io_cycles = table.whole("io_cycles", usual.io_cycles)
    if not 1 <= io_cycles <= 100:
        raise table.error(f"must be 1 to 100 per tick, got {io_cycles}", "io_cycles")
    jitter = _within(table, "jitter", usual.jitter, 0.0, 1.0, "s")
    sensor = table.choice("sensor", sensors.names(), usual.sensor)
    latency = _within(table, "latency", 0.0, 0.0, 1.0, "s") if "latency" in table else None
    plant, angles = _plant(table.table("plant"), root.table("system")), table.choice("angles", ANGLES, usual.angles)
    steps = table.whole("steps", usual.steps)
    if not 1 <= steps <= MOST_STEPS:
        raise table.error(f"must be 1 to {MOST_STEPS} steps of a robot that walks, got {steps}", "steps")
    points = _within(table, "points", usual.points, 0.0, 30.0, "per second")
    return BenchSettings(sensor, io_cycles, jitter, latency, plant, steps, angles, points)


def _plant(table: Table, system: Table) -> PlantErrors:
    """What the plant does that the model, ``system`` of the job, does not know."""
    table.only(("system", "start", "offsets", "motor", "step", "cut"))
    usual = PlantErrors()
    other, start, offsets = (table.table(name) for name in ("system", "start", "offsets"))
    made = PlantErrors(
        system={name: _within(other, name, 0.0, -LARGEST, LARGEST) for name in other},
        start={name: _within(start, name, 0.0, -SIZE, SIZE) for name in start},
        offsets={name: _within(offsets, name, 0.0, -SIZE, SIZE) for name in offsets},
        motor=_motor(table.table("motor")),
        step=_within(table, "step", usual.step, 1e-5, 1.0, "s"),
        cut=table.flag("cut", usual.cut),
    )
    plant = _built(other, made.system, system)
    if plant is not None:
        start.only([name for name, _ in plant.tangent.entries], "coordinate")
        offsets.only([c.name for c in plant.kinematic], "kinematic coordinate")
    return made


def _motor(table: Table) -> MotorErrors:
    table = table.renamed({"lag": "time_constant_factor", "strength": "gain_factor"})
    table.only([entry.name for entry in fields(MotorErrors)])
    usual = MotorErrors()
    zero = table.whole("zero", usual.zero)
    if not -(2**31) <= zero < 2**31:
        raise table.error(f"must be what an encoder of 32 bits can say, got {shown(zero)}", "zero")
    return MotorErrors(
        time_constant_factor=_within(table, "time_constant_factor", usual.time_constant_factor, 1e-3, 1e3),
        gain_factor=_within(table, "gain_factor", usual.gain_factor, 1e-3, 1e3),
        backlash=_within(table, "backlash", usual.backlash, 0.0, SIZE),
        zero=zero,
    )


def _within(table: Table, name: str, usual: float, low: float, high: float, unit: str = "") -> float:
    """A number of a table, within bounds beyond which a simulation means nothing."""
    value = table.number(name, usual)
    if low == 0.0 > value:
        raise table.error(f"must be at least 0{unit and f' {unit}'}, got {value:g}", name)
    if not low <= value <= high:
        raise table.error(f"must be {low:g} to {high:g}{unit and f' {unit}'}, got {value:g}", name)
    return value


def _built(table: Table, values: Mapping[str, float], system: Table) -> System | None:
    """The system with other arguments; None where the job's own is not one, which reading the job reports."""
    try:
        source = read_source(system)
        model = source.make()
    except (StepmapError, TypeError):
        return None
    table.only({**source.arguments, **{p.name: None for p in model.parameters}}, "argument")
    try:
        return source.make(**values)
    except StepmapError as error:
        raise table.error(str(error)) from None
