"""The StepMap: everything above the integrator sees only x_next = f(x, u)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ShapeError


class StepResult(NamedTuple):
    """One step: next state, constraint forces [N] during it (positive when they pull), solver iterations."""

    x: Array
    multipliers: Array
    iterations: int


class Linearization(NamedTuple):
    """Next state with A = ∂x_next/∂x and B = ∂x_next/∂u."""

    x: Array
    A: Array
    B: Array


class Curvature(NamedTuple):
    """zᵀ D²f: second derivatives of the next state contracted with z."""

    xx: Array  # (nx, nx)
    xu: Array  # (nx, nu)
    uu: Array  # (nu, nu)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """N steps: times t (N+1), states x (N+1, nx), inputs u (N, nu) and, where known, constraint forces (N, nc)."""

    t: Array
    x: Array
    u: Array
    multipliers: Array | None = None

    def __post_init__(self) -> None:
        for name in ("t", "x", "u"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=float))
        if self.t.ndim != 1 or self.x.ndim != 2 or self.u.ndim != 2:
            raise ShapeError(
                "Trajectory: expected t (N+1), x (N+1, nx), u (N, nu), "
                f"got {self.t.shape}, {self.x.shape}, {self.u.shape}"
            )
        if len(self.t) != len(self.x) or len(self.u) != len(self.x) - 1:
            raise ShapeError(
                f"Trajectory: N+1 times and states go with N inputs, got {len(self.t)}, {len(self.x)} and {len(self.u)}"
            )

    @property
    def steps(self) -> int:
        return len(self.u)


@runtime_checkable
class StepMap(Protocol):
    """A discrete system. Pure: the same arguments give the same result, bit for bit."""

    @property
    def nx(self) -> int: ...
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
