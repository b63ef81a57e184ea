"""The exact integer model of one run on plain integers: what `interpret.IntegerMachine` does, many times faster.

An array with one entry costs numpy as much as one with a thousand. Where a single run is followed tick by tick, as
beside a board, every block becomes a Python function instead: sums, products and shifts are written out, and the rarer
operations are those of `integers`, which stay defined in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import casadi as ca
import numpy as np

from stepmap_codegen.model import integers
from stepmap_codegen.model.formats import BlockFormats, Formats, power_of_two
from stepmap_codegen.model.integer_machine import constant
from stepmap_codegen.model.program import SELECT, Block, Operation, Program


@dataclass(frozen=True)
class _Functions:
    """A block on a list of fields."""

    run: Callable[[list[int]], tuple[bool, int]]  # whether its guard held, and 1 where something saturated
    values: Callable[[list[int]], list[int]]


class SingleRunMachine:
    """Fields as integers in their formats; counts blocks that saturated."""

    def __init__(self, program: Program, formats: Formats, fields: Iterable[int]) -> None:
        self.program, self.formats = program, formats
        self.fields = [int(v) for v in fields]
        self.saturations = 0
        self._taken = ""  # the chain of which a block has stored, until its first block begins again
        self._blocks = _compiled(program, formats)

    def values(self, number: int) -> list[int]:
        """Every operation of a block, whatever its guard says, nothing stored."""
        return self._blocks[number].values(self.fields)

    def run(self, number: int) -> bool:
        """Runs a block; returns whether its guard held, which it does not where its chain has been decided."""
        chain = self.program.blocks[number].chain
        if chain:
            if number == self.program.chains[chain][0]:
                self._taken = ""
            if self._taken == chain:
                return False
        held, lost = self._blocks[number].run(self.fields)
        if chain and held:
            self._taken = chain
        self.saturations += lost
        return held


@cache
def _compiled(program: Program, formats: Formats) -> list[_Functions]:
    return [_functions(block, bits, formats) for block, bits in zip(program.blocks, formats.blocks, strict=True)]


def _functions(block: Block, bits: BlockFormats, formats: Formats) -> _Functions:
    statements = [_statements(block, op, i, bits, formats.word) for i, op in enumerate(block.operations)]
    every = ", ".join(f"v{i}" for i in range(len(statements)))
    scope: dict[str, Any] = {"reciprocal": _reciprocal, "wave": _wave, "root": _root}
    bodies = {"run": _run(block, statements, bits, formats), "values": [*chain(*statements), f"return [{every}]"]}
    for name, body in bodies.items():
        exec("\n    ".join([f"def {name}(f):", "n = 0", *body]), scope)  # a program holds numbers and no text
    return _Functions(scope["run"], scope["values"])


def _run(block: Block, statements: Sequence[list[str]], bits: BlockFormats, formats: Formats) -> list[str]:
    """The statements of a block. ``n`` is whether anything saturated, ``s`` whether an operation did."""
    said: list[str] = []
    for i, part in enumerate(statements):
        said += part
        if block.guard is not None and i == block.guard.after:
            said.append(f"if not {_compared(bits.operations, block.guard.small, block.guard.large)}: return False, n")
    for k, store in enumerate(block.stores):
        right = bits.operations[store.operation] - formats.fields[store.field]
        said += _aligned(f"t{k}", f"v{store.operation}", right, formats.word, k in bits.cut_stores)
    said += [f"f[{store.field}] = t{k}" for k, store in enumerate(block.stores)]
    return [*said, "return True, n"]


def _statements(block: Block, op: Operation, i: int, bits: BlockFormats, word: int) -> list[str]:
    v, a, f, cut = f"v{i}", op.arguments, bits.operations, i in bits.cut
    if op.code == ca.OP_CONST:
        return [f"{v} = {constant(op.constant, f[i], word)}"]
    if op.code == ca.OP_INPUT:
        return [f"{v} = f[{op.field}]"]
    x = f"v{a[0]}"
    if op.code == ca.OP_TWICE:
        return [f"{v} = {x}"]
    if op.code == ca.OP_SIGN:
        return [f"{v} = (({x} > 0) - ({x} < 0)) << {f[i]}"]
    if op.code == SELECT:
        yes, no = (_shift(f"v{k}", f[k] - f[i], cut) for k in a[2:])
        return [f"{v} = ({yes}) if {_compared(f, a[0], a[1])} else ({no})"]
    if op.code in RARE:
        return [f"{v}, s = {RARE[op.code].format(x=x, of=f[a[0]], to=f[i], word=word)}", "n |= s"]
    if op.code == ca.OP_MUL:
        for one, other in (a, a[::-1]):
            if power_of_two(block.operations[one]) is not None:
                return [f"{v} = v{other}"]
    if op.code in (ca.OP_MUL, ca.OP_SQ):
        return _product(v, f"{x}*v{a[-1]}", f[a[0]] + f[a[-1]] - f[i], word, cut, bits.bits.get(i, word))
    whole = {ca.OP_NEG: f"-{x}", ca.OP_FABS: f"abs({x})"}
    if op.code in whole:
        return [f"{v} = {whole[op.code]}", *_saturated(v, word)]
    left, right = f[a[0]] - f[i], f[a[1]] - f[i]
    operands = [*_aligned("p", x, left, word, cut), *_aligned("q", f"v{a[1]}", right, word, cut)]
    return [*operands, f"{v} = {PAIRS[op.code]}", *_saturated(v, word)]


RARE = {
    ca.OP_INV: "reciprocal({x}, {of}, {to}, {word})",
    ca.OP_SIN: "wave(True, {x}, {of}, {to}, {word})",
    ca.OP_COS: "wave(False, {x}, {of}, {to}, {word})",
    ca.OP_SQRT: "root({x}, {of}, {to}, {word})",
}
PAIRS = {ca.OP_ADD: "p + q", ca.OP_SUB: "p - q", ca.OP_FMIN: "min(p, q)", ca.OP_FMAX: "max(p, q)"}


def _shift(v: str, right: int, cut: bool = False) -> str:
    """v·2^−right, rounded or cut off; right ≥ 0."""
    if right >= 32:
        return "0"
    return v if right == 0 else f"{v} >> {right}" if cut else f"({v} + {1 << (right - 1)}) >> {right}"


def _product(v: str, factors: str, right: int, word: int, cut: bool, bits: int) -> list[str]:
    """What `integers.product` does."""
    if right > 62:
        return [f"{v} = 0"]
    whole = f"w = {factors}" if cut else f"w = {factors} + {1 << (right - 1)}"
    if word < 32 or right >= 32:
        return [whole, f"{v} = w >> {right}", *_saturated(v, bits)]
    top, least = (limit << 32 for limit in _limits(right - 32 + bits))
    below = f"w & {0xFFFFFFFF}; n = 1"
    held = [f"if w > {top | 0xFFFFFFFF}: w = {top} | {below}", f"elif w < {least}: w = {least} | {below}"]
    return [whole, *held, f"{v} = w >> {right}"]


def _limits(word: int) -> tuple[int, int]:
    top = integers.limit(word)
    return top, -top - 1


def _saturated(v: str, word: int) -> list[str]:
    top, least = _limits(word)
    return [f"if {v} > {top}: {v} = {top}; n = 1", f"elif {v} < {least}: {v} = {least}; n = 1"]


def _aligned(name: str, v: str, right: int, word: int, cut: bool) -> list[str]:
    """An operand of a sum or what is stored, in the format of the result."""
    if right >= 0:
        return [f"{name} = {_shift(v, right, cut)}", *(_saturated(name, word) if right and not cut else [])]
    left = min(-right, word - 1)
    return [f"{name} = {v}", *_saturated(name, word - left), f"{name} <<= {left}"]


def _compared(f: Sequence[int], small: int, large: int) -> str:
    """small ≤ large at the coarser of both formats."""
    common = min(f[small], f[large])
    return " <= ".join(f"({_shift(f'v{i}', f[i] - common)})" for i in (small, large))


def _reciprocal(x: int, of: int, to: int, word: int) -> tuple[int, bool]:
    return _plain(integers.reciprocal(np.array([x]), of, to, word))


def _wave(sine: bool, x: int, of: int, to: int, word: int) -> tuple[int, bool]:
    wave = integers.sine if sine else integers.cosine
    return _plain(integers.shifted(wave(np.array([x]), of), 30 - to, word))


def _root(x: int, of: int, to: int, word: int) -> tuple[int, bool]:
    return _plain(integers.root(np.array([x]), of, to, word))


def _plain(result: tuple[integers.Ints, integers.Flags]) -> tuple[int, bool]:
    return int(result[0][0]), bool(result[1][0])
