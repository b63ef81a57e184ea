"""An ensemble of closed-loop runs in float64: disturbed starts, noise, outliers and gaps in the measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, RangeError
from stepmap.estimate.measurement import measurement_model
from stepmap.steps.protocol import Trajectory
from stepmap.steps.variational import VariationalStep
from stepmap_codegen.lower.controller import Plant
from stepmap_codegen.model.command_rates import CommandRates
from stepmap_codegen.model.float_machine import FloatMachine, Magnitudes
from stepmap_codegen.model.integers import Flags
from stepmap_codegen.model.program import BlockRole, Program, Role
from stepmap_codegen.precision.jerks import Jerks, converged_closed, finer
from stepmap_codegen.stream.tangent import Tangent, streamed, tangent

SNAPSHOTS = 40  # ticks at which rounding is measured
ALIKE = 3  # ensembles of the same kind
FEW = 8  # runs where there are loops
STARTS, FAR, EARLY = 32, 2.0, 12  # times the runs, times the errors of the start, ticks


@dataclass(frozen=True)
class Ensemble:
    """What the runs see besides the nominal motion."""

    runs: int = 32
    seed: int = 1
    outlier: float = 30.0  # standard deviation of measurement outliers, times that of the channel
    outlier_rate: float = 0.01  # part of the measurements that are outliers
    process: bool = True  # whether the plant is disturbed at every step, as the filter expects
    gap_rate: float = 0.01  # part of the ticks at which measurements stop coming …
    gap: int = 8  # … for that many ticks, as when someone walks through the picture
    start: float = 1.0  # errors of the first estimate, times those of the job
    ticks: int | None = None  # all where None


@dataclass(frozen=True)
class Recording:
    """What went into the controller, tick by tick, and how large everything in it became."""

    start: Array  # (fields, runs)
    measurements: Array  # (ticks, channels, runs)
    schedule: Array  # (ticks, entries)
    magnitudes: Magnitudes
    states: Array  # (ticks + 1, runs, nx): of the plant
    snapshots: Array  # (fields, runs of some ticks): at the beginning of a tick
    map_error: Array  # (nx): of the fixed number of Newton iterations, against the converged step


def simulated(
    program: Program, plant: Plant, trajectory: Trajectory, ensemble: Ensemble, tuned: Sequence[Array] = ()
) -> list[Recording]:
    """Runs of ALIKE ensembles of the same kind, others with tuned gains, then many with a first estimate far off.

    Of loops a few: what is chosen from them are limits of variances, which hardly differ from run to run.
    """
    if program.tapes:
        few = replace(ensemble, runs=FEW)
        far = replace(few, seed=ensemble.seed + 1000, start=FAR, ticks=EARLY)
        return [simulate(program, plant, trajectory, one) for one in (few, far)]
    starts = replace(ensemble, runs=STARTS * ensemble.runs, seed=ensemble.seed + 1000, start=FAR, ticks=EARLY)
    seeds = range(ensemble.seed, ensemble.seed + ALIKE)
    alike = simulate_seeds(program, plant, trajectory, ensemble, seeds, tuned)
    return [*alike, simulate(program, plant, trajectory, starts)]


def simulate(program: Program, plant: Plant, trajectory: Trajectory, ensemble: Ensemble) -> Recording:
    """Closed-loop runs of the program in float64: disturbed starts, noise and outliers; the plant is the map itself."""
    return simulate_seeds(program, plant, trajectory, ensemble, [ensemble.seed])[0]


def simulate_seeds(
    program: Program,
    plant: Plant,
    trajectory: Trajectory,
    ensemble: Ensemble,
    seeds: Sequence[int],
    tuned: Sequence[Array] = (),
) -> list[Recording]:
    """The same for each seed in place of the ensemble's own; all of them run at once, which takes little longer.

    Gains in ``tuned`` have an ensemble each, too, with the first seed.
    """
    laws = [replace(plant, gains=gains) for gains in (*(plant.gains for _ in seeds), *tuned)]
    schedules = np.array([_rows(program, law, trajectory)[: ensemble.ticks] for law in laws])
    if plant.gait is not None:
        from stepmap_codegen.precision.walks import walked  # whose loops are made of these

        schedules = np.array([schedule_rows(program, law, trajectory) for law in laws])
        return walked(program, plant, schedules, ensemble, [*seeds, *(seeds[0] for _ in tuned)])
    runs = ClosedLoops(program, plant, trajectory.x[0], ensemble, [*seeds, *(seeds[0] for _ in tuned)])
    for tick, rows in enumerate(schedules.swapaxes(0, 1)):
        snapshot = tick % max(schedules.shape[1] // SNAPSHOTS, 1) == 0
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # a loop that runs away is told as such
                runs.tick(rows, snapshot=snapshot)
        except ConvergenceError as problem:
            raise RangeError(
                f"a simulated closed-loop run cannot go on at t = {tick * plant.step.dt:.4g} s",
                cause=f"The gains do not hold the disturbances of [noise]: {problem}.",
                hint="Reduce the noise, or change the weights: weak gains do not hold what falls, strong ones answer "
                "outliers with commands that cannot be followed.",
            ) from problem
    return runs.recordings(schedules)


def _rows(program: Program, plant: Plant, trajectory: Trajectory) -> Array:
    """The schedule of the plan, and behind it of set-points that are streamed."""
    return np.vstack([schedule_rows(program, plant, trajectory)[:-1], streamed_rows(program, plant, trajectory)])


class ClosedLoops:
    """Closed-loop runs of several seeds side by side; every seed draws in the order of a simulation of its own."""

    def __init__(self, program: Program, plant: Plant, x: Array, ensemble: Ensemble, seeds: Sequence[int]) -> None:
        self.program, self.plant, self.ensemble = program, plant, ensemble
        self.seeds = list(seeds)
        self.chances = {seed: np.random.default_rng(seed) for seed in seeds}  # seeds that are equal draw the same
        self.firsts = [ensemble.runs * k for k in range(len(seeds))]  # of the runs of each seed
        self.count = ensemble.runs * len(seeds)
        step = plant.step
        self.x = np.tile(x, (self.count, 1))
        spread = ensemble.start * np.sqrt(np.diagonal(plant.noise.start))
        self.model = measurement_model(step)
        off = step.layout.retract(self.x, self._normal(step.ndx) * spread)
        self.start = first_fields(program, plant, off)
        if step.system.gap_names:
            self.start[program.of(Role.COMMAND)] = step.layout.hold(x)[:, None]  # they move from there
        self.machine = FloatMachine(program, self.start, groups=len(seeds))
        self.noise = np.sqrt(plant.noise.measurement)
        self.disturbance = np.sqrt(np.diagonal(plant.noise.process)).copy()
        self.disturbance[step.layout.tangent_slices["rho"]] = 0.0  # where a kinematic coordinate is, is known
        self.measured: list[Array] = []
        self.states, self.snapshots = [self.x], list[Array]()
        self.map_error = np.zeros((len(seeds), step.nx))
        gaps = step.system.gap_names
        self.jerks = Jerks(step, seeds, ensemble.runs) if gaps else None
        self.rates, self.applied = CommandRates(program), self.start.copy()
        self.moving = finer(step) if gaps else step  # the plant
        self.converged = converged_closed(step) if gaps else lambda x, u: step.step_many(x, u).x
        self.unseen = np.zeros(self.count, dtype=int)  # ticks for which measurements do not come yet

    def _drawn(self, draw: Callable[[np.random.Generator], Array]) -> Array:
        drawn = {seed: draw(rng) for seed, rng in self.chances.items()}
        return np.concatenate([drawn[seed] for seed in self.seeds])

    def _normal(self, size: int) -> Array:
        return self._drawn(lambda rng: rng.standard_normal((self.ensemble.runs, size)))

    def tick(self, rows: Array, *, snapshot: bool) -> None:
        """One tick of all controllers and plants, with an entry of the schedule for each seed.

        Raises ConvergenceError where a plant cannot go on.
        """
        self._load(rows)
        if snapshot:
            self.snapshots.append(self.machine.fields.copy())
        before = self._run_blocks()
        inputs = self.machine.fields[self.program.of(Role.COMMAND)].T
        step, x = self.plant.step, self.x
        if not np.isfinite(inputs).all():
            raise ConvergenceError("commands and estimates grow without bound", iterations=0, residual=np.inf, x=x[0])
        if self.ensemble.process:
            x = step.layout.retract(x, self.disturbance * self._normal(step.ndx))
        if self.jerks is not None:
            x = self.jerks.struck(self.jerks.admissible(x, self.jerks.closed(self.x)))
        exact = self.converged(before.T, inputs[self.firsts])
        self.x = _moved(self.moving, x, inputs, self.ensemble)
        off = np.abs(self._estimates().T - exact)
        self.map_error = np.maximum(self.map_error, off * self._all_closed()[:, None])
        self.states.append(self.x)

    def _drop(self) -> None:
        """Commands with drops, as far as motors are let move."""
        assert self.jerks is not None
        commands = self.program.of(Role.COMMAND)
        moved = self.machine.fields.copy()
        moved[commands] = self.jerks.dropped(moved[commands])
        self.rates.apply(self.program.block_of(BlockRole.STATE_FEEDBACK), self.applied, moved)
        self.machine.load(commands, moved[commands])
        self.applied = moved

    def _all_closed(self) -> Flags:
        """Whether the first run of each seed took its step with all gaps closed, which is the one to compare with."""
        modes = [i for i in self.program.of(Role.MODE) if self.program.fields[i].start]
        least: Array = self.machine.fields[np.ix_(modes, self.firsts)].min(axis=0, initial=1.0)
        return least > 0.5

    def _load(self, rows: Array) -> None:
        """Measurements of all plants, some of them outliers, and entries of the schedules."""
        ensemble, noise = self.ensemble, self.noise
        z = self.model.readings(self.x) + noise * self._normal(len(noise))
        outliers = self._drawn(lambda rng: rng.random((ensemble.runs, 1))) < ensemble.outlier_rate
        z = z + outliers * ensemble.outlier * noise * self._normal(len(noise))
        self.measured.append(z.T)
        self.machine.load(self.program.of(Role.MEASUREMENT), z.T)
        self.machine.load(self.program.of(Role.SCHEDULE), np.repeat(rows.T, self.ensemble.runs, axis=1))

    def _run_blocks(self) -> Array:
        """Runs the program; the estimates that it predicts from, of the first run of each seed."""
        before, ensemble = self._estimates(), self.ensemble
        lost = self._drawn(lambda rng: rng.random(ensemble.runs)) < ensemble.gap_rate
        self.unseen = np.where(lost, ensemble.gap, np.maximum(self.unseen - 1, 0))
        for number, block in enumerate(self.program.blocks):
            if block.role is BlockRole.PREDICT and (not block.chain or number == self.program.chains[block.chain][0]):
                before = self._estimates()
                if self.jerks is not None:
                    self._drop()
            seen = block.role in (BlockRole.UPDATE, BlockRole.SLACK_TEST)
            self.machine.run(number, self.unseen == 0 if seen else None)
        return before

    def _estimates(self) -> Array:
        found: Array = self.machine.fields[np.ix_(self.program.of(Role.STATE), self.firsts)]
        return found

    def recordings(self, schedules: Array) -> list[Recording]:
        """What has happened so far, by seed."""
        columns = [slice(first, first + self.ensemble.runs) for first in self.firsts]
        return [
            Recording(
                self.start[:, part],
                np.array(self.measured)[:, :, part],
                schedules[k],
                self.machine.magnitudes(k),
                np.array(self.states)[:, part],
                np.concatenate([shot[:, part] for shot in self.snapshots], axis=1),
                self.map_error[k],
            )
            for k, part in enumerate(columns)
        ]


def _moved(step: VariationalStep, x: Array, u: Array, ensemble: Ensemble) -> Array:
    """All plants one step later; where a start far off asks for the impossible, as a robot refuses it, one stays."""
    try:
        return step.step_many(x, u).x  # one compiled call for all of them
    except ConvergenceError:
        if ensemble.ticks is None:
            raise
    return np.array([_moved_if_possible(step, *one) for one in zip(x, u, strict=True)])


def _moved_if_possible(step: VariationalStep, x: Array, u: Array) -> Array:
    try:
        moved: Array = step.step(x, u).x
    except ConvergenceError:
        return x
    return moved


def first_fields(program: Program, plant: Plant, x: Array) -> Array:
    """Fields of controllers that start with estimates x (runs, nx) and the starting covariance."""
    fields = np.zeros((len(program.fields), len(x)))
    fields[program.of(Role.STATE)] = x.T
    for i in program.of(Role.COVARIANCE):
        fields[i] = plant.noise.start[program.fields[i].place]
    for i in program.of(Role.MODE):
        fields[i] = program.fields[i].start
    return fields


def schedule_rows(program: Program, plant: Plant, trajectory: Trajectory) -> Array:
    """Reference states, reference inputs and gains of every tick, in the order of the schedule's fields.

    One row more than there are steps: the last set-point, kept with the last gain.
    """
    step = plant.step
    places = [field.place for field in program.fields if field.role is Role.SCHEDULE and field.place]
    gains = np.array([[K[place] for place in places] for K in plant.gains]).reshape(len(plant.gains), len(places))
    hold = step.layout.hold(trajectory.x[-1], trajectory.u[-1, : len(step.system.inputs)])
    inputs = np.concatenate([trajectory.u, hold[None]])
    return np.concatenate([trajectory.x, inputs, np.concatenate([gains, gains[-1:]])], axis=1)


def end_tangent(plant: Plant, trajectory: Trajectory) -> Tangent | None:
    """How references follow set-points from the plan's end on; None for a plant without a stream."""
    if plant.stream is None:
        return None
    step = plant.step
    x = trajectory.x[-1]
    return tangent(plant.stream, step, x, step.layout.hold(x, trajectory.u[-1, : len(step.system.inputs)]))


def streamed_rows(program: Program, plant: Plant, trajectory: Trajectory) -> Array:
    """Rows that follow set-points to the corners of their limits, behind those of the plan; none without a stream."""
    entries, at = len(program.of(Role.SCHEDULE)), end_tangent(plant, trajectory)
    if plant.stream is None or at is None:
        return np.zeros((0, entries))
    references = streamed(plant.stream, at, plant.step.dt)
    gains = schedule_rows(program, plant, trajectory)[-1, references.shape[1] :]
    return np.hstack([references, np.tile(gains, (len(references), 1))])
