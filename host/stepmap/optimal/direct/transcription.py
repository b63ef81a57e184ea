"""From a task to its program on a grid: blocks, bounds, and motions as variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.optimal.direct.conditions import Condition, boundary_conditions, path_conditions
from stepmap.optimal.direct.ends import released
from stepmap.optimal.direct.motion import Motion
from stepmap.optimal.direct.names import expression
from stepmap.optimal.direct.nlp.block import Block, Placed
from stepmap.optimal.direct.nlp.program import Program
from stepmap.optimal.direct.numbering import Numbering
from stepmap.optimal.direct.stage import Node, Stage
from stepmap.optimal.direct.task import Task

NEAR = 0.05  # m or rad: how far a coordinate of the goal that the constraints decide may be from what was asked for


class Formulation:
    """The blocks of a task, which are the same on every grid; formulas are read here, before anything is solved."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.stages = tuple(Stage(Node(task.mechanism), mode) for mode in task.modes)
        self.paths = tuple(path_conditions(stage, task.path) for stage in self.stages)
        self._ends = Node(task.mechanism, suffix="_first"), Node(task.mechanism, suffix="_last")
        _ = [self.stage_block(i) for i in range(len(self.stages))]
        _ = self.terminal_block, self.boundary

    def stage_block(self, i: int) -> Block:
        """Equations of the steps of a phase, conditions in their middles, and the running cost."""
        return self._stage_blocks[i]

    @cached_property
    def _stage_blocks(self) -> tuple[Block, ...]:
        made: list[Block] = []
        for stage, (_, middles) in zip(self.stages, self.paths, strict=True):
            running = expression(self.task.running, stage.names, "running")
            rows = ca.vertcat(stage.equations, *(condition.row for condition in middles))
            if self.limits_change(len(made)):
                rows = ca.vertcat(rows, stage.node.h * stage.v)
            made.append(Block(stage.y, stage.node.c, rows, stage.node.h * running))
        return tuple(made)

    def limits_change(self, i: int) -> bool:
        """Whether changes of coordinates are rows of their own: of a given time they are bounds of velocities."""
        low, high = self.task.all_phases[i].range
        return low < high and np.isfinite(self.task.largest_change)

    @cached_property
    def node_blocks(self) -> tuple[Block | None, ...]:
        """Conditions at the nodes of each phase; None where there are none."""
        made: list[Block | None] = []
        for stage, (nodes, _) in zip(self.stages, self.paths, strict=True):
            node = stage.node
            rows = ca.vertcat(*(condition.row for condition in nodes))
            made.append(Block(ca.vertcat(node.x, node.designed), node.c, rows) if nodes else None)
        return tuple(made)

    @cached_property
    def terminal_block(self) -> Block | None:
        """The cost of the end."""
        node = self._ends[1]
        cost = expression(self.task.terminal, node.names, "terminal")
        y = ca.vertcat(node.x, node.designed)
        return Block(y, node.c, ca.SX(0, 1), cost) if any(ca.which_depends(cost, y, 1, False)) else None

    @cached_property
    def boundary(self) -> tuple[Block, list[Condition]] | None:
        """Conditions that both ends appear in."""
        first, last = self._ends
        found = boundary_conditions(first.names, last.names, self.task.boundary)
        if not found:
            return None
        # Both nodes have symbols of constants of their own; the last one's are those of the block.
        rows = ca.substitute(ca.vertcat(*(condition.row for condition in found)), first.c, self._at_start(last.c))
        return Block(ca.vertcat(first.x, last.x, last.designed), last.c, rows), found

    def _at_start(self, c: ca.SX) -> ca.SX:
        return ca.vertcat(0.0, c[1:])

    @cached_property
    def rest_block(self) -> Block | None:
        """p_N = L_v(q_N, v_N) + D hᵀ ν: the velocity of the end; None where p_N = 0 says it all."""
        task, mode, node = self.task, self.task.modes[-1], self._ends[1]
        if np.isnan(task.last.v).all() or not (mode.count or np.nan_to_num(task.last.v, nan=1.0).any()):
            return None
        v, nu = ca.SX.sym("v_end", task.mechanism.n), ca.SX.sym("nu", mode.count)
        lv = task.mechanism.middle(node.q, v, ca.SX.zeros(task.mechanism.nu), node.par).lv
        rows = node.p - lv
        if mode.count:
            rows -= mode.pick(task.mechanism.held(node.q, node.par).slope).T @ nu
        return Block(ca.vertcat(node.x, v, nu, node.designed), node.c, rows)


