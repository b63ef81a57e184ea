"""Encoders that a board measures with by itself: ``measure = "encoders"`` in the table [board] of a job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics import System
from stepmap.mechanics.sensors import CoordinateSensor
from stepmap.toml.tables import Table
from stepmap_codegen.emit.motors import LARGEST, Axis, actuated

MEASURE = ("host", "encoders")  # who measures: messages of the host, or the board's own encoders
PER_TURN = 16384.0  # counts of an encoder in a joint, where the job says nothing: 4096 lines
PER_UNIT = 20000.0  # of any other
STILL = 8  # counts that an encoder may move while it is calibrated: a hand that lets go of an arm
WORD = 2**31


@dataclass(frozen=True)
class Encoder:
    """An encoder on a coordinate; the channel of that name is read from it."""

    channel: str
    counts_per_unit: float


@dataclass(frozen=True)
class MeasuredStart:
    """An encoder, and what its channel is at the plan's start, in SI units."""

    encoder: Encoder
    start: float


@dataclass(frozen=True)
class EncoderFormat:
    """A channel in raw values: ``start`` + counts × ``scale`` × 2^−``shift``, as sm_numbers_from_encoder has it."""

    start: int
    scale: int
    shift: int

    def raw(self, counts: int) -> int:
        """The channel where the encoder has moved by so many counts since the start."""
        moved = (counts * self.scale + (1 << (self.shift - 1))) >> self.shift
        return max(-WORD + 1, min(WORD - 1, self.start + moved))


def measures_itself(table: Table) -> bool:
    """Whether [board] says that the board measures with its own encoders."""
    return table.choice("measure", MEASURE, MEASURE[0]) == "encoders"


def encoder_count(table: Table, system: System) -> int:
    """Encoders that a board needs: one per channel that it measures, else one per motor that moves to positions."""
    return len(system.sensor_channels) if measures_itself(table) else len(system.kinematic)


def read_encoders(
    table: Table, system: System, axes: Sequence[Axis], sigma: Array | None, delay: float = 0.0
) -> list[Encoder]:
    """Encoders in the order of the channels; none where the host measures. Raises JobError where they cannot be.

    ``sigma`` is [noise.measurement], ``delay`` the sensor delay.
    """
    if not measures_itself(table):
        if "encoders" in table:
            raise table.error('says nothing without measure = "encoders"', "encoders")
        return []
    inner = table.table("encoders")
    inner.only([name for name, _ in system.sensor_channels], "channel")
    if delay > 0:
        raise table.error("must be 0: a board reads its own encoders when it ticks", "sensor_delay")
    motors = {a.name: axis for a, axis in zip(actuated(system), axes, strict=True) if a.is_position}
    made = []
    for sensor in system.sensors:
        if not isinstance(sensor, CoordinateSensor):
            raise table.error(
                f'"encoders" read coordinates, and sensor {sensor.name!r} of system {system.name!r} reads a position',
                "measure",
                hint="Replace it by b.encoder(coordinate) in the system, or let the host measure.",
            )
        made.append(_read(inner, sensor, motors.pop(sensor.coordinate.name, None)))
    if motors:
        raise table.error(f"no encoder is on {', '.join(motors)}, which a motor moves", "measure")
    for encoder, spread in zip(made, [] if sigma is None else sigma, strict=False):
        count = 1.0 / encoder.counts_per_unit
        if spread < 0.28 * count:  # a count is rounded by 1/√12 of it, one standard deviation
            raise inner.error(
                f"one count of {encoder.channel} is {count:.3g}, and its noise in [noise.measurement] is {spread:.3g}: "
                f"a filter that trusts it beyond its counts stops the robot",
                encoder.channel,
                hint=f"Set {encoder.channel} = {0.3 * count:.2g} or more there, or use more counts per unit.",
            )
    return made


def _read(inner: Table, sensor: CoordinateSensor, motor: Axis | None) -> Encoder:
    entry = inner.table(sensor.name)
    entry.only(("counts_per_unit",))
    usual = PER_TURN / (2 * math.pi) if sensor.coordinate.unit == "rad" else PER_UNIT
    value = entry.number("counts_per_unit", usual if motor is None else motor.counts_per_unit)
    if not 0 < value <= LARGEST:
        raise entry.error(f"must be positive and at most {LARGEST:g}, got {value:g}", "counts_per_unit")
    if motor is not None and value != motor.counts_per_unit:
        raise entry.error(
            f"is {value:g}, and [board.axes] has {motor.counts_per_unit:g} for the same encoder", "counts_per_unit"
        )
    return Encoder(sensor.name, value)


def encoder_format(measured: MeasuredStart, fraction: int) -> EncoderFormat:
    """The format of a channel with so many fraction bits."""
    unit = 2.0**fraction / measured.encoder.counts_per_unit  # raw value of a count
    shift = min(max(29 - math.floor(math.log2(unit)), 1), 62)
    return EncoderFormat(int(np.rint(measured.start * 2.0**fraction)), round(unit * 2.0**shift), shift)
