"""How far commands move in a tick: the loop around a controller limits that before the prediction sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stepmap_codegen.model.program import BlockRole, Program, Role


def with_rates(program: Program, speeds: Sequence[float]) -> Program:
    """The program with limits of the commands that set kinematic coordinates, each at its speed [units/s]."""
    fields = list(program.fields)
    for i, speed in zip(program.of(Role.COMMAND), speeds, strict=True):
        if fields[i].moves is not None:
            fields[i] = replace(fields[i], rate=speed * program.period)
    return replace(program, fields=tuple(fields))


class CommandRates:
    """The limits of a program's commands, in units, or in raw values where fraction bits of its fields are given."""

    def __init__(self, program: Program, bits: Sequence[int] | None = None) -> None:
        self.program = program
        limited = [(i, program.fields[i].rate) for i in program.of(Role.COMMAND)]
        self.fields = [i for i, rate in limited if rate is not None]
        scales = [1.0 if bits is None else 2.0 ** bits[i] for i in self.fields]
        rates = [rate for _, rate in limited if rate is not None]
        most = np.array([rate * scale for rate, scale in zip(rates, scales, strict=True)])
        self.most = (most if bits is None else np.rint(most).astype(np.int64))[:, None]

    def apply(self, number: int, before: Any, fields: Any) -> None:
        """Limits the commands that a block has left in ``fields`` (count, runs) around those ``before`` it."""
        if self.fields and self.program.blocks[number].role is BlockRole.STATE_FEEDBACK:
            old = before[self.fields]
            fields[self.fields] = np.clip(fields[self.fields], old - self.most, old + self.most)
