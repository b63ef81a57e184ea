"""The blocks of a task: its formulas read and its equations written down, for all grids."""

from __future__ import annotations

from functools import cached_property

import casadi as ca
import numpy as np

from stepmap.mechanics.constraints import Row
from stepmap.mechanics.poses.quaternion import conjugate, product
from stepmap.optimal.direct.conditions import Condition, boundary_conditions, path_conditions, require_at_ends
from stepmap.optimal.direct.names import expression
from stepmap.optimal.direct.nlp.block import Block
from stepmap.optimal.direct.phases.contacts import cone_conditions, open_gaps
from stepmap.optimal.direct.phases.transition import Transition
from stepmap.optimal.direct.stage import EFFORT, Node, Stage
from stepmap.optimal.direct.task import Task


class Formulation:
    """The blocks of a task, which are the same on every grid; formulas are read here, before anything is solved.

    A ``gentle`` one has effort in place of work, which has corners: the search begins with it.
    """

    def __init__(self, task: Task, *, gentle: bool = False) -> None:
        self.task, self.gentle = task, gentle
        self.design = tuple(task.designed)
        self.works = False if gentle else self._has_work()
        self.stages = tuple(self._stage(i, works=self.works) for i in range(len(task.modes)))
        self.paths = tuple(self._path(stage) for stage in self.stages)
        m = task.mechanism
        if not task.cyclic:
            require_at_ends(self.stages[0].node, self.paths[0][0], task.first, task.last)
        self._ends = Node(m, suffix="_first"), Node(m, self.design, suffix="_last")
        _ = self.stage_blocks, self.terminal_block, self.boundary

    def _stage(self, i: int, *, works: bool) -> Stage:
        return Stage(Node(self.task.mechanism, self.design), self.task.modes[i], works)

    def _has_work(self) -> bool:
        """Whether the running cost knows the work of inputs."""
        stage = self._stage(0, works=True)
        running = expression(self.task.running, stage.names, "running")
        return bool(stage.parts) and any(ca.which_depends(running, stage.s, 1, False)[stage.ns - stage.parts :])

    def _running(self, stage: Stage) -> ca.SX:
        if self.gentle:
            return EFFORT * stage.names["effort"]
        return expression(self.task.running, stage.names, "running")

    def _path(self, stage: Stage) -> tuple[list[Condition], list[Condition]]:
        """Conditions at nodes, and those in the middles of steps."""
        nodes, middles = path_conditions(stage, self.task.path)
        return nodes, [*middles, *cone_conditions(stage, self.task.gaps["friction"])]

    @cached_property
    def stage_blocks(self) -> tuple[Block, ...]:
        """Equations of the steps of each phase, conditions in their middles, and the running cost."""
        made: list[Block] = []
        for stage, (_, middles) in zip(self.stages, self.paths, strict=True):
            running = self._running(stage)
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
    def gap_blocks(self) -> tuple[tuple[Block, list[int]] | None, ...]:
        """Gaps that are open in each phase, and their rows of the constraints; None where there are none."""
        made: list[tuple[Block, list[int]] | None] = []
        for stage in self.stages:
            node, system = stage.node, self.task.system
            rows = open_gaps(system, stage.mode, self.task.gaps["clearance"])
            if not rows:
                made.append(None)
                continue
            residual = self.task.mechanism.held(node.q, node.par).residual
            made.append((Block(ca.vertcat(node.x, node.designed), node.c, residual[rows]), rows))
        return tuple(made)

    @cached_property
    def transitions(self) -> tuple[Transition, ...]:
        """Between phases, and from the end to the start of a cycle."""
        task, modes = self.task, self.task.modes
        m, made = task.mechanism, []
        for i in range(len(modes) if task.cyclic else len(modes) - 1):
            last = i + 1 == len(modes)
            after = modes[0] if last else modes[i + 1]
            nodes = Node(m, self.design, suffix="_last"), Node(m, suffix="_first")
            footholds = self._footholds if last else {}
            struck = {name: v for name, v in task.gaps["landing"].items() if name not in task.all_phases[i].closed}
            landing = {name: v for name, v in struck.items() if v is not None and self._lands(name, i)}
            renaming = task.renaming if last else None
            friction = task.gaps["friction"]
            made.append(Transition(*nodes, modes[i], after, renaming, footholds, landing, friction))
        return tuple(made)

    def _lands(self, name: str, i: int) -> bool:
        """Whether a gap closes at the end of a phase; at the end of a cycle its name may be another one after it."""
        last = i + 1 == len(self.task.modes)
        return last or name in self.task.all_phases[i + 1].closed

    @property
    def _footholds(self) -> dict[int, float]:
        """Where feet that stick stand at the start of a cycle: as in the start that was given."""
        task = self.task
        residual = task.system.residuals(task.first.q)
        tangents = (i for i, kind in zip(task.modes[0].rows, task.modes[0].kinds, strict=True) if kind is Row.TANGENT)
        return {i: float(residual[i]) for i in tangents}

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
    def attitude_block(self) -> Block | None:
        """Turns from the goal's attitudes, three rows per ball: four equal numbers would depend on the norm."""
        node, goal, rows = self._ends[1], self.task.last.q, []
        for s, _ in self.task.system.tangent.balls:
            if not np.isnan(goal[s]):
                turn = product(conjugate(goal[s : s + 4].tolist()), [node.q[s + k] for k in range(4)])
                rows += [ca.SX(part) for part in turn[1:]]
        return Block(ca.vertcat(node.x, node.designed), node.c, ca.vertcat(*rows)) if rows else None

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
