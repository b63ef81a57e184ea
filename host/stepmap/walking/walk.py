"""A robot that walks: a schedule on a plant with contacts and impacts, whose masses and frictions are others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.system import System
from stepmap.optimal.gaits.renaming import Renaming
from stepmap.steps.events.step import EventStep
from stepmap.steps.kinds import discretize
from stepmap.walking.observer import Observer
from stepmap.walking.schedule import AHEAD, Schedule

Push: TypeAlias = Callable[[int, int, Array], Array]  # step, tick in it and state: the state after a push
ARMED = 0.5  # part of the rows before which the swing foot may touch nothing
TIPPED = 3.0  # rad or m: a coordinate this far off its row has fallen


@dataclass
class Walk:
    """What happened: per landing its time and how far the pose after it was off, and the ground's worst forces."""

    times: list[float] = field(default_factory=list)  # s, of each step
    off: list[float] = field(default_factory=list)  # largest deviation of q after landings
    fell: str = ""  # why it fell; "" where it did not
    normal: float = np.inf  # N, least while standing
    cone: float = 0.0  # largest |tangent|/normal force, impacts among them
    low: float = np.inf  # m, least height of the swing foot before the middle of a step
    saturated: int = 0  # ticks at a limit of an input
    errors: list[float] = field(default_factory=list)  # of the estimate's q, per tick

    @property
    def steps(self) -> int:
        return len(self.times)

    @property
    def walked(self) -> bool:
        return not self.fell


class Plant:
    """The robot as it is: the stance foot on the ground, the swing foot struck where it comes down."""

    def __init__(self, renaming: Renaming, closed: tuple[str, ...], strikes: str, system: System, dt: float) -> None:
        self.renaming, self.closed, self.strikes, self.system = renaming, closed, strikes, system
        stance, both = discretize(system, dt, contacts=self.closed), discretize(system, dt)
        assert isinstance(stance, EventStep)
        assert isinstance(both, EventStep)
        self.stance, self.both = stance, both
        self.row = system.constraint_names.index(self.strikes)

    @classmethod
    def of(cls, schedule: Schedule, system: System) -> Plant:
        """The robot of a schedule, a step of which is a tick."""
        cycle = schedule.cycle
        closed = cycle.stretches[0].closed
        (strikes,) = (name for name in cycle.after(0) if name not in closed)
        return cls(cycle.renaming, closed, strikes, system, cycle.stretches[0].dt)

    def height(self, x: Array) -> float:
        """Of the swing foot [m]."""
        return -float(self.system.gaps(self.stance.layout.pose(x))[self.row])

    def step(self, x: Array, u: Array, armed: bool, walk: Walk) -> tuple[Array, float | None]:
        """The next state, and when the swing foot came down [s]; then the state is that right after the impact."""
        result = (self.both if armed else self.stance).step(x, u)
        hits = [event for event in result.events if event.kind == "impact" and event.name == self.strikes]
        if not hits or not armed:
            self.judge(walk, result.multipliers)
            if any(event.kind == "release" and event.name in self.closed for event in result.events):
                walk.normal = min(walk.normal, 0.0)
            return result.x, None
        struck = self.stance.rollout(x, u[None], dt=[max(hits[0].time, 1e-9)])
        assert struck.multipliers is not None
        self.judge(walk, struck.multipliers[0])
        return self._strike(struck.x[-1], walk), hits[0].time

    def _strike(self, x: Array, walk: Walk) -> Array:
        n, both = self.stance.layout.nq, self.both
        before = self.stance.velocity(x)
        struck = both.from_velocity(x[:n], before, instant=True)
        after = both.velocity(struck)
        M = self.system.mass_matrix(x[:n])
        names, rows = self.system.constraint_names, self.system.constraint_rows
        at = [self.row, *(i for i, row in enumerate(rows) if row is Row.TANGENT and names[i].startswith(self.strikes))]
        D = self.system.residuals_slope(x[:n])[at]
        self._cone(walk, np.linalg.lstsq(D.T, M @ (before - after), rcond=None)[0])
        return np.concatenate([x[:n], M @ after])

    def judge(self, walk: Walk, forces: Array) -> None:
        """Takes forces of the ground on the foot that stands into account."""
        names, kinds = self.system.constraint_names, self.system.constraint_rows
        for i, name in enumerate(names):
            if kinds[i] is Row.GAP and name in self.closed:
                tangents = [forces[j] for j in range(i + 1, len(names)) if names[j].startswith(f"{name}.")]
                walk.normal = min(walk.normal, float(forces[i]))
                self._cone(walk, np.array([forces[i], *tangents]))

    def _cone(self, walk: Walk, forces: Array) -> None:
        if forces[0] > 1e-9:
            walk.cone = max(walk.cone, float(np.linalg.norm(forces[1:]) / forces[0]))

    def renamed(self, x: Array) -> Array:
        """The state in the names after the landing."""
        n = self.stance.layout.nq
        T = self.renaming.matrix(x[:n])
        return np.concatenate([self.renaming.pose(x[:n]), np.linalg.solve(T.T, x[n:])])


