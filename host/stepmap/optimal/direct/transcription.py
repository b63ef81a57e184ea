"""From a task to its program on a grid: blocks, bounds, and motions as variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.optimal.direct import obstacles
from stepmap.optimal.direct.ends import released
from stepmap.optimal.direct.formulation import Formulation
from stepmap.optimal.direct.motion import Motion
from stepmap.optimal.direct.nlp.block import Block, Placed
from stepmap.optimal.direct.nlp.program import Program
from stepmap.optimal.direct.numbering import Numbering
from stepmap.optimal.direct.phases.contacts import least_forces, most_open
from stepmap.optimal.direct.task import Task

NEAR = 0.05  # m or rad: how far a coordinate of the goal that the constraints decide may be from what was asked for


@dataclass(frozen=True, eq=False)
class Transcription:
    """A task's program with so many steps per phase."""

    formulation: Formulation
    steps: tuple[int, ...]
    frozen: bool = True  # whether parameters of the design keep their values

    @property
    def task(self) -> Task:
        return self.formulation.task

    @cached_property
    def numbering(self) -> Numbering:
        task = self.task
        resting = self.formulation.rest_block is not None
        others = {"v_end": task.mechanism.n, "nu": task.modes[-1].count} if resting else {}
        others |= {f"transition{i}": one.size for i, one in enumerate(self.formulation.transitions)}
        others["design"] = len(task.designed)
        return Numbering.of(self.steps, task.mechanism.nx, [stage.ns for stage in self.formulation.stages], others)

    def constants(self, numbers: Sequence[int] | Array) -> Array:
        par = self.task.system.parameter_values
        return np.column_stack([np.asarray(numbers, dtype=float), np.tile(par, (len(numbers), 1))])

    @cached_property
    def program(self) -> Program:
        placed: list[Placed] = []
        for i in range(len(self.steps)):
            placed += [self._stages(i), *self._rates(i), *self._nodes(i), *self._gaps(i), *obstacles.placed(self, i)]
        placed += [*self._transitions(), *self._ends()]
        return Program(self.numbering.size, tuple(placed), self.task.compiled and self.task.solver == "ipopt")

    def _stages(self, i: int) -> Placed:
        stage, block, count = self.formulation.stages[i], self.formulation.stage_blocks[i], self.steps[i]
        middles = self.formulation.paths[i][1]
        changes = self.task.mechanism.n if self.formulation.limits_change(i) else 0
        most = np.full(changes, self._change(i))
        equal = np.zeros(block.size - len(middles) - changes)
        low = np.concatenate([equal, [condition.low for condition in middles], -most])
        high = np.concatenate([equal, [condition.high for condition in middles], most])
        moved = (f"change of {name} in a step" for name, _ in self.task.system.tangent.entries[:changes])
        labels = (*stage.labels, *(condition.label for condition in middles), *moved)
        at, order = self.numbering.at_stages(i), self.first_stage(i) + np.arange(count)
        return Placed(block, at, self.constants(range(count)), _all(low, count), _all(high, count), order, labels)

    def _change(self, i: int) -> float:
        """The largest change of a coordinate in a step of this grid; steps of coarse ones are longer."""
        return self.task.largest_change * min(2.0, self.task.all_phases[i].steps / self.steps[i])

    def first_stage(self, i: int) -> int:
        """The number of a phase's first stage, counted over all phases."""
        return sum(self.steps[:i]) + i

    def _rates(self, i: int) -> list[Placed]:
        """|u_{k+1} − u_k| ≤ rate · h."""
        task, count = self.task, self.steps[i]
        rate = task.bounds.rate
        limited = np.flatnonzero(np.isfinite(rate))
        if not len(limited) or count < 2:
            return []
        h, before, after = ca.SX.sym("h"), ca.SX.sym("before", len(limited)), ca.SX.sym("after", len(limited))
        most = ca.SX.sym("rate", len(limited))
        block = Block(
            ca.vertcat(h, before, after), most, ca.vertcat(h * most + after - before, h * most - after + before)
        )
        u = self.numbering.stages[i][:, task.mechanism.n + limited]
        at = np.hstack([self.numbering.nodes[i][1:-1, -1:], u[:-1], u[1:]])
        zero = np.zeros((count - 1, 2 * len(limited)))
        names = [task.system.inputs[j].name for j in limited]
        labels = (*(f"rate of {name}, down" for name in names), *(f"rate of {name}, up" for name in names))
        order = self.first_stage(i) + np.arange(1, count)
        return [Placed(block, at, _all(rate[limited], count - 1), zero, zero + np.inf, order, labels)]

    def _nodes(self, i: int) -> list[Placed]:
        block, conditions = self.formulation.node_blocks[i], self.formulation.paths[i][0]
        if block is None:
            return []
        which = np.arange(1, self.steps[i] + (0 if self.task.last.full else 1))
        low, high = (_all(np.array([getattr(c, side) for c in conditions]), len(which)) for side in ("low", "high"))
        labels = tuple(condition.label for condition in conditions)
        order = self.first_stage(i) + which
        return [Placed(block, self.numbering.at_nodes(i, which), self.constants(which), low, high, order, labels)]

    def _gaps(self, i: int) -> list[Placed]:
        """Gaps that are open in a phase, between its ends."""
        found, steps = self.formulation.gap_blocks[i], self.steps[i]
        if found is None or steps < 2:
            return []
        block, rows = found
        which, system = np.arange(1, steps), self.task.system
        high = most_open(system, rows, self.task.gaps["clearance"], steps)
        labels = tuple(f"gap {system.constraint_names[row]}" for row in rows)
        at, order = self.numbering.at_nodes(i, which), self.first_stage(i) + which
        return [Placed(block, at, self.constants(which), np.full_like(high, -np.inf), high, order, labels)]

    def _transitions(self) -> list[Placed]:
        placed, number, count = [], self.numbering, len(self.steps)
        for i, one in enumerate(self.formulation.transitions):
            parts = [number.nodes[i][-1], number.nodes[(i + 1) % count][0]]
            at = np.concatenate([*parts, number.others[f"transition{i}"], number.others["design"]])[None]
            order = np.array([self.first_stage(i) + self.steps[i]])
            constants = self.constants([self.steps[i]])
            placed.append(Placed(one.block, at, constants, *one.rows, order, one.labels, compile=False))
        return placed

    def _ends(self) -> list[Placed]:
        f, last, number = self.formulation, len(self.steps) - 1, self.numbering
        at_end, end = (
            number.at_nodes(last, np.array([self.steps[-1]])),
            np.array([self.first_stage(last) + self.steps[-1]]),
        )
        constants = self.constants([self.steps[-1]])
        placed = []
        if f.terminal_block is not None:
            none = np.zeros((1, 0))
            placed.append(Placed(f.terminal_block, at_end, constants, none, none, end, compile=False))
        if f.rest_block is not None:
            nx = self.task.mechanism.nx
            at = np.hstack([at_end[0, :nx], number.others["v_end"], number.others["nu"], at_end[0, nx:]])[None]
            zero = np.zeros((1, f.rest_block.size))
            names = self.task.system.tangent.entries[: self.task.mechanism.nd]
            labels = tuple(f"rest of {name} at the end" for name, _ in names)
            placed.append(Placed(f.rest_block, at, constants, zero, zero, end, labels, compile=False))
        if f.attitude_block is not None:
            zero = np.zeros((1, f.attitude_block.size))
            labels = ("attitude at the end",) * f.attitude_block.size
            placed.append(Placed(f.attitude_block, at_end, constants, zero, zero, end, labels, compile=False))
        if f.boundary is not None:
            block, conditions = f.boundary
            at = np.hstack([number.nodes[0][:1], at_end])
            low, high = (np.array([[getattr(c, side) for c in conditions]]) for side in ("low", "high"))
            labels = tuple(c.label for c in conditions)
            placed.append(Placed(block, at, constants, low, high, end, labels, compile=False))
        return placed

    # bounds of variables ------------------------------------------------------------------------------------------

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Low and high bounds of all variables."""
        task, number = self.task, self.numbering
        m, b = task.mechanism, task.bounds
        out = np.tile([[-np.inf], [np.inf]], number.size)
        for i, count in enumerate(self.steps):
            nodes, stages = number.nodes[i], number.stages[i]
            out[:, nodes[:, : m.nq]] = b.q[:, None]
            out[:, nodes[:, m.nq : m.nq + m.nd]] = b.p[:, None]
            # At the first node alone: the rows h⁺ = h hand it on, and more would be dependent on them.
            out[:, nodes[0, -1]] = np.array(task.all_phases[i].range) / count
            fastest = self._change(i) * count / task.all_phases[i].range[0]
            out[:, stages[:, : m.n]] = np.clip(b.v, -fastest, fastest)[:, None]
            out[:, stages[:, m.n : m.n + m.nu]] = b.u[:, None]
            mode = task.modes[i]
            out[0, stages[:, m.n + m.nu : m.n + m.nu + mode.count]] = least_forces(mode)
            out[0, stages[:, m.n + m.nu + mode.count :]] = 0.0  # parts of the work
        for i, one in enumerate(self.formulation.transitions):
            out[:, number.others[f"transition{i}"]] = one.bounds
        out[:, number.others["design"]] = self._design_bounds
        if not task.cyclic:
            self._bound_start(out)
            self._bound_goal(out)
        return out[0], out[1]

    @property
    def _design_bounds(self) -> Array:
        if self.frozen:
            return np.tile(self.design_values, (2, 1))
        return np.array(list(self.task.designed.values())).reshape(-1, 2).T

    @property
    def design_values(self) -> Array:
        """The system's own values of the parameters that are found."""
        return self.task.system.parameter_values[list(self.task.designed)]

    def _bound_start(self, out: Array) -> None:
        task, node = self.task, self.numbering.nodes[0][0]
        m, start = task.mechanism, task.first
        out[:, node[: m.nq]] = start.q
        out[:, node[m.nq : m.nq + m.nd]] = m.instant(start.q[None], start.v[None])[0]

    def _bound_goal(self, out: Array) -> None:
        task, node = self.task, self.numbering.nodes[-1][-1]
        m, goal = task.mechanism, task.last
        ordinary, _ = task.system.tangent.ordinary
        named = ordinary[~np.isnan(goal.q[ordinary])]
        out[:, node[named]] = goal.q[named]
        free = released(task.system, goal, task.modes[-1].rows)
        for j in free:
            low, high = task.bounds.q[:, j]
            out[:, node[j]] = max(low, goal.q[j] - NEAR), min(high, goal.q[j] + NEAR)
        if self.formulation.rest_block is not None:
            at = self.numbering.others["v_end"]
            out[:, at] = np.where(np.isnan(goal.v), [[-np.inf], [np.inf]], goal.v)
        elif not np.isnan(goal.v).all():
            out[:, node[m.nq : m.nq + m.nd]] = 0.0

    # motions as variables -----------------------------------------------------------------------------------------

    def packed(self, motions: Sequence[Motion], others: Mapping[str, Array] | None = None) -> Array:
        """The variables of a motion on this grid, and of others where they are known."""
        w, m = np.zeros(self.numbering.size), self.task.mechanism
        w[self.numbering.others["design"]] = self.design_values
        for i, one in enumerate(self.formulation.transitions):
            after = motions[(i + 1) % len(motions)]
            w[self.numbering.others[f"transition{i}"]] = one.guess(motions[i].v[-1], after.v[0])
        for name, values in (others or {}).items():
            w[self.numbering.others[name]] = values
        for i, motion in enumerate(motions):
            nodes = self.numbering.nodes[i]
            w[nodes[:, : m.nq]], w[nodes[:, m.nq : m.nq + m.nd]], w[nodes[:, -1]] = motion.q, motion.p, motion.h
            w[self.numbering.stages[i]] = np.hstack([motion.v, motion.u, motion.lam, self._parts(i, motion)])
        return w

    def _parts(self, i: int, motion: Motion) -> Array:
        """Parts of the work in all steps of a phase, above zero."""
        if not self.formulation.stages[i].parts:
            return np.zeros((motion.steps, 0))
        work = self.task.mechanism.works(motion.q[:-1], motion.v, motion.u, motion.h)
        return np.hstack([np.maximum(work, 0.0), np.maximum(-work, 0.0)]) + 1e-6

    def others(self, w: Array) -> dict[str, Array]:
        """Variables that belong to no stage, by name."""
        return {name: w[at] for name, at in self.numbering.others.items()}

    def unpacked(self, w: Array) -> list[Motion]:
        """The motions of all phases."""
        out, m = [], self.task.mechanism
        for i, count in enumerate(self.steps):
            x, s = w[self.numbering.nodes[i]], w[self.numbering.stages[i]]
            at = m.n + m.nu
            v, u, lam, _ = np.split(s, [m.n, at, at + self.task.modes[i].count], axis=1)
            out.append(Motion(x[:, : m.nq], x[:, m.nq : -1], v, u, lam, float(x[0, -1]) * count))
        return out


def _all(row: Array, count: int) -> Array:
    return np.tile(row, (count, 1))
