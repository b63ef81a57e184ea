"""Which integer instructions a block becomes: shifts chosen, and checks left out where overflow cannot happen.

Bounds of integers are carried along for every representable field, so a sum without a check is a proven one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import casadi as ca

from stepmap_codegen.model import integers
from stepmap_codegen.model.formats import BlockFormats, Formats, power_of_two
from stepmap_codegen.model.integer_machine import constant
from stepmap_codegen.model.program import SELECT, Block, Store

WAVE = 1 << 30  # the largest |sine|, with 30 fraction bits


class Op(Enum):
    """Integer instructions; the rows of table-driven code number them in this order."""

    ADD = 0
    SUB = auto()
    ADD_FAST = auto()  # cannot overflow
    SUB_FAST = auto()
    MIN = auto()
    MAX = auto()
    MUL = auto()
    MUL_WIDE = auto()  # cannot overflow
    HIGH = auto()
    RECIPROCAL = auto()
    ROOT = auto()
    SIN = auto()
    COS = auto()
    ABS = auto()
    SIGN = auto()
    MOVE = auto()  # shifts right by an amount, or left where it is negative
    GUARD = auto()
    TEST = auto()  # remembers whether a ≤ b …
    PICK = auto()  # … and takes a where it was so, else b


SILENT = (Op.GUARD, Op.TEST)  # have no value


class Kind(Enum):
    VALUE = 0  # of an earlier instruction
    FIELD = 1
    CONSTANT = 2


@dataclass(frozen=True)
class Operand:
    kind: Kind
    number: int  # of the operation or the field; the constant itself


@dataclass(frozen=True)
class Instruction:
    """``right``: shifts of a and b before they meet; ``amount``: the shift or base of the others.

    ``cut``: bits that are lost are cut off, not rounded; ``bits``: what a product saturates at.
    """

    op: Op
    operation: int
    a: Operand
    b: Operand | None = None
    right: tuple[int, int] = (0, 0)
    amount: int = 0
    cut: bool = False
    bits: int = 32


@dataclass(frozen=True)
class Stored:
    """A store: the shift to the right of what becomes the field, and whether it may saturate to the left."""

    field: int
    operand: Operand
    right: int
    cut: bool
    fits: bool


@dataclass(frozen=True)
class Selected:
    """A block as instructions; then its stores, all at once."""

    instructions: tuple[Instruction, ...]
    stores: tuple[Stored, ...]


Bounds = tuple[int, int]
SUMS = {ca.OP_ADD: (Op.ADD, Op.ADD_FAST), ca.OP_SUB: (Op.SUB, Op.SUB_FAST)}


def select(block: Block, formats: Formats, bits: BlockFormats) -> Selected:
    return _Selection(block, formats, bits).selected()


class _Selection:
    def __init__(self, block: Block, formats: Formats, bits: BlockFormats) -> None:
        self.block, self.formats, self.f, self.word = block, formats, bits.operations, formats.word
        self.cut, self.cut_stores, self.held = bits.cut, bits.cut_stores, bits.bits
        self.top = integers.limit(formats.word)
        self.operands: list[Operand] = []
        self.bounds: list[Bounds] = []
        self.out: list[Instruction] = []

    def selected(self) -> Selected:
        for i in range(len(self.block.operations)):
            self._line(i)
            guard = self.block.guard
            if guard and i == guard.after:
                self._compare(Op.GUARD, i, guard.small, guard.large)
        stores = tuple(self._store(k, store) for k, store in enumerate(self.block.stores))
        return Selected(tuple(self.out), stores)

    def _store(self, k: int, store: Store) -> Stored:
        i = store.operation
        right = self.f[i] - self.formats.fields[store.field]
        left = min(max(-right, 0), self.word - 1)
        low, high = self.bounds[i]
        fits = -self.top - 1 <= low << left and high << left <= self.top
        return Stored(store.field, self.operands[i], right, k in self.cut_stores, fits)

    def _line(self, i: int) -> None:
        operation, f = self.block.operations[i], self.f
        a = operation.arguments
        whole = (-self.top - 1, self.top)
        if operation.code == ca.OP_CONST:
            value = constant(operation.constant, f[i], self.word)
            self._alias(Operand(Kind.CONSTANT, value), (value, value))
        elif operation.code == ca.OP_INPUT:
            self._alias(Operand(Kind.FIELD, operation.field), whole)
        elif operation.code == ca.OP_TWICE:
            self._alias(self.operands[a[0]], self.bounds[a[0]])
        elif operation.code in SUMS:
            self._sum(i, *SUMS[operation.code])
        elif operation.code == ca.OP_NEG:
            low, high = self.bounds[a[0]]
            fits = -low <= self.top
            zero = Operand(Kind.CONSTANT, 0)
            self._emit(
                Op.SUB_FAST if fits else Op.SUB, i, zero, self.operands[a[0]], bounds=(-high, min(-low, self.top))
            )
        elif operation.code in (ca.OP_FMIN, ca.OP_FMAX):
            right = (f[a[0]] - f[i], f[a[1]] - f[i])
            op = Op.MIN if operation.code == ca.OP_FMIN else Op.MAX
            self._emit(op, i, self.operands[a[0]], self.operands[a[1]], right=right, bounds=whole)
        elif operation.code == SELECT:
            self._selection(i)
        elif operation.code in (ca.OP_MUL, ca.OP_SQ):
            self._product(i)
        elif operation.code == ca.OP_INV:
            self._emit(Op.RECIPROCAL, i, self.operands[a[0]], amount=61 - f[a[0]] - f[i], bounds=whole)
        elif operation.code == ca.OP_SQRT:
            self._emit(Op.ROOT, i, self.operands[a[0]], amount=32 + f[a[0]] - 2 * f[i], bounds=(0, self.top))
        elif operation.code in (ca.OP_SIN, ca.OP_COS):
            # All words but 32 bits need another shift; the operation's format is always word − 2.
            op = Op.SIN if operation.code == ca.OP_SIN else Op.COS
            limit = WAVE >> (32 - self.word)
            self._emit(op, i, self.operands[a[0]], amount=f[a[0]], bounds=(-limit, limit))
        elif operation.code == ca.OP_FABS:
            self._emit(Op.ABS, i, self.operands[a[0]], bounds=(0, self.top))
        else:
            assert operation.code == ca.OP_SIGN  # formats.assign refuses the rest
            one = 1 << f[i]
            self._emit(Op.SIGN, i, self.operands[a[0]], amount=f[i], bounds=(-one, one))

    def _compare(self, op: Op, i: int, small: int, large: int) -> None:
        """Holds two values against each other at the coarser of both formats."""
        common = min(self.f[small], self.f[large])
        shifts = (self.f[small] - common, self.f[large] - common)
        self.out.append(Instruction(op, i, self.operands[small], self.operands[large], right=shifts))

    def _selection(self, i: int) -> None:
        small, large, yes, no = self.block.operations[i].arguments
        self._compare(Op.TEST, i, small, large)
        right = (self.f[yes] - self.f[i], self.f[no] - self.f[i])
        cut = i in self.cut
        (p, q), (r, s) = (_shifted(self.bounds[k], by, cut) for k, by in zip((yes, no), right, strict=True))
        bounds = (min(p, r), max(q, s))
        self._emit(Op.PICK, i, self.operands[yes], self.operands[no], right=right, bounds=bounds)

    def _sum(self, i: int, checked: Op, fast: Op) -> None:
        a, f = self.block.operations[i].arguments, self.f
        right = (f[a[0]] - f[i], f[a[1]] - f[i])
        cut = i in self.cut
        (p, q), (r, s) = (_shifted(self.bounds[k], amount, cut) for k, amount in zip(a, right, strict=True))
        low, high = (p + r, q + s) if checked is Op.ADD else (p - s, q - r)
        fits = -self.top - 1 <= low and high <= self.top
        bounds = (max(low, -self.top - 1), min(high, self.top))
        pair = self.operands[a[0]], self.operands[a[1]]
        self._emit(fast if fits else checked, i, *pair, right=right, bounds=bounds)

    def _product(self, i: int) -> None:
        operation, operations, f = self.block.operations[i], self.block.operations, self.f
        x, y = operation.arguments[0], operation.arguments[-1]
        if operation.code == ca.OP_MUL:
            for factor, other in ((x, y), (y, x)):
                if power_of_two(operations[factor]) is not None:
                    self._alias(self.operands[other], self.bounds[other])
                    return
        right = f[x] + f[y] - f[i]
        corners = [p * q for p in self.bounds[x] for q in self.bounds[y]]
        low, high = _shifted((min(corners), max(corners)), right, i in self.cut)
        pair = self.operands[x], self.operands[y]
        if right > 62:
            self._alias(Operand(Kind.CONSTANT, 0), (0, 0))
        elif right == 32 and self.word == 32:
            self._emit(Op.HIGH, i, *pair, amount=right, bounds=(low, high))
        else:
            top = integers.limit(self.held.get(i, self.word))
            op = Op.MUL_WIDE if -top - 1 <= low and high <= top else Op.MUL
            self._emit(op, i, *pair, amount=right, bounds=(max(low, -top - 1), min(high, top)))

    def _alias(self, operand: Operand, bounds: Bounds) -> None:
        self.operands.append(operand)
        self.bounds.append(bounds)

    def _emit(
        self,
        op: Op,
        operation: int,
        a: Operand,
        b: Operand | None = None,
        *,
        right: tuple[int, int] = (0, 0),
        amount: int = 0,
        bounds: Bounds,
    ) -> None:
        held = self.held.get(operation, self.word)
        self.out.append(Instruction(op, operation, a, b, right, amount, operation in self.cut, held))
        self._alias(Operand(Kind.VALUE, operation), bounds)


def _shifted(bounds: Bounds, right: int, cut: bool = False) -> Bounds:
    """Bounds after a shift to the right, rounded or cut; both ends alike."""
    half = 1 << (right - 1) if right > 0 and not cut else 0
    return (bounds[0] + half) >> right, (bounds[1] + half) >> right


def slots(selected: Selected) -> tuple[dict[int, int], int]:
    """Work memory for values of instructions: slot of each operation, shared once a value is not needed; count."""
    last: dict[int, int] = {}
    for position, made in enumerate(selected.instructions):
        for operand in (made.a, made.b):
            if operand is not None and operand.kind is Kind.VALUE:
                last[operand.number] = position
    for store in selected.stores:
        if store.operand.kind is Kind.VALUE:
            last[store.operand.number] = len(selected.instructions)
    free: list[int] = []
    where: dict[int, int] = {}
    count = 0
    for position, made in enumerate(selected.instructions):
        for number in {o.number for o in (made.a, made.b) if o is not None and o.kind is Kind.VALUE}:
            if last[number] == position:
                free.append(where[number])
        if made.op in SILENT:
            continue
        if not free:
            free.append(count)
            count += 1
        where[made.operation] = free.pop()
        if made.operation not in last:
            free.append(where[made.operation])
    return where, count


def constants(selected: Sequence[Selected]) -> list[int]:
    """All constants that instructions and stores use, each once."""
    found: dict[int, None] = {}
    for block in selected:
        operands = [o for made in block.instructions for o in (made.a, made.b)] + [
            store.operand for store in block.stores
        ]
        found |= {o.number: None for o in operands if o is not None and o.kind is Kind.CONSTANT}
    return list(found)
