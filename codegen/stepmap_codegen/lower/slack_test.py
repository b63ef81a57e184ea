"""A test for slack that nobody commanded: a one-sided sum (CUSUM) of the innovation along each closed gap.

Across a closed gap the covariance is so small that a blow would be ignored or gated. An impulse α of a gap moves what
is measured by d α, d = H M⁻¹ Dhᵀ; so −dᵀR⁻¹e/√(dᵀR⁻¹d), of unit variance, grows where the gap opens:

    s ← max(0, s − dᵀR⁻¹e/√(dᵀR⁻¹d) − DRIFT),   slack at s ≥ ALARM

Then the mode opens, half an impulse goes out of p, and position and velocity become uncertain by what was seen, in all
directions: a blow comes from anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap_codegen.lower.blocks import Named, Sketch, identifier
from stepmap_codegen.lower.gaps import Gaps
from stepmap_codegen.lower.parts import Model
from stepmap_codegen.lower.plant import Noise
from stepmap_codegen.lower.step_graph import solve_static
from stepmap_codegen.model.program import BlockRole, Field, Role

DRIFT, ALARM = 1.0, 3.5  # standard deviations
MOST = 32.0  # standard deviations that an opened gap becomes uncertain by: more than that is an outlier
LARGEST = 16.0  # of the sum
CORRELATION = 0.8  # of position and velocity after a blow within the last step


@dataclass(frozen=True, eq=False)
class SlackTest:
    """The test of one gap: its fields as symbols, how much it adds to P, and the channels it reads."""

    model: Model
    gaps: Gaps
    gap: int
    noise: Noise

    def __post_init__(self) -> None:
        if not self.channels:
            raise ModelError(
                f"gap {self.gaps.names[self.gap]!r}: no sensor sees whether it opens, so a filter on a board would not "
                "notice; add a marker or an encoder to what it holds"
            )

    @property
    def field(self) -> str:
        return f"slack_{identifier(self.gaps.names[self.gap])}"

    @property
    def declared(self) -> Field:
        label = f"sum of the test for slack of {self.gaps.names[self.gap]}"
        return Field(self.field, Role.MODE, "", 0.0, LARGEST, label=label)

    @property
    def _moved(self) -> ca.SX:
        """d: how the readings change with an impulse of the gap."""
        return ca.sparsify(self.model.H[:, : self.gaps.nd] @ self.gaps.response(self.gap))

    @property
    def channels(self) -> tuple[int, ...]:
        return tuple(sorted(set(self._moved.sparsity().row())))

    def sketches(self, P: ca.SX, memory: Named, entries: list[tuple[str, int, int]]) -> tuple[Sketch, Sketch]:
        """The sum, and what happens once it is large enough; ``entries`` are fields of P with their places."""
        m, gaps, name = self.model, self.gaps, self.gaps.names[self.gap]
        s, mode = ca.SX.sym(self.field), gaps.modes[self.gap]
        z = {k: ca.SX.sym(f"z{k}") for k in self.channels}
        d = self._moved
        weights = {k: d[k] / float(self.noise.measurement[k]) for k in self.channels}
        scale = sum((weights[k] * d[k] for k in self.channels), ca.SX(0))
        along = sum((weights[k] * (z[k] - m.h[k]) for k in self.channels), ca.SX(0))
        grown = ca.fmin(ca.fmax(s - along / ca.sqrt(scale) - DRIFT, 0.0), LARGEST)
        read = [(f"z_{m.channels[k]}", z[k]) for k in self.channels]
        inputs = [*m.estimate, *memory, (gaps.fields[self.gap], mode), (self.field, s), *read]
        label = identifier(name)
        total = Sketch(
            f"slack_sum_{label}",
            BlockRole.SLACK_TEST,
            f"sums how far {name} seems to be slack, where it is taken for taut",
            inputs,
            [(self.field, grown)],
            (ca.SX(0.5), mode),
            needs=self.channels,
        )
        nd, nq = gaps.nd, gaps.nq
        p = gaps.released(m.x[nq : nq + nd], self.gap)
        opened = [
            (gaps.fields[self.gap], ca.SX(0)),
            (self.field, ca.SX(0)),
            *zip(m.x_fields[nq : nq + nd], ca.vertsplit(p), strict=True),
        ]
        one = 1 / scale  # square of the impulse that moves what is measured by a standard deviation
        wider = self._widened(P, ca.fmin(ca.fmax(along**2 * one, 1.0), MOST**2) * one)
        opened += [(field, wider[i, j]) for field, i, j in entries if not ca.is_equal(wider[i, j], P[i, j])]
        summary = f"takes {name} for slack, with as much uncertainty as was seen, once the sum is large enough"
        guard = (ca.SX(ALARM), s)
        return total, Sketch(
            f"slack_{label}", BlockRole.SLACK_TEST, summary, inputs, opened, guard, needs=self.channels
        )

    def _widened(self, P: ca.SX, squared: ca.SX) -> ca.SX:
        """P after a blow that opened the gap by an impulse with this square, whose direction is not known."""
        gaps, nd, nq, dt = self.gaps, self.gaps.nd, self.gaps.nq, self.gaps.step.dt
        mass = gaps.mass[:nd, :nd]
        size = squared * ca.dot(gaps.slope(self.gap).T, gaps.response(self.gap))
        inverse = _inverse(mass)
        out = ca.SX(P)
        q, p = slice(0, nd), slice(nq, nq + nd)
        out[q, q] = P[q, q] + size * inverse
        out[p, p] = P[p, p] + size / dt**2 * mass
        between = CORRELATION * size / dt * ca.SX.eye(nd)
        out[q, p], out[p, q] = P[q, p] + between, P[p, q] + between
        return ca.sparsify(out)


def _inverse(mass: ca.SX) -> ca.SX:
    return solve_static(mass, ca.densify(ca.SX.eye(mass.shape[0])))


def widened_pattern(gaps: Gaps, ndx: int) -> Array:
    """Entries of P that a blow may make nonzero."""
    nd, nq = gaps.nd, gaps.nq
    mass = gaps.mass[:nd, :nd]
    full, inverse = (np.array(ca.DM(m.sparsity(), 1.0)) != 0 for m in (mass, _inverse(mass)))
    pattern: Array = np.zeros((ndx, ndx), dtype=bool)
    pattern[:nd, :nd], pattern[nq : nq + nd, nq : nq + nd] = inverse, full
    pattern[range(nd), range(nq, nq + nd)] = pattern[range(nq, nq + nd), range(nd)] = True
    return pattern
