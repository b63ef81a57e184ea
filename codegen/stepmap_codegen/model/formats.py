"""Formats: how many fraction bits each signal has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca

from stepmap_codegen.model.program import Operation

FINEST = 60  # fraction bits: 2^-60 resolves a variance of (1 nm)²


@dataclass(frozen=True)
class BlockFormats:
    """Where bits are lost, they are rounded unless they are cut off: fewer instructions, and up to twice the error."""

    operations: tuple[int, ...]  # fraction bits of every operation
    cut: frozenset[int] = frozenset()  # products, sums and comparisons whose results or operands are cut
    cut_stores: frozenset[int] = frozenset()  # by their place among the block's stores
    held: tuple[tuple[int, int], ...] = ()  # products that saturate at less bits than a word has, and at how many

    @cached_property
    def bits(self) -> dict[int, int]:
        """The same by operation."""
        return dict(self.held)

    def packed(self) -> dict[str, Any]:
        """What files keep."""
        return {
            "bits": list(self.operations),
            "cut": sorted(self.cut),
            "cut_stores": sorted(self.cut_stores),
            "held": [list(pair) for pair in self.held],
        }

    @staticmethod
    def unpacked(document: Mapping[str, Any]) -> BlockFormats:
        """Raises ValueError, KeyError or TypeError where a document is none of ``packed``."""
        operations, places = tuple(document["bits"]), [*document["cut"], *document["cut_stores"]]
        held = tuple((i, bits) for i, bits in document["held"])
        numbers = [*operations, *places, *(number for pair in held for number in pair)]
        if not all(type(number) is int and abs(number) < 128 for number in operations):
            raise ValueError("fraction bits must be whole numbers")
        if not all(type(number) is int for number in numbers):
            raise ValueError("operations are named by whole numbers")
        if not all(0 <= i < len(operations) and 1 <= bits <= 32 for i, bits in held):
            raise ValueError("held: products saturate at 1 to 32 bits")
        return BlockFormats(operations, frozenset(document["cut"]), frozenset(document["cut_stores"]), held)


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
