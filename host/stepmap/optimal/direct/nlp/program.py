"""A nonlinear program assembled from blocks: its functions, sparse derivatives and solver.

    min Σ cost(y, c)   low ≤ r(y, c) ≤ high for all blocks,   low ≤ w ≤ high

Jacobian and Hessian are made of the blocks' entries by a permutation, or a sum where blocks share variables, so that
compiled blocks need no derivative of CasADi.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.optimal.direct.nlp.block import Placed


@dataclass(frozen=True, eq=False)
class Program:
    """Blocks over ``size`` variables; ``compiled`` evaluates those that are worth it by their libraries.

    With variables to stay ``near`` to, ½ Σ ((w − near)/(1 + |near|))² is in place of the blocks' costs.
    """

    size: int
    placed: tuple[Placed, ...]
    compiled: bool = True
    near: Array | None = None

    @cached_property
    def _order(self) -> Array:
        """Places of all rows, block after block, in the program's order: by stages."""
        stages = [np.repeat(p.stages, p.block.size) for p in self.placed]
        return np.argsort(np.concatenate([*stages, np.zeros(0)]), kind="stable")

    @cached_property
    def _rows(self) -> list[Array]:
        """Numbers of the rows of each block, (K, nr)."""
        place = np.empty(len(self._order), dtype=int)
        place[self._order] = np.arange(len(place))
        sizes = [p.count * p.block.size for p in self.placed]
        parts = np.split(place, np.cumsum(sizes)[:-1]) if sizes else []
        return [part.reshape(p.count, p.block.size) for part, p in zip(parts, self.placed, strict=True)]

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Low and high bounds of the rows."""
        low, high = (np.concatenate([getattr(p, side).ravel() for p in self.placed]) for side in ("low", "high"))
        return low[self._order], high[self._order]

    def label(self, row: int) -> tuple[str, int]:
        """What a row is called, and at which place of its block it stands."""
        for p, rows in zip(self.placed, self._rows, strict=True):
            found = np.argwhere(rows == row)
            if len(found):
                k, i = found[0]
                return (p.labels[i] if p.labels else "row"), int(p.stages[k])
        return "row", 0

    def _calls(self, name: str, w: ca.MX, *more: Sequence[ca.MX]) -> list[ca.MX]:
        """The values of one of the functions of all blocks, each as a column, place after place."""
        out = []
        for i, p in enumerate(self.placed):
            functions = p.block.compiled if self.compiled and p.compile else p.block.interpreted
            function = functions[name]
            if not function.numel_out(0):
                out.append(ca.MX(0, 1))
                continue
            y = ca.reshape(w[p.at.ravel().tolist()], p.at.shape[1], p.count)
            arguments = [y, p.constants(y), *(given[i] for given in more)]
            values: Any = function.map(p.count)(*arguments)
            out.append(ca.vec(values))
        return out

    def _residual(self, w: ca.MX) -> ca.MX:
        return ca.vertcat(*self._calls("residual", w))[self._order.tolist()]

    def _value(self, w: ca.MX) -> ca.MX:
        if self.near is not None:
            return ca.sumsqr((w - ca.DM(self.near)) / ca.DM(1 + np.abs(self.near))) / 2
        return ca.sum1(ca.vertcat(ca.MX(ca.DM.zeros(1)), *self._calls("value", w)))

    @cached_property
    def functions(self) -> Mapping[str, ca.Function]:
        """Jacobian, gradient and Hessian as IPOPT takes them from CasADi."""
        w, p = ca.MX.sym("w", self.size), ca.MX.sym("p", 0)
        factor, multipliers = ca.MX.sym("factor"), ca.MX.sym("multipliers", len(self._order))
        jacobian = self._jacobian(ca.vertcat(*self._calls("slopes", w)))
        gradient = self._gradient(w)
        weights = [ca.reshape(multipliers[rows.ravel().tolist()], rows.shape[1], len(rows)) for rows in self._rows]
        price = factor if self.near is None else 0 * factor
        factors = [ca.repmat(price, 1, placed.count) for placed in self.placed]
        hessian = self._hessian(ca.vertcat(*self._calls("bends", w, weights, factors)))
        if self.near is not None:
            hessian = hessian + factor * ca.diag(ca.DM((1 + np.abs(self.near)) ** -2.0))
        return {
            "jac_g": ca.Function("nlp_jac_g", [w, p], [self._residual(w), jacobian], ["x", "p"], ["g", "jac:g:x"]),
            "grad_f": ca.Function("nlp_grad_f", [w, p], [self._value(w), gradient], ["x", "p"], ["f", "grad:f:x"]),
            "hess_lag": ca.Function(
                "nlp_hess_l",
                [w, p, factor, multipliers],
                [hessian],
                ["x", "p", "lam:f", "lam:g"],
                ["triu:hess:gamma:x:x"],
            ),
        }

    def _jacobian(self, entries: ca.MX) -> ca.MX:
        rows, columns = [], []
        for p, own in zip(self.placed, self._rows, strict=True):
            i, j = p.block.slope_pattern
            rows.append(own[:, i].ravel())
            columns.append(p.at[:, j].ravel())
        return _sparse((len(self._order), self.size), np.concatenate(rows), np.concatenate(columns), entries)

    def _hessian(self, entries: ca.MX) -> ca.MX:
        rows, columns = [], []
        for p in self.placed:
            i, j = p.block.bend_pattern
            a, b = p.at[:, i].ravel(), p.at[:, j].ravel()
            rows.append(np.minimum(a, b))
            columns.append(np.maximum(a, b))
        return _sparse((self.size, self.size), np.concatenate(rows), np.concatenate(columns), entries)

    def _gradient(self, w: ca.MX) -> ca.MX:
        if self.near is not None:
            return (w - ca.DM(self.near)) / ca.DM((1 + np.abs(self.near)) ** 2)
        entries = ca.vertcat(*self._calls("gradient", w))
        rows = np.concatenate([p.at[:, p.block.priced].ravel() for p in self.placed])
        return ca.densify(_sparse((self.size, 1), rows, np.zeros_like(rows), entries))

    def cost(self, w: Array) -> float:
        """What the variables cost."""
        return float(self.functions["grad_f"](w, ca.DM(0, 1))[0])

    def solver(self, name: str, options: Mapping[str, Any]) -> ca.Function:
        """The solver; IPOPT is given derivatives, fatrop finds the stages and derives by itself."""
        w = ca.MX.sym("w", self.size)
        problem: Any = {"x": w, "f": self._value(w), "g": self._residual(w)}
        if name == "ipopt":
            given: dict[str, Any] = {"no_nlp_grad": True, "calc_lam_p": False, **self.functions}
            problem["p"] = ca.MX.sym("p", 0)
        else:
            low, high = self.bounds
            given = {"structure_detection": "auto", "equality": (low == high).tolist(), "expand": False}
        return ca.nlpsol("direct", name, problem, {"print_time": False, **given, **options})


def _sparse(shape: tuple[int, int], rows: Array, columns: Array, entries: ca.MX) -> ca.MX:
    """The matrix of these entries; those at one place are added."""
    keys = columns.astype(np.int64) * shape[0] + rows
    places, inverse = np.unique(keys, return_inverse=True)
    pattern = ca.Sparsity.triplet(*shape, (places % shape[0]).tolist(), (places // shape[0]).tolist())
    if len(places) == len(keys):
        order = np.empty(len(keys), dtype=int)
        order[inverse] = np.arange(len(keys))
        return ca.MX(pattern, entries[order.tolist()])
    count = len(keys)
    adding = ca.Sparsity.triplet(len(places), count, inverse.tolist(), list(range(count)))
    return ca.MX(pattern, ca.mtimes(ca.MX(ca.DM(adding, 1.0)), entries))
