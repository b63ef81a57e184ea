"""Expressions of a point of a trajectory, with their derivatives, compiled: what terms are made of."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError, ToolchainError
from stepmap.graph import compiler, library
from stepmap.graph.function import GraphFunction, symmetric
from stepmap.graph.library import Order
from stepmap.optimal.terms.term import constraint_names, forces_count
from stepmap.steps.kernels.equations import Equations
from stepmap.steps.protocol import StepMap, Trajectory


@dataclass(frozen=True, eq=False)
class Symbols:
    """Symbols of one point: state (stored numbers), input, constraint forces, time, data of a term, parameters."""

    x: ca.SX
    u: ca.SX
    forces: ca.SX
    t: ca.SX
    data: ca.SX
    parameters: ca.SX

    @property
    def all(self) -> tuple[ca.SX, ...]:
        return self.x, self.u, self.forces, self.t, self.data, self.parameters


def symbols(step: StepMap, data: int = 0) -> Symbols:
    """Fresh symbols for a map; parameters are those of its system's own expressions."""
    system = getattr(step, "system", None)
    par = ca.SX(0, 1) if system is None else system.expressions.parameters
    sizes = {"x": step.nx, "u": step.nu, "forces": forces_count(step), "t": 1, "data": data}
    return Symbols(**{name: ca.SX.sym(name, size) for name, size in sizes.items()}, parameters=par)


def by_name(step: StepMap, at: Symbols) -> Mapping[str, ca.SX]:
    """Symbols by the names of states, inputs and constraints, and ``t``."""
    groups = ((constraint_names(step), at.forces), (step.input_names, at.u), (step.layout.names, at.x))
    named = {name: vector[i] for names, vector in groups for i, name in enumerate(names)}
    return named | {"t": at.t}


def retracted(step: StepMap, x: ca.SX) -> tuple[ca.SX, ca.SX]:
    """A tangent vector dx at a state, and the state that it leads to, as symbols."""
    dx = ca.SX.sym("dx", step.ndx)
    if step.layout.plain:
        return dx, x + dx
    equations = getattr(step, "equations", None)
    if not isinstance(equations, Equations):
        raise ModelError("step: expressions on a manifold need its retraction as an expression (step.equations)")
    return dx, equations.retract(x, dx)


class _Functions:
    """r, its slopes in the entries of w that it depends on, and its contracted second derivatives."""

    def __init__(self, step: StepMap, at: Symbols, r: ca.SX) -> None:
        self.symbols, self.r = at, r
        self.dx, moved = ca.SX.sym("dx", step.ndx), None
        if not step.layout.plain:
            self.dx, moved = retracted(step, at.x)
        self.moved = r if moved is None else ca.substitute(r, at.x, moved)
        w = ca.vertcat(at.x if moved is None else self.dx, at.u, at.forces)
        self.plain = moved is None
        columns = ca.jacobian(self.moved, w).sparsity().get_col()
        self.at = np.array(sorted(set(columns)), dtype=int)
        self.w = w[self.at.tolist()] if len(self.at) else ca.SX(0, 1)

    def _here(self, expression: ca.SX) -> ca.SX:
        return expression if self.plain else ca.substitute(expression, self.dx, ca.SX.zeros(self.dx.numel()))

    @cached_property
    def values(self) -> GraphFunction:
        return GraphFunction("values", self.symbols.all, (("r", self.r),))

    @cached_property
    def slopes(self) -> GraphFunction:
        J = self._here(ca.jacobian(self.moved, self.w))
        return GraphFunction("slopes", self.symbols.all, (("r", self.r), ("J", J)))

    @cached_property
    def bends(self) -> GraphFunction:
        y = ca.SX.sym("y", self.r.numel())
        H = symmetric(self._here(ca.hessian(ca.dot(y, self.moved), self.w)[0]))
        return GraphFunction("bends", (*self.symbols.all, y), (("H", H),))

    @property
    def model(self) -> ca.Function:
        return ca.Function("model", [*self.symbols.all, self.dx], [self.r, self.moved])

    def of(self, order: Order) -> tuple[GraphFunction, ...]:
        return (self.values, self.slopes) if order is Order.FIRST else (self.values, self.slopes, self.bends)