@dataclass
class Walker:
    """One walk under way."""

    schedule: Schedule
    robot: Plant
    observer: Observer | None
    limits: Array | None
    push: Push | None
    clock: bool
    made: Walk = field(default_factory=Walk)

    def stride(self, x: Array, count: int) -> Array:
        """The state after the next landing, in its names."""
        schedule, robot, made, dt = self.schedule, self.robot, self.made, self.robot.stance.dt
        n, row, time = robot.stance.layout.nq, 0, 0.0
        for tick in range(len(schedule.x) + AHEAD):
            if self.push is not None:
                x = self.push(count, tick, x)
            known = x if self.observer is None else self.observer.measured(x)
            if tick:
                row = min(row + 1, len(schedule.x) - 1) if self.clock else schedule.nearest(known[:n], row + 1)
            u = self._input(row, known)
            armed = tick >= ARMED * schedule.steps
            x, landed = robot.step(x, u, armed, made)
            if not armed:
                made.low = min(made.low, robot.height(x))
            if self.observer is not None:
                tangent = robot.system.tangent
                off = schedule.counted(row, tangent.difference(self.observer.true[:n], known[:n]))
                made.errors.append(float(np.abs(off).max()))
                self.observer.moved(u, landed)
            if landed is not None:
                made.times.append(time + landed)
                renamed = robot.renamed(x)
                made.off.append(float(np.abs(schedule.deviation(renamed)).max()))
                return renamed
            if np.abs(schedule.deviation(x, row)).max() > TIPPED:
                made.fell = f"step {count}: {TIPPED:g} off its row after {time + dt:.3g} s"
                return x
            time += dt
        made.fell = f"step {count}: no landing within {time:.3g} s"
        return x

    def _input(self, row: int, known: Array) -> Array:
        u = self.schedule.law(row, known)
        if self.limits is None:
            return u
        within = np.clip(u, -self.limits, self.limits)
        self.made.saturated += bool((within != u).any())
        return within


def walk(
    schedule: Schedule,
    plant: System,
    steps: int,
    *,
    start: Array | None = None,
    observer: Observer | None = None,
    limits: Array | None = None,
    push: Push | None = None,
    clock: bool = False,
) -> Walk:
    """So many steps of a robot with the parameters of ``plant``, from x̄[0] unless ``start`` is given.

    An ``observer`` tells the state from sensors; without one it is known. ``limits`` (nu) bound |u|. A ``clock`` counts
    rows instead of choosing the nearest; a landing restarts it, too.
    """
    known = schedule.cycle.system
    if [p.name for p in plant.parameters] != [p.name for p in known.parameters] or plant.gap_names != known.gap_names:
        raise ModelError("plant: expected the mechanism of the gait, with other values of its parameters")
    walker = Walker(schedule, Plant.of(schedule, plant), observer, limits, push, clock)
    x = schedule.x[0].copy() if start is None else np.array(start, dtype=float)
    if observer is not None:
        observer.begin(x)
    try:
        for count in range(steps):
            x = walker.stride(x, count)
            if walker.made.fell:
                break
    except ConvergenceError as error:
        walker.made.fell = str(error)
    return walker.made
