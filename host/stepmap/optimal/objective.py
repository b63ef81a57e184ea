"""What a search asks of a cost: its value, and its second-order expansion along a trajectory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from stepmap.arrays import Array
from stepmap.steps.protocol import Trajectory


class Bend(NamedTuple):
    """Second derivatives that need not be positive; they join the curvature of the dynamics. None is zero."""

    xx: Array | None = None  # (N, ndx, ndx)
    xu: Array | None = None  # (N, ndx, nu)
    uu: Array | None = None  # (N, nu, nu)
    terminal: Array | None = None  # (ndx, ndx)


class Expansion(NamedTuple):
    """Second-order expansion of a cost along a trajectory, in the tangent space; the last row of x is the end's.

    xx, xu, uu and terminal are positive: they are the Gauss–Newton model. What is missing from the exact second
    derivative is ``bend``, and the curvature of the constraint forces weighted with ``multipliers``.
    """

    x: Array  # (N+1, ndx)
    u: Array  # (N, nu)
    xx: Array  # (N, ndx, ndx), or (ndx, ndx) where it is the same at all times
    uu: Array  # (N, nu, nu), or (nu, nu)
    terminal: Array  # (ndx, ndx)
    xu: Array | None = None  # (N, ndx, nu), or (ndx, nu)
    bend: Callable[[], Bend] | None = None  # evaluated when a search asks for it
    multipliers: Array | None = None  # (N, nc), slopes in the constraint forces; contained in x and u
    linearization: tuple[Array, Array] | None = None  # A and B, where the expansion needed them


class Weights(NamedTuple):
    """Of a regulator along a trajectory: Q, R and Qf."""

    Q: Array
    R: Array
    Qf: Array


@runtime_checkable
class Objective(Protocol):
    """A cost of trajectories. ``horizon`` is the number of steps it is for, or None for any.

    One that has to know the step map offers ``on(step)``, which returns the objective for it; one that has a reference
    offers ``reference``, and one that has weights of a regulator ``weights``.
    """

    @property
    def horizon(self) -> int | None: ...
    def value(self, trajectory: Trajectory) -> float: ...
    def expand(self, trajectory: Trajectory) -> Expansion: ...
