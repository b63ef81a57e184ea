"""A periodic motion as data: phases one after the other, the last joined to the first by a renaming."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError, ShapeError
from stepmap.mechanics.system import System
from stepmap.optimal.gaits.jump import Jump
from stepmap.optimal.gaits.landing import Landed, Landing
from stepmap.optimal.gaits.modes import Mode, rows_of
from stepmap.optimal.gaits.renaming import Renaming
from stepmap.steps.events.step import EventStep
from stepmap.steps.kinds import discretize
from stepmap.steps.protocol import Trajectory


@dataclass(frozen=True)
class Stretch:
    """A phase that was found: which contacts are closed, its steps, and how long each of them is [s]."""

    closed: tuple[str, ...]
    steps: int
    dt: float


@dataclass(frozen=True, eq=False)
class Cycle:
    """x (N+1, nx) and u (N, nu) over all phases; x at the end of a phase is before its transition, x[0] after the last.

    A phase that closes a contact ends with a landing; one that only opens some ends without a jump.
    """

    system: System
    stretches: tuple[Stretch, ...]
    renaming: Renaming
    x: Array
    u: Array

    def __post_init__(self) -> None:
        count, nx = sum(s.steps for s in self.stretches), self.system.tangent.nq + self.system.tangent.nd
        if self.x.shape != (count + 1, nx) or self.u.shape != (count, len(self.system.inputs)):
            raise ShapeError(
                f"Cycle: expected x {(count + 1, nx)} and u {(count, len(self.system.inputs))}, "
                f"got {self.x.shape} and {self.u.shape}"
            )

    @property
    def steps(self) -> int:
        return len(self.u)

    @property
    def t(self) -> Array:
        lengths = np.concatenate([np.full(s.steps, s.dt) for s in self.stretches])
        return np.concatenate([[0.0], np.cumsum(lengths)])

    @property
    def trajectory(self) -> Trajectory:
        return Trajectory(self.t, self.x, self.u)

    @cached_property
    def modes(self) -> tuple[Mode, ...]:
        return tuple(Mode(self.system, s.closed) for s in self.stretches)

    @cached_property
    def maps(self) -> tuple[EventStep, ...]:
        """The one-step map of each phase; contacts that are open in it do not exist there."""
        made = []
        for s in self.stretches:
            step = discretize(self.system, s.dt, contacts=s.closed)
            assert isinstance(step, EventStep)  # a system with contacts
            made.append(step)
        return tuple(made)

    def begins(self) -> Iterator[tuple[int, int]]:
        """Per phase its number and the step it begins with."""
        at = 0
        for i, s in enumerate(self.stretches):
            yield i, at
            at += s.steps

    def after(self, i: int) -> tuple[str, ...]:
        """The contacts that are closed after phase i, in names before its end."""
        if i + 1 < len(self.stretches):
            return self.stretches[i + 1].closed
        return tuple(self.renaming.partners[name] for name in self.stretches[0].closed)

    def landing(self, i: int, plant: System | None = None) -> Landing | None:
        """The landing that ends phase i, of this system or of one with other parameters; None where nothing lands."""
        struck = [name for name in self.after(i) if name not in self.stretches[i].closed]
        if not struck:
            return None
        if len(struck) > 1:
            raise ModelError(f"phase {i} ends with {len(struck)} landings at once ({', '.join(struck)}): one is known")
        step = self.maps[i] if plant is None else _on(plant, self.stretches[i])
        last = i + 1 == len(self.stretches)
        jump = Jump(self.modes[i], Mode(self.system, self.after(i)), self.renaming if last else None)
        return Landing(step, rows_of(self.system, struck)[0], jump)

    def landed(self, i: int) -> Landed | None:
        """The landing at the end of phase i, along the motion itself."""
        landing = self.landing(i)
        if landing is None:
            return None
        k = sum(s.steps for s in self.stretches[: i + 1]) - 1
        return landing(self.start_of(k, i), self.u[k])

    def start_of(self, k: int, i: int) -> Array:
        """The state from which step k of phase i starts: the first of an inner phase has had its transition."""
        begin = dict(self.begins())[i]
        landed = None if k > begin or i == 0 else self.landed(i - 1)
        out: Array = self.x[k] if landed is None else landed.x
        return out


def _on(plant: System, stretch: Stretch) -> EventStep:
    step = discretize(plant, stretch.dt, contacts=stretch.closed)
    assert isinstance(step, EventStep)
    return step
