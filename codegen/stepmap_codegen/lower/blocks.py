"""Expressions to blocks: what a part of the controller computes, recorded as operations on fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import casadi as ca

from stepmap.graph.tape import Tape, record
from stepmap_codegen.lower.selections import COMPARISONS, with_selections
from stepmap_codegen.model.program import Block, BlockRole, Guard, Operation, Store

Named: TypeAlias = Sequence[tuple[str, ca.SX]]


@dataclass(frozen=True, eq=False)
class Sketch:
    """A block as expressions of the symbols that stand for fields; where small > large its stores do not happen."""

    name: str
    role: BlockRole
    summary: str
    inputs: Named
    outputs: Named
    guard: tuple[ca.SX, ca.SX] | None = None  # small, large
    channel: int | None = None  # of an update
    needs: tuple[int, ...] = ()  # of a slack test
    chain: str = ""

    def block(self, places: Mapping[str, int]) -> Block:
        """The block, with fields by their places."""
        inputs, outputs = ([(places[field], s) for field, s in named] for named in (self.inputs, self.outputs))
        made = make_block(self.name, self.role, self.summary, inputs, outputs, self.guard)
        return replace(made, channel=self.channel, needs=self.needs, chain=self.chain)


def identifier(name: str) -> str:
    """A name as a C identifier."""
    return "".join(c if c.isalnum() else "_" for c in name)


def make_block(
    name: str,
    role: BlockRole,
    summary: str,
    inputs: Sequence[tuple[int, ca.SX]],
    outputs: Sequence[tuple[int, ca.SX]],
    guard: tuple[ca.SX, ca.SX] | None,
) -> Block:
    """A block from expressions; loads of fields it does not use, and stores that change nothing, are dropped."""
    symbols = ca.vertcat(*(s for _, s in inputs))
    values = [ca.SX(v) for v in (*(guard or ()), *(s for _, s in outputs))]
    stacked = ca.cse(ca.densify(ca.vertcat(*values)))
    tape = record(ca.Function("block", [symbols], [stacked.T]))
    operations, places = _without_division(tape, [field for field, _ in inputs])
    if any(op.code in COMPARISONS for op in operations):
        operations, moved_to = with_selections(operations)
        places = [moved_to[k] for k in places]
    at = {store.position: places[store.value] for store in tape.stores}
    first = 2 if guard else 0
    wanted = [at[i] for i in range(first)] + [at[first + k] for k in range(len(outputs))]
    order = _schedule(operations, wanted[:first], wanted)
    place = {old: new for new, old in enumerate(order)}
    moved = tuple(replace(operations[i], arguments=tuple(place[a] for a in operations[i].arguments)) for i in order)
    stores = tuple(
        Store(field, place[i])
        for (field, _), i in zip(outputs, wanted[first:], strict=True)
        if not (operations[i].code == ca.OP_INPUT and operations[i].field == field)
    )
    check = None
    if guard:
        small, large = place[wanted[0]], place[wanted[1]]
        check = Guard(max(small, large), small, large)
    return Block(name, role, summary, moved, stores, check)


def _without_division(tape: Tape, fields: Sequence[int]) -> tuple[list[Operation], list[int]]:
    """The tape's operations with a/b as a·(1/b), one reciprocal a divisor; and where each old operation went."""
    operations: list[Operation] = []
    places: list[int] = []
    reciprocals: dict[int, int] = {}
    for op in tape.operations:
        arguments = tuple(places[a] for a in op.arguments)
        if op.code in (ca.OP_DIV, ca.OP_INV):
            divisor = arguments[-1]
            if divisor not in reciprocals:
                reciprocals[divisor] = len(operations)
                known = operations[divisor]
                constant = known.code == ca.OP_CONST
                inverse = Operation(ca.OP_CONST, (), 1 / known.constant) if constant else None
                operations.append(inverse or Operation(ca.OP_INV, (divisor,)))
            if op.code == ca.OP_INV:
                places.append(reciprocals[divisor])
                continue
            arguments = (arguments[0], reciprocals[divisor])
            places.append(len(operations))
            operations.append(Operation(ca.OP_MUL, arguments))
            continue
        places.append(len(operations))
        field = fields[op.source[1]] if op.code == ca.OP_INPUT else -1
        operations.append(Operation(op.code, arguments, op.constant, field))
    return operations, places


def _schedule(operations: Sequence[Operation], early: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The operations that are needed, in order, those for ``early`` first."""
    order: list[int] = []
    seen: set[int] = set()
    for goals in (early, wanted):
        need: set[int] = set()
        stack = list(goals)
        while stack:
            i = stack.pop()
            if i not in need and i not in seen:
                need.add(i)
                stack.extend(operations[i].arguments)
        order.extend(sorted(need))
        seen |= need
    return order
