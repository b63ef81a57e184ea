"""What jerks strings slack in simulated runs: blows from all sides, unknown to the filter, and drops of lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.gaps import String
from stepmap.mechanics.quantity import Coordinate
from stepmap.mechanics.system import System
from stepmap.steps.kinds import discretize
from stepmap.steps.variational import VariationalStep
from stepmap_codegen.lower.step_graph import StepGraph
from stepmap_codegen.model.integers import Flags

BLOW_RATE, BLOW = 1 / 60, (0.5, 1.8)  # per tick; m/s that what hangs on a string gets
DROP_RATE, DROP = 1 / 150, 1.5  # per tick; m/s at which the string is paid out …
FALL, STAY, BACK = 4, 8, 20  # … for so many ticks; then it stays long, and is wound up again
APART = 45  # ticks between jerks of a run: two at once add up to what no filter follows
CLOSED = 1e-9  # of h
CONVERGED = 8  # iterations
PARTS = 8  # of a period of the simulated plant


class Jerks:
    """Blows and drops of many runs; the runs of each seed have chances of their own, besides all others."""

    def __init__(self, step: VariationalStep, seeds: Sequence[int], runs: int) -> None:
        self.step, self.runs = step, runs
        self.chances = [np.random.default_rng([seed, 1]) for seed in seeds]
        self.lengths = _length_inputs(step.system)
        self.begun = np.full((len(self.lengths), runs * len(seeds)), -(FALL + STAY + BACK))  # ticks of the last drops
        self.tick, self.last = 0, np.full(runs * len(seeds), -APART)  # ticks of the last jerks
        self.gaps = np.array([row is Row.GAP for row in step.system.constraint_rows])

    def closed(self, x: Array) -> Flags:
        """Rows that hold now: equalities, and gaps that touch."""
        h = self.step.system.residuals(self.step.layout.pose(x))
        held: Flags = ~self.gaps | (h >= -CLOSED)
        return held

    def admissible(self, x: Array, closed: Flags) -> Array:
        """States moved onto the rows that are closed, and onto gaps that they violate, by the least change."""
        system, layout, out = self.step.system, self.step.layout, np.array(x)
        moving, nd = layout["q"], self.step.nd
        for _ in range(4):
            pose = layout.pose(out)
            h = system.residuals(pose)
            active = closed | (h > 0)
            J = system.residuals_slope(pose)[..., :nd] * active[..., None]
            out[..., moving] -= np.einsum("...ij,...j->...i", np.linalg.pinv(J), h * active)
        return out

    def struck(self, x: Array) -> Array:
        """States after the blows of this tick: from any side, as hard as on a body that the gap alone would hold."""
        speeds, directions, chances = [], [], []
        for rng in self.chances:
            chances.append(rng.random(self.runs))
            speeds.append(rng.uniform(*BLOW, self.runs))
            drawn = rng.standard_normal((self.runs, self.step.nd))
            directions.append(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
        speed = np.concatenate(speeds) * self._begins(np.concatenate(chances) < BLOW_RATE)
        way, nd = np.concatenate(directions), self.step.nd
        pose = self.step.layout.pose(x)
        mass = self.step.system.mass_matrix(pose)[..., :nd, :nd]
        J = self.step.system.residuals_slope(pose)[:, np.flatnonzero(self.gaps)[0], :nd]
        normal = J / np.linalg.norm(J, axis=1, keepdims=True)
        held = 1 / np.einsum("ri,rij,rj->r", normal, np.linalg.inv(mass), normal)
        out = np.array(x)
        kick = np.einsum("rij,rj->ri", np.linalg.cholesky(mass), way)
        out[:, self.step.layout["p"]] += (speed * np.sqrt(held))[:, None] * kick
        return out

    def _begins(self, wanted: Flags) -> Flags:
        """Which jerks happen: those long enough after the last one of their run."""
        begins: Flags = wanted & (self.tick - self.last >= APART)
        self.last = np.where(begins, self.tick, self.last)
        return begins

    def dropped(self, commands: Array) -> Array:
        """Commands (nu, runs) with the lengths of strings that drop in this tick."""
        out = np.array(commands)
        for k, i in enumerate(self.lengths):
            over = self.tick - self.begun[k] >= FALL + STAY + BACK
            chance = np.concatenate([rng.random(self.runs) for rng in self.chances])
            begins = self._begins(over & (chance < DROP_RATE))
            self.begun[k] = np.where(begins, self.tick, self.begun[k])
            since = self.tick - self.begun[k] + 1
            paid_out = np.minimum(since, (FALL + STAY + BACK - since) * FALL / BACK)
            out[i] += DROP * self.step.dt * np.clip(paid_out, 0, FALL)
        self.tick += 1
        return out


def _length_inputs(system: System) -> list[int]:
    """Inputs that are the next lengths of strings."""
    places = {c.name: len(system.inputs) + i for i, c in enumerate(system.kinematic)}
    lengths = [c.length for c in system.constraints if isinstance(c, String)]
    return sorted({places[length.name] for length in lengths if isinstance(length, Coordinate)})


def finer(step: VariationalStep) -> VariationalStep:
    """The same map with every step in several parts, as jerks need: a plant knows no periods."""
    return discretize(step.system, step.dt, forces=step.forces, substeps=PARTS)


def converged_closed(step: VariationalStep) -> Callable[[Array, Array], Array]:
    """Steps with all gaps closed, by more iterations than any board takes: what branches are held against."""
    x, u = ca.SX.sym("x", step.nx), ca.SX.sym("u", step.nu)
    made = ca.Function("closed", [x, u], [StepGraph(step, CONVERGED).map(x, u)[0]])
    return lambda X, U: np.array([np.asarray(made(x, u), dtype=float)[:, 0] for x, u in zip(X, U, strict=True)])
