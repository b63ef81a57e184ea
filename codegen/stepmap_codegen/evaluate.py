"""Runs a program on arrays in floating point, one entry a run, and remembers how large everything became."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import RangeError
from stepmap_codegen.integers import Flags
from stepmap_codegen.program import Program, Role

FLOAT: dict[int, Callable[..., Array]] = {
    ca.OP_ADD: lambda a, b: a + b,
    ca.OP_SUB: lambda a, b: a - b,
    ca.OP_MUL: lambda a, b: a * b,
    ca.OP_SQ: lambda a: a * a,
    ca.OP_NEG: lambda a: -a,
    ca.OP_TWICE: lambda a: 2 * a,
    ca.OP_INV: lambda a: 1 / a,
    ca.OP_SIN: np.sin,
    ca.OP_COS: np.cos,
    ca.OP_SQRT: np.sqrt,
    ca.OP_FMIN: np.minimum,
    ca.OP_FMAX: np.maximum,
    ca.OP_FABS: np.abs,
    ca.OP_SIGN: np.sign,
}


class FloatMachine:
    """Fields (count, runs) in floating point; remembers the range of every field and the magnitudes of every line."""

    def __init__(self, program: Program, fields: Array, dtype: type = np.float64) -> None:
        self.program, self.dtype = program, dtype
        self.fields: Array = np.array(fields, dtype=dtype)
        self.seen = [np.zeros(len(block.lines)) for block in program.blocks]
        count = len(program.fields)
        self.low, self.high, self.least = np.full(count, np.inf), np.full(count, -np.inf), np.full(count, np.inf)
        self._watch([*program.of(Role.STATE), *program.of(Role.COVARIANCE)])

    def load(self, indices: Sequence[int], values: Array) -> None:
        """Sets fields from outside, such as measurements."""
        self.fields[indices] = values
        self._watch(indices)

    def values(self, number: int) -> Array:
        """Every line of a block (lines, runs), nothing stored."""
        lines = self.program.blocks[number].lines
        values: Array = np.empty((len(lines), self.fields.shape[1]), dtype=self.dtype)
        for i, line in enumerate(lines):
            if line.code == ca.OP_CONST:
                values[i] = line.constant
            elif line.code == ca.OP_INPUT:
                values[i] = self.fields[line.field]
            else:
                values[i] = float_rule(line.code)(*(values[a] for a in line.arguments))
        return values

    def run(self, number: int, where: Flags | None = None) -> Flags:
        """Runs a block in the given runs; returns in which its guard held."""
        block, values = self.program.blocks[number], self.values(number)
        held = np.ones(self.fields.shape[1], bool) if where is None else where.copy()
        if block.guard:
            held &= values[block.guard.small] <= values[block.guard.large]
        early = len(block.lines) if block.guard is None else block.guard.after + 1
        sizes = np.abs(values)
        for part, seen in ((slice(0, early), sizes[:early]), (slice(early, None), sizes[early:, held])):
            if seen.size:
                self.seen[number][part] = np.maximum(self.seen[number][part], seen.max(axis=1))
        for store in block.stores:
            self.fields[store.field] = np.where(held, values[store.line], self.fields[store.field])
        self._watch([store.field for store in block.stores])
        return held

    def _watch(self, indices: Sequence[int]) -> None:
        values = self.fields[indices]
        if values.size:
            self.low[indices] = np.minimum(self.low[indices], values.min(axis=1))
            self.high[indices] = np.maximum(self.high[indices], values.max(axis=1))
            self.least[indices] = np.minimum(self.least[indices], np.abs(values).min(axis=1))


def float_rule(code: int) -> Callable[..., Array]:
    """What an operation of CasADi does to arrays."""
    if code in FLOAT:
        return FLOAT[code]
    raise RangeError(f"operation {code} of CasADi has no form in generated controllers")
