"""Formats: how many fraction bits each signal has."""

from __future__ import annotations

import math
from dataclasses import dataclass

import casadi as ca

from stepmap_codegen.model.program import Line

FINEST = 60  # fraction bits: 2^-60 resolves a variance of (1 nm)²


@dataclass(frozen=True)
class BlockFormats:
    lines: tuple[int, ...]  # fraction bits of every line


@dataclass(frozen=True)
class Formats:
    """Fraction bits of all fields and lines for one word length."""

    word: int
    fields: tuple[int, ...]
    blocks: tuple[BlockFormats, ...]


def fraction_bits(size: float, word: int) -> int:
    """Fraction bits so that |v| < size fits a word."""
    if size <= 0:
        return FINEST
    return min(word - 1 - math.ceil(math.log2(size)), FINEST)


def power_of_two(line: Line) -> int | None:
    """k where a line is the constant 2^k."""
    if line.code != ca.OP_CONST or line.constant <= 0:
        return None
    mantissa, exponent = math.frexp(line.constant)
    return exponent - 1 if mantissa == 0.5 else None
