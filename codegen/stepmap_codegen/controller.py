"""From a step map, noise, trajectory and gains to everything that is generated."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from zlib import crc32

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.estimate.measurement import measurement_model
from stepmap.steps.protocol import Trajectory
from stepmap.toml.tables import Table
from stepmap_codegen.emit import size
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.emit.embed import emit_example, emit_units
from stepmap_codegen.emit.encoders import Encoder, EncoderFormat, MeasuredStart, encoder_format, read_encoders
from stepmap_codegen.emit.header import emit_header
from stepmap_codegen.emit.motors import Axis, delay_samples, read_axes, read_sensor_delay
from stepmap_codegen.emit.output import Output, SelfTest
from stepmap_codegen.emit.robot import emit_robot
from stepmap_codegen.emit.schedule import Schedule, emit_schedule, make_schedule
from stepmap_codegen.emit.source import SELF_TEST_TICKS, emit_source
from stepmap_codegen.lower import loops
from stepmap_codegen.lower.controller import Plant, lower
from stepmap_codegen.lower.hold import hold_rows
from stepmap_codegen.lower.plant import stored_noise
from stepmap_codegen.model.command_rates import with_rates
from stepmap_codegen.model.digest import model_digest
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.integer_machine import IntegerMachine, encode
from stepmap_codegen.model.program import BlockRole, Program, Role
from stepmap_codegen.model.scalar import Form, Scalar
from stepmap_codegen.precision import pinned as pinning
from stepmap_codegen.precision.assign import assign
from stepmap_codegen.precision.ensemble import (
    ALIKE,
    Ensemble,
    Recording,
    end_tangent,
    first_fields,
    schedule_rows,
    simulated,
)
from stepmap_codegen.precision.pinned import PinnedFormats
from stepmap_codegen.precision.ranges import MARGIN, Ranges, measure, require_limits
from stepmap_codegen.precision.signals import Signal, require_budget, rounding, signals
from stepmap_codegen.precision.walks import require_walkable

FORMAT = "stepmap-controller-1"
ROUNDING = 1e-13  # of float64 in a few hundred operations, relative


@dataclass(frozen=True)
class Options:
    """What the generated code looks like."""

    scalar: Scalar = Scalar.FIXED32
    word: int = 32
    form: Form | None = None  # None: straight-line code unless the board's flash asks for rows
    precision: float | None = None  # largest rounding of an estimated coordinate in one tick, in its unit
    board: str | None = None
    ensemble: Ensemble = field(default_factory=Ensemble)
    study: bool = False  # formats that round too much are made all the same
    robot: Table | None = None  # [board] of the job
    headroom: float = 2.0  # times more than the ranges ask for that formats hold
    pinned: PinnedFormats | None = None  # formats that were chosen before


@dataclass(frozen=True, eq=False)
class Controller:
    """A controller: its program, ranges and formats, and what it starts from."""

    plant: Plant
    program: Program
    formats: Formats | None
    schedule: Schedule
    output: Output
    estimate: size.Estimate
    axes: Sequence[Axis]
    sensor_delay: float  # s, from a measurement to its arrival at the board
    encoders: Sequence[Encoder]  # that the board measures with; none where the host measures
    map_error: Mapping[str, float]  # of each state: how far the map's Newton steps end from the converged step
    state_sizes: Mapping[str, float]  # how large each state became in the simulated runs
    pinned: PinnedFormats | None = None

    @property
    def digest(self) -> str:
        return self.output.digest

    @property
    def signals(self) -> Sequence[Signal]:
        """None for floating point."""
        return self.output.signals

    def files(self) -> dict[str, bytes]:
        """Generated files by name."""
        blob = self.schedule.pack()
        output = self.output if self.pinned is None else replace(self.output, signals=self.pinned.listed(self.program))
        texts = {
            "controller.h": emit_header(self.program, self.formats, output),
            "controller.c": emit_source(self.program, self.formats, output),
            "units.h": emit_units(self.program, self.formats),
            "example.c": emit_example(self.program, output),
            **emit_schedule(blob),
            "robot.h": emit_robot(
                self.program,
                self.formats,
                self.output.scalar,
                self.axes,
                self.sensor_delay,
                self.measured_start(),
                self.plant.stream,
            ),
            "signals.json": json.dumps(self.description(), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        }
        return {**{name: text.encode() for name, text in texts.items()}, "schedule.bin": blob}

    def measured_start(self) -> list[MeasuredStart]:
        """The board's own encoders, and what their channels are at the start; none where the host measures."""
        step = self.plant.step
        start = measurement_model(step).readings(self.output.start[self.program.of(Role.STATE)])
        return [MeasuredStart(encoder, float(z)) for encoder, z in zip(self.encoders, start, strict=False)]

    def encoder_formats(self) -> list[EncoderFormat]:
        """How counts of the board's own encoders become raw values, bit for bit as in the firmware."""
        if self.formats is None:
            return []
        bits = [self.formats.fields[i] for i in self.program.of(Role.MEASUREMENT)]
        return [encoder_format(one, fraction) for one, fraction in zip(self.measured_start(), bits, strict=False)]

    def formats_file(self) -> str | None:
        """The text of formats.json, which ``Options.pinned`` is read from; None for floating point."""
        if self.formats is None:
            return None
        listed = self.signals if self.pinned is None else self.pinned.listed(self.program)
        o = self.output
        return pinning.pack(
            self.program, self.plant, self.digest, self.formats, o.start, o.test.row, o.variances, listed
        )

    def description(self) -> dict[str, Any]:
        """signals.json: how a host reads and writes what this controller holds."""
        order = [i for i in field_order(self.program) if self.program.fields[i].role is not Role.WORK]
        rows = {s.name: s for s in self.signals}
        fields = []
        for i in order:
            known = self.program.fields[i]
            entry: dict[str, Any] = {"name": known.name, "label": known.label, "unit": known.unit}
            entry |= {"role": known.role.value, "bits": 0 if self.formats is None else self.formats.fields[i]}
            if known.name in rows:
                s = rows[known.name]
                entry |= {"low": _short(s.low), "high": _short(s.high), "source": s.source, "error": _short(s.bound)}
            fields.append(entry)
        return {
            "format": FORMAT,
            "system": self.program.name,
            "model": self.digest,
            "scalar": self.output.scalar.value,
            "word": 32 if self.formats is None else self.formats.word,
            "form": self.output.form.value,
            "newton": self.plant.settings.newton,
            "gate": self.plant.settings.gate,
            "period": self.program.period,
            "rows": len(self.schedule.rows),
            "axes": [asdict(axis) for axis in self.axes],
            **({"encoders": [asdict(encoder) for encoder in self.encoders]} if self.encoders else {}),
            **({} if self.plant.stream is None else {"stream": asdict(self.plant.stream)}),
            "operations": dict(sorted(self.program.counts().items())),
            "map_error": {
                name: _short(error) if error > ROUNDING * self.state_sizes[name] else 0.0
                for name, error in self.map_error.items()
            },
            "estimate": asdict(self.estimate),
            "fields": fields,
        }


