"""Formats: how many fraction bits each signal has."""

from __future__ import annotations

import math
from dataclasses import dataclass

import casadi as ca

from stepmap_codegen.model.program import Operation

FINEST = 60  # fraction bits: 2^-60 resolves a variance of (1 nm)²


@dataclass(frozen=True)
class BlockFormats:
    operations: tuple[int, ...]  # fraction bits of every operation


@dataclass(frozen=True)
class Formats:
    """Fraction bits of all fields and operations for one word length."""

    word: int
    fields: tuple[int, ...]
    blocks: tuple[BlockFormats, ...]


def fraction_bits(size: float, word: int) -> int:
    """Fraction bits so that |v| < size fits a word."""
    if size <= 0:
        return FINEST
    return min(word - 1 - math.ceil(math.log2(size)), FINEST)


def power_of_two(operation: Operation) -> int | None:
    """k where an operation is the constant 2^k."""
    if operation.code != ca.OP_CONST or operation.constant <= 0:
        return None
    mantissa, exponent = math.frexp(operation.constant)
    return exponent - 1 if mantissa == 0.5 else None
