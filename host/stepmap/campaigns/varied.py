"""What varies from trial to trial: every combination of a grid, lists that go together, random draws, seeds.

A trial is a point of the grid and a draw. Draw number d has the same seed and the same random values at every point, so
that points are compared with each other under the same luck.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stepmap.campaigns.columns import Value

LOOKED_AT = 20  # values of a long list that are checked before the work; others would fail as trials


@dataclass(frozen=True)
class Distribution:
    """Of a random value: ``form`` is uniform, log_uniform, normal or choice, ``of`` its numbers or its choices."""

    form: str
    of: tuple[Value, ...]

    def draw(self, rng: np.random.Generator) -> Value:
        """A value of it."""
        if self.form == "choice":
            return self.of[int(rng.integers(len(self.of)))]
        a, b = (float(value) for value in self.of)
        if self.form == "normal":
            return a + b * float(rng.standard_normal())
        part = float(rng.random())
        if self.form == "log_uniform":
            return math.exp(math.log(a) + part * (math.log(b) - math.log(a)))
        return a + part * (b - a)

    @property
    def samples(self) -> tuple[Value, ...]:
        """Values to check before anything is drawn: the ends, or the middle and what lies three σ off."""
        if self.form != "normal":
            return self.of
        mean, sigma = (float(value) for value in self.of)
        return mean - 3.0 * sigma, mean, mean + 3.0 * sigma


@dataclass(frozen=True)
class Trial:
    """One trial: its number, its point of the grid, its draw, and the values that it has its own of."""

    number: int
    point: int
    draw: int
    seed: int  # below 2³², the same at every point
    entropy: int  # of the campaign
    values: Mapping[str, Value]

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers of this draw, the same whenever it is made."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(self.draw, 1)))


@dataclass(frozen=True)
class Varied:
    """All trials of a campaign; ``draws`` of them at every point of the grid."""

    grid: Mapping[str, tuple[Value, ...]]
    together: Mapping[str, tuple[Value, ...]]  # of one length
    random: Mapping[str, Distribution]
    draws: int
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        """Of everything that varies by name, in the order of the table's columns."""
        return *self.grid, *self.together, *self.random

    @cached_property
    def points(self) -> tuple[Mapping[str, Value], ...]:
        """Every combination of the grid, the last name fastest, with every place of the lists that go together."""
        grid = [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]
        lists = [dict(zip(self.together, values, strict=True)) for values in zip(*self.together.values(), strict=True)]
        return tuple({**point, **joined} for point in grid for joined in (lists or [{}]))

    def __len__(self) -> int:
        return len(self.points) * self.draws

    def trial(self, number: int) -> Trial:
        """Trial number 0 to len − 1: all draws of the first point, then those of the next one."""
        point, draw = divmod(number, self.draws)
        (seed,) = np.random.SeedSequence(self.seed, spawn_key=(draw,)).generate_state(1)
        values = dict(self.points[point])
        if self.random:
            rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(draw, 0)))
            values |= {name: distribution.draw(rng) for name, distribution in self.random.items()}
        return Trial(number, point, draw, int(seed), self.seed, values)

    def trials(self, numbers: Sequence[int]) -> list[Trial]:
        return [self.trial(number) for number in numbers]

    def samples(self) -> Iterator[tuple[str, Value]]:
        """Names with values that show whether they can be what they are meant for."""
        for name, values in itertools.chain(self.grid.items(), self.together.items()):
            every = max(1, len(values) // LOOKED_AT)
            yield from ((name, value) for value in dict.fromkeys((*values[::every], values[-1])))
        for name, distribution in self.random.items():
            yield from ((name, value) for value in distribution.samples)
