"""Chains of guarded blocks on arrays: in which runs a block begins, and in which its chain is decided."""

from __future__ import annotations

import numpy as np

from stepmap_codegen.model.integers import Flags
from stepmap_codegen.model.program import Program


class ChainMasks:
    """For each chain the runs in which none of its blocks has stored yet; its first block makes them all of them."""

    def __init__(self, program: Program, runs: int) -> None:
        self.program, self.runs = program, runs
        self._open: dict[str, Flags] = {}

    def begun(self, number: int, where: Flags | None = None) -> Flags:
        """In which runs a block begins: those asked for, less those where an earlier block of its chain has stored."""
        chain = self.program.blocks[number].chain
        asked = np.ones(self.runs, bool) if where is None else where.copy()
        if not chain:
            return asked
        if number == self.program.chains[chain][0]:
            self._open[chain] = np.ones(self.runs, bool)
        return asked & self._open[chain]

    def taken(self, number: int, held: Flags) -> None:
        """A block has stored in these runs."""
        chain = self.program.blocks[number].chain
        if chain:
            self._open[chain] = self._open[chain] & ~held
