"""The board's filter, run again through a recording: innovations in standard deviations, and how sure it was.

Telemetry has estimates and commands. What the filter thought of each measurement, and its covariance, follow from
these: measurements go through the same program once more, with the commands that were recorded. In fixed point every
bit is that of the board; in floating point the last digits may differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen import Controller, Role, encode
from stepmap_codegen.emit.motors import delay_samples
from stepmap_codegen.lower.landing import AGE, STEPS
from stepmap_codegen.model.float_machine import FloatMachine
from stepmap_codegen.model.integer_single import SingleRunMachine
from stepmap_codegen.model.program import Block, BlockRole
from stepmap_hil.runs.log import Row, Run
from stepmap_hil.wire.raw_values import SignalCodec

LONGEST_GAP = 100  # ticks without telemetry that are predicted through


@dataclass(frozen=True)
class FilterHistory:
    """One row per tick of the run."""

    sigma: Array  # of each tangent dimension of the estimate, after the update; not a number where it keeps none
    innovation: Array  # of each channel, in standard deviations; not a number where it was not measured
    taken: Array  # which of them the filter took, bool

    @property
    def squares(self) -> Array:
        """Mean of the squares that the filter took, per tick; not a number where it took none."""
        used = np.where(self.taken, self.innovation**2, 0.0).sum(axis=1)
        count = self.taken.sum(axis=1)
        return np.where(count > 0, used / np.maximum(count, 1), np.nan)


class _Machine(Protocol):
    def value(self, field: int) -> float: ...
    def load(self, fields: Sequence[int], values: Sequence[float]) -> None: ...
    def restart(self, fields: Sequence[int]) -> None: ...
    def run(self, number: int) -> bool: ...
    def results(self, number: int) -> Mapping[Role, float]: ...


def stored(
    block: Block, values: Sequence[float], bits: Sequence[int] | None, roles: Sequence[Role]
) -> dict[Role, float]:
    """What a block would tell of its innovation, by role; ``bits`` are the formats of its operations."""
    found = {}
    for store in block.stores:
        if roles[store.field] in (Role.INNOVATION, Role.VARIANCE):
            scale = 1.0 if bits is None else 2.0 ** -bits[store.operation]
            found[roles[store.field]] = float(values[store.operation]) * scale
    return found


class _Fixed:
    """The integer model."""

    def __init__(self, controller: Controller) -> None:
        assert controller.formats is not None
        self.program, self.formats = controller.program, controller.formats
        self.start = encode(controller.output.start, self.formats.fields, 32)
        self.machine = SingleRunMachine(self.program, self.formats, self.start)
        self.roles = [field.role for field in self.program.fields]

    def value(self, field: int) -> float:
        return float(self.machine.fields[field]) * 2.0 ** -self.formats.fields[field]

    def load(self, fields: Sequence[int], values: Sequence[float]) -> None:
        for field, value in zip(fields, values, strict=False):
            self.machine.fields[field] = int(value)

    def restart(self, fields: Sequence[int]) -> None:
        for field in fields:
            self.machine.fields[field] = int(self.start[field])

    def run(self, number: int) -> bool:
        return self.machine.run(number)

    def results(self, number: int) -> Mapping[Role, float]:
        bits = self.formats.blocks[number].operations
        return stored(self.program.blocks[number], self.machine.values(number), bits, self.roles)


class _Floating:
    """The same program in float32."""

    def __init__(self, controller: Controller) -> None:
        self.program, self.codec = controller.program, SignalCodec.parse(controller.description())
        self.start = np.asarray(controller.output.start, dtype=float)[:, None]
        self.machine = FloatMachine(self.program, self.start, np.float32)
        self.roles = [field.role for field in self.program.fields]

    def value(self, field: int) -> float:
        return float(self.machine.fields[field, 0])

    def load(self, fields: Sequence[int], values: Sequence[float]) -> None:
        raw = np.array([int(value) for value in values[: len(fields)]], dtype="<i4").view("<f4")
        self.machine.load(list(fields)[: len(raw)], raw[:, None])

    def restart(self, fields: Sequence[int]) -> None:
        self.machine.load(list(fields), self.start[list(fields)])

    def run(self, number: int) -> bool:
        return bool(self.machine.run(number)[0])

    def results(self, number: int) -> Mapping[Role, float]:
        if self.program.blocks[number].steps:
            return self.machine.told(number)
        return stored(self.program.blocks[number], list(self.machine.values(number)[:, 0]), None, self.roles)


class _Filter:
    """The parts of a tick that the estimate depends on."""

    def __init__(self, controller: Controller) -> None:
        self.program = controller.program
        self.machine: _Machine = _Floating(controller) if controller.formats is None else _Fixed(controller)
        self.channels, self.commands = self.program.of(Role.MEASUREMENT), self.program.of(Role.COMMAND)
        self.late = delay_samples(controller.sensor_delay, self.program.period)
        self.history: list[Sequence[int]] = []
        self.codec = SignalCodec.parse(controller.description())
        self.kept = [i for role in (Role.STATE, Role.COVARIANCE, Role.MODE) for i in self.program.of(role)]
        self.diagonal = [
            (i, place[0])
            for i in self.program.of(Role.COVARIANCE)
            if (place := self.program.fields[i].place) is not None and place[0] == place[1]
        ]

    def update(self, row: Row) -> dict[int, float]:
        """Takes a measurement as the board did; the innovation of each channel in standard deviations."""
        self.machine.load(self.channels, row.words)
        valid, found = (row.valid if row.measured else 0), {}
        for number, block in enumerate(self.program.blocks):
            if block.channel is not None:
                if valid >> block.channel & 1:
                    told = self.machine.results(number)
                    variance = told.get(Role.VARIANCE, 0.0)
                    if variance > 0:
                        found[block.channel] = told.get(Role.INNOVATION, math.nan) / math.sqrt(variance)
                    self.machine.run(number)
            elif block.role is BlockRole.PROJECTION or (
                block.role is BlockRole.SLACK_TEST and all(valid >> channel & 1 for channel in block.needs)
            ):
                self.machine.run(number)
        return found

    def walk(self, row: Row, last: Row | None) -> None:
        """What comes before the measurement of a robot that walks: its start, or a landing that the board has told."""
        if not self.program.blocks_of(BlockRole.LANDING):
            return
        if not row.running or last is None or not last.running:
            self.machine.restart(self.kept)
            return
        names = [field["name"] for field in self.codec.fields["mode"]]
        steps = names.index(STEPS)
        if row.modes[steps] != last.modes[steps]:
            fields = [self.program.index(name) for name in (names[0], AGE)]
            one = self.codec.encode("mode", [1.0] + [0.0] * (len(names) - 1))[0]
            self.machine.load(fields, [one, row.words[len(self.channels)]])
            self.machine.run(self.program.block_of(BlockRole.LANDING))

    def predict(self, command: Sequence[int]) -> None:
        if not self.history:
            self.history = [command] * self.late
        self.history.append(command)
        self.machine.load(self.commands, self.history.pop(0))
        for number in self.program.blocks_of(BlockRole.PREDICT):
            self.machine.run(number)

    def sigma(self, size: int) -> Array:
        out = np.full(size, np.nan)
        for field, state in self.diagonal:
            out[state] = math.sqrt(max(self.machine.value(field), 0.0))
        return out


class FilterReplay:
    """The filter, run again tick by tick while a run goes on."""

    def __init__(self, controller: Controller) -> None:
        self._filter = _Filter(controller)
        self._last: Row | None = None
        self._size = controller.plant.step.ndx

    def take(self, row: Row) -> tuple[dict[int, float], Array]:
        """Of the next row: the innovation of each channel in standard deviations, and σ of the estimate after it."""
        filtering, last = self._filter, self._last
        with np.errstate(all="ignore"):  # where the filter ran away, so does its replay
            if last is not None and row.running and last.running:
                for _ in range(min(row.tick - last.tick - 1, LONGEST_GAP)):
                    filtering.predict(last.command)
            filtering.walk(row, last)
            found, sigma = filtering.update(row), filtering.sigma(self._size)
            filtering.predict(row.command)
        self._last = row
        return found, sigma


def replay_filter(controller: Controller, run: Run) -> FilterHistory:
    """The history of the filter over all rows of a run."""
    replay, size = FilterReplay(controller), controller.plant.step.ndx
    count = len(controller.plant.step.system.sensor_channels)
    sigma, made = np.full((len(run.rows), size), np.nan), np.full((len(run.rows), count), np.nan)
    for k, row in enumerate(run.rows):
        found, sigma[k] = replay.take(row)
        for channel, value in found.items():
            made[k, channel] = value
    taken = np.array([[row.taken >> k & 1 for k in range(count)] for row in run.rows], dtype=bool)
    return FilterHistory(sigma, made, taken.reshape(len(run.rows), count) & np.isfinite(made))
