"""How large every signal of a program becomes: declared limits, interval bounds, what an ensemble of runs showed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError, RangeError
from stepmap.mechanics import System
from stepmap.mechanics.quantity import Coordinate, Input
from stepmap.steps.protocol import Trajectory
from stepmap_codegen.lower.controller import Plant
from stepmap_codegen.model.program import SELECT, Block, Program, Role
from stepmap_codegen.precision.ensemble import Recording

MARGIN = 2.0  # formats hold this many times what was seen or declared
ROUNDING = 1e-12  # of a limit: a quaternion's entry may be 1 and a bit
TAIL = 4.0  # more for an operation whose magnitude differs from run to run, at most

Interval = tuple[float, float]
ANY: Interval = (-math.inf, math.inf)


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

    def limited(self, program: Program) -> list[bool]:
        """Which fields have declared limits, be it as references of what has them."""
        names = [field.name for field in program.fields]
        found = [self.declared[names.index(_referred(name) or name)] for name in names]
        return found


def _referred(name: str) -> str | None:
    """The field that an entry of the schedule is the reference of; None for gains and all other fields."""
    kind, _, of = name.partition("_")
    return {"xr": f"x_{of}", "ur": f"u_{of}"}.get(kind)


def require_declared(system: System) -> list[tuple[Coordinate | Input, float, float]]:
    """Every coordinate and input with its limits; raises RangeError where one has none."""
    found: list[tuple[Coordinate | Input, float, float]] = []
    quantities: list[Coordinate | Input] = [*system.dynamic, *system.kinematic, *system.inputs]
    for quantity in quantities:
        if quantity.low is None or quantity.high is None:
            raise RangeError(
                f"{_kind(quantity)} {quantity.name!r} [{quantity.unit}] has no limits",
                signal=quantity.name,
                cause="Fixed-point formats and the limits of commands follow from them.",
                hint="Give low and high where it is declared; of a URDF, revolute joints have them.",
            )
        found.append((quantity, quantity.low, quantity.high))
    return found


def _kind(quantity: Coordinate | Input) -> str:
    return "coordinate" if isinstance(quantity, Coordinate) else "input"


def require_start(system: System, pose: Array) -> None:
    """Raises RangeError where a system starts outside its limits, so that every trajectory leaves them."""
    for quantity, value in zip(system.coordinates, pose, strict=True):
        if quantity.low is not None and quantity.high is not None and not quantity.low <= value <= quantity.high:
            raise RangeError(
                f"coordinate {quantity.name!r} starts at {value:.4g} {quantity.unit}, outside its limits "
                f"{quantity.low:g} … {quantity.high:g}",
                hint="Widen the limits where it is declared, or give another start in [start] of the job.",
                signal=quantity.name,
                value=float(value),
                format=f"{quantity.low:g} … {quantity.high:g}",
            )


def require_limits(plant: Plant, trajectory: Trajectory) -> None:
    """Raises RangeError where a coordinate or an input has no limits, or the trajectory leaves them."""
    _require_closed(plant, trajectory)
    step = plant.step
    if plant.gait is not None:  # rows beyond the plan go through the ground, and may go beyond limits
        k = plant.gait.steps
        trajectory = Trajectory(trajectory.t[: k + 1], trajectory.x[: k + 1], trajectory.u[:k])
    system = step.system
    values = np.concatenate([step.layout.pose(trajectory.x[:-1]), trajectory.u[:, : len(system.inputs)]], axis=1)
    last = step.layout.pose(trajectory.x[-1:])
    for i, (quantity, low, high) in enumerate(require_declared(system)):
        what = _kind(quantity)
        motion = values[:, i] if what == "input" else np.append(values[:, i], last[0, i])
        k = int(np.argmax(np.maximum(low - motion, motion - high)))
        if not low - ROUNDING <= motion[k] <= high + ROUNDING:
            raise RangeError(
                f"{what} {quantity.name!r} leaves its limits {low:g} … {high:g} {quantity.unit}: the "
                f"trajectory has {motion[k]:.4g} at t = {k * step.dt:.4g} s",
                hint="Widen the limits where it is declared, or keep the trajectory inside with [limits] in the job.",
                signal=quantity.name,
                value=float(motion[k]),
                format=f"{low:g} … {high:g}",
            )


def _require_closed(plant: Plant, trajectory: Trajectory) -> None:
    """Raises ModelError where a plan starts with an open gap: the filter starts with all of them closed."""
    system = plant.step.system
    gaps = system.gaps(plant.step.layout.pose(trajectory.x[0]))
    for name, gap in zip(system.constraint_names, gaps, strict=True):
        if name in system.gap_names and gap < -1e-6:
            raise ModelError(
                f"the plan starts with gap {name!r} open by {-gap:.3g} m; start it closed: a filter that starts "
                "at rest takes its gaps for closed"
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
        source = _referred(names[i])
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
    SELECT: lambda a, b, yes, no: (min(yes[0], no[0]), max(yes[1], no[1])),
    ca.OP_FMIN: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    ca.OP_FMAX: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
