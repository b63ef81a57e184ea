"""Runs a program on arrays, one entry a run: in float64, or in integers exactly as the C does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap_codegen import integers
from stepmap_codegen.formats import BlockFormats, Formats, power_of_two
from stepmap_codegen.integers import Flags, Ints
from stepmap_codegen.program import Block, Program

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
}


class FloatMachine:
    """Fields (count, runs) in floating point; remembers the largest magnitude of every line."""

    def __init__(self, program: Program, fields: Array, dtype: type = np.float64) -> None:
        self.program, self.dtype = program, dtype
        self.fields: Array = np.array(fields, dtype=dtype)
        self.seen = [np.zeros(len(block.lines)) for block in program.blocks]
        self.seen_fields = np.abs(self.fields).max(axis=1).astype(float)

    def load(self, indices: Sequence[int], values: Array) -> None:
        """Sets fields from outside, such as measurements."""
        self.fields[indices] = values
        for i, value in zip(indices, values, strict=True):
            self.seen_fields[i] = max(self.seen_fields[i], float(np.abs(value).max()))

    def run(self, number: int, where: Flags | None = None) -> Flags:
        """Runs a block in the given runs; returns in which its guard held."""
        block = self.program.blocks[number]
        values: list[Array] = []
        for line in block.lines:
            if line.code == ca.OP_CONST:
                values.append(np.asarray(line.constant, dtype=self.dtype))
            elif line.code == ca.OP_INPUT:
                values.append(self.fields[line.field])
            else:
                values.append(FLOAT[line.code](*(values[a] for a in line.arguments)))
        held = np.ones(self.fields.shape[1], bool) if where is None else where.copy()
        if block.guard:
            held &= values[block.guard.small] <= values[block.guard.large]
        early = len(block.lines) if block.guard is None else block.guard.after + 1
        for i, value in enumerate(values):
            watched = np.broadcast_to(value, held.shape)[held if i >= early else slice(None)]
            if watched.size:
                self.seen[number][i] = max(self.seen[number][i], float(np.abs(watched).max()))
        for store in block.stores:
            self.fields[store.field] = np.where(held, values[store.line], self.fields[store.field])
        for store in block.stores:
            self.seen_fields[store.field] = max(
                self.seen_fields[store.field], float(np.abs(self.fields[store.field]).max())
            )
        return held


class IntegerMachine:
    """Fields (count, runs) as integers in their formats; counts saturations of each run."""

    def __init__(self, program: Program, formats: Formats, fields: Ints) -> None:
        self.program, self.formats = program, formats
        self.fields = np.array(fields, dtype=np.int64)
        self.saturations = np.zeros(self.fields.shape[1], dtype=np.int64)

    def run(self, number: int, where: Flags | None = None) -> Flags:
        block, formats = self.program.blocks[number], self.formats.blocks[number]
        runs = self.fields.shape[1]
        held = np.ones(runs, bool) if where is None else where.copy()
        values: list[Ints] = []
        lost = np.zeros(runs, dtype=np.int64)
        for i in range(len(block.lines)):
            value, over = self._line(block, formats, values, i)
            values.append(value)
            lost += np.broadcast_to(over, (runs,)) & held
            if block.guard and i == block.guard.after:
                held &= self._compare(formats, values, block.guard.small, block.guard.large)
        for store in block.stores:
            right = formats.lines[store.line] - self.formats.fields[store.field]
            value, over = integers.shifted(values[store.line], right, self.formats.word)
            lost += np.broadcast_to(over, (runs,)) & held
            self.fields[store.field] = np.where(held, value, self.fields[store.field])
        self.saturations += lost
        return held

    def _compare(self, formats: BlockFormats, values: Sequence[Ints], small: int, large: int) -> Flags:
        """small ≤ large at the coarser of both formats."""
        common = min(formats.lines[small], formats.lines[large])
        a, _ = integers.shifted(values[small], formats.lines[small] - common, 64)
        b, _ = integers.shifted(values[large], formats.lines[large] - common, 64)
        return a <= b

    def _line(self, block: Block, formats: BlockFormats, values: list[Ints], i: int) -> tuple[Ints, Flags]:
        line, f, word = block.lines[i], formats.lines, self.formats.word
        none = np.zeros((), bool)
        if line.code == ca.OP_CONST:
            return np.asarray(constant(line.constant, f[i], word), dtype=np.int64), none
        if line.code == ca.OP_INPUT:
            return self.fields[line.field], none
        a = line.arguments
        x = values[a[0]]
        if line.code == ca.OP_NEG:
            return integers.saturate(-x, word)
        if line.code == ca.OP_TWICE:
            return x, none
        if line.code == ca.OP_SQ:
            return integers.product(x, x, 2 * f[a[0]] - f[i], word)
        if line.code == ca.OP_INV:
            return integers.reciprocal(np.atleast_1d(x), f[a[0]], f[i], word)
        y = values[a[1]]
        if line.code == ca.OP_MUL:
            if power_of_two(block.lines[a[0]]) is not None:
                return y, none
            if power_of_two(block.lines[a[1]]) is not None:
                return x, none
            return integers.product(x, y, f[a[0]] + f[a[1]] - f[i], word)
        p, over1 = integers.shifted(x, f[a[0]] - f[i], word)
        q, over2 = integers.shifted(y, f[a[1]] - f[i], word)
        if line.code == ca.OP_FMIN:
            return np.minimum(p, q), over1 | over2
        if line.code == ca.OP_FMAX:
            return np.maximum(p, q), over1 | over2
        total, over = integers.saturate(p + q if line.code == ca.OP_ADD else p - q, word)
        return total, over | over1 | over2


def constant(value: float, fraction: int, word: int) -> int:
    """A constant as an integer of that format."""
    top = integers.limit(word)
    return max(-top, min(top, round(value * 2.0**fraction)))


def encode(values: Array, fractions: Sequence[int], word: int) -> Ints:
    """Floats (count, …) as integers, each row in its format, saturated."""
    top = integers.limit(word)
    scaled = [np.clip(np.rint(np.asarray(v) * 2.0**f), -top, top) for v, f in zip(values, fractions, strict=True)]
    return np.array(scaled).astype(np.int64)


def decode(values: Ints, fractions: Sequence[int]) -> Array:
    """Integers back as floats."""
    return np.array([v * 2.0**-f for v, f in zip(values, fractions, strict=True)])
