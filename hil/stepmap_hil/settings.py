"""The table [bench] of a job: the plant's errors, the sensor, how finely motors turn."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from stepmap.jobs.tables import Table, read
from stepmap_hil import sensors
from stepmap_hil.actuators import MotorErrors
from stepmap_hil.plant import PlantErrors


@dataclass(frozen=True)
class BenchSettings:
    """How a job is tried out."""

    sensor: str = "gaussian"
    substeps: int = 8  # exchanges with the motors a tick
    jitter: float = 0.0  # s, how late frames come; in lock-step
    plant: PlantErrors = field(default_factory=PlantErrors)


def read_settings(file: Path) -> BenchSettings:
    """The table [bench] of a job file; raises JobError with the line of what is wrong."""
    table = read(file).table("bench")
    table.only(("sensor", "substeps", "jitter", "plant"))
    usual = BenchSettings()
    substeps = table.whole("substeps", usual.substeps)
    if not 1 <= substeps <= 100:
        raise table.error(f"must be 1 to 100 a tick, got {substeps}", "substeps")
    jitter = table.number("jitter", usual.jitter)
    if jitter < 0:
        raise table.error(f"must be at least 0 s, got {jitter:g}", "jitter")
    plant = table.table("plant")
    plant.only(("system", "start", "offsets", "motor", "step"))
    motor = plant.table("motor")
    motor.only([entry.name for entry in fields(MotorErrors)])
    errors = PlantErrors(
        system=_numbers(plant.table("system")),
        start=_numbers(plant.table("start")),
        offsets=_numbers(plant.table("offsets")),
        motor=MotorErrors(**_numbers(motor)),
        step=plant.number("step", usual.plant.step),
    )
    if not errors.step > 0:
        raise plant.error(f"must be positive, got {errors.step:g}", "step")
    return BenchSettings(table.choice("sensor", sensors.names(), usual.sensor), substeps, jitter, errors)


def _numbers(table: Table) -> dict[str, Any]:
    return {name: table.number(name) for name in table}
