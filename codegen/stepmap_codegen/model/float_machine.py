"""Runs a program on arrays in floating point, one entry a run, and remembers how large everything became."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import RangeError
from stepmap_codegen.model.chains import ChainMasks
from stepmap_codegen.model.integers import Flags
from stepmap_codegen.model.loops import Call, Observe
from stepmap_codegen.model.program import SELECT, Block, Program, Role


def _selected(a: Array, b: Array, yes: Array, no: Array, out: Array | None = None) -> Array:
    chosen = np.where(a <= b, yes, no)
    if out is not None:
        out[...] = chosen
    return chosen


FLOAT: dict[int, Callable[..., Array]] = {  # with an argument ``out``, into which the result goes
    ca.OP_ADD: np.add,
    ca.OP_SUB: np.subtract,
    ca.OP_MUL: np.multiply,
    ca.OP_SQ: lambda a, out=None: np.multiply(a, a, out),
    ca.OP_NEG: np.negative,
    ca.OP_TWICE: lambda a, out=None: np.multiply(2, a, out),
    ca.OP_INV: lambda a, out=None: np.divide(1, a, out),
    ca.OP_SIN: np.sin,
    ca.OP_COS: np.cos,
    ca.OP_SQRT: np.sqrt,
    ca.OP_FMIN: np.minimum,
    ca.OP_FMAX: np.maximum,
    ca.OP_FABS: np.abs,
    ca.OP_SIGN: np.sign,
    SELECT: _selected,
}


@dataclass(frozen=True)
class Magnitudes:
    """Ranges of fields, their least magnitudes, and the largest magnitude of every operation of every block."""

    low: Array
    high: Array
    least: Array
    seen: Sequence[Array]


class _Tape:
    """A tape that steps call, run by CasADi for all runs at once: in numpy a tick would take a tenth of a second."""

    def __init__(self, tape: Block) -> None:
        self.inputs = [op.field for op in tape.operations if op.code == ca.OP_INPUT]
        symbols = iter(ca.vertsplit(ca.SX.sym("given", len(self.inputs))))
        given: list[ca.SX] = []
        values: list[ca.SX] = []
        for op in tape.operations:
            if op.code == ca.OP_INPUT:
                given.append(next(symbols))
                values.append(given[-1])
            elif op.code == ca.OP_CONST:
                values.append(ca.SX(op.constant))
            else:
                values.append(SYMBOLIC[op.code](*(values[a] for a in op.arguments)))
        self.fields = [store.field for store in tape.stores]
        stored = [values[store.operation] for store in tape.stores]
        self.function = ca.Function(tape.name, [ca.vertcat(*given)], [ca.densify(ca.vertcat(*stored))])

    def run(self, values: Array) -> None:
        values[self.fields] = np.asarray(self.function(values[self.inputs].astype(float)))


SYMBOLIC: dict[int, Callable[..., ca.SX]] = {
    ca.OP_ADD: lambda a, b: a + b,
    ca.OP_SUB: lambda a, b: a - b,
    ca.OP_MUL: lambda a, b: a * b,
    ca.OP_SQ: lambda a: a * a,
    ca.OP_NEG: lambda a: -a,
    ca.OP_TWICE: lambda a: 2 * a,
    ca.OP_INV: lambda a: 1 / a,
    ca.OP_SIN: ca.sin,
    ca.OP_COS: ca.cos,
    ca.OP_SQRT: ca.sqrt,
    ca.OP_FMIN: ca.fmin,
    ca.OP_FMAX: ca.fmax,
    ca.OP_FABS: ca.fabs,
    ca.OP_SIGN: ca.sign,
    SELECT: lambda a, b, yes, no: ca.if_else(a <= b, yes, no),
}
Bound: TypeAlias = tuple[Callable[..., Array], list[Array], Array]  # a rule, what it reads and what it writes


class _Sequence:
    """A block in the form in which it is run thousands of times: what is given at once, then rules with their rows."""

    def __init__(self, block: Block) -> None:
        numbered = list(enumerate(block.operations))
        self.constants = [i for i, operation in numbered if operation.code == ca.OP_CONST]
        self.inputs = [i for i, operation in numbered if operation.code == ca.OP_INPUT]
        self.given = np.array([[block.operations[i].constant] for i in self.constants]).reshape(-1, 1)
        self.fields = [block.operations[i].field for i in self.inputs]
        given = {*self.constants, *self.inputs}
        self.rules = [(float_rule(o.code), o.arguments, i) for i, o in numbered if i not in given]
        self.stores = [store.field for store in block.stores], [store.operation for store in block.stores]

    def bind(self, values: Array) -> list[Bound]:
        """Every rule with the rows of ``values`` that it reads and the one that it writes."""
        rows = list(values)
        return [(rule, [rows[a] for a in arguments], rows[row]) for rule, arguments, row in self.rules]


class FloatMachine:
    """Fields (count, runs) in floating point; remembers the range of every field and the magnitudes of every operation.

    Runs may be of several ``groups`` of equal size, one behind the other, that are remembered apart: one machine for
    all of them takes little longer than one for a single group.
    """

    def __init__(self, program: Program, fields: Array, dtype: type = np.float64, groups: int = 1) -> None:
        self.program, self.dtype, self.groups = program, dtype, groups
        self.fields: Array = np.array(fields, dtype=dtype)
        self.chains = ChainMasks(program, self.fields.shape[1])
        self._sequences = [_Sequence(block) for block in program.blocks]
        self._tapes = {tape.name: _Tape(tape) for tape in program.tapes}
        self._bound: dict[int, tuple[Array, list[Bound]]] = {}
        # By run, since comparing arrays entry by entry is fast, and looking for the largest of a few runs is not.
        runs = self.fields.shape[1]
        self._seen = [np.zeros((len(block.operations), runs)) for block in program.blocks]
        self._sizes = [np.zeros_like(seen) for seen in self._seen]
        self._extremes: dict[tuple[int, ...], tuple[Array, Array, Array]] = {}  # by fields that are written together
        self._kept = [*program.of(Role.STATE), *program.of(Role.COVARIANCE)]
        self._watch(self._kept)

    def magnitudes(self, group: int = 0) -> Magnitudes:
        """How large everything became in the runs of a group."""
        size = self.fields.shape[1] // self.groups
        runs = slice(group * size, (group + 1) * size)
        seen = [block[:, runs].max(axis=1, initial=0.0) for block in self._seen]
        low, high, least = (np.full(len(self.program.fields), start) for start in (np.inf, -np.inf, np.inf))
        for fields, (lows, highs, leasts) in self._extremes.items():
            for i, field in enumerate(fields):
                low[field] = lows[i, runs].min(initial=low[field])
                high[field] = highs[i, runs].max(initial=high[field])
                least[field] = leasts[i, runs].min(initial=least[field])
        return Magnitudes(low, high, least, seen)

    def load(self, indices: Sequence[int], values: Array) -> None:
        """Sets fields from outside, such as measurements."""
        self.fields[indices] = values
        self._watch(indices)

    def values(self, number: int) -> Array:
        """Every operation of a block (operations, runs), nothing stored."""
        return self._values(number).copy()

    def _values(self, number: int) -> Array:
        """The same in an array that the block has for itself, until it is asked for again."""
        sequence = self._sequences[number]
        if number not in self._bound:
            made: Array = np.empty((len(self.program.blocks[number].operations), self.fields.shape[1]), self.dtype)
            made[sequence.constants] = sequence.given
            self._bound[number] = made, sequence.bind(made)
        values, bound = self._bound[number]
        values[sequence.inputs] = self.fields[sequence.fields]
        for rule, read, written in bound:
            rule(*read, out=written)
        return values

    def run(self, number: int, where: Flags | None = None) -> Flags:
        """Runs a block in the given runs; returns in which its guard held."""
        block = self.program.blocks[number]
        if block.steps:
            return self._go(number, where)
        values = self._values(number)
        begun = self.chains.begun(number, where)
        held = begun.copy()
        if block.guard:
            held &= values[block.guard.small] <= values[block.guard.large]
        early = len(block.operations) if block.guard is None else block.guard.after + 1
        sizes = np.abs(values, out=self._sizes[number])
        everywhere = bool(held.all())
        if not everywhere:
            sizes[early:, ~held] = 0.0  # where the guard does not hold, these operations do not count
        if block.chain:
            sizes[:early, ~begun] = 0.0  # nor do any where an earlier block of its chain was taken
        np.maximum(self._seen[number], sizes, out=self._seen[number])
        fields, operations = self._sequences[number].stores
        stored = values[operations]
        self.fields[fields] = stored if everywhere else np.where(held, stored, self.fields[fields])
        self._watch(fields)
        self.chains.taken(number, held)
        return held

    def _go(self, number: int, where: Flags | None) -> Flags:
        """Runs the steps of a block in the given runs; where one refuses nothing is kept."""
        after = self.fields.copy()
        held = self.chains.begun(number, where) & self._through(number, after)
        self.fields = after if held.all() else np.where(held, after, self.fields)
        self._watch(self._kept)
        return held

    def _through(self, number: int, values: Array) -> Flags:
        """Runs the steps of a block on these fields; in which runs none of them refused."""
        held: Flags = np.ones(values.shape[1], bool)
        for step in self.program.blocks[number].steps:
            if isinstance(step, Call):
                self._tapes[step.tape.name].run(values)
            elif isinstance(step, Observe):
                held &= step.run(values)
            else:
                step.run(values)
        return held

    def told(self, number: int) -> dict[Role, float]:
        """Innovation and variance that an update would tell of its channel, of the first run; nothing is kept."""
        values = self.fields.copy()
        self._through(number, values)
        found = [step for step in self.program.blocks[number].steps if isinstance(step, Observe)]
        ends = [((Role.INNOVATION, one.innovation), (Role.VARIANCE, one.variance)) for one in found]
        return {role: float(values[field, 0]) for pair in ends for role, field in pair}

    def _watch(self, indices: Sequence[int]) -> None:
        values = self.fields[indices]
        found = self._extremes.get(tuple(indices))
        if found is None:
            self._extremes[tuple(indices)] = values.copy(), values.copy(), np.abs(values)
            return
        low, high, least = found
        np.minimum(low, values, out=low)
        np.maximum(high, values, out=high)
        np.minimum(least, np.abs(values), out=least)


def float_rule(code: int) -> Callable[..., Array]:
    """What an operation of CasADi does to arrays."""
    if code in FLOAT:
        return FLOAT[code]
    raise RangeError(
        f"operation {code} of CasADi has no form in generated controllers",
        hint="Write the system with sums, products, quotients, sin, cos and sqrt.",
    )