@dataclass(frozen=True, eq=False)
class Transcription:
    """A task's program with so many steps per phase."""

    formulation: Formulation
    steps: tuple[int, ...]

    @property
    def task(self) -> Task:
        return self.formulation.task

    @cached_property
    def numbering(self) -> Numbering:
        task = self.task
        resting = self.formulation.rest_block is not None
        others = {"v_end": task.mechanism.n, "nu": task.modes[-1].count} if resting else {}
        return Numbering.of(
            self.steps, task.mechanism.nx, [stage.ns for stage in self.formulation.stages], {**others, "design": 0}
        )

    def _constants(self, numbers: Sequence[int] | Array) -> Array:
        par = self.task.system.parameter_values
        return np.column_stack([np.asarray(numbers, dtype=float), np.tile(par, (len(numbers), 1))])

    @cached_property
    def program(self) -> Program:
        placed: list[Placed] = []
        for i in range(len(self.steps)):
            placed += [self._stages(i), *self._rates(i), *self._nodes(i)]
        placed += self._ends()
        return Program(self.numbering.size, tuple(placed), self.task.compiled and self.task.solver == "ipopt")

    def _stages(self, i: int) -> Placed:
        stage, block, count = self.formulation.stages[i], self.formulation.stage_block(i), self.steps[i]
        middles = self.formulation.paths[i][1]
        changes = self.task.mechanism.n if self.formulation.limits_change(i) else 0
        most = np.full(changes, self._change(i))
        equal = np.zeros(block.size - len(middles) - changes)
        low = np.concatenate([equal, [condition.low for condition in middles], -most])
        high = np.concatenate([equal, [condition.high for condition in middles], most])
        moved = (f"change of {c.name} in a step" for c in self.task.system.coordinates[:changes])
        labels = (*stage.labels, *(condition.label for condition in middles), *moved)
        at, order = self.numbering.at_stages(i), self._first(i) + np.arange(count)
        return Placed(block, at, self._constants(range(count)), _all(low, count), _all(high, count), order, labels)

    def _change(self, i: int) -> float:
        """The largest change of a coordinate in a step of this grid; steps of coarse ones are longer."""
        return self.task.largest_change * min(2.0, self.task.all_phases[i].steps / self.steps[i])

    def _first(self, i: int) -> int:
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
        order = self._first(i) + np.arange(1, count)
        return [Placed(block, at, _all(rate[limited], count - 1), zero, zero + np.inf, order, labels)]

    def _nodes(self, i: int) -> list[Placed]:
        block, conditions = self.formulation.node_blocks[i], self.formulation.paths[i][0]
        if block is None:
            return []
        which = np.arange(1, self.steps[i] + (0 if self.task.last.full else 1))
        low, high = (_all(np.array([getattr(c, side) for c in conditions]), len(which)) for side in ("low", "high"))
        labels = tuple(condition.label for condition in conditions)
        order = self._first(i) + which
        return [Placed(block, self.numbering.at_nodes(i, which), self._constants(which), low, high, order, labels)]

    def _ends(self) -> list[Placed]:
        f, last, number = self.formulation, len(self.steps) - 1, self.numbering
        at_end, end = number.at_nodes(last, np.array([self.steps[-1]])), np.array([self._first(last) + self.steps[-1]])
        constants = self._constants([self.steps[-1]])
        placed = []
        if f.terminal_block is not None:
            none = np.zeros((1, 0))
            placed.append(Placed(f.terminal_block, at_end, constants, none, none, end, compile=False))
        if f.rest_block is not None:
            nx = self.task.mechanism.nx
            at = np.hstack([at_end[0, :nx], number.others["v_end"], number.others["nu"], at_end[0, nx:]])[None]
            zero = np.zeros((1, f.rest_block.size))
            labels = tuple(f"rest of {c.name} at the end" for c in self.task.system.dynamic)
            placed.append(Placed(f.rest_block, at, constants, zero, zero, end, labels, compile=False))
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
        self._bound_start(out)
        self._bound_goal(out)
        return out[0], out[1]

    def _bound_start(self, out: Array) -> None:
        task, node = self.task, self.numbering.nodes[0][0]
        m, start = task.mechanism, task.first
        out[:, node[: m.nq]] = start.q
        out[:, node[m.nq : m.nq + m.nd]] = m.instant(start.q[None], start.v[None])[0]

    def _bound_goal(self, out: Array) -> None:
        task, node = self.task, self.numbering.nodes[-1][-1]
        m, goal = task.mechanism, task.last
        named = np.flatnonzero(~np.isnan(goal.q))
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

    def packed(self, motions: Sequence[Motion]) -> Array:
        """The variables of a motion on this grid; others are zero."""
        w, m = np.zeros(self.numbering.size), self.task.mechanism
        for i, motion in enumerate(motions):
            nodes = self.numbering.nodes[i]
            w[nodes[:, : m.nq]], w[nodes[:, m.nq : m.nq + m.nd]], w[nodes[:, -1]] = motion.q, motion.p, motion.h
            w[self.numbering.stages[i]] = np.hstack([motion.v, motion.u, motion.lam])
        return w

    def unpacked(self, w: Array) -> list[Motion]:
        """The motions of all phases."""
        out, m = [], self.task.mechanism
        for i, count in enumerate(self.steps):
            x, s = w[self.numbering.nodes[i]], w[self.numbering.stages[i]]
            v, u, lam = np.split(s, [m.n, m.n + m.nu], axis=1)
            out.append(Motion(x[:, : m.nq], x[:, m.nq : -1], v, u, lam, float(x[0, -1]) * count))
        return out


def _all(row: Array, count: int) -> Array:
    return np.tile(row, (count, 1))
