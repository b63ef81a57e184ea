"""What sm.direct is asked for, checked: every mistake that can be seen before anything is solved is found here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stepmap.errors import ModelError
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.direct.ends import End, read_goal, read_start, require_possible, require_reachable
from stepmap.optimal.direct.limits import Bounds, bounds_of, read_limits
from stepmap.optimal.direct.mechanism import Mechanism, Mode
from stepmap.optimal.direct.names import Formula
from stepmap.text import nearest

CHANGE = 0.5  # m or rad per step: wires hold at nodes alone, and a mass on one could jump across
SOLVERS = ("ipopt", "fatrop")


@dataclass(frozen=True)
class Phase:
    """A part of a motion in which the named gaps are closed, others open, in so many steps.

    ``time`` [s] is its length, or the range (low, high) of one that is found.
    """

    closed: Sequence[str] = ()
    steps: int = 40
    time: float | tuple[float, float] = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.closed, str):
            raise ModelError(f"closed: expected names of gaps in a list, got the text {self.closed!r}")
        object.__setattr__(self, "closed", tuple(self.closed))
        if isinstance(self.steps, bool) or not isinstance(self.steps, (int, np.integer)) or self.steps < 2:
            raise ModelError(f"steps: expected a whole number of at least 2, got {self.steps!r}")
        _ = self.range

    @cached_property
    def range(self) -> tuple[float, float]:
        """The shortest and the longest time [s]."""
        if isinstance(self.time, Sequence) and not isinstance(self.time, str):
            if len(self.time) != 2:
                raise ModelError(f"time: expected seconds, or a range (low, high), got {self.time!r}")
            low, high = (number(value, "time", "a number of seconds") for value in self.time)
        else:
            low = high = number(self.time, "time", "a number of seconds")
        if not low > 0:
            raise ModelError(f"time: must be positive, got {low:g} s")
        if low > high:
            raise ModelError(f"time: the range is upside down, {low:g} to {high:g} s; give (low, high)")
        return low, high


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """A task of direct optimal control; ``sm.direct`` documents the fields."""

    system: System
    steps: int = 100
    time: float | tuple[float, float] = 1.0
    start: Any = None
    goal: Any = None
    running: Formula = 0.0
    terminal: Formula = 0.0
    limits: Mapping[str, Any] = field(default_factory=dict)
    path: Mapping[Any, Any] = field(default_factory=dict)
    boundary: Mapping[Any, Any] = field(default_factory=dict)
    clear: Sequence[Any] = ()
    guess: Any = None
    starts: int = 1
    seed: int = 0
    change: float | None = None
    solver: str = "ipopt"
    compiled: bool = True
    max_iterations: int = 1000
    tolerance: float = 1e-9
    weights: tuple[Any, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.system, System):
            raise ModelError(f"system: expected a System from Builder.build(), got {type(self.system).__name__}")
        if self.solver not in SOLVERS:
            raise ModelError(f"solver: expected 'ipopt' or 'fatrop', got {self.solver!r}")
        for name, least in (("starts", 1), ("max_iterations", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise ModelError(f"{name}: expected a whole number of at least {least}, got {value!r}")
        if not self.largest_change > 0:
            raise ModelError(f"change: must be positive, got {self.change!r}")
        if not number(self.tolerance, "tolerance") > 0:
            raise ModelError(f"tolerance: must be positive, got {self.tolerance:g}")
        for phase in self.all_phases:
            for name in phase.closed:
                if name not in self.system.gap_names:
                    raise ModelError(
                        f"phases: no gap is called {name!r}", hint=nearest(str(name), self.system.gap_names)
                    )
        bounds = self.bounds
        require_possible(self.system, self.first, bounds, "start")
        require_possible(self.system, self.last, bounds, "goal")
        require_reachable(self.system, self.first, self.last, bounds, sum(p.range[1] for p in self.all_phases))

    @property
    def largest_change(self) -> float:
        """Of a coordinate in one step: what was given, or enough not to pass through a constraint between nodes."""
        if self.change is not None:
            return number(self.change, "change")
        return CHANGE if any(mode.count for mode in self.modes) else np.inf

    @cached_property
    def all_phases(self) -> tuple[Phase, ...]:
        return (Phase((), self.steps, self.time),)

    @cached_property
    def mechanism(self) -> Mechanism:
        return Mechanism(self.system)

    @cached_property
    def modes(self) -> tuple[Mode, ...]:
        return tuple(Mode.of(self.system, phase.closed) for phase in self.all_phases)

    @cached_property
    def bounds(self) -> Bounds:
        return bounds_of(self.system, read_limits(self.system, self.limits))

    @cached_property
    def first(self) -> End:
        return read_start(self.system, self.start)

    @cached_property
    def last(self) -> End:
        return read_goal(self.system, self.goal)
