"""Where the variables of a motion stand in a program: stage after stage, phase after phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array


@dataclass(frozen=True, eq=False)
class Numbering:
    """Numbers of the variables of nodes (K+1, nx) and stages (K, ns) of all phases, and of named others."""

    nodes: tuple[Array, ...]
    stages: tuple[Array, ...]
    others: dict[str, Array]
    size: int

    @classmethod
    def of(cls, steps: Sequence[int], nx: int, ns: Sequence[int], others: dict[str, int]) -> Numbering:
        """For phases of so many steps, with nx variables per node and ns per stage; ``others`` are sizes by name."""
        at, nodes, stages = 0, [], []
        for count, inputs in zip(steps, ns, strict=True):
            width = nx + inputs
            body = at + np.arange(count * width).reshape(count, width)
            last = at + count * width + np.arange(nx)
            nodes.append(np.vstack([body[:, :nx], last]))
            stages.append(body[:, nx:])
            at += count * width + nx
        named = {}
        for name, size in others.items():
            named[name] = at + np.arange(size)
            at += size
        return cls(tuple(nodes), tuple(stages), named, at)

    def at_stages(self, phase: int) -> Array:
        """Variables of the stages' blocks: a node, its stage, the next node, the design."""
        nodes, stages = self.nodes[phase], self.stages[phase]
        return np.hstack([nodes[:-1], stages, nodes[1:], self._design(len(stages))])

    def at_nodes(self, phase: int, which: Array) -> Array:
        """Variables of some nodes' blocks: the node and the design."""
        return np.hstack([self.nodes[phase][which], self._design(len(which))])

    def _design(self, count: int) -> Array:
        own = self.others.get("design", np.zeros(0, dtype=int))
        return np.tile(own, (count, 1))
