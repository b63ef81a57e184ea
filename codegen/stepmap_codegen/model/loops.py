"""Steps of a block that goes through its numbers by loops: tapes that it calls, dense linear algebra between them.

Straight-line code of a large model has an operation for every product of its matrices: of a marionette's covariance
alone half a million. Here matrices are arrays of fields, and a step is a loop over them. Python runs steps on arrays
(count, runs) by the same formulas as the C of emit/loops.py; sums of products may be added in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen.model.integers import Flags

if TYPE_CHECKING:
    from stepmap_codegen.model.program import Block


@dataclass(frozen=True)
class Span:
    """A matrix of fields, row by row, from field ``first`` on."""

    first: int
    rows: int
    columns: int = 1

    @property
    def size(self) -> int:
        return self.rows * self.columns

    def of(self, values: Array) -> Array:
        """A view (rows, columns, runs) of all fields (count, runs)."""
        return values[self.first : self.first + self.size].reshape(self.rows, self.columns, -1)


@dataclass(frozen=True, eq=False)
class Call:
    """Runs a tape: a block of straight-line code without a guard."""

    tape: Block

    def counts(self) -> Counter[str]:
        return self.tape.counts()


@dataclass(frozen=True)
class Zero:
    """Sets a matrix to 0."""

    to: Span

    def counts(self) -> Counter[str]:
        return Counter()

    def run(self, values: Array) -> None:
        self.to.of(values)[:] = 0.0


@dataclass(frozen=True)
class Add:
    """to += of"""

    to: Span
    of: Span

    def counts(self) -> Counter[str]:
        return Counter(add=self.to.size)

    def run(self, values: Array) -> None:
        self.to.of(values)[:] += self.of.of(values)


@dataclass(frozen=True)
class Multiply:
    """to += left @ right"""

    to: Span
    left: Span
    right: Span

    def counts(self) -> Counter[str]:
        products = self.left.size * self.right.columns
        return Counter(add=products, mul=products)

    def run(self, values: Array) -> None:
        self.to.of(values)[:] += np.einsum("ikr,kjr->ijr", self.left.of(values), self.right.of(values))


@dataclass(frozen=True)
class Solve:
    """right ← matrix⁻¹ right by elimination in the given order without pivoting; leaves nothing of the matrix.

    The order [q, lam] is safe, as in ``solve_static``: both blocks are definite.
    """

    matrix: Span
    right: Span

    def counts(self) -> Counter[str]:
        n, m = self.matrix.rows, self.right.columns
        below = sum((n - k - 1) * (1 + n - k - 1 + m) for k in range(n))
        behind = n * (n - 1) // 2 * m
        return Counter(div=n, mul=below + behind + n * m, add=below - n * (n - 1) // 2 + behind)

    def run(self, values: Array) -> None:
        a, b = self.matrix.of(values), self.right.of(values)
        n = self.matrix.rows
        for k in range(n):
            a[k, k] = 1 / a[k, k]
            factors = a[k + 1 :, k] * a[k, k]
            a[k + 1 :, k + 1 :] -= factors[:, None] * a[None, k, k + 1 :]
            b[k + 1 :] -= factors[:, None] * b[None, k]
        for k in reversed(range(n)):
            for j in range(k + 1, n):
                b[k] -= a[k, j] * b[j]
            b[k] *= a[k, k]


@dataclass(frozen=True)
class Spread:
    """P ← A P Aᵀ + Q for a packed lower triangle P, a diagonal Q and an A of which some rows and columns are not 0."""

    P: int  # field of its first entry
    slope: Span  # those rows and columns of A
    rows: tuple[int, ...]  # which rows of A they are
    columns: tuple[int, ...]
    noise: tuple[float, ...]  # diagonal of Q
    square: Span  # room for P of the columns, and …
    line: Span  # … a row of A P, and …
    after: Span  # … the packed result of the rows

    def counts(self) -> Counter[str]:
        rows, columns = len(self.rows), len(self.columns)
        products = rows * columns * columns + rows * (rows + 1) // 2 * columns
        return Counter(add=products + len(self.noise), mul=products)

    def run(self, values: Array) -> None:
        size = len(self.noise)
        packed = values[self.P : self.P + size * (size + 1) // 2]
        full = packed[[[at(i, j) for j in self.columns] for i in self.columns]]
        slope = self.slope.of(values)
        after = np.einsum("ikr,jkr->ijr", np.einsum("ikr,kjr->ijr", slope, full), slope)
        packed[:] = 0.0
        for i, row in enumerate(self.rows):
            for j, column in enumerate(self.rows[: i + 1]):
                packed[at(row, column)] = after[i, j]
        for i, noise in enumerate(self.noise):
            packed[at(i, i)] += noise


@dataclass(frozen=True)
class Observe:
    """Kalman update of x and P with one channel; ends the block where the innovation is outside of the gate."""

    x: int  # field of the first state
    P: int
    size: int  # states
    slope: Span  # entries of the channel's derivative
    columns: tuple[int, ...]  # and which states they belong to
    error: int  # field of measured minus expected
    noise: float
    gate: float | None  # of the squared innovation, times its variance
    line: Span  # room for P hᵀ
    innovation: int  # fields that are told
    variance: int

    def counts(self) -> Counter[str]:
        n, m = self.size, len(self.columns)
        triangle = n * (n + 1) // 2
        return Counter(add=n * m + m + 1 + n + triangle, mul=n * m + m + 2 * n + triangle + 1, div=1)

    def run(self, values: Array) -> Flags:
        """In which runs the gate took it."""
        n, wide = self.size, np.array(self.columns)
        packed = values[self.P : self.P + n * (n + 1) // 2]
        slope, error = self.slope.of(values)[:, 0], values[self.error]
        line = np.einsum("ikr,kr->ir", packed[[[at(i, j) for j in self.columns] for i in range(n)]], slope)
        variance = np.einsum("kr,kr->r", slope, line[wide]) + values.dtype.type(self.noise)
        inside: Flags = np.ones(len(error), bool)
        if self.gate is not None:
            inside = error * error <= values.dtype.type(self.gate) * variance
        gain = line / variance
        values[self.x : self.x + n] += gain * error
        places = np.tril_indices(n)
        packed -= gain[places[0]] * line[places[1]]
        values[self.innovation], values[self.variance] = error, variance
        return inside


Loop: TypeAlias = Zero | Add | Multiply | Solve | Spread | Observe
Step: TypeAlias = Call | Loop
KINDS: Mapping[str, type[Loop]] = {kind.__name__: kind for kind in (Zero, Add, Multiply, Solve, Spread, Observe)}


def at(i: int, j: int) -> int:
    """The place of an entry in a packed lower triangle."""
    return i * (i + 1) // 2 + j if i >= j else j * (j + 1) // 2 + i


def packed(step: Step, tapes: Sequence[Block]) -> list[Any]:
    """A step as JSON has it."""
    if isinstance(step, Call):
        return ["Call", [tape.name for tape in tapes].index(step.tape.name)]
    entries = [getattr(step, field.name) for field in fields(step)]
    return [
        type(step).__name__,
        *([entry.first, entry.rows, entry.columns] if isinstance(entry, Span) else entry for entry in entries),
    ]


def unpacked(document: Sequence[Any], tapes: Sequence[Block]) -> Step:
    """The step that was packed."""
    name, *entries = document
    if name == "Call":
        return Call(tapes[entries[0]])
    kind = KINDS[name]
    known: dict[str, Any] = {}
    for field, entry in zip(fields(kind), entries, strict=True):
        sort = str(field.type)
        known[field.name] = Span(*entry) if sort == "Span" else tuple(entry) if isinstance(entry, list) else entry
    return kind(**known)
