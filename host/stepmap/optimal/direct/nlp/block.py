"""A block of a nonlinear program: rows and a part of the cost that depend on a few variables, alike at many places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ToolchainError
from stepmap.graph import compiler, library
from stepmap.graph.function import GraphFunction
from stepmap.graph.library import Order, Recipe

Live: TypeAlias = Callable[[ca.MX, ca.DM], ca.MX]
NAMES = ("residual", "slopes", "value", "gradient", "bends")


@dataclass(frozen=True, eq=False)
class Block:
    """Rows r(y, c) and a cost of variables y and constants c, with the derivatives in y that a solver asks for.

    Derivatives are the entries that are not structurally zero, one after another: ``slope_pattern`` and
    ``bend_pattern`` (upper triangle) tell where they stand, ``priced`` which variables the cost depends on.
    """

    y: ca.SX
    c: ca.SX
    rows: ca.SX
    cost: ca.SX = field(default_factory=lambda: ca.SX(0))

    @cached_property
    def _slopes(self) -> ca.SX:
        return ca.sparsify(ca.jacobian(self.rows, self.y))

    @cached_property
    def _gradient(self) -> ca.SX:
        return ca.sparsify(ca.densify(ca.gradient(self.cost, self.y)))

    @cached_property
    def _weights(self) -> tuple[ca.SX, ca.SX]:
        return ca.SX.sym("multipliers", self.rows.numel()), ca.SX.sym("factor")

    @cached_property
    def _bends(self) -> ca.SX:
        multipliers, factor = self._weights
        total = factor * self.cost + ca.dot(multipliers, self.rows)
        return ca.sparsify(ca.triu(ca.hessian(total, self.y)[0]))

    @property
    def size(self) -> int:
        """Rows."""
        return int(self.rows.numel())

    @cached_property
    def slope_pattern(self) -> tuple[Array, Array]:
        """Rows and columns of the entries of ``slopes``."""
        return _pattern(self._slopes)

    @cached_property
    def bend_pattern(self) -> tuple[Array, Array]:
        """Rows and columns of the entries of ``bends``."""
        return _pattern(self._bends)

    @cached_property
    def priced(self) -> Array:
        """Variables that the cost depends on."""
        return _pattern(self._gradient)[0]

    @cached_property
    def _graphs(self) -> dict[str, GraphFunction]:
        inputs = (self.y, self.c)
        cost = self.cost if len(self.priced) else ca.SX(0, 1)
        outputs = {
            "residual": (inputs, ca.densify(self.rows)),
            "slopes": (inputs, _entries(self._slopes)),
            "value": (inputs, cost),
            "gradient": (inputs, _entries(self._gradient)),
            "bends": ((*inputs, *self._weights), _entries(self._bends)),
        }
        return {name: GraphFunction(name, given, (("out", out),)) for name, (given, out) in outputs.items()}

    # what a library is made of ------------------------------------------------------------------------------------

    @property
    def model(self) -> ca.Function:
        return ca.Function("model", [self.y, self.c], [self.rows, self.cost])

    def of(self, order: Order) -> tuple[GraphFunction, ...]:
        """Those that have outputs."""
        return tuple(graph for graph in self._graphs.values() if graph.outputs[0][1].numel())

    @property
    def recipe(self) -> Recipe:
        sizes = {"NY": self.y.numel(), "NP": self.c.numel(), "NR": self.size}
        counts = {"NJ": "slopes", "NF": "value", "NG": "gradient", "NH": "bends"}
        numbers = {key: self._graphs[name].outputs[0][1].numel() for key, name in counts.items()}
        return Recipe("externals.c", self, {**sizes, **numbers})

    # how it is evaluated ------------------------------------------------------------------------------------------

    @cached_property
    def interpreted(self) -> dict[str, ca.Function]:
        """Functions of CasADi's virtual machine by name."""
        return {
            name: ca.Function(name, list(graph.inputs), [ca.densify(ca.vec(graph.outputs[0][1]))])
            for name, graph in self._graphs.items()
        }

    @cached_property
    def compiled(self) -> dict[str, ca.Function]:
        """The same, compiled, from the cache or now; those of the virtual machine where there is no compiler."""
        try:
            path = str(library.built(self.recipe, Order.SECOND))
        except ToolchainError:
            if compiler.find() is not None:
                raise
            return self.interpreted
        made = {graph.name for graph in self.of(Order.SECOND)}
        return {name: ca.external(name, path) if name in made else self.interpreted[name] for name in NAMES}


def _pattern(matrix: ca.SX) -> tuple[Array, Array]:
    rows, columns = matrix.sparsity().get_triplet()
    return np.array(rows, dtype=int), np.array(columns, dtype=int)


def _entries(matrix: ca.SX) -> ca.SX:
    return matrix.nz[:] if matrix.nnz() else ca.SX(0, 1)


@dataclass(frozen=True, eq=False)
class Placed:
    """A block at K places of a program: its variables' numbers (K, ny), constants (K, nc), bounds of rows (K, nr).

    ``stages`` (K) orders the rows of the program; ``labels`` name the rows in messages.
    """

    block: Block
    at: Array
    data: Array
    low: Array
    high: Array
    stages: Array
    labels: tuple[str, ...] = ()
    compile: bool = True  # worth a compiler's time
    live: Live | None = None  # more constants, after those of ``data``, which depend on the variables

    @property
    def count(self) -> int:
        return len(self.at)

    def constants(self, y: ca.MX) -> ca.MX:
        """The block's constants (nc, K) where its variables are y (ny, K)."""
        data = ca.DM(self.data.T)
        return ca.MX(data) if self.live is None else ca.vertcat(data, self.live(y, data))
