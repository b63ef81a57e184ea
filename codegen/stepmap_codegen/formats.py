"""Ranges and formats: how many fraction bits each signal gets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import RangeError
from stepmap_codegen.program import Block, Line, Program

MARGIN = 2.0
NOISE_FACTOR = 8.0
LOSS = 6  # bits given away for a product that is the upper word alone
FINEST = 60  # fraction bits: 2^-60 resolves a variance of (1 nm)²


def fraction_bits(size: float, word: int) -> int:
    """Fraction bits so that |v| ≤ size fits a word."""
    if size <= 0:
        return FINEST
    return min(word - 1 - math.ceil(math.log2(size) + 1e-12), FINEST)


@dataclass(frozen=True)
class BlockFormats:
    lines: tuple[int, ...]  # fraction bits of every line
    noise: tuple[float, ...]  # estimated rounding error of every line


@dataclass(frozen=True)
class Formats:
    """Fraction bits of all fields and lines for one word length."""

    word: int
    fields: tuple[int, ...]
    blocks: tuple[BlockFormats, ...]


def power_of_two(line: Line) -> int | None:
    """k where a line is the constant 2^k."""
    if line.code != ca.OP_CONST or line.constant <= 0:
        return None
    mantissa, exponent = math.frexp(line.constant)
    return exponent - 1 if mantissa == 0.5 else None


def assign(program: Program, field_sizes: Array, line_sizes: list[Array], word: int = 32) -> Formats:
    """Formats from the largest magnitudes seen; margin and propagated rounding noise are added here."""
    fields = tuple(fraction_bits(MARGIN * float(size), word) for size in field_sizes)
    blocks = tuple(_block(block, fields, sizes, word) for block, sizes in zip(program.blocks, line_sizes, strict=True))
    return Formats(word, fields, blocks)


def _block(block: Block, fields: tuple[int, ...], sizes: Array, word: int) -> BlockFormats:
    bits: list[int] = []
    noise: list[float] = []
    lines = block.lines
    for i, line in enumerate(lines):
        size = float(sizes[i])
        a = line.arguments
        exact: int | None = None
        cap = FINEST
        grown = 0.0
        if line.code == ca.OP_INPUT:
            exact, grown = fields[line.field], 0.0
        elif line.code == ca.OP_CONST:
            exact = fraction_bits(abs(line.constant) * (1 + 2.0 ** (2 - word)), word)
            grown = 2.0 ** -(exact + 1)
        elif line.code in (ca.OP_ADD, ca.OP_SUB, ca.OP_FMIN, ca.OP_FMAX):
            cap = min(bits[a[0]], bits[a[1]])
            grown = noise[a[0]] + noise[a[1]]
        elif line.code == ca.OP_NEG:
            exact, grown = bits[a[0]], noise[a[0]]
        elif line.code == ca.OP_TWICE:
            exact, grown = bits[a[0]] - 1, 2 * noise[a[0]]
        elif line.code in (ca.OP_MUL, ca.OP_SQ):
            x, y = a[0], a[-1]
            shift = power_of_two(lines[x]), power_of_two(lines[y])
            if line.code == ca.OP_MUL and shift[0] is not None:
                exact, grown = bits[y] - shift[0], noise[y] * 2.0 ** shift[0]
            elif line.code == ca.OP_MUL and shift[1] is not None:
                exact, grown = bits[x] - shift[1], noise[x] * 2.0 ** shift[1]
            else:
                grown = float(sizes[x]) * noise[y] + float(sizes[y]) * noise[x] + noise[x] * noise[y]
                cap = bits[x] + bits[y] - 1
        elif line.code == ca.OP_INV:
            grown = noise[a[0]] * size**2
        else:
            raise RangeError(f"block {block.name!r}: operation {line.code} of CasADi has no fixed-point form")
        if exact is not None:
            bits.append(exact)
            noise.append(grown)
            continue
        mine = min(fraction_bits(MARGIN * (size + NOISE_FACTOR * grown), word), cap)
        if line.code in (ca.OP_MUL, ca.OP_SQ):
            high = bits[a[0]] + bits[a[-1]] - 32
            if word == 32 and mine - LOSS <= high <= mine:
                mine = high  # the upper word of the product: no shift, and it cannot overflow
        bits.append(mine)
        noise.append(grown + 2.0**-mine)
    return BlockFormats(tuple(bits), tuple(noise))


def worst(values: list[Array]) -> Array:
    """Largest magnitude of each line over a batch."""
    return np.array([float(np.max(np.abs(v))) for v in values])
