"""Clearances as blocks: at nodes, and in the middles of steps, since fast parts could pass through thin walls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.geometry import Clearances
from stepmap.optimal.direct.nlp.block import Block, Live, Placed
from stepmap.optimal.direct.stage import Stage

if TYPE_CHECKING:
    from stepmap.optimal.direct.formulation import Formulation
    from stepmap.optimal.direct.transcription import Transcription


@dataclass(frozen=True, eq=False)
class Rows:
    """Clearances of one object at nodes, or in middles."""

    of: Clearances
    block: Block
    points: ca.Function  # probe points of the block's variables and constants

    @classmethod
    def at(cls, of: Clearances, y: ca.SX, c: ca.SX, points: ca.SX) -> Rows:
        data = ca.SX.sym("data", of.data_size)
        block = Block(y, ca.vertcat(c, data), of.expression(points, data))
        return cls(of, block, ca.Function("points", [y, c], [ca.densify(ca.vec(points))]))

    def live(self, count: int) -> Live | None:
        """Expansions of distance grids about the present points; None where there are no grids."""
        if not self.of.data_size:
            return None
        points, expansions = self.points.map(count), self.of.callback(count)
        return lambda y, c: expansions(points(y, c))


@lru_cache(maxsize=4)
def _rows(formulation: Formulation) -> tuple[list[tuple[Rows, Rows]], ...]:
    """Per phase and clearance, rows at nodes and in middles: the same on all grids."""
    task = formulation.task
    bound = [one.of(task.system) for one in task.clear]
    return tuple([_pair(of, stage) for of in bound] for stage in formulation.stages)


def _pair(of: Clearances, stage: Stage) -> tuple[Rows, Rows]:
    node = stage.node
    node_y, middle_y = ca.vertcat(node.x, node.designed), ca.vertcat(node.x, stage.s, node.designed)
    at_node, at_middle = (of.points(q, node.par) for q in (node.q, stage.q_middle))
    return Rows.at(of, node_y, node.c, at_node), Rows.at(of, middle_y, node.c, at_middle)


def placed(on: Transcription, i: int) -> list[Placed]:
    """The rows of a phase: of nodes but the start and a goal that is given, and of all middles."""
    if not on.task.clear:
        return []
    steps, number = on.steps[i], on.numbering
    last = i + 1 == len(on.steps) and on.task.last.full
    which = np.arange(0 if i else 1, steps if last else steps + 1)
    design = number.at_nodes(i, np.arange(steps))[:, number.nodes[i].shape[1] :]
    middles = np.hstack([number.nodes[i][:-1], number.stages[i], design])
    made = []
    for nodes, between in _rows(on.formulation)[i]:
        made.append(_place(on, i, nodes, number.at_nodes(i, which), which))
        made.append(_place(on, i, between, middles, np.arange(steps)))
    return made


def _place(on: Transcription, i: int, rows: Rows, at: Array, which: Array) -> Placed:
    low = np.zeros((len(which), rows.of.count))
    constants, order = on.constants(which), on.first_stage(i) + which
    live = rows.live(len(which))
    return Placed(rows.block, at, constants, low, low + np.inf, order, rows.of.labels, live=live)
