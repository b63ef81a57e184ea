"""How large every signal of a program becomes: declared limits, interval bounds, an ensemble of closed-loop runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, RangeError
from stepmap.mechanics import System
from stepmap.mechanics.quantity import Coordinate, Input
from stepmap.steps.protocol import Trajectory
from stepmap_codegen.lower.controller import Plant
from stepmap_codegen.model.float_machine import FloatMachine, Magnitudes
from stepmap_codegen.model.program import Block, BlockRole, Program, Role

MARGIN = 2.0  # formats hold this many times what was seen or declared
TAIL = 4.0  # more for an operation whose magnitude differs from run to run, at most
SNAPSHOTS = 40  # ticks at which rounding is measured

Interval = tuple[float, float]
ANY: Interval = (-math.inf, math.inf)


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


@dataclass(frozen=True)
class Ranges:
    """Ranges of fields, and magnitudes of operations: the largest seen, and a bound by intervals."""

    low: Array
    high: Array
    least: Array
    declared: tuple[bool, ...]
    seen: Sequence[Array]
    bounds: Sequence[Array]
    snapshots: Array  # (fields, runs of some ticks): at the beginning of a tick

    @property
    def sizes(self) -> Array:
        sizes: Array = np.maximum(np.abs(self.low), np.abs(self.high))
        return sizes


def simulate(program: Program, plant: Plant, trajectory: Trajectory, ensemble: Ensemble) -> Recording:
    """Closed-loop runs of the program in float64: disturbed starts, noise and outliers; the plant is the map itself."""
    return simulate_seeds(program, plant, trajectory, ensemble, [ensemble.seed])[0]


def simulate_seeds(
    program: Program, plant: Plant, trajectory: Trajectory, ensemble: Ensemble, seeds: Sequence[int]
) -> list[Recording]:
    """The same for each seed in place of the ensemble's own; all of them run at once, which takes little longer."""
    step, chances = plant.step, [np.random.default_rng(seed) for seed in seeds]
    count = ensemble.runs * len(chances)
    firsts = [ensemble.runs * k for k in range(len(chances))]  # of the runs of each seed

    def drawn(draw: Callable[[np.random.Generator], Array]) -> Array:
        return np.concatenate([draw(rng) for rng in chances])

    x = np.tile(trajectory.x[0], (count, 1))
    spread = ensemble.start * np.sqrt(np.diagonal(plant.noise.start))
    start = first_fields(program, plant, x + drawn(lambda rng: rng.standard_normal((ensemble.runs, step.nx))) * spread)
    machine = FloatMachine(program, start, groups=len(chances))
    noise, disturbance = np.sqrt(plant.noise.measurement), np.sqrt(np.diagonal(plant.noise.process)).copy()
    disturbance[step.nd : step.nd + step.nk] = 0.0  # where a kinematic coordinate is, is known
    schedule = schedule_rows(program, plant, trajectory)[:-1][: ensemble.ticks]
    shape = (ensemble.runs, len(noise))
    measured, states, error = [], [x], np.zeros((len(chances), step.nx))
    snapshots: list[Array] = []
    state, unseen = program.of(Role.STATE), np.zeros(count, dtype=int)
    for tick, row in enumerate(schedule):
        z = step.system.readings(x[:, : step.nd + step.nk]) + noise * drawn(lambda rng: rng.standard_normal(shape))
        outliers = drawn(lambda rng: rng.random((ensemble.runs, 1))) < ensemble.outlier_rate
        z = z + outliers * ensemble.outlier * noise * drawn(lambda rng: rng.standard_normal(shape))
        measured.append(z.T)
        machine.load(program.of(Role.MEASUREMENT), z.T)
        machine.load(program.of(Role.SCHEDULE), np.tile(row[:, None], (1, count)))
        before = machine.fields[np.ix_(state, firsts)]
        if tick % max(len(schedule) // SNAPSHOTS, 1) == 0:
            snapshots.append(machine.fields.copy())
        lost = drawn(lambda rng: rng.random(ensemble.runs)) < ensemble.gap_rate
        unseen = np.where(lost, ensemble.gap, np.maximum(unseen - 1, 0))
        for number, block in enumerate(program.blocks):
            if block.role is BlockRole.PREDICT:
                before = machine.fields[np.ix_(state, firsts)]
            machine.run(number, unseen == 0 if block.role is BlockRole.UPDATE else None)
        inputs = machine.fields[program.of(Role.COMMAND)].T
        if ensemble.process:
            x = x + disturbance * drawn(lambda rng: rng.standard_normal((ensemble.runs, step.nx)))
        try:
            exact = np.array([step.step(before[:, k], inputs[first]).x for k, first in enumerate(firsts)])
            x = _moved(plant, x, inputs, ensemble)
        except ConvergenceError as problem:
            raise RangeError(
                f"a simulated closed-loop run cannot go on at t = {tick * step.dt:.4g} s: {problem}; the gains do not "
                "hold the disturbances of [noise]: reduce them, or weigh the state more"
            ) from problem
        error = np.maximum(error, np.abs(machine.fields[np.ix_(state, firsts)].T - exact))
        states.append(x)
    columns = [slice(first, first + ensemble.runs) for first in firsts]
    return [
        Recording(
            start[:, part],
            np.array(measured)[:, :, part],
            schedule,
            machine.magnitudes(k),
            np.array(states)[:, part],
            np.concatenate([shot[:, part] for shot in snapshots], axis=1),
            error[k],
        )
        for k, part in enumerate(columns)
    ]


def _moved(plant: Plant, x: Array, u: Array, ensemble: Ensemble) -> Array:
    """All plants one step later; where a start far off asks for the impossible, as a robot refuses it, one stays."""
    try:
        return plant.step.linearize_many(x, u)[0]  # one compiled call for all of them
    except ConvergenceError:
        if ensemble.ticks is None:
            raise
    return np.array([_moved_if_possible(plant, *one) for one in zip(x, u, strict=True)])


def _moved_if_possible(plant: Plant, x: Array, u: Array) -> Array:
    try:
        moved: Array = plant.step.step(x, u).x
    except ConvergenceError:
        return x
    return moved


def first_fields(program: Program, plant: Plant, x: Array) -> Array:
    """Fields of controllers that start with estimates x (runs, nx) and the starting covariance."""
    fields = np.zeros((len(program.fields), len(x)))
    fields[program.of(Role.STATE)] = x.T
    for i in program.of(Role.COVARIANCE):
        fields[i] = plant.noise.start[program.fields[i].place]
    return fields


def schedule_rows(program: Program, plant: Plant, trajectory: Trajectory) -> Array:
    """Reference states, reference inputs and gains of every tick, in the order of the schedule's fields.

    One row more than there are steps: the last set-point, kept with the last gain.
    """
    nd, nk, nf = plant.step.nd, plant.step.nk, len(plant.step.system.inputs)
    places = [field.place for field in program.fields if field.role is Role.SCHEDULE and field.place]
    gains = np.array([[K[place] for place in places] for K in plant.gains]).reshape(len(plant.gains), len(places))
    hold = np.concatenate([trajectory.u[-1, :nf], trajectory.x[-1, nd : nd + nk]])
    inputs = np.concatenate([trajectory.u, hold[None]])
    return np.concatenate([trajectory.x, inputs, np.concatenate([gains, gains[-1:]])], axis=1)


def require_declared(system: System) -> list[tuple[Coordinate | Input, float, float]]:
    """Every coordinate and input with its limits; raises RangeError where one has none."""
    found: list[tuple[Coordinate | Input, float, float]] = []
    quantities: list[Coordinate | Input] = [*system.dynamic, *system.kinematic, *system.inputs]
    for quantity in quantities:
        if quantity.low is None or quantity.high is None:
            raise RangeError(
                f"{_kind(quantity)} {quantity.name!r} [{quantity.unit}] has no limits: give low and high where it is "
                "declared; fixed-point formats and the limits of commands follow from them",
                signal=quantity.name,
            )
        found.append((quantity, quantity.low, quantity.high))
    return found


def _kind(quantity: Coordinate | Input) -> str:
    return "coordinate" if isinstance(quantity, Coordinate) else "input"


def require_limits(plant: Plant, trajectory: Trajectory) -> None:
    """Raises RangeError where a coordinate or an input has no limits, or the trajectory leaves them."""
    step = plant.step
    system = step.system
    values = np.concatenate([trajectory.x[:-1, : step.nd + step.nk], trajectory.u[:, : len(system.inputs)]], axis=1)
    last = trajectory.x[-1:, : step.nd + step.nk]
    for i, (quantity, low, high) in enumerate(require_declared(system)):
        what = _kind(quantity)
        motion = values[:, i] if what == "input" else np.append(values[:, i], last[0, i])
        k = int(np.argmax(np.maximum(low - motion, motion - high)))
        if not low <= motion[k] <= high:
            raise RangeError(
                f"{what} {quantity.name!r} leaves its limits {low:g} … {high:g} {quantity.unit}: the "
                f"trajectory has {motion[k]:.4g} at t = {k * step.dt:.4g} s; widen the limits where it is declared, or "
                "keep the trajectory inside with [limits] in the job",
                signal=quantity.name,
                value=float(motion[k]),
                format=f"{low:g} … {high:g}",
            )


def measure(program: Program, recordings: Sequence[Recording], alike: int = 1) -> Ranges:
    """Ranges from ensembles and the declared limits.

    The first ``alike`` recordings are of one kind. Where they disagree about how large an operation becomes, its tail
    is long, and it gets as much more headroom.
    """
    machines = [recording.magnitudes for recording in recordings]
    low, high = np.min([m.low for m in machines], axis=0), np.max([m.high for m in machines], axis=0)
    never = ~np.isfinite(low)
    low, high = np.where(never, 0.0, low), np.where(never, 0.0, high)
    schedule = program.of(Role.SCHEDULE)
    names = [field.name for field in program.fields]
    declared = []
    for i, field in enumerate(program.fields):
        known = field.low is not None and field.high is not None
        declared.append(known)
        if field.low is not None and field.high is not None:
            low[i], high[i] = min(low[i], field.low), max(high[i], field.high)
    for i in schedule:  # a reference may come anywhere inside the limits of what it is for
        kind, _, of = names[i].partition("_")
        source = {"xr": f"x_{of}", "ur": f"u_{of}"}.get(kind)
        if source is not None and declared[names.index(source)]:
            low[i], high[i] = low[names.index(source)], high[names.index(source)]
    sizes = MARGIN * np.maximum(np.abs(low), np.abs(high))
    bounds = [interval_bounds(block, sizes) for block in program.blocks]
    least = np.min([m.least for m in machines], axis=0)
    seen = [_with_tail([m.seen[k] for m in machines], alike) for k in range(len(program.blocks))]
    snapshots = np.concatenate([recording.snapshots for recording in recordings], axis=1)
    return Ranges(low, high, least, tuple(declared), seen, bounds, snapshots)


def _with_tail(seen: Sequence[Array], alike: int) -> Array:
    """The largest magnitudes, times what those of alike runs differ by."""
    most, least = np.max(seen[:alike], axis=0), np.min(seen[:alike], axis=0)
    tail = np.clip(most / np.maximum(least, 1e-300), 1.0, TAIL)
    largest: Array = np.max(seen, axis=0) * tail
    return largest


def interval_bounds(block: Block, field_sizes: Array) -> Array:
    """Bounds of |operation| for fields anywhere within ± their sizes, by interval arithmetic; inf where none is."""
    known: list[Interval] = []
    for operation in block.operations:
        if operation.code == ca.OP_CONST:
            known.append((operation.constant, operation.constant))
        elif operation.code == ca.OP_INPUT:
            size = float(field_sizes[operation.field])
            known.append((-size, size))
        else:
            same = len(operation.arguments) == 2 and operation.arguments[0] == operation.arguments[1]
            rule = INTERVALS[ca.OP_SQ] if same and operation.code == ca.OP_MUL else INTERVALS.get(operation.code)
            known.append(ANY if rule is None else rule(*(known[a] for a in operation.arguments)))
    return np.array([max(abs(a), abs(b)) for a, b in known])


def _times(a: Interval, b: Interval) -> Interval:
    corners = [0.0 if 0.0 in (p, q) else p * q for p in a for q in b]
    return min(corners), max(corners)


def _square(a: Interval, _: Interval = ANY) -> Interval:
    ends = [a[0] * a[0], a[1] * a[1]]
    return (0.0 if a[0] <= 0 <= a[1] else min(ends)), max(ends)


def _inverse(a: Interval) -> Interval:
    return ANY if a[0] <= 0 <= a[1] else (1 / a[1], 1 / a[0])


def _wave(_: Interval) -> Interval:
    return -1.0, 1.0


INTERVALS: dict[int, Callable[..., Interval]] = {
    ca.OP_ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ca.OP_SUB: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    ca.OP_MUL: _times,
    ca.OP_SQ: _square,
    ca.OP_NEG: lambda a: (-a[1], -a[0]),
    ca.OP_TWICE: lambda a: (2 * a[0], 2 * a[1]),
    ca.OP_INV: _inverse,
    ca.OP_SIN: _wave,
    ca.OP_COS: _wave,
    ca.OP_SIGN: _wave,
    ca.OP_SQRT: lambda a: (math.sqrt(max(a[0], 0.0)), math.sqrt(max(a[1], 0.0))),
    ca.OP_FABS: lambda a: (0.0, max(abs(a[0]), abs(a[1]))),
    ca.OP_FMIN: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    ca.OP_FMAX: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
