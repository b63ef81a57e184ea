"""What charts show of a run, tick by tick: the same for one that goes on and for a recording."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stepmap.arrays import Array
from stepmap.units import plural, small, whole
from stepmap_codegen import Controller
from stepmap_hil.live.frame import Chart, LiveFrame
from stepmap_hil.report.plots import off_panels
from stepmap_hil.runs.fault_verdict import MOVING
from stepmap_hil.runs.filter_replay import FilterReplay
from stepmap_hil.runs.followed import Followed, references
from stepmap_hil.runs.log import Row
from stepmap_hil.wire import dialect
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.reasons import explain

TOGETHER = 6  # lines of a chart
GATED = 1.6  # times the gate, or a limit that ends a run: the height of a chart
ROOM = 1.2  # times a limit of commands
SHARE = 0.1  # of a period, at most, goes into running the filter again
FAIR = 30  # ticks until that is judged


class Signals:
    """Frames of the live page from rows of a run, in their order.

    ``hurries``: the run goes on by the clock, and what takes too long is left out.
    """

    def __init__(
        self, controller: Controller, angles: str = "rad", *, clock: bool = False, hurries: bool = False
    ) -> None:
        self.controller, self.angles, self.clock = controller, angles, clock
        self.step = controller.plant.step
        self.codec = SignalCodec.parse(controller.description())
        self.followed: dict[int, Followed] = {}
        self._plan = controller.schedule.values()[:, : self.step.nx]
        self._filter: FilterReplay | None = FilterReplay(controller)
        self._hurries, self._spent, self._taken = hurries, 0.0, 0
        self._begin: float | None = None  # time of the first tick that ran
        self._last: Row | None = None
        self._first_tick: int | None = None
        self._count = self._missed = 0
        self._units = list(self._errors(self._plan[:1], self._plan[:1]))

    # What there is to show

    def charts(self) -> list[Chart]:
        """Errors of each unit, following errors of motors, innovations, commands, and tick time where one is kept."""
        made = []
        for k, unit in enumerate(self._units):
            of = self._of(unit)
            lines = (self._line("tracking", unit), self._line("estimate", unit))
            made.append(Chart(f"Error{of}", small(unit, self.angles).symbol, lines, low=0.0, error=k == 0))
        return [*made, *self._behind_charts(), *self._innovation_charts(), *self._command_charts(), *self._timing()]

    def _behind_charts(self) -> list[Chart]:
        first, made = len(self.step.system.inputs), []
        for unit, columns in self._moved().items():
            shown = small(unit, self.angles)
            limit = shown.factor * min(self.controller.axes[first + k].following_limit for k in columns)
            lines = tuple(f"following: {self.step.system.kinematic[k].name}" for k in columns[:TOGETHER])
            high = ROOM * limit
            made.append(Chart("Following error", shown.symbol, lines, ((limit, "limit"), (-limit, "")), -high, high))
        return made

    def _innovation_charts(self) -> list[Chart]:
        gate, names = self.controller.plant.settings.gate, [name for name, _ in self.step.system.sensor_channels]
        if not names:
            return []
        lines = tuple(f"innovation: {name}" for name in names[:TOGETHER])
        if gate is None:
            return [Chart("Innovation / σ", "", lines)]
        limits = ((gate, f"gate {gate:g} σ"), (-gate, ""))
        return [Chart("Innovation / σ", "", lines, limits, -GATED * gate, GATED * gate, gate=True)]

    def _command_charts(self) -> list[Chart]:
        """Forces as they are, positions as the velocities that they ask for."""
        made, system = [], self.step.system
        for given in system.inputs[:TOGETHER]:
            shown = whole(given.unit, self.angles)
            bounds = [shown.factor * bound for bound in (given.low, given.high) if bound is not None]
            limits = tuple((bound, "limit" * (bound == max(bounds))) for bound in bounds)
            scale = (ROOM * min(bounds), ROOM * max(bounds)) if len(bounds) == 2 else (None, None)
            made.append(Chart(f"Command {given.name}", shown.symbol, (f"command: {given.name}",), limits, *scale))
        first = len(system.inputs)
        for unit, columns in self._moved().items():
            shown = whole(f"{unit}/s", self.angles)
            fastest = shown.factor * min(self.controller.axes[first + k].speed for k in columns)
            lines = tuple(f"command: {system.kinematic[k].name}" for k in columns[:TOGETHER])
            limits = ((fastest, "fastest"), (-fastest, ""))
            made.append(Chart("Commands", shown.symbol, lines, limits, -ROOM * fastest, ROOM * fastest))
        return made

    def _timing(self) -> list[Chart]:
        period = 1e3 * self.controller.program.period
        lines = ("frame to command", "frame late")
        return [Chart("Tick time", "ms", lines, ((period, "period"),), 0.0, GATED * period)] if self.clock else []

    def _of(self, unit: str) -> str:
        """What an error is of, where there are several units."""
        return "" if len(self._units) == 1 else " of masses" if unit == "m" else f" of {plural(unit)}"

    def _line(self, kind: str, unit: str) -> str:
        """The name of a line; what stands before a colon says of which chart, and is not shown."""
        return kind if len(self._units) == 1 else f"error{self._of(unit)}: {kind}"

    def _moved(self) -> dict[str, list[int]]:
        """Numbers of kinematic coordinates, by unit."""
        found: dict[str, list[int]] = {}
        for k, moved in enumerate(self.step.system.kinematic):
            found.setdefault(moved.unit, []).append(k)
        return found

    # Tick by tick

    def frame(self, row: Row) -> LiveFrame:
        """What the page shows of the next row."""
        pose = self.step.layout.pose
        if row.running and self._begin is None:
            self._begin = row.time
        estimate, command = self.codec.decode("estimate", row.estimate), self.codec.decode("command", row.command)
        truth, goal = np.array(row.coordinates), self._goal(row)
        numbers = {**self._numbers(truth, goal, estimate), **self._innovations(row)}
        if row.running:
            numbers |= self._commands(row, truth, command)
            self._counted(row)
        if self.clock and row.measured and row.latency_ms > 0:
            numbers |= {"frame to command": row.latency_ms, "frame late": row.jitter_ms}
        self._last = row
        state = dialect.word("STEPMAP_STATE", row.state)
        why = "" if state == "running" else explain(row.reason)
        at = 0.0 if self._begin is None else row.time - self._begin
        made = LiveFrame(at, truth, pose(estimate), pose(goal), numbers, state, why)
        return replace(made, missed=self._missed, loss=self._loss(row), charted=self._begin is not None)

    def since_begin(self, at: float) -> float | None:
        """The time of an event on the axis of the charts; None before the run."""
        if self._begin is None or at < self._begin - 0.5 * self.step.dt:
            return None
        return max(at - self._begin, 0.0)

    def _goal(self, row: Row) -> Array:
        """The reference state of a tick: of the set-points that were followed, or of the plan."""
        if row.tick in self.followed:
            followed: Array = references(self.controller, [row], self.followed)[0, : self.step.nx]
            return followed
        chosen = self.codec.row_of(row.modes)
        planned: Array = self._plan[min(row.tick if chosen is None else chosen, len(self._plan) - 1)]
        return planned

    def _errors(self, one: Array, other: Array) -> dict[str, float]:
        """Distances of two states or poses, (1, n), per unit: as reports and summaries count them."""
        return {unit: float(values[0]) for unit, values in off_panels(self.controller, one, other)}

    def _numbers(self, truth: Array, goal: Array, estimate: Array) -> dict[str, float]:
        """How far the plant is off its reference, and the estimate off the plant."""
        made = {}
        for kind, one, other in (("tracking", truth, goal), ("estimate", estimate, truth)):
            for unit, value in self._errors(one[None], other[None]).items():
                made[self._line(kind, unit)] = small(unit, self.angles).factor * value
        return made

    def _innovations(self, row: Row) -> dict[str, float]:
        """Measured minus expected in standard deviations, of each channel that was seen."""
        if self._filter is None:
            return {}
        at = time.thread_time()
        found, _ = self._filter.take(row)
        self._spent, self._taken = self._spent + time.thread_time() - at, self._taken + 1
        if self._hurries and self._taken > FAIR and self._spent > SHARE * self.controller.program.period * self._taken:
            self._filter = None
        names = self.step.system.sensor_channels
        return {f"innovation: {names[k][0]}": value for k, value in found.items()}

    def _commands(self, row: Row, truth: Array, command: Array) -> dict[str, float]:
        """Forces, velocities that positions ask for, and how far motors are behind."""
        system, first, last = self.step.system, len(self.step.system.inputs), self._last
        made = {
            f"command: {given.name}": whole(given.unit, self.angles).factor * float(command[k])
            for k, given in enumerate(system.inputs)
        }
        now = truth[self.step.layout["rho"]]
        before = self.codec.decode("command", last.command) if last is not None and last.running else None
        for k, moved in enumerate(system.kinematic):
            off = float(command[first + k] - now[k])
            made[f"following: {moved.name}"] = small(moved.unit, self.angles).factor * off
            if before is not None and last is not None and row.tick > last.tick:
                span = (row.tick - last.tick) * self.step.dt
                rate = whole(f"{moved.unit}/s", self.angles).factor * (command[first + k] - before[first + k]) / span
                made[f"command: {moved.name}"] = float(rate)
        return made

    def _counted(self, row: Row) -> None:
        """Counts ticks, and samples that did not come whole."""
        if row.state not in MOVING:
            return
        self._first_tick = row.tick if self._first_tick is None else self._first_tick
        self._count += self._last is None or not self._last.running or row.tick != self._last.tick
        self._missed += not row.measured or row.valid != (1 << len(row.z)) - 1

    def _loss(self, row: Row) -> float:
        """The part of the ticks since the run began of which no message came."""
        expected = 0 if self._first_tick is None else row.tick - self._first_tick + 1
        return max(1.0 - self._count / expected, 0.0) if expected > self._count else 0.0


def frames(signals: Signals, rows: Sequence[Row]) -> list[LiveFrame]:
    """Frames of a whole run, from the command to run on."""
    return [frame for frame in map(signals.frame, rows) if frame.charted]