@dataclass(frozen=True, eq=False)
class Design(Controller):
    """A controller with the simulated runs and ranges that its formats were chosen from."""

    recording: Recording = field(kw_only=True)
    ranges: Ranges = field(kw_only=True)

    def require_budget(self, precision: float | None = None) -> None:
        """Raises RangeError where rounding would be noticed: what ``design`` does unless it is a study."""
        if self.formats is not None:
            if self.pinned is not None:
                pinning.require_fit(self.pinned, self.program, self.ranges)
            _budget(self.plant, self.program, self.ranges, self.formats, self.signals, precision)


def _budget(
    plant: Plant,
    program: Program,
    ranges: Ranges,
    formats: Formats,
    listed: Sequence[Signal],
    precision: float | None,
) -> None:
    errors, process = np.array([s.error for s in listed]), stored_noise(plant)
    require_budget(program, ranges, formats, errors, [float(v) for v in process], precision)


def design(plant: Plant, trajectory: Trajectory, options: Options | None = None, tuned: Sequence[Array] = ()) -> Design:
    """Lowers, measures ranges, chooses formats. Raises RangeError where limits are missing or a number does not fit.

    Formats that are pinned are not chosen; ModelError where they are of another program. Chosen ones hold runs with
    the gains in ``tuned``, too.
    """
    chosen = options or Options()
    pinned = chosen.pinned
    require_limits(plant, trajectory)
    form = size.preferred(chosen.scalar, plant.step.nx, chosen.form)
    program = _lowered(plant, trajectory, chosen, form)
    robot = chosen.robot or Table("", {(): 1}, (), {})
    system = plant.step.system
    axes, delay = read_axes(robot, system), read_sensor_delay(robot, program.period)
    if system.gap_names:
        program = with_rates(program, [axis.speed for axis in axes])
    recordings = simulated(program, plant, trajectory, chosen.ensemble, tuned)
    recording = recordings[0]
    ranges = measure(program, recordings, ALIKE if pinned is None and not program.tapes else 1)
    formats, listed = None, []
    if chosen.scalar is Scalar.FIXED32:
        formats = _formats(program, ranges, chosen)
        program = within_limits(program, formats)
        listed = signals(program, ranges, formats, rounding(program, formats, recording))
        if not chosen.study:
            if pinned is not None:
                pinning.require_fit(pinned, program, ranges)
            _budget(plant, program, ranges, formats, listed, chosen.precision)
    rows, follows = schedule_rows(program, plant, trajectory), end_tangent(plant, trajectory)
    slopes = 0 if follows is None else 2 * len(follows.states)
    form, estimate = size.choose(program, formats, chosen.scalar, form, len(rows) + slopes, chosen.board)
    start = first_fields(program, plant, trajectory.x[:1])[:, 0] if pinned is None else pinned.start
    digest = _digest(program, formats, chosen.scalar, start, plant)
    held = pinned.held(program, rows) if pinned is not None and chosen.study else rows
    holds = [] if plant.gait is not None else hold_rows(program, plant, trajectory)  # somebody holds what will walk
    made = make_schedule(program, formats, chosen.scalar, digest, held, holds, follows)
    if plant.gait is not None:
        made = replace(made, gait=plant.gait.steps)
        require_walkable(program, formats, delay_samples(delay, program.period))
    row = _coarse(rows[0]) if pinned is None else pinned.row
    test = _self_test(program, formats, plant, start, row)
    largest = MARGIN * chosen.headroom * ranges.sizes[program.of(Role.COVARIANCE)]
    variances = _coarse(largest) if pinned is None else pinned.variances
    output = Output(chosen.scalar, form, digest, start, test, listed, variances)
    own = read_encoders(robot, system, axes, np.sqrt(plant.noise.measurement), delay)
    names, sizes = plant.step.state_names, ranges.sizes[program.of(Role.STATE)]
    off, large = (dict(zip(names, map(float, values), strict=True)) for values in (recording.map_error, sizes))
    parts = (plant, program, formats, made, output, estimate, axes, delay, own, off, large, pinned)
    return Design(*parts, recording=recording, ranges=ranges)


