"""The StepMap: everything above the integrator sees only x_next = f(x, u)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers
from stepmap.errors import ShapeError
from stepmap.steps.layout import Layout


class Event(NamedTuple):
    """What happened inside a step: a gap closed ("impact") or opened ("release"); in plans also an "act" that began."""

    time: float  # s
    step: int  # that located it; the time of a release is interpolated, and may lie in the step before
    name: str  # of the gap or the act
    kind: str
    impulse: float = 0.0  # N s
    energy: float = 0.0  # J lost


class _Solved(NamedTuple):
    x: Array
    multipliers: Array
    iterations: int


class StepResult(_Solved):
    """One step: next state, constraint forces [N] during it (positive when they pull), solver iterations.

    These three unpack; a step with events has them and the names of the gaps that were closed at its end as ``events``
    and ``modes``, which are empty for smooth steps.
    """

    events: tuple[Event, ...] = ()
    modes: tuple[str, ...] = ()


class Linearization(NamedTuple):
    """Next state with A = ∂x_next/∂x (ndx, ndx) and B = ∂x_next/∂u (ndx, nu), in the tangent space."""

    x: Array
    A: Array
    B: Array


class Curvature(NamedTuple):
    """zᵀ D²f: second derivatives of the next state contracted with z."""

    xx: Array  # (ndx, ndx)
    xu: Array  # (ndx, nu)
    uu: Array  # (nu, nu)


class Sensitivity(NamedTuple):
    """Next state with A, B and T = ∂x_next/∂θ (ndx, parameters), one column per parameter of the model."""

    x: Array
    A: Array
    B: Array
    T: Array


class LengthSensitivity(NamedTuple):
    """Next state and constraint forces with all their first derivatives, those in the length dt of the step too."""

    x: Array  # (nx)
    multipliers: Array  # (nc)
    A: Array  # (ndx, ndx)
    B: Array  # (ndx, nu)
    T: Array  # (ndx): ∂x_next/∂dt
    multipliers_x: Array  # (nc, ndx)
    multipliers_u: Array  # (nc, nu)
    multipliers_t: Array  # (nc)


class SecondSensitivity(NamedTuple):
    """Second derivatives of zᵀ x_next + mᵀ multipliers in state, input and length of the step."""

    xx: Array  # (ndx, ndx)
    xu: Array  # (ndx, nu)
    uu: Array  # (nu, nu)
    xt: Array  # (ndx)
    ut: Array  # (nu)
    tt: Array  # ()

    @classmethod
    def of(cls, H: Array, n: int) -> SecondSensitivity:
        """The blocks of Hessians (..., ns, ns) in (x, u, dt), with n tangent dimensions of x."""
        return cls(
            H[..., :n, :n], H[..., :n, n:-1], H[..., n:-1, n:-1], H[..., :n, -1], H[..., n:-1, -1], H[..., -1, -1]
        )


@dataclass(frozen=True, eq=False)
class Trajectory:
    """N steps: times t (N+1), states x (N+1, nx), inputs u (N, nu) and, where known, constraint forces (N, nc).

    ``events`` are those of all steps, in their order; ``modes`` has the closed gaps of each step. Both are empty for
    smooth steps.
    """

    t: Array
    x: Array
    u: Array
    multipliers: Array | None = None
    events: tuple[Event, ...] = ()
    modes: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        for name in ("t", "x", "u", "multipliers"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, numbers(given, f"Trajectory: {name}"))
        if self.t.ndim != 1 or self.x.ndim != 2 or self.u.ndim != 2:
            raise ShapeError(
                "Trajectory: expected t (N+1), x (N+1, nx), u (N, nu), "
                f"got {self.t.shape}, {self.x.shape}, {self.u.shape}"
            )
        if len(self.t) != len(self.x) or len(self.u) != len(self.x) - 1:
            raise ShapeError(
                f"Trajectory: N+1 times and states go with N inputs, got {len(self.t)}, {len(self.x)} and {len(self.u)}"
            )
        forces = self.multipliers
        if forces is not None and (forces.ndim != 2 or len(forces) != len(self.u)):
            raise ShapeError(f"Trajectory: expected multipliers ({len(self.u)}, nc), got {forces.shape}")

    @property
    def steps(self) -> int:
        return len(self.u)


class Steps(NamedTuple):
    """One step from each of n unrelated points."""

    x: Array  # (n, nx)
    multipliers: Array  # (n, nc)
    failed: Array  # (n): steps that have no solution; their rows are not numbers


class Rollouts(NamedTuple):
    """m rollouts of N steps."""

    t: Array  # (N+1)
    x: Array  # (m, N+1, nx)
    multipliers: Array  # (m, N, nc)
    steps: Array  # (m): those that each came to; N, or less where one has no solution: rows after it are not numbers


@runtime_checkable
class StepMap(Protocol):
    """A discrete system. Pure: the same arguments give the same result, bit for bit."""

    @property
    def layout(self) -> Layout: ...
    @property
    def nx(self) -> int: ...
    @property
    def ndx(self) -> int: ...
    @property
    def nu(self) -> int: ...
    @property
    def dt(self) -> float: ...
    @property
    def state_names(self) -> tuple[str, ...]: ...
    @property
    def input_names(self) -> tuple[str, ...]: ...

    def step(self, x: ArrayLike, u: ArrayLike) -> StepResult: ...
    def linearize(self, x: ArrayLike, u: ArrayLike) -> Linearization: ...
    def curvature(self, x: ArrayLike, u: ArrayLike, z: ArrayLike) -> Curvature: ...
    def rollout(self, x0: ArrayLike, U: ArrayLike) -> Trajectory: ...
    def follow(self, x0: ArrayLike, reference: Trajectory, gains: ArrayLike) -> Trajectory: ...
    def linearize_many(self, X: ArrayLike, U: ArrayLike) -> tuple[Array, Array, Array]: ...
    def linearize_along(self, trajectory: Trajectory) -> tuple[Array, Array]: ...
    def curvature_along(self, trajectory: Trajectory, Z: ArrayLike) -> Curvature: ...
