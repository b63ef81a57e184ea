"""From ranges to formats.

Every operation holds MARGIN times the largest magnitude seen, or what interval arithmetic proves where that is less; a
sum has no more fraction bits than its coarser operand. Ranges of float64 runs say too little where large numbers
cancel: a Newton residual is 1e-16 there and 1e-9 in integers. So the integer model runs too, and what it adds is added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import RangeError
from stepmap.graph.tape import BINARY, UNARY
from stepmap_codegen.model.command_rates import CommandRates
from stepmap_codegen.model.float_machine import FloatMachine
from stepmap_codegen.model.formats import FINEST, BlockFormats, Formats, fraction_bits, power_of_two
from stepmap_codegen.model.integer_machine import IntegerMachine, decode, encode
from stepmap_codegen.model.program import SELECT, Block, Operation, Program, Role
from stepmap_codegen.precision.ranges import MARGIN, Ranges, interval_bounds
from stepmap_codegen.precision.sensitivity import sensitivities

WORDS = range(16, 33)  # as firmware/core/sm_fixed.h has them
NOISE_FACTOR = 4.0  # headroom for rounding, times what was measured
TURNS = 3  # formats of a block, what is lost of them, formats again
SUMS = (ca.OP_ADD, ca.OP_SUB, ca.OP_FMIN, ca.OP_FMAX)
SHORTENED = (ca.OP_MUL, ca.OP_SQ, ca.OP_ADD, ca.OP_SUB)
PASSES = 6  # formats, rounding measured with them, formats again
SAMPLES, ADJOINTS = 8000, 32  # snapshots at which rounding and sensitivity are measured, …
LEAST, NUMBERS = 320, 4_000_000  # … fewer where operations are many
LOSS = 0.25  # rounding that a product may add where that makes it cheap, in units of what a stored field resolves
CUT = 1.0  # the same that an operation may lose where bits are cut off rather than rounded
FINER = 16.0  # times less, half a unit, of fields that products are rounded for
MOST = 8  # bits lost that way at most
COVARIANCE = 2.0**-18  # resolution that covariances need, relative
STEADY_NOISE = 3.0  # the same, of the rounding that the formats themselves give
PINNED_NOISE = 1.5  # headroom for rounding of such formats
PINNED_MARGIN = 1.5  # of formats that were chosen before: they hold this many times what was seen


def assign(program: Program, ranges: Ranges, word: int = 32, *, study: bool = False, headroom: float = 1.0) -> Formats:
    """Formats for words of that many bits; a study takes those that saturate, too.

    ``headroom`` is how many times more they hold than the ranges ask for, but for what is declared.
    """
    if word not in WORDS:
        raise RangeError(f"word: {word} bits are no word length", hint=f"Give {WORDS.start} to {WORDS.stop - 1} bits.")
    if headroom != 1:
        ranges = _with_headroom(program, ranges, headroom)
    fields = tuple(fraction_bits(MARGIN * float(size), word) for size in ranges.sizes)
    finer = np.array([FINER if field.rounded else 1.0 for field in program.fields])
    scales = finer * np.minimum(2.0 ** np.array(fields, dtype=float), _covariance_scales(program, ranges))
    weights = sensitivities(program, _some(_closed(program, ranges.snapshots), ADJOINTS), scales)
    samples = _samples(program, ranges)
    noise = [np.zeros(len(block.operations)) for block in program.blocks]
    for turn in range(PASSES):
        blocks = tuple(
            _Assignment(block, fields, ranges, i, word, weights[i], noise[i]).formats(scales, hold=turn > 0)
            for i, block in enumerate(program.blocks)
        )
        formats = Formats(word, fields, blocks)
        measured, saturated = _rounding(program, formats, samples)
        noise = [np.maximum(old, new) for old, new in zip(noise, measured, strict=True)]
        if not saturated and turn > 0 and not _beyond(program, ranges, formats, measured, STEADY_NOISE):
            return formats
    if saturated and not study:
        raise RangeError(
            f"{saturated} overflows in simulated runs however its format is chosen",
            signal=saturated,
            cause=f"Its numbers are at some ticks too large, at others too small for words of {word} bits.",
            hint="Use longer words or floating point (--scalar float32), narrower low and high of the coordinates, "
            "or a smaller [noise.start].",
        )
    return formats


def _with_headroom(program: Program, ranges: Ranges, headroom: float) -> Ranges:
    """Ranges so many times as large, but for what is declared: limits of commands, coordinates and references."""
    factor = np.array([1.0 if known else headroom for known in ranges.limited(program)])
    low, high = factor * ranges.low, factor * ranges.high
    sizes = MARGIN * np.maximum(np.abs(low), np.abs(high))
    bounds = [interval_bounds(block, sizes) for block in program.blocks]
    return replace(ranges, low=low, high=high, seen=[headroom * seen for seen in ranges.seen], bounds=bounds)


@dataclass(frozen=True)
class Misfit:
    """A signal that formats which were chosen before do not hold."""

    what: str
    size: float  # the largest in the runs
    top: float  # the largest the format holds
    excess: float  # how many times too large, margin and rounding included
    block: str = ""  # of an operation


def misfits(program: Program, ranges: Ranges, formats: Formats) -> list[Misfit]:
    """What formats do not hold, stored signals first, then operations, the worst of each first.

    Each must hold PINNED_MARGIN times the largest magnitude seen, or what intervals prove, and PINNED_NOISE times the
    rounding; a schedule is known, so its entries only have to fit. ``ranges`` are without the headroom for long tails:
    what that is differs from draw to draw, and these formats have theirs.
    """
    found: list[Misfit] = []
    schedule = set(program.of(Role.SCHEDULE))
    for i, field in enumerate(program.fields):
        size, top = float(ranges.sizes[i]), 2.0 ** (formats.word - 1 - formats.fields[i])
        unit = f" [{field.unit}]" if field.unit else ""
        needed = size if i in schedule else PINNED_MARGIN * size
        if needed > top:
            found.append(Misfit(f"signal {field.name!r} ({field.label}{unit})", size, top, needed / top))
    noise, _ = _rounding(program, formats, _samples(program, ranges))
    return [*_worst_first(found), *_worst_first(_beyond(program, ranges, formats, noise, PINNED_NOISE))]


def _beyond(
    program: Program, ranges: Ranges, formats: Formats, noise: Sequence[Array], rounding: float
) -> list[Misfit]:
    """Operations whose formats do not hold what was seen, with PINNED_MARGIN, and so many times the rounding."""
    operations: list[Misfit] = []
    for number, block in enumerate(program.blocks):
        needs = _Assignment(block, formats.fields, ranges, number, formats.word, noise[number], noise[number])
        for i, needed in needs.of(formats.blocks[number].operations, rounding):
            size = formats.blocks[number].bits.get(i, formats.word)
            top = 2.0 ** (size - 1 - formats.blocks[number].operations[i])
            if needed > top:
                what = f"{program.purpose(number, i)} (operation {i} of {block.name!r})"
                operations.append(Misfit(what, float(ranges.seen[number][i]), top, needed / top, block.name))
    return operations


def _worst_first(found: Sequence[Misfit]) -> list[Misfit]:
    return sorted(found, key=lambda misfit: -misfit.excess)


def _covariance_scales(program: Program, ranges: Ranges) -> Array:
    """One over what each covariance has to resolve, from the least variances of both sides; inf for other fields."""
    scales = np.full(len(program.fields), np.inf)
    places = {program.fields[i].place: i for i in program.of(Role.COVARIANCE)}
    least = {place[0]: float(ranges.least[i]) for place, i in places.items() if place and place[0] == place[1]}
    for place, i in places.items():
        if place is not None:
            scales[i] = 1 / (COVARIANCE * max(np.sqrt(least.get(place[0], 0.0) * least.get(place[1], 0.0)), 1e-30))
    return scales


def _samples(program: Program, ranges: Ranges) -> Array:
    """Snapshots at which rounding is measured."""
    operations = max(len(block.operations) for block in program.blocks)
    return _some(ranges.snapshots, min(SAMPLES, max(LEAST, NUMBERS // operations)))


def _closed(program: Program, snapshots: Array) -> Array:
    """Those with all gaps closed: where one is open the estimate is so much less certain that rounding matters less."""
    modes = [i for i in program.of(Role.MODE) if program.fields[i].start]
    return snapshots[:, (snapshots[modes] > 0.5).all(axis=0)]


def _some(fields: Array, count: int) -> Array:
    """About that many runs, evenly taken."""
    return fields[:, :: max(fields.shape[1] // count, 1)]


def _rounding(program: Program, formats: Formats, samples: Array) -> tuple[list[Array], str]:
    """Largest difference of every operation to float64; which one saturated, which counts as four times its limit."""
    found, saturated = [], ""
    integer = IntegerMachine(program, formats, encode(samples, formats.fields, formats.word))
    exact = FloatMachine(program, decode(integer.fields, formats.fields))
    rates = CommandRates(program, formats.fields)
    for number, block in enumerate(program.blocks):
        before = integer.fields.copy()
        exact.fields = decode(before, formats.fields)
        bits = formats.blocks[number].operations
        values, over = integer.values(number)
        begun = integer.chains.begun(number)
        held, ideal = integer.store(number, values, over), exact.values(number)
        scales = 2.0 ** -np.array(bits, dtype=float)[:, None]
        gaps, lost = np.empty(ideal.shape), np.empty(ideal.shape, bool)
        for i, (value, beyond) in enumerate(zip(values, over, strict=True)):
            gaps[i], lost[i] = value, beyond
        gaps = np.abs(gaps * scales - ideal)
        gaps[~np.isfinite(gaps)] = 0.0  # 1/0 and roots of less than 0 have nothing to compare with
        early = len(bits) if block.guard is None else block.guard.after + 1
        for rows, counted in ((slice(early), begun), (slice(early, None), held)):
            gaps[rows, ~counted], lost[rows, ~counted] = 0.0, False
        worst = gaps.max(axis=1, initial=0.0)
        for i in np.flatnonzero(lost.any(axis=1)).tolist():
            saturated = f"{program.purpose(number, i)} (operation {i} of {block.name!r})"
            size = formats.blocks[number].bits.get(i, formats.word)
            worst[i] = max(worst[i], 4 * 2.0 ** (size - 1 - bits[i]))
        found.append(worst)
        rates.apply(number, before, integer.fields)
    return found, saturated


class _Assignment:
    """Formats of one block, operation by operation."""

    def __init__(
        self,
        block: Block,
        fields: tuple[int, ...],
        ranges: Ranges,
        number: int,
        word: int,
        weights: Array,
        noise: Array,
    ) -> None:
        self.block, self.fields, self.word, self.weights, self.noise = block, fields, word, weights, noise
        self.seen, self.bounds = ranges.seen[number], ranges.bounds[number]
        self.f: list[int] = []
        self.kept = [FINEST] * len(block.operations)  # fraction bits of operations that something is made of, at most

    def formats(self, scales: Array, *, hold: bool) -> BlockFormats:
        """Formats, and what is cut: up to a unit is lost then, which may cost a field CUT of what it resolves."""
        operations = self.bits()
        cut = {i for i, f in enumerate(operations) if 2.0 ** min(-f, 1000) * self.weights[i] <= CUT}
        lost = [2.0 ** -self.fields[store.field] * scales[store.field] for store in self.block.stores]
        return BlockFormats(
            tuple(operations),
            frozenset(cut),
            frozenset(k for k, loss in enumerate(lost) if loss <= CUT),
            tuple((i, bits) for i in range(len(operations)) if hold and (bits := self._held(i)) < self.word),
        )

    def _held(self, i: int) -> int:
        """Bits that a product needs. With more of them, sums that it is in could overflow for all that is known."""
        operation, f = self.block.operations[i], self.f
        if operation.code not in (ca.OP_MUL, ca.OP_SQ) or self._inherited(operation) is not None or self.word < 32:
            return self.word
        right = f[operation.arguments[0]] + f[operation.arguments[-1]] - f[i]
        spare = fraction_bits(self._needed(i, MARGIN, NOISE_FACTOR), self.word) - f[i]
        return self.word if right >= 32 else max(min(self.word, self.word - spare), 33 - right)

    def bits(self) -> list[int]:
        for _ in range(TURNS):
            self.f = []
            for i, operation in enumerate(self.block.operations):
                inherited = self._inherited(operation)
                self.f.append(self._rounded(i) if inherited is None else inherited)
                if operation.code == ca.OP_CONST or (operation.code in SHORTENED and inherited is None):
                    self.f[i] = min(self.f[i], self.kept[i])
            self.kept = self._kept()
        return self.f

    def _kept(self) -> list[int]:
        """Fraction bits of each operation that are not lost wherever it is used: what sums and stores shift out."""
        most: list[int | None] = [None] * len(self.block.operations)

        def used(i: int, bits: int) -> None:
            known = most[i]
            most[i] = bits if known is None else max(bits, known)

        for i, operation in enumerate(self.block.operations):
            for a in operation.arguments:
                used(a, self.f[i] if operation.code in SUMS else FINEST)
        for store in self.block.stores:
            used(store.operation, self.fields[store.field])
        if self.block.guard is not None:
            used(self.block.guard.small, FINEST)
            used(self.block.guard.large, FINEST)
        return [FINEST if bits is None else bits for bits in most]

    def _inherited(self, operation: Operation) -> int | None:
        """Fraction bits that follow from the arguments alone."""
        f, a = self.f, operation.arguments
        if operation.code == ca.OP_INPUT:
            return self.fields[operation.field]
        if operation.code == ca.OP_CONST:
            return fraction_bits(abs(operation.constant) * (1 + 2.0 ** (2 - self.word)), self.word)
        if operation.code in (ca.OP_NEG, ca.OP_FABS):
            return f[a[0]]
        if operation.code == ca.OP_TWICE:
            return f[a[0]] - 1
        if operation.code == SELECT:  # either side is shifted right or not at all, so it cannot saturate
            return min(f[a[2]], f[a[3]])
        if operation.code in (ca.OP_SIN, ca.OP_COS, ca.OP_SIGN):
            return self.word - 2
        if operation.code == ca.OP_MUL:
            for factor, other in ((a[0], a[1]), (a[1], a[0])):
                power = power_of_two(self.block.operations[factor])
                if power is not None:
                    return f[other] - power
        return None

    def _rounded(self, i: int) -> int:
        """Fraction bits of an operation that is rounded to a format of its own."""
        operation, f = self.block.operations[i], self.f
        a, cap = operation.arguments, FINEST
        product = operation.code in (ca.OP_MUL, ca.OP_SQ)
        if operation.code in (ca.OP_ADD, ca.OP_SUB, ca.OP_FMIN, ca.OP_FMAX):
            cap = min(f[a[0]], f[a[1]])
        elif product:
            cap = f[a[0]] + f[a[-1]] - 1
        elif operation.code not in (ca.OP_INV, ca.OP_SQRT):
            code = operation.code
            name = (UNARY.get(code) or BINARY.get(code) or f"operation {code}").format("x", "y")
            raise RangeError(
                f"block {self.block.name!r}: {name} has no fixed-point form",
                hint="Generate with --scalar float32, or write the system with sums, products, quotients, sin, cos and "
                "sqrt.",
            )
        mine = min(fraction_bits(self._needed(i, MARGIN, NOISE_FACTOR), self.word), cap)
        if product and self.word == 32:
            high = f[a[0]] + f[a[-1]] - 32
            if mine - MOST <= high <= mine and 2.0 ** -(high + 1) * self.weights[i] <= LOSS:
                return high  # the upper word of the product: no shift, and it cannot overflow
        return mine

    def _needed(self, i: int, margin: float, rounding: float) -> float:
        """What an operation's format has to hold."""
        bound = float(self.bounds[i]) * (1 + 2.0 ** (2 - self.word))
        return min(margin * float(self.seen[i]), bound) + rounding * float(self.noise[i])

    def of(self, given: Sequence[int], rounding: float) -> Iterator[tuple[int, float]]:
        """Operations that are rounded to a format of their own, and what it has to hold if formats are given."""
        self.f = list(given)
        for i, operation in enumerate(self.block.operations):
            if self._inherited(operation) is None:
                needed, a = self._needed(i, PINNED_MARGIN, rounding), operation.arguments
                if operation.code in (ca.OP_MUL, ca.OP_SQ):  # no more than its factors can be
                    needed = min(needed, 2.0 ** (2 * (self.word - 1) - given[a[0]] - given[a[-1]]))
                yield i, needed
