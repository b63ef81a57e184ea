"""The exact integer model: runs a program on arrays of integers, one entry a run, as the C does bit for bit.

A block that saturates counts once, however many of its operations do: chips note saturation in a flag.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap_codegen.model import integers
from stepmap_codegen.model.chains import ChainMasks
from stepmap_codegen.model.formats import BlockFormats, Formats, power_of_two
from stepmap_codegen.model.integers import Flags, Ints
from stepmap_codegen.model.program import SELECT, Block, Program


class IntegerMachine:
    """Fields (count, runs) as integers in their formats; counts the blocks that saturated in each run."""

    def __init__(self, program: Program, formats: Formats, fields: Ints) -> None:
        self.program, self.formats = program, formats
        self.fields = np.array(fields, dtype=np.int64)
        self.chains = ChainMasks(program, self.fields.shape[1])
        self.saturations = np.zeros(self.fields.shape[1], dtype=np.int64)

    def values(self, number: int) -> tuple[list[Ints], list[Flags]]:
        """Every operation of a block and where it saturated, nothing stored."""
        block, formats = self.program.blocks[number], self.formats.blocks[number]
        values: list[Ints] = []
        over: list[Flags] = []
        for i in range(len(block.operations)):
            value, lost = self._line(block, formats, values, i)
            values.append(value)
            over.append(lost)
        return values, over

    def run(self, number: int, where: Flags | None = None) -> Flags:
        """Runs a block in the given runs; returns in which its guard held."""
        return self.store(number, *self.values(number), where)

    def store(self, number: int, values: Sequence[Ints], over: Sequence[Flags], where: Flags | None = None) -> Flags:
        """The same with what ``values`` found."""
        block, formats = self.program.blocks[number], self.formats.blocks[number]
        runs = self.fields.shape[1]
        held = self.chains.begun(number, where)
        lost = np.zeros(runs, dtype=bool)
        for i in range(len(block.operations)):
            lost |= np.broadcast_to(over[i], (runs,)) & held
            if block.guard and i == block.guard.after:
                held &= self._compare(formats, values, block.guard.small, block.guard.large)
        for k, store in enumerate(block.stores):
            right = formats.operations[store.operation] - self.formats.fields[store.field]
            cut = k in formats.cut_stores
            value, beyond = integers.shifted(values[store.operation], right, self.formats.word, cut)
            lost |= np.broadcast_to(beyond, (runs,)) & held
            self.fields[store.field] = np.where(held, value, self.fields[store.field])
        self.saturations += lost
        self.chains.taken(number, held)
        return held

    def _compare(self, formats: BlockFormats, values: Sequence[Ints], small: int, large: int) -> Flags:
        """small ≤ large at the coarser of both formats, rounded."""
        common = min(formats.operations[small], formats.operations[large])
        a, _ = integers.shifted(values[small], formats.operations[small] - common, 33)
        b, _ = integers.shifted(values[large], formats.operations[large] - common, 33)
        return a <= b

    def _line(self, block: Block, formats: BlockFormats, values: list[Ints], i: int) -> tuple[Ints, Flags]:
        operation, f, word = block.operations[i], formats.operations, self.formats.word
        cut, bits = i in formats.cut, formats.bits.get(i)
        none = np.zeros((), bool)
        if operation.code == ca.OP_CONST:
            return np.asarray(constant(operation.constant, f[i], word), dtype=np.int64), none
        if operation.code == ca.OP_INPUT:
            return self.fields[operation.field].copy(), none  # or a store would change what later stores write
        a = operation.arguments
        x = values[a[0]]
        if operation.code == ca.OP_NEG:
            return integers.saturate(-x, word)
        if operation.code == ca.OP_TWICE:
            return x, none
        if operation.code == ca.OP_SQ:
            return integers.product(x, x, 2 * f[a[0]] - f[i], word, cut, bits)
        if operation.code == ca.OP_INV:
            return integers.reciprocal(np.atleast_1d(x), f[a[0]], f[i], word)
        if operation.code in (ca.OP_SIN, ca.OP_COS):
            wave = integers.sine if operation.code == ca.OP_SIN else integers.cosine
            return integers.shifted(wave(np.atleast_1d(x), f[a[0]]), 30 - f[i], word)
        if operation.code == ca.OP_SQRT:
            return integers.root(np.atleast_1d(x), f[a[0]], f[i], word)
        if operation.code == ca.OP_FABS:
            return integers.saturate(np.abs(x), word)
        if operation.code == ca.OP_SIGN:
            return np.sign(x) << np.int64(f[i]), none
        if operation.code == SELECT:  # its format is no finer than those it selects from, so nothing saturates
            yes, no = (integers.shifted(values[k], f[k] - f[i], word, cut)[0] for k in a[2:])
            return np.where(self._compare(formats, values, a[0], a[1]), yes, no), none
        y = values[a[1]]
        if operation.code == ca.OP_MUL:
            if power_of_two(block.operations[a[0]]) is not None:
                return y, none
            if power_of_two(block.operations[a[1]]) is not None:
                return x, none
            return integers.product(x, y, f[a[0]] + f[a[1]] - f[i], word, cut, bits)
        p, over1 = integers.shifted(x, f[a[0]] - f[i], word, cut)
        q, over2 = integers.shifted(y, f[a[1]] - f[i], word, cut)
        if operation.code == ca.OP_FMIN:
            return np.minimum(p, q), over1 | over2
        if operation.code == ca.OP_FMAX:
            return np.maximum(p, q), over1 | over2
        total, over = integers.saturate(p + q if operation.code == ca.OP_ADD else p - q, word)
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


def decode(values: Ints | Sequence[Ints], fractions: Sequence[int]) -> Array:
    """Integers back as floats."""
    return np.array(np.broadcast_arrays(*(v * 2.0**-f for v, f in zip(values, fractions, strict=True))))
