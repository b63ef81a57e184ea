"""Step maps of a user's own: one that offers a step and its derivatives at a point gets the loops from here."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, rows, vector
from stepmap.errors import ModelError, ShapeError
from stepmap.steps.layout import Layout
from stepmap.steps.protocol import Curvature, Linearization, StepMap, StepResult, Trajectory

NEEDED = ("dt", "nu", "step", "linearize", "curvature")


class PointwiseStep:
    """A StepMap from ``step``, ``linearize`` and ``curvature`` of one point: derive from it, or wrap an object.

    A derived class defines ``layout``, ``nu``, ``dt``, ``input_names`` and those three methods; derivatives are in the
    tangent space of its layout.
    """

    dt: float
    nu: int
    layout: Layout

    @property
    def nx(self) -> int:
        return self.layout.nx

    @property
    def ndx(self) -> int:
        return self.layout.ndx

    @property
    def state_names(self) -> tuple[str, ...]:
        return self.layout.names

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(f"u{i}" for i in range(self.nu))

    def step(self, x: ArrayLike, u: ArrayLike) -> StepResult:
        raise NotImplementedError

    def linearize(self, x: ArrayLike, u: ArrayLike) -> Linearization:
        raise NotImplementedError

    def curvature(self, x: ArrayLike, u: ArrayLike, z: ArrayLike) -> Curvature:
        raise NotImplementedError

    def rollout(self, x0: ArrayLike, U: ArrayLike) -> Trajectory:
        """N steps from x0 under inputs U (N, nu)."""
        inputs, start = rows(U, self.nu, "U"), vector(x0, self.nx, "x0")
        nowhere = Trajectory(self.dt * np.arange(len(inputs) + 1), np.tile(start, (len(inputs) + 1, 1)), inputs)
        return self.follow(start, nowhere, np.zeros((len(inputs), self.nu, self.ndx)))

    def follow(self, x0: ArrayLike, reference: Trajectory, gains: ArrayLike) -> Trajectory:
        """The projection operator: from x0 under u = ū − K (x − x̄) along a reference."""
        K = rows(gains, self.ndx, "gains")
        if K.shape != (reference.steps, self.nu, self.ndx):
            raise ShapeError(f"gains: expected {(reference.steps, self.nu, self.ndx)}, got {K.shape}")
        states, inputs = [vector(x0, self.nx, "x0")], []
        results: list[StepResult] = []
        for k in range(reference.steps):
            inputs.append(reference.u[k] - K[k] @ self.layout.difference(reference.x[k], states[k]))
            results.append(self.step(states[k], inputs[k]))
            states.append(results[k].x)
        events = tuple(event for result in results for event in result.events)
        modes = tuple(result.modes for result in results) if any(result.modes for result in results) else ()
        forces = np.array([result.multipliers for result in results]) if results else np.zeros((0, 0))
        taken = np.array(inputs).reshape(reference.steps, self.nu)
        return Trajectory(reference.t, np.array(states), taken, forces, events, modes)

    def linearize_many(self, X: ArrayLike, U: ArrayLike) -> tuple[Array, Array, Array]:
        """Next states, A and B at n unrelated points."""
        X, U = rows(X, self.nx, "X"), rows(U, self.nu, "U")
        if X.ndim != 2 or U.ndim != 2 or len(X) != len(U):
            raise ShapeError(f"X, U: expected one row per point in both, got shapes {X.shape} and {U.shape}")
        found = [self.linearize(x, u) for x, u in zip(X, U, strict=True)]
        shapes = (self.nx,), (self.ndx, self.ndx), (self.ndx, self.nu)
        after, A, B = (np.array([at[i] for at in found]).reshape(-1, *shapes[i]) for i in range(3))
        return after, A, B

    def linearize_along(self, trajectory: Trajectory) -> tuple[Array, Array]:
        """A and B at the points of a trajectory."""
        _, A, B = self.linearize_many(trajectory.x[:-1], trajectory.u)
        return A, B

    def curvature_along(self, trajectory: Trajectory, Z: ArrayLike) -> Curvature:
        """Z_kᵀ D²f at the points of a trajectory."""
        weights, n, ndx, nu = rows(Z, self.ndx, "Z"), trajectory.steps, self.ndx, self.nu
        if weights.shape != (n, ndx):
            raise ShapeError(f"Z: expected {(n, ndx)}, got {weights.shape}")
        points = zip(trajectory.x[:-1], trajectory.u, weights, strict=True)
        found = [self.curvature(x, u, z) for x, u, z in points]
        shapes = (n, ndx, ndx), (n, ndx, nu), (n, nu, nu)
        return Curvature(*(np.array([at[i] for at in found]).reshape(shape) for i, shape in enumerate(shapes)))


class _Wrapped(PointwiseStep):
    """A user's object with the loops it lacks; what it has of its own is used."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.dt, self.nu = float(inner.dt), int(inner.nu)

    @cached_property
    def layout(self) -> Layout:  # type: ignore[override]
        own = getattr(self._inner, "layout", None)
        if isinstance(own, Layout):
            return own
        nx = int(self._inner.nx)
        names = getattr(self._inner, "state_names", None) or [f"x{i}" for i in range(nx)]
        return Layout({"x": [(name, "") for name in names]})

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in ("layout", "nx", "ndx", "state_names"):
            return super().__getattribute__(name)
        inner = super().__getattribute__("_inner")
        return getattr(inner, name) if hasattr(inner, name) else super().__getattribute__(name)


def as_step_map(step: Any) -> StepMap:
    """The step map itself, or a user's object as one; raises ModelError where it lacks what it takes."""
    if isinstance(step, StepMap):
        return step
    missing = [name for name in NEEDED if not hasattr(step, name)]
    if not (hasattr(step, "layout") or hasattr(step, "nx")):
        missing.append("layout")
    if missing:
        raise ModelError(
            f"step: expected a StepMap from discretize(...), or one of your own; {type(step).__name__} lacks "
            f"{', '.join(missing)}"
        )
    return _Wrapped(step)
