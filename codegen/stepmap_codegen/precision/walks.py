"""Closed-loop runs of a robot that walks: rows by the nearest pose, landings between ticks, new names after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError, RangeError
from stepmap_codegen.lower.controller import Plant
from stepmap_codegen.lower.landing import AGE, ROW
from stepmap_codegen.model import nearest
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.nearest import AHEAD, BACK
from stepmap_codegen.model.program import BlockRole, Program, Role
from stepmap_codegen.precision.ensemble import SNAPSHOTS, ClosedLoops, Ensemble, Recording

STRIDES = 3  # that an ensemble walks
FALLEN = 0.6  # rad or m off its row: such a run begins again
MOST = 0.1  # part of the runs that may fall
LANDED = 4  # times that runs which have just landed are among the snapshots


def walked(
    program: Program, plant: Plant, schedules: Array, ensemble: Ensemble, seeds: Sequence[int]
) -> list[Recording]:
    """The recordings of several steps of walking, one per seed; raises RangeError where robots fall."""
    assert plant.gait is not None
    loops = WalkingLoops(program, plant, schedules, ensemble, seeds)
    ticks = ensemble.ticks or STRIDES * plant.gait.steps
    for tick in range(ticks):
        with np.errstate(over="ignore", invalid="ignore"):
            loops.walk(snapshot=tick % max(ticks // SNAPSHOTS, 1) == 0)
    if ensemble.ticks is None and loops.falls > MOST * loops.count:
        raise RangeError(
            f"{loops.falls} of {loops.count} simulated robots fall within {STRIDES} steps",
            cause="The gains do not hold the disturbances of [noise].",
            hint="Reduce the noise, ask for a landing with more speed in [landing], or change [weights].",
        )
    return loops.recordings(schedules)


class WalkingLoops(ClosedLoops):
    """Robots that walk side by side; each has a row of its own."""

    def __init__(
        self, program: Program, plant: Plant, schedules: Array, ensemble: Ensemble, seeds: Sequence[int]
    ) -> None:
        assert plant.gait is not None
        super().__init__(program, plant, schedules[0][0, : plant.step.nx], ensemble, seeds)
        self.gait, self.n = plant.gait, plant.step.nd
        self.table = schedules  # (seeds, rows, entries)
        self.rows = np.full(self.count, -1)
        self.landed = np.zeros(self.count, dtype=bool)
        self.falls = 0
        self.first = self.x.copy()
        (self.contact,) = [i for i in program.of(Role.MODE) if program.fields[i].name.startswith("contact_")]
        self.row_field, self.age_field = program.index(ROW), program.index(AGE)
        self.ages = np.zeros(self.count)
        self.seed_of = np.repeat(np.arange(len(seeds)), ensemble.runs)

    def walk(self, *, snapshot: bool) -> None:
        """One tick of all robots."""
        fields = self.machine.fields
        self._load(self.table[:, 0])
        self.machine.load([self.contact, self.age_field], np.array([self.landed, self.ages], dtype=float))
        columns = np.ones(self.count, dtype=bool) if snapshot else self.landed.copy()
        shot, just_landed = fields[:, columns].copy(), self.landed[columns]
        before = self._run_blocks()
        late = [*self.program.of(Role.SCHEDULE), self.row_field]
        shot[late] = fields[late][:, columns]
        self.snapshots += [shot, *([shot[:, just_landed]] * LANDED)]
        inputs = fields[self.program.of(Role.COMMAND)].T.copy()
        step, x = self.plant.step, self.x
        if self.ensemble.process:
            x = step.layout.retract(x, self.disturbance * self._normal(step.ndx))
        exact = self.converged(before.T, inputs[self.firsts])
        self.map_error = np.maximum(self.map_error, np.abs(self._estimates().T - exact))
        self._move(x, inputs)
        self._restart_fallen()
        self.states.append(self.x)

    def _run_blocks(self) -> Array:
        """The program; rows are chosen once the measurements have been taken in."""
        before, ensemble = self._estimates(), self.ensemble
        lost = self._drawn(lambda rng: rng.random(ensemble.runs)) < ensemble.gap_rate
        self.unseen = np.where(lost, ensemble.gap, np.maximum(self.unseen - 1, 0))
        for number, block in enumerate(self.program.blocks):
            if block.role is BlockRole.STATE_FEEDBACK:
                self._choose_rows()
            if block.role is BlockRole.PREDICT:
                before = self._estimates()
            self.machine.run(number, self.unseen == 0 if block.role is BlockRole.UPDATE else None)
        return before

    def _choose_rows(self) -> None:
        """Of each robot the row nearest to its estimate."""
        pose = self.machine.fields[self.program.of(Role.STATE)][: self.n].T
        expected = np.where(self.landed, 0, self.rows + 1)
        last = self.table.shape[1] - 1
        window = np.clip(expected[:, None] + np.arange(-BACK, AHEAD + 1), 0, last)
        poses = self.table[self.seed_of[:, None], window, : self.n]
        self.rows = window[np.arange(self.count), np.argmin(((poses - pose[:, None]) ** 2).sum(axis=2), axis=1)]
        chosen = self.table[self.seed_of, self.rows]
        self.machine.load(self.program.of(Role.SCHEDULE), chosen.T)
        self.machine.load([self.row_field], self.rows[None].astype(float))

    def _move(self, x: Array, u: Array) -> None:
        """All plants one tick later; the landing of a foot lies between its heights before and after."""
        moved = self.moving.step_many(x, u).x
        high, low = self.gait.touchdown.heights(x), self.gait.touchdown.heights(moved)
        self.landed = (self.rows >= self.gait.steps // 2) & (low <= 0)
        for k in np.flatnonzero(self.landed):
            part = float(np.clip(high[k] / max(high[k] - low[k], 1e-12), 0.0, 1.0))
            after = self.gait.touchdown(x[k] + part * (moved[k] - x[k]))
            self.ages[k] = (1 - part) * self.plant.step.dt
            after[: self.n] += self.ages[k] * self.moving.velocity(after)
            moved[k] = after
        self.x = moved

    def _restart_fallen(self) -> None:
        """Robots that have fallen begin again; the last row without a landing is a fall, too."""
        off = np.abs(self.x[:, : self.n] - self.table[self.seed_of, self.rows, : self.n]).max(axis=1)
        fallen = ~self.landed & (~(off < FALLEN) | (self.rows >= self.table.shape[1] - 1))
        self.falls += int(fallen.sum())
        self.x[fallen] = self.first[fallen]
        self.machine.fields[:, fallen] = self.start[:, fallen]
        self.rows[fallen] = -1


def require_walkable(program: Program, formats: Formats | None, delay: int) -> None:
    """Raises where a board could not find its row, or not know in time that a foot has come down: ``delay`` ticks."""
    if delay:
        raise ModelError(
            "sensor_delay: it is more than half a period, and a robot that walks must know of its landing",
            hint="Measure with sensors of the robot itself: sensor_delay below half of the period.",
        )
    states = program.of(Role.STATE)
    for i in [] if formats is None else [*states[: len(states) // 2], *program.of(Role.SCHEDULE)[: len(states) // 2]]:
        if formats is not None and formats.fields[i] < nearest.BITS:
            raise RangeError(
                f"signal {program.fields[i].name!r} has {formats.fields[i]} fraction bits, and rows are found with "
                f"{nearest.BITS}",
                hint="Use words of 32 bits, or tighter limits.",
                signal=program.fields[i].name,
            )
