"""Comparisons of CasADi as selections: what it has as a sum of two products becomes one operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import casadi as ca

from stepmap_codegen.model.program import SELECT, Operation


class _Condition(NamedTuple):
    """small ≤ large, or where ``turned`` that it is not; by places in the new operations."""

    small: int
    large: int
    turned: bool


class _Part(NamedTuple):
    """A value where a condition holds, and else zero."""

    condition: _Condition
    value: int


COMPARISONS = (ca.OP_LE, ca.OP_LT, ca.OP_NOT, ca.OP_IF_ELSE_ZERO)


def with_selections(operations: Sequence[Operation]) -> tuple[list[Operation], list[int]]:
    """Operations with SELECT in place of comparisons and of if_else; and where each old operation went.

    if_else(c, a, b) is IF_ELSE_ZERO(c, a) + IF_ELSE_ZERO(NOT c, b). What cannot be paired is a selection against zero,
    and a comparison used as a number is one of 1 and 0.
    """
    made = _Selections()
    for operation in operations:
        made.take(operation)
    return made.operations, [made.place(k) for k in range(len(operations))]


class _Selections:
    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.found: list[int | _Condition | _Part] = []  # by old place
        self.constants: dict[float, int] = {}
        self.sizes: dict[int, int] = {}  # magnitudes of numbers that are conditions, by their place

    def take(self, operation: Operation) -> None:
        a = operation.arguments
        if operation.code not in (*COMPARISONS, ca.OP_ADD):
            self.found.append(self._add(replace(operation, arguments=tuple(self.place(k) for k in a))))
        elif operation.code == ca.OP_LE:
            self.found.append(_Condition(self.place(a[0]), self.place(a[1]), turned=False))
        elif operation.code == ca.OP_LT:  # a < b where not b ≤ a
            self.found.append(_Condition(self.place(a[1]), self.place(a[0]), turned=True))
        elif operation.code == ca.OP_NOT:
            inner = self._condition(a[0])
            self.found.append(inner._replace(turned=not inner.turned))
        elif operation.code == ca.OP_IF_ELSE_ZERO:
            self.found.append(_Part(self._condition(a[0]), self.place(a[1])))
        else:
            self.found.append(self._sum(operation))

    def place(self, old: int) -> int:
        """Where an old operation is; conditions and their parts become selections once they are used as numbers."""
        known = self.found[old]
        if isinstance(known, _Condition):
            known = self._select(known, self._constant(1.0), self._constant(0.0))
        elif isinstance(known, _Part):
            known = self._select(known.condition, known.value, self._constant(0.0))
        else:
            return known
        self.found[old] = known
        return known

    def _sum(self, operation: Operation) -> int:
        one, other = (self.found[k] for k in operation.arguments)
        if isinstance(one, _Part) and isinstance(other, _Part):
            c, d = one.condition, other.condition
            if c == d._replace(turned=not d.turned):
                return self._select(c, one.value, other.value)
        return self._add(replace(operation, arguments=tuple(self.place(k) for k in operation.arguments)))

    def _condition(self, old: int) -> _Condition:
        known = self.found[old]
        if isinstance(known, _Condition):
            return known
        number = self.place(old)
        if number not in self.sizes:
            self.sizes[number] = self._add(Operation(ca.OP_FABS, (number,)))
        return _Condition(self.sizes[number], self._constant(0.0), turned=True)  # it holds where it is not zero

    def _select(self, c: _Condition, yes: int, no: int) -> int:
        sides = (no, yes) if c.turned else (yes, no)
        return self._add(Operation(SELECT, (c.small, c.large, *sides)))

    def _constant(self, value: float) -> int:
        if value not in self.constants:
            self.constants[value] = self._add(Operation(ca.OP_CONST, (), value))
        return self.constants[value]

    def _add(self, operation: Operation) -> int:
        self.operations.append(operation)
        return len(self.operations) - 1
