"""The extended Kalman filter as parts of a controller: updates channel by channel, covariance through A."""

from __future__ import annotations

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap_codegen.lower.blocks import Sketch
from stepmap_codegen.lower.parts import FilterParts, Model
from stepmap_codegen.lower.plant import Noise
from stepmap_codegen.lower.slack_test import SlackTest, widened_pattern
from stepmap_codegen.model.program import BlockRole, Field, Role


def lower(model: Model, noise: Noise, gate: float | None) -> FilterParts:
    """The filter with this noise; ``gate`` is in standard deviations."""
    return _Ekf(model, noise, gate).parts()


class _Ekf:
    def __init__(self, model: Model, noise: Noise, gate: float | None) -> None:
        self.model, self.noise, self.gate = model, noise, gate
        self.pattern = self._covariance_pattern()
        self.entries = [(i, j) for i in range(model.ndx) for j in range(i + 1) if self.pattern[i, j]]
        self.P = self._symbolic_covariance()
        self.P_fields = [f"P_{i}_{j}" for i, j in self.entries]

    def parts(self) -> FilterParts:
        m = self.model
        names = m.layout.tangent_names
        fields = tuple(
            Field(f, Role.COVARIANCE, label=f"cov({names[i]}, {names[j]})", place=(i, j))
            for f, (i, j) in zip(self.P_fields, self.entries, strict=True)
        )
        memory = list(zip(self.P_fields, self._lower(self.P), strict=True))
        tests = [] if m.gaps is None else [SlackTest(m, m.gaps, i, self.noise) for i in range(len(m.gaps.names))]
        places = [(field, i, j) for field, (i, j) in zip(self.P_fields, self.entries, strict=True)]
        return FilterParts(
            (*fields, *(test.declared for test in tests)),
            memory,
            tuple(self._update(k) for k in range(m.nz)),
            self._spread(m.map.A),
            tuple((f"e_{channel}", f"s_{channel}") for channel in m.channels),
            () if m.gaps is None else tuple(self._spread(branch.A) for branch in m.gaps.branches),
            tuple(sketch for test in tests for sketch in test.sketches(self.P, memory, places)),
            () if m.landing is None else self._spread(m.landing.slope, self.noise.start),
        )

    def _spread(self, A: ca.SX, added: Array | None = None) -> list[tuple[str, ca.SX]]:
        """The covariance after a step, or after something else that adds another noise."""
        after = A @ self.P @ A.T + ca.sparsify(ca.SX(self.noise.process if added is None else added))
        return list(zip(self.P_fields, self._lower(after), strict=True))

    def _covariance_pattern(self) -> Array:
        """Entries of P that can ever be nonzero: a fixed point over prediction and updates."""
        gaps = self.model.gaps
        maps = [self.model.map.A] if gaps is None else [branch.A for branch in gaps.branches]
        maps += [] if self.model.landing is None else [self.model.landing.slope]
        A: Array = np.any([np.array(ca.DM(one.sparsity(), 1.0)) != 0 for one in maps], axis=0)
        H = np.array(ca.DM(self.model.H.sparsity(), 1.0)) != 0
        fixed = (self.noise.start != 0) | (self.noise.process != 0)
        if gaps is not None:
            fixed = fixed | widened_pattern(gaps, self.model.ndx)
        pattern: Array = fixed
        while True:
            grown: Array = fixed | ((A.astype(int) @ pattern.astype(int) @ A.T.astype(int)) != 0)
            for row in H:
                seen = (grown.astype(int) @ row.astype(int)) != 0
                grown = grown | np.outer(seen, seen)
            if np.array_equal(grown | pattern, pattern):
                return pattern
            pattern = grown | pattern

    def _symbolic_covariance(self) -> ca.SX:
        P = ca.SX(self.model.ndx, self.model.ndx)
        for i, j in self.entries:
            symbol = ca.SX.sym(f"P_{i}_{j}")
            P[i, j] = symbol
            P[j, i] = symbol
        return P

    def _lower(self, P: ca.SX) -> list[ca.SX]:
        return [P[i, j] for i, j in self.entries]

    def _update(self, k: int) -> Sketch:
        m, channel = self.model, self.model.channels[k]
        z = ca.SX.sym("z")
        row = m.H[k, :].T
        Ph = self.P @ row
        error = z - m.h[k]
        S = ca.dot(row, Ph) + float(self.noise.measurement[k])
        gain = Ph * (1 / S)
        x = m.map.retract(m.x, gain * error)
        P = self.P - gain @ Ph.T
        guard = None if self.gate is None else (error * error, self.gate**2 * S)
        still = [m.layout.plain and gain[i].is_zero() for i in range(m.nx)]
        moved = [(f, x[i]) for i, f in enumerate(m.x_fields) if not still[i]]
        changed = [
            (f, P[i, j])
            for f, (i, j) in zip(self.P_fields, self.entries, strict=True)
            if not (gain[i].is_zero() or Ph[j].is_zero())
        ]
        memory = zip(self.P_fields, self._lower(self.P), strict=True)
        inputs = [*m.estimate, *memory, (f"z_{channel}", z)]
        outputs = [*moved, *changed, (f"e_{channel}", error), (f"s_{channel}", S)]
        return Sketch(
            f"update_{channel}", BlockRole.UPDATE, f"updates the filter with {channel}", inputs, outputs, guard, k
        )
