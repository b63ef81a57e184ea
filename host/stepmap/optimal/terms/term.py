"""What a term of a cost is: a value along a trajectory, and its second-order expansion there.

Every step has the entries w = (dx, u, forces): tangent dimensions of the state, inputs, constraint forces. A term
depends on some of them, and gives its derivatives in these alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from stepmap.arrays import Array
from stepmap.errors import ShapeError
from stepmap.steps.protocol import StepMap, Trajectory

Later: TypeAlias = Callable[[], Array]
"""A second derivative that is evaluated when a search asks for it, which many iterations do not."""


@dataclass(frozen=True, eq=False)
class Part:
    """Derivatives of a cost at K points in n of the entries w.

    The exact second derivative is ``positive`` + ``bend``: the first is positive semidefinite (Gauss–Newton's), the
    second is what is left, or None where nothing is.
    """

    at: Array  # (n): places in w, each once
    slope: Array  # (K, n)
    positive: Array  # (K, n, n), or (n, n) where it is the same at all points
    bend: Array | Later | None = None  # (K, n, n)


class Expanded(NamedTuple):
    """A term's expansion: parts of the N steps, and parts of the end (K = 1), which depend on dx alone."""

    running: tuple[Part, ...] = ()
    end: tuple[Part, ...] = ()


class BoundTerm(Protocol):
    """A term that is ready to be evaluated.

    It may also offer ``horizon``, the number of steps that it is for; ``forces = True`` where it depends on constraint
    forces: trajectories then have them; ``weights`` and ``reference`` as in an Objective.
    """

    def value(self, trajectory: Trajectory) -> float: ...
    def expand(self, trajectory: Trajectory) -> Expanded: ...


@runtime_checkable
class Term(Protocol):
    """A term as a user writes it: plain data that can be pickled, and ``on(step)``, which makes it ready for a map.

    One that needs to know nothing of the map may be a BoundTerm itself.
    """

    def on(self, step: StepMap) -> BoundTerm: ...


def forces_count(step: StepMap) -> int:
    """How many constraint forces a map has."""
    return int(getattr(step, "nc", 0))


def constraint_names(step: StepMap) -> tuple[str, ...]:
    """Names of the constraints whose forces a map tells."""
    system = getattr(step, "system", None)
    return () if system is None else tuple(system.constraint_names)


def require_horizon(trajectory: Trajectory, steps: int, what: str) -> None:
    """Raises ShapeError where a trajectory has another number of steps than a term is for."""
    if trajectory.steps != steps:
        raise ShapeError(f"trajectory: {what} is for {steps} steps, got {trajectory.steps}")