class Residual:
    """r(x, u, forces, t, data) of a map, evaluated at many points; ``at`` are the entries of w that it depends on."""

    def __init__(self, step: StepMap, at: Symbols, r: ca.SX) -> None:
        self.functions = _Functions(step, at, ca.densify(ca.vec(r)))
        self.at = self.functions.at
        self.size = int(self.functions.r.numel())
        parameters = getattr(step, "parameter_values", np.zeros(0))
        self._parameters = np.ascontiguousarray(parameters, dtype=float)
        sizes = dict(zip(("NX", "NV", "NC", "", "NP"), (part.numel() for part in at.all), strict=False))
        sizes.pop("")
        self.recipe = library.Recipe("pointwise.c", self.functions, sizes | {"NR": self.size, "NW": len(self.at)})
        self._loaded: dict[Order, ctypes.CDLL | None] = {}

    def values(self, points: Points) -> Array:
        """r (K, size)."""
        r = np.zeros((len(points.t), self.size))
        return self._call(Order.FIRST, "values", points, (), (r,))[0]

    def slopes(self, points: Points) -> tuple[Array, Array]:
        """r (K, size) and J (K, size, n)."""
        r, J = np.zeros((len(points.t), self.size)), np.zeros((len(points.t), self.size, len(self.at)))
        made = self._call(Order.FIRST, "slopes", points, (), (r, J))
        return made[0], made[1]

    def bends(self, points: Points, y: Array) -> Array:
        """Second derivatives of yᵀ r, (K, n, n), with weights y (K, size)."""
        H = np.zeros((len(points.t), len(self.at), len(self.at)))
        return self._call(Order.SECOND, "bends", points, (np.ascontiguousarray(y, dtype=float),), (H,))[0]

    def _call(
        self, order: Order, name: str, points: Points, more: tuple[Array, ...], out: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        if not all(part.size for part in out):
            return out
        loaded = self._library(order)
        if loaded is None:
            return self._evaluate(name, points, more, out)
        rows = (*points.rows, self._parameters)
        addresses = (ctypes.c_void_p * len(rows))(*(part.ctypes.data for part in rows))
        scratch = np.empty(loaded.sm_scratch())
        pointers = (ctypes.c_void_p(part.ctypes.data) for part in (*more, *out, scratch))
        getattr(loaded, f"sm_{name}_all")(addresses, ctypes.c_int(len(points.t)), *pointers)
        return out

    def _evaluate(
        self, name: str, points: Points, more: tuple[Array, ...], out: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        """The same by CasADi's evaluator."""
        count = len(points.t)
        function: ca.Function = getattr(self.functions, name).casadi.map(count)
        parameters = np.tile(self._parameters[:, None], count)
        made = function(*(part.reshape(count, -1).T for part in points.rows), parameters, *(part.T for part in more))
        # Outputs are transposed matrices beside each other, in stored order: row-major ones after each other.
        found = made if isinstance(made, tuple) else (made,)
        return tuple(np.asarray(m).T.reshape(like.shape) for m, like in zip(found, out, strict=True))

    def _library(self, order: Order) -> ctypes.CDLL | None:
        if order not in self._loaded:
            try:
                self._loaded[order] = library.load(self.recipe, order)
                self._loaded[order].sm_scratch.restype = ctypes.c_size_t  # type: ignore[union-attr]
            except ToolchainError:
                if compiler.find() is not None:
                    raise  # it was found and failed
                self._loaded[order] = None
        return self._loaded[order]


@dataclass(frozen=True, eq=False)
class Points:
    """Where expressions are evaluated: one row per point."""

    x: Array
    u: Array
    forces: Array
    t: Array
    data: Array

    @property
    def rows(self) -> tuple[Array, ...]:
        return self.x, self.u, self.forces, self.t, self.data


def steps_of(step: StepMap, trajectory: Trajectory, data: Array | None = None) -> Points:
    """The N points of a trajectory that have inputs."""
    n = trajectory.steps
    forces = trajectory.multipliers if trajectory.multipliers is not None else np.zeros((n, forces_count(step)))
    return _points(trajectory.x[:-1], trajectory.u, forces, trajectory.t[:-1], data)


def end_of(step: StepMap, trajectory: Trajectory, data: Array | None = None) -> Points:
    """The last state of a trajectory."""
    nothing = np.zeros((1, step.nu)), np.zeros((1, forces_count(step)))
    return _points(trajectory.x[-1:], *nothing, trajectory.t[-1:], data)


def _points(x: Array, u: Array, forces: Array, t: Array, data: Array | None) -> Points:
    rows = (x, u, forces, t, np.zeros((len(t), 0)) if data is None else data)
    return Points(*(np.ascontiguousarray(part, dtype=float) for part in rows))
