"""The rows a walking robot follows: chosen by the nearest pose instead of the clock, and restarted at every landing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.optimal.gaits.cycle import Cycle
from stepmap.steps.layout import MechanicalLayout

BACK, AHEAD = 3, 6  # rows around the expected one among which the nearest pose is sought
BEYOND = 10  # rows after the last one, for landings that are late


@dataclass(frozen=True, eq=False)
class Schedule:
    """x̄ (rows, nx), ū (rows, nu), gains (rows, nu, ndx) of a gait of one phase; ``steps`` of the rows are the plan's.

    Rows beyond the last continue the plan through the ground under its last inputs: one that lands late finds there
    where it should be by now.
    """

    cycle: Cycle
    x: Array
    u: Array
    gains: Array

    @classmethod
    def of(cls, cycle: Cycle, gains: Array, beyond: int = BEYOND) -> Schedule:
        """The rows of a gait with its gains (N, nu, ndx)."""
        if len(cycle.stretches) != 1:
            raise ModelError(
                f"a schedule that restarts at the landing has one phase, this gait has {len(cycle.stretches)}"
            )
        late = cycle.maps[0].rollout(cycle.x[-1], np.tile(cycle.u[-1], (beyond, 1)))
        x, u = np.concatenate([cycle.x[:-1], late.x[:-1]]), np.concatenate([cycle.u, late.u])
        return cls(cycle, x, u, np.concatenate([gains, np.tile(gains[-1:], (beyond, 1, 1))]))

    @property
    def steps(self) -> int:
        return self.cycle.steps

    @cached_property
    def _keep(self) -> Array:
        """Parts of deviations of q that count, per row, in tangent dimensions."""
        n = self._layout.nd
        return np.array([self.cycle.modes[0].deviations(q)[:n, :n] for q in self._layout.pose(self.x)])

    @property
    def _layout(self) -> MechanicalLayout:
        return self.cycle.maps[0].layout

    def off(self, row: int, pose: Array) -> Array:
        """q − q̄ of a row, in tangent dimensions."""
        return self._layout.tangent.difference(self._layout.pose(self.x[row]), pose)

    def nearest(self, pose: Array, expected: int) -> int:
        """The row whose pose is nearest, from 3 before the expected one to 6 after it."""
        rows = np.arange(max(0, expected - BACK), min(len(self.x), expected + AHEAD + 1))
        off = np.einsum("kij,kj->ki", self._keep[rows], np.array([self.off(int(row), pose) for row in rows]))
        return int(rows[np.argmin(np.einsum("ki,ki->k", off, off))])

    def deviation(self, x: Array, row: int = 0) -> Array:
        """The part of q − q̄ of a row that counts."""
        return self.counted(row, self.off(row, self._layout.pose(x)))

    def counted(self, row: int, change: Array) -> Array:
        """The part of a change of q that counts: where the robot stands does not."""
        out: Array = self._keep[row] @ change
        return out

    def law(self, row: int, x: Array) -> Array:
        """u = ū − K (x − x̄) of a row."""
        out: Array = self.u[row] - self.gains[row] @ self._layout.difference(self.x[row], x)
        return out