def _lowered(plant: Plant, trajectory: Trajectory, chosen: Options, form: Form | None) -> Program:
    """The program, by loops where the form asks for them."""
    if form is Form.LOOPS:
        size.forms(chosen.scalar, chosen.word, form)
        return loops.lower(plant)
    return lower(plant) if chosen.pinned is None else _pinned_program(chosen.pinned, plant, trajectory, chosen)


def _formats(program: Program, ranges: Ranges, chosen: Options) -> Formats:
    if chosen.pinned is not None:
        return chosen.pinned.formats
    return assign(program, ranges, chosen.word, study=chosen.study, headroom=chosen.headroom)


def _pinned_program(pinned: PinnedFormats, plant: Plant, trajectory: Trajectory, chosen: Options) -> Program:
    """The program that pinned formats are of; raises ModelError where the plant's is another."""
    pinning.require_kind(pinned, plant.step.system.name, chosen.word if chosen.scalar is Scalar.FIXED32 else None)
    program = lower(replace(plant, gains=pinned.pattern(plant.gains)))
    pinning.require_program(pinned, plant, program, first_fields(program, plant, trajectory.x[:1])[:, 0])
    limited = within_limits(program, pinned.formats)
    pinning.require_model(pinned, _digest(limited, pinned.formats, chosen.scalar, pinned.start, plant))
    return program


def within_limits(program: Program, formats: Formats) -> Program:
    """Limits of commands rounded inwards, to what the format they are applied in can say."""
    blocks = []
    for block, bits in zip(program.blocks, formats.blocks, strict=True):
        operations = list(block.operations)
        if block.role is not BlockRole.STATE_FEEDBACK:  # smallest and largest numbers of others are no limits
            blocks.append(block)
            continue
        for i, operation in enumerate(block.operations):
            if operation.code in (ca.OP_FMIN, ca.OP_FMAX):
                inward = math.floor if operation.code == ca.OP_FMIN else math.ceil
                for a in operation.arguments:
                    if operations[a].code == ca.OP_CONST:
                        unit = 2.0 ** -bits.operations[i]
                        operations[a] = replace(operations[a], constant=inward(operations[a].constant / unit) * unit)
        blocks.append(replace(block, operations=tuple(operations)))
    return replace(program, blocks=tuple(blocks))


def _self_test(program: Program, formats: Formats | None, plant: Plant, start: Array, row: Array) -> SelfTest:
    """Measurements a little off the start, so that every block has something to do."""
    step = plant.step
    x = start[program.of(Role.STATE)]
    z = measurement_model(step).readings(x) + np.sqrt(plant.noise.measurement)
    if formats is None:
        return SelfTest(z, row, None)
    fields = np.array(start)
    fields[program.of(Role.MEASUREMENT)], fields[program.of(Role.SCHEDULE)] = z, row
    machine = IntegerMachine(program, formats, encode(fields[:, None], formats.fields, formats.word))
    for _ in range(SELF_TEST_TICKS):
        for block in range(len(program.blocks)):
            machine.run(block)
    words = machine.fields[field_order(program), 0].astype("<i4")
    return SelfTest(z, row, crc32(words.tobytes()))


def _digest(program: Program, formats: Formats | None, scalar: Scalar, start: Array, plant: Plant) -> str:
    stream = None if plant.stream is None else asdict(plant.stream)
    return model_digest(program, formats, scalar, start, stream)


def measurement_names(program: Program) -> list[str]:
    """Labels of the measurement channels, in the order of their bits."""
    return [program.fields[i].label for i in program.of(Role.MEASUREMENT)]


def _short(value: float) -> float:
    """Three digits: what a report needs, and the same on every machine."""
    return float(f"{value:.3g}")


def _coarse(values: Array) -> Array:
    """Twelve bits of each, the same on every machine; decimal digits would have ties where people choose numbers."""
    mantissa, exponent = np.frexp(values)
    rounded: Array = np.ldexp(np.rint(mantissa * 2**12), exponent - 12)
    return rounded
