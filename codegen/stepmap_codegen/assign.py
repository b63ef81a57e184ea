"""From ranges to formats.

Every line holds MARGIN times the largest magnitude seen, or what interval arithmetic proves where that is less; a sum
has no more fraction bits than its coarser operand. Ranges of float64 runs say too little where large numbers cancel: a
Newton residual is 1e-16 there and 1e-9 in integers. So the integer model runs too, and what it adds is added.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import RangeError
from stepmap.graph.tape import BINARY, UNARY
from stepmap_codegen.evaluate import FloatMachine
from stepmap_codegen.formats import FINEST, BlockFormats, Formats, fraction_bits, power_of_two
from stepmap_codegen.interpret import IntegerMachine, decode, encode
from stepmap_codegen.program import Block, Line, Program, Role
from stepmap_codegen.ranges import MARGIN, Ranges
from stepmap_codegen.sensitivity import sensitivities

WORDS = range(16, 33)  # as firmware/core/sm_fixed.h has them
NOISE_FACTOR = 4.0  # room for rounding, times what was measured
PASSES = 6  # formats, rounding measured with them, formats again
SAMPLES, ADJOINTS = 8000, 32  # snapshots at which rounding and sensitivity are measured, …
LEAST, NUMBERS = 320, 4_000_000  # … fewer where lines are many
LOSS = 1.0  # rounding that a product may add where that makes it cheap, in units of what a stored field resolves
MOST = 8  # bits lost that way at most
COVARIANCE = 2.0**-20  # resolution that covariances need, relative


def assign(program: Program, ranges: Ranges, word: int = 32, *, study: bool = False) -> Formats:
    """Formats for words of that many bits; a study takes those that saturate, too."""
    if word not in WORDS:
        raise RangeError(f"word: takes {WORDS.start} to {WORDS.stop - 1} bits, got {word}")
    fields = tuple(fraction_bits(MARGIN * float(size), word) for size in ranges.sizes)
    scales = np.minimum(2.0 ** np.array(fields, dtype=float), _covariance_scales(program, ranges))
    weights = sensitivities(program, _some(ranges.snapshots, ADJOINTS), scales)
    lines = max(len(block.lines) for block in program.blocks)
    samples = _some(ranges.snapshots, min(SAMPLES, max(LEAST, NUMBERS // lines)))
    noise = [np.zeros(len(block.lines)) for block in program.blocks]
    for turn in range(PASSES):
        blocks = tuple(
            BlockFormats(tuple(_Assignment(block, fields, ranges, i, word, weights[i], noise[i]).bits()))
            for i, block in enumerate(program.blocks)
        )
        formats = Formats(word, fields, blocks)
        measured, saturated = _rounding(program, formats, samples)
        noise = [np.maximum(old, new) for old, new in zip(noise, measured, strict=True)]
        if not saturated and turn > 0:
            return formats
    if saturated and not study:
        raise RangeError(
            f"{saturated} overflows in simulated runs however its format is chosen: its range is too wide for words of "
            f"{word} bits; use longer words, floating point (--scalar float32), or less noise in [noise]"
        )
    return formats


def _covariance_scales(program: Program, ranges: Ranges) -> Array:
    """One over what each covariance has to resolve, from the least variances of both sides; inf for other fields."""
    scales = np.full(len(program.fields), np.inf)
    places = {program.fields[i].place: i for i in program.of(Role.COVARIANCE)}
    least = {place[0]: float(ranges.least[i]) for place, i in places.items() if place and place[0] == place[1]}
    for place, i in places.items():
        if place is not None:
            scales[i] = 1 / (COVARIANCE * max(np.sqrt(least.get(place[0], 0.0) * least.get(place[1], 0.0)), 1e-30))
    return scales


def _some(fields: Array, count: int) -> Array:
    """About that many runs, evenly taken."""
    return fields[:, :: max(fields.shape[1] // count, 1)]


def _rounding(program: Program, formats: Formats, samples: Array) -> tuple[list[Array], str]:
    """Largest difference of every line to float64; and which one saturated, which counts as four times its limit."""
    found, saturated = [], ""
    integer = IntegerMachine(program, formats, encode(samples, formats.fields, formats.word))
    for number, block in enumerate(program.blocks):
        exact = FloatMachine(program, decode(integer.fields, formats.fields))
        bits = formats.blocks[number].lines
        values, over = integer.values(number)
        held, ideal = integer.run(number), exact.values(number)
        worst = np.zeros(len(bits))
        for i in range(len(bits)):
            counted = slice(None) if block.guard is None or i <= block.guard.after else held
            gap = np.abs(values[i] * 2.0 ** -bits[i] - ideal[i])
            worst[i] = gap[counted].max(initial=0.0)
            if np.broadcast_to(over[i], held.shape)[counted].any():
                saturated = f"line {i} of block {block.name!r}"
                worst[i] = max(worst[i], 4 * 2.0 ** (formats.word - 1 - bits[i]))
        found.append(worst)
    return found, saturated


class _Assignment:
    """Formats of one block, line by line."""

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

    def bits(self) -> list[int]:
        for i, line in enumerate(self.block.lines):
            kept = self._kept(line)
            self.f.append(self._rounded(i) if kept is None else kept)
        return self.f

    def _kept(self, line: Line) -> int | None:
        """Fraction bits that follow from the arguments alone."""
        f, a = self.f, line.arguments
        if line.code == ca.OP_INPUT:
            return self.fields[line.field]
        if line.code == ca.OP_CONST:
            return fraction_bits(abs(line.constant) * (1 + 2.0 ** (2 - self.word)), self.word)
        if line.code in (ca.OP_NEG, ca.OP_FABS):
            return f[a[0]]
        if line.code == ca.OP_TWICE:
            return f[a[0]] - 1
        if line.code in (ca.OP_SIN, ca.OP_COS, ca.OP_SIGN):
            return self.word - 2
        if line.code == ca.OP_MUL:
            for factor, other in ((a[0], a[1]), (a[1], a[0])):
                power = power_of_two(self.block.lines[factor])
                if power is not None:
                    return f[other] - power
        return None

    def _rounded(self, i: int) -> int:
        """Fraction bits of a line that is rounded to a format of its own."""
        line, f = self.block.lines[i], self.f
        a, cap = line.arguments, FINEST
        product = line.code in (ca.OP_MUL, ca.OP_SQ)
        if line.code in (ca.OP_ADD, ca.OP_SUB, ca.OP_FMIN, ca.OP_FMAX):
            cap = min(f[a[0]], f[a[1]])
        elif product:
            cap = f[a[0]] + f[a[-1]] - 1
        elif line.code not in (ca.OP_INV, ca.OP_SQRT):
            name = (UNARY.get(line.code) or BINARY.get(line.code) or f"operation {line.code}").format("x", "y")
            raise RangeError(
                f"block {self.block.name!r}: {name} has no fixed-point form; generate with --scalar float32, or write "
                "the system with sums, products, quotients, sin, cos and sqrt"
            )
        noise = NOISE_FACTOR * float(self.noise[i])
        bound = float(self.bounds[i]) * (1 + 2.0 ** (2 - self.word))
        mine = min(fraction_bits(min(MARGIN * float(self.seen[i]), bound) + noise, self.word), cap)
        if product and self.word == 32:
            high = f[a[0]] + f[a[-1]] - 32
            if mine - MOST <= high <= mine and 2.0 ** -(high + 1) * self.weights[i] <= LOSS:
                return high  # the upper word of the product: no shift, and it cannot overflow
        return mine
