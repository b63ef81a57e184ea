"""What shorter words cost: how far a controller in integers strays from float64, and float32 from the same program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap.estimate.measurement import measurement_model
from stepmap.steps.protocol import Trajectory
from stepmap_codegen.lower.controller import Plant, lower
from stepmap_codegen.model.float_machine import FloatMachine
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.integer_machine import IntegerMachine, decode, encode
from stepmap_codegen.model.program import Program, Role
from stepmap_codegen.precision.assign import assign
from stepmap_codegen.precision.ensemble import Ensemble, first_fields, schedule_rows, simulate
from stepmap_codegen.precision.ranges import measure, require_limits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORDS = (16, 20, 24, 28, 32)
RUNS = 4


@dataclass(frozen=True)
class Row:
    """Largest distances from float64 of any coordinate, in its unit."""

    word: int | None  # bits; None for float32
    estimate: float  # of estimates from the same measurements
    plant: float  # of plants with the same noise, each under its own controller; inf where one could not go on
    saturations: int


def study(plant: Plant, trajectory: Trajectory, words: Sequence[int] = WORDS) -> list[Row]:
    """A row for each word, and one for float32, over the whole trajectory in closed loop without outliers."""
    require_limits(plant, trajectory)
    program = lower(plant)
    ranges = measure(program, [simulate(program, plant, trajectory, Ensemble())])
    loop = _Loop(program, plant, trajectory)
    rows = []
    for word in words:
        integers = _Integers(program, assign(program, ranges, word, study=True), loop.twice)
        estimate, moved = loop.distances(integers)
        rows.append(Row(word, estimate, moved, int(integers.machine.saturations.sum())))
    return [*rows, Row(None, *loop.distances(_Floats(program, loop.twice, np.float32)), 0)]


class _Controllers(Protocol):
    """The program in some arithmetic, one controller a column."""

    def load(self, indices: Sequence[int], values: Array) -> None: ...
    def read(self, indices: Sequence[int]) -> Array: ...
    def run(self, block: int) -> object: ...


class _Floats:
    def __init__(self, program: Program, fields: Array, dtype: type) -> None:
        self.machine = FloatMachine(program, fields, dtype)

    def load(self, indices: Sequence[int], values: Array) -> None:
        self.machine.fields[indices] = values

    def read(self, indices: Sequence[int]) -> Array:
        values: Array = self.machine.fields[indices].astype(float)
        return values

    def run(self, block: int) -> object:
        return self.machine.run(block)


class _Integers:
    def __init__(self, program: Program, formats: Formats, fields: Array) -> None:
        self.formats = formats
        self.machine = IntegerMachine(program, formats, encode(fields, formats.fields, formats.word))

    def load(self, indices: Sequence[int], values: Array) -> None:
        self.machine.fields[indices] = encode(values, [self.formats.fields[i] for i in indices], self.formats.word)

    def read(self, indices: Sequence[int]) -> Array:
        return decode(self.machine.fields[indices], [self.formats.fields[i] for i in indices])

    def run(self, block: int) -> object:
        return self.machine.run(block)


class _Loop:
    """The closed loop in float64, and its noise; others are held against it."""

    def __init__(self, program: Program, plant: Plant, trajectory: Trajectory) -> None:
        self.program, self.step, rng = program, plant.step, np.random.default_rng(7)
        nx, ndx, layout = plant.step.nx, plant.step.ndx, plant.step.layout
        self.coordinates = [program.of(Role.STATE)[i] for part in ("q", "rho") for i in range(nx)[layout[part]]]
        self.rows = schedule_rows(program, plant, trajectory)[:-1]
        self.model = measurement_model(plant.step)
        deviations = np.sqrt(np.diagonal(plant.noise.process)).copy()
        deviations[layout.tangent_slices["rho"]] = 0.0  # where a kinematic coordinate is, is known
        self.disturbances = deviations * rng.standard_normal((len(self.rows), RUNS, ndx))
        channels = len(plant.noise.measurement)
        self.noise = np.sqrt(plant.noise.measurement) * rng.standard_normal((len(self.rows), RUNS, channels))
        self.plants = np.tile(trajectory.x[0], (RUNS, 1))
        off = rng.standard_normal((RUNS, ndx)) * np.sqrt(np.diagonal(plant.noise.start))
        fields = first_fields(program, plant, layout.retract(self.plants, off))
        self.twice = np.concatenate([fields, fields], axis=1)
        self.measured, self.estimates, self.moved = self._run(_Floats(program, fields, np.float64), None)

    def distances(self, controllers: _Controllers) -> tuple[float, float]:
        """(of estimates, of plants) of 2·RUNS controllers: one half sees what float64 saw, the other its own plants."""
        _, estimates, moved = self._run(controllers, self.measured)
        pose = self.step.layout.pose
        apart = np.abs(pose(moved) - pose(self.moved)).max() if len(moved) == len(self.moved) else math.inf
        seen = estimates[:, :, :RUNS]
        return float(np.abs(seen - self.estimates[: len(seen)]).max()), float(apart)

    def _run(self, controllers: _Controllers, given: Array | None) -> tuple[Array, Array, Array]:
        """(measurements, estimates, plants) by tick, as far as the plants can go."""
        program, step, x = self.program, self.step, self.plants
        measured, estimates, moved = [], [], []
        for k, row in enumerate(self.rows):
            z = (self.model.readings(x) + self.noise[k]).T
            measured.append(z)
            columns = z if given is None else np.concatenate([given[k], z], axis=1)
            controllers.load(program.of(Role.MEASUREMENT), columns)
            controllers.load(program.of(Role.SCHEDULE), np.tile(row[:, None], (1, columns.shape[1])))
            for block in range(len(program.blocks)):
                controllers.run(block)
            estimates.append(controllers.read(self.coordinates))
            inputs = controllers.read(program.of(Role.COMMAND))[:, -RUNS:].T
            try:
                struck = step.layout.retract(x, self.disturbances[k])
                x = np.array([step.step(a, u).x for a, u in zip(struck, inputs, strict=True)])
            except ConvergenceError:
                break
            moved.append(x)
        return np.array(measured), np.array(estimates), np.array(moved)


def draw(rows: Sequence[Row], about: str, unit: str = "m") -> Figure:
    """Distances over word length; float32 as dashed lines. ``about`` is the set-up, in a line."""
    from matplotlib.ticker import EngFormatter

    from stepmap.plots.style import COLORS, INK, blank, styled

    fixed, single = [row for row in rows if row.word is not None], [row for row in rows if row.word is None]
    words = np.array([row.word for row in fixed], dtype=float)
    saturated = np.array([row.saturations > 0 for row in fixed])
    kinds = (
        ("plant", COLORS[1], "s", "plant, each controller with its own"),
        ("estimate", COLORS[0], "o", "estimate, same measurements"),
    )
    text = EngFormatter(unit, places=1)
    with styled():
        figure = blank(6.6, 4.4)
        axes = figure.add_subplot()
        for name, color, marker, label in kinds:
            values = np.array([getattr(row, name) for row in fixed])
            axes.semilogy(words, values, marker + "-", color=color, label=label)
            axes.semilogy(words[saturated], values[saturated], marker, color=color, markerfacecolor="white")
            for row in single:
                axes.axhline(getattr(row, name), color=color, linestyle=(0, (5, 3)), linewidth=1.0, zorder=1)

        def note(x: float, y: float, what: str, place: tuple[float, float], color: str, side: str) -> None:
            axes.annotate(what, (x, y), place, textcoords="offset points", fontsize=8, color=color, ha=side)

        for word, row in zip(words, fixed, strict=True):
            note(word, row.estimate, text(row.estimate), (-8, -9), COLORS[0], "right")
        for row in single:
            note(words[0], max(row.estimate, row.plant), f"float32, {text(row.estimate)}", (0, 4), INK, "left")
        axes.set_xticks(words)
        axes.set_xlim(words[0] - 2, words[-1] + 1)
        axes.margins(y=0.09)
        axes.set_xlabel("word length of the integers [bits]")
        axes.set_ylabel(f"largest deviation from float64 [{unit}]")
        axes.set_title("Fixed point against float64, by word length")
        if saturated.any():
            axes.plot([], [], "o", color=INK, markerfacecolor="white", label="hollow: a signal saturated")
        axes.legend(loc="upper right")
        figure.supxlabel(about, x=0.01, ha="left", fontsize=7.5, color=INK)
    return figure
