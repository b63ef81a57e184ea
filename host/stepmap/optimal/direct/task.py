"""What sm.direct is asked for, checked: every mistake that can be seen before anything is solved is found here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.direct.conditions import read_range
from stepmap.optimal.direct.ends import (
    End,
    read_goal,
    read_start,
    require_held,
    require_possible,
    require_reachable,
)
from stepmap.optimal.direct.limits import Bounds, bounds_of, read_limits
from stepmap.optimal.direct.mechanism import Mechanism, Mode
from stepmap.optimal.direct.names import Formula
from stepmap.optimal.direct.obstacles.ends import require_clear
from stepmap.optimal.direct.phases.contacts import read_gaps
from stepmap.optimal.direct.phases.renaming import Renaming
from stepmap.optimal.gaits.renaming import Renaming as Symmetry
from stepmap.text import nearest

CHANGE = 0.5  # m or rad per step: wires hold at nodes alone, and a mass on one could jump across
STRIDE = 0.2  # the same in phases
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
    rest: bool = False
    phases: Sequence[Phase] = ()
    periodic: Mapping[str, Formula] | None = None
    design: Mapping[str, Any] = field(default_factory=dict)
    clearance: Mapping[str, float | None] = field(default_factory=dict)
    landing: Mapping[str, float] = field(default_factory=dict)
    friction: Mapping[str, float] = field(default_factory=dict)

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
        self._check_phases()
        bounds = self.bounds
        if self.cyclic:
            return
        require_possible(self.system, self.first, bounds, "start")
        require_possible(self.system, self.last, bounds, "goal")
        require_clear(self.system, self.clear, self.first.q, self.last.q, self.solver)
        require_reachable(self.system, self.first, self.last, bounds, sum(p.range[1] for p in self.all_phases))
        if self.rest:
            require_held(self.system, self.last, bounds)

    @property
    def largest_change(self) -> float:
        """Of a coordinate in one step: what was given, or enough not to pass through a constraint between nodes."""
        if self.change is not None:
            return number(self.change, "change")
        if self.phases:
            return STRIDE
        return CHANGE if any(mode.count for mode in self.modes) else np.inf

    @cached_property
    def all_phases(self) -> tuple[Phase, ...]:
        if not self.phases:
            return (Phase((), self.steps, self.time),)
        if not all(isinstance(phase, Phase) for phase in self.phases):
            raise ModelError(f"phases: expected sm.Phase(closed=[...], steps=, time=), got {self.phases!r}")
        return tuple(self.phases)

    @property
    def cyclic(self) -> bool:
        """Whether the end is the start again, renamed; the start is then a guess."""
        return self.periodic is not None

    @cached_property
    def renaming(self) -> Renaming | None:
        return None if self.periodic is None else Renaming(self.mechanism, self.periodic)

    @cached_property
    def gaps(self) -> dict[str, dict[str, float | None]]:
        """Clearances, least speeds of landings and friction by the name of a gap."""
        kinds = (("clearance", True), ("landing", False), ("friction", False))
        return {what: read_gaps(self.system, getattr(self, what), what, none=none) for what, none in kinds}

    @cached_property
    def designed(self) -> dict[int, tuple[float, float]]:
        """Ranges of parameters that are found, by their numbers."""
        names = [p.name for p in self.system.parameters]
        out = {}
        for name, ends in self.design.items():
            if name not in names:
                raise ModelError(f"design: the system has no parameter {name!r}", hint=nearest(str(name), names))
            low, high = read_range(ends, f"design of {name!r}")
            if not low <= self.system.parameter_values[names.index(name)] <= high:
                raise ModelError(
                    f"design of {name!r}: its value {self.system.parameter_values[names.index(name)]:g} is outside of "
                    f"{low:g} to {high:g}",
                    hint="The search begins at the system's own value.",
                )
            out[names.index(name)] = low, high
        return out

    @property
    def _somewhere(self) -> Array:
        """A pose near the start, as good as any."""
        tangent = self.system.tangent
        return tangent.retract(self.system.configuration({}), 0.1 * np.arange(tangent.nv))

    def _check_phases(self) -> None:
        _ = self.renaming, self.gaps, self.designed
        if self.cyclic and self.goal:
            raise ModelError("goal: a periodic motion ends where it began, renamed; leave it out")
        if self.rest and (self.phases or self.cyclic):
            raise ModelError("rest: for motions of one phase that end at a goal")
        if self.solver != "ipopt" and (self.phases or self.cyclic or self.design):
            raise ModelError("solver: phases, periodic motions and designs are for 'ipopt' alone")
        if self.system.kinematic and self.cyclic:
            raise ModelError("periodic: a system with kinematic coordinates cannot be; drive them by forces")
        if self.periodic is not None and self.phases and self.system.gap_names:
            _ = Symmetry(self.system, self.periodic)  # raises where contacts do not take the place of contacts
        for phase, mode in zip(self.all_phases, self.modes, strict=True):
            slope = self.system.residuals_slope(self._somewhere)
            rows = slope[list(mode.rows), : self.mechanism.nd]
            if len(rows) and np.linalg.matrix_rank(rows, tol=1e-9) < len(rows):
                closed = ", ".join(phase.closed) or "no gap"
                raise ModelError(
                    f"phases: constraints of the phase with {closed} closed depend on each other; leave one out"
                )

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


class Options(TypedDict, total=False):
    """Keywords of ``direct``, which documents them."""

    steps: int
    time: float | tuple[float, float]
    start: Any
    goal: Any
    running: Formula
    terminal: Formula
    limits: Mapping[str, Any]
    path: Mapping[Any, Any]
    boundary: Mapping[Any, Any]
    clear: Sequence[Any]
    guess: Any
    starts: int
    seed: int
    change: float | None
    solver: str
    compiled: bool
    max_iterations: int
    tolerance: float
    weights: tuple[Any, Any] | None
    rest: bool
    phases: Sequence[Phase]
    periodic: Mapping[str, Formula] | None
    design: Mapping[str, Any]
    clearance: Mapping[str, float | None]
    landing: Mapping[str, float]
    friction: Mapping[str, float]
