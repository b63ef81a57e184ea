"""Functions that C is generated from: named matrices of expressions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import casadi as ca


@dataclass(frozen=True)
class GraphFunction:
    """A CasADi function whose outputs are row-major matrices."""

    name: str
    inputs: tuple[ca.SX, ...]
    outputs: tuple[tuple[str, ca.SX], ...]

    @cached_property
    def casadi(self) -> ca.Function:
        # Functions store column-major; transposing here makes the stored order row-major.
        outputs = ca.cse([ca.densify(out).T for _, out in self.outputs])
        return ca.Function(self.name, list(self.inputs), outputs)

    @cached_property
    def sparse(self) -> ca.Function:
        """The same without structural zeros, as the C code is made from."""
        return ca.Function(self.name, list(self.inputs), ca.cse([ca.sparsify(out).T for _, out in self.outputs]))


def symmetric(matrix: ca.SX) -> ca.SX:
    """The matrix with its lower triangle read from the upper one, so each pair is one node of the graph."""
    upper = ca.triu(matrix)
    return ca.triu2symm(upper)
