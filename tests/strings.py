"""Closed loops of the mass on a string: many plants with events, jerked slack, each with its controller."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import stepmap as sm
from stepmap.arrays import Array
from stepmap_codegen import Controller, IntegerMachine, Role, decode, encode
from stepmap_codegen.lower.blocks import identifier
from stepmap_codegen.model.float_machine import FloatMachine
from stepmap_codegen.model.integers import Flags
from stepmap_codegen.model.program import BlockRole
from stepmap_codegen.precision.ensemble import schedule_rows

PARTS = 8  # of a period of the plant
GAP, LENGTH = 0, 1  # the string among the gaps, its length among the inputs
FALL, STAY, BACK = 4, 8, 20  # ticks in which a drop is paid out, stays and is wound up again
CLOSED = 1e-9
WHEN = 50, 90  # ticks of jerks


@dataclass(frozen=True)
class Jerk:
    """What happens to the string of each run at a tick of its own."""

    ticks: Array  # (runs,)
    blow: Array  # (runs, 2) m/s: of the mass towards the robot, and across
    drop: float = 0.0  # m/s at which the winch pays out, known to the filter

    def length(self, tick: int, dt: float) -> Array:
        """m that the string is longer than the feedback asks for."""
        since = np.clip(tick - self.ticks + 1, 0, None)
        paid_out = np.minimum(since, np.clip(FALL + STAY + BACK - since, 0, None) * FALL / BACK)
        return self.drop * dt * np.clip(paid_out, 0, FALL)


@dataclass(frozen=True, eq=False)
class Runs:
    """What happened, by tick and run."""

    error: Array  # m, of the mass's estimate after the updates
    off: Array  # m, of the mass from its reference
    gated: Array  # how many channels
    nis: Array  # mean of the channels that were used
    slack: Flags  # whether the plant's string is open
    mode: Flags  # whether the filter takes it for open
    jerked: Array  # tick of each run
    saturations: int

    @property
    def since(self) -> Array:
        """Ticks since the jerk."""
        return np.arange(len(self.error))[:, None] - self.jerked

    @property
    def caught(self) -> Array:
        """Ticks since the string was slack for the last time; not after a jerk that did nothing."""
        open_now = self.slack & (self.since >= 0)
        last = len(open_now) - 1 - np.argmax(open_now[::-1], axis=0)
        return np.where(open_now.any(axis=0), np.arange(len(open_now))[:, None] - last, -1)

    def rms(self, where: Flags) -> float:
        """m, of the estimate."""
        return float(np.sqrt(np.mean(self.error[where] ** 2)))

    @property
    def taut_error(self) -> float:
        return self.rms((self.since < 0) & (self.since >= -40))

    @property
    def slack_error(self) -> float:
        return self.rms(self.slack & (self.since >= 0))

    @property
    def error_after(self) -> float:
        """Half a second after the catch."""
        return self.rms((self.caught >= 13) & (self.caught <= 17))

    @property
    def mean_nis(self) -> float:
        """From the jerk on, two seconds."""
        return float(self.nis[(self.since >= 0) & (self.since < 60)].mean())

    @property
    def in_a_row(self) -> int:
        """The longest series of ticks with a gated value."""
        longest = run = np.zeros(self.gated.shape[1], dtype=int)
        for tick in self.gated > 0:
            run = np.where(tick, run + 1, 0)
            longest = np.maximum(longest, run)
        return int(longest.max())

    @property
    def health(self) -> float:
        """The largest mean NIS that the supervisor sees: over 16 ticks, as firmware/core/sm_supervisor.c has it."""
        mean, largest = np.ones(self.nis.shape[1]), 1.0
        for tick in self.nis:
            mean = mean + (tick - mean) / 16
            largest = max(largest, float(mean.max()))
        return largest


def blows(runs: int, seed: int) -> Jerk:
    """1 to 1.6 m/s against the string, with up to 0.4 m/s across it, unknown to the filter."""
    rng = np.random.default_rng(seed)
    speeds = np.stack([rng.uniform(1.0, 1.6, runs), rng.uniform(-0.4, 0.4, runs)], axis=1)
    return Jerk(rng.integers(*WHEN, runs), speeds)


def drops(runs: int, seed: int) -> Jerk:
    """The winch pays out 1.5 m/s for four ticks, as commanded."""
    return Jerk(np.random.default_rng(seed).integers(*WHEN, runs), np.zeros((runs, 2)), 1.5)


def closed_loop(
    made: Controller, plan: sm.Trajectory, jerk: Jerk, seed: int, ticks: int = 300, *, integers: bool = True
) -> Runs:
    """Runs of a controller, in its integer model or in float64, with a plant whose string may go slack."""
    system = sm.systems.get("suspended_mass_string")
    plant = sm.discretize(system, made.program.period, forces="left", substeps=PARTS)
    loop = _Loop(made, plant, len(jerk.ticks), seed, integers=integers)
    rows = []
    for tick, row in enumerate(schedule_rows(made.program, made.plant, plan)[:ticks]):
        rows.append(loop.tick(row, jerk, tick))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Runs(*columns, jerked=jerk.ticks, saturations=loop.saturations)


class _Loop:
    def __init__(self, made: Controller, plant: sm.VariationalStep, runs: int, seed: int, *, integers: bool) -> None:
        self.made, self.program, self.plant, self.runs = made, made.program, plant, runs
        self.rng = np.random.default_rng(seed)
        start = np.tile(made.output.start[:, None], (1, runs))
        self.bits = made.formats.fields if made.formats is not None else []
        if integers:
            assert made.formats is not None
            self.machine: IntegerMachine | FloatMachine = IntegerMachine(
                self.program, made.formats, encode(start, self.bits, 32)
            )
        else:
            self.machine = FloatMachine(self.program, start)
        step = made.plant.step
        q = slice(0, step.nd + step.nk)
        x = start[self.program.of(Role.STATE)].T
        self.x = np.array([plant.rest(pose) for pose in x[:, q]])
        self.noise, self.saturations = np.sqrt(made.plant.noise.measurement), 0

    def _fields(self) -> Array:
        raw = self.machine.fields
        return decode(raw, self.bits) if isinstance(self.machine, IntegerMachine) else raw

    def _store(self, fields: list[int], values: Array) -> None:
        if isinstance(self.machine, IntegerMachine):
            self.machine.fields[fields] = encode(values, [self.bits[i] for i in fields], 32)
        else:
            self.machine.load(fields, values)

    def tick(self, row: Array, jerk: Jerk, tick: int) -> tuple[Array, ...]:
        program, step = self.program, self.plant
        slack = step.system.residuals(step.layout.pose(self.x))[..., GAP] < -CLOSED
        z = step.system.readings(step.layout.pose(self.x))
        self._store(program.of(Role.MEASUREMENT), (z + self.noise * self.rng.standard_normal(z.shape)).T)
        self._store(program.of(Role.SCHEDULE), np.tile(row[:, None], (1, self.runs)))
        used, error = np.zeros((z.shape[1], self.runs), dtype=bool), np.zeros(self.runs)
        mode = self._mode()
        for number, block in enumerate(program.blocks):
            if block.role is BlockRole.PREDICT and (not block.chain or number == program.chains[block.chain][0]):
                u = self._commands(jerk, tick)
            held = self.machine.run(number)
            if block.role is BlockRole.UPDATE:
                used[block.channel] = held
            if block.role is BlockRole.STATE_FEEDBACK:
                at = self._fields()[program.of(Role.STATE)].T
                error = np.hypot(*(at[:, :2] - self.x[:, :2]).T)
                mode = self._mode()
        off = np.hypot(*(self.x[:, :2] - row[:2]).T)
        nis = self._nis(used)
        self.x = step.linearize_many(self._struck(jerk, tick), u)[0]
        if isinstance(self.machine, IntegerMachine):
            self.saturations = int(self.machine.saturations.sum())
        return error, off, (~used).sum(axis=0), nis, slack, mode

    def _mode(self) -> Flags:
        modes = self.program.of(Role.MODE)
        fields = [i for i in modes if self.program.fields[i].start]
        return self._fields()[fields[0]] < 0.5 if fields else np.zeros(self.runs, dtype=bool)

    def _commands(self, jerk: Jerk, tick: int) -> Array:
        fields = self.program.of(Role.COMMAND)
        u = self._fields()[fields].T.copy()
        u[:, LENGTH] += jerk.length(tick, self.plant.dt)
        self._store(fields, u.T)
        return u

    def _nis(self, used: Flags) -> Array:
        names = {field.name: i for i, field in enumerate(self.program.fields)}
        fields, nis = self._fields(), np.zeros(used.shape)
        for k, (name, _) in enumerate(self.made.plant.step.system.sensor_channels):
            e, s = fields[names[f"e_{identifier(name)}"]], fields[names[f"s_{identifier(name)}"]]
            nis[k] = np.where(used[k], e**2 / np.where(s > 0, s, 1), 0)
        return nis.sum(axis=0) / np.maximum(used.sum(axis=0), 1)

    def _struck(self, jerk: Jerk, tick: int) -> Array:
        x, step = np.array(self.x), self.plant
        pose = step.layout.pose(x)
        normal = step.system.residuals_slope(pose)[:, GAP, :2]
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        across = np.stack([normal[:, 1], -normal[:, 0]], axis=1)
        speed = -jerk.blow[:, :1] * normal + jerk.blow[:, 1:] * across
        mass = step.system.mass_matrix(pose)[:, :2, :2]
        hit = (jerk.ticks == tick)[:, None]
        x[:, step.layout["p"]] += hit * np.einsum("rij,rj->ri", mass, speed)
        return x
