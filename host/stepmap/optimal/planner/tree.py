"""An expansive-space tree: states that inputs drawn at random lead to, in batches (Johnson & Murphey VII)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from stepmap.arrays import Array
from stepmap.optimal.planner.task import Fault, Task

STEPS = 10  # of an extension
BATCH = 128, 1024  # extensions at once, of small trees and of large ones
SHARE = 8  # nodes per extension of a batch
NEAR = 4  # power of the distance by which nodes near the goal are preferred


@dataclass(eq=False)
class Tree:
    """Nodes with their parents and the inputs that led to them; ``extend`` adds a batch."""

    task: Task
    rng: np.random.Generator
    x: Array = field(init=False)  # (capacity, nx)
    parent: Array = field(init=False)
    inputs: list[Array] = field(default_factory=lambda: [np.zeros((0, 0))])
    count: int = 1
    extensions: int = 0
    lost: Counter[Fault] = field(default_factory=Counter)  # extensions that were not kept, by their fault
    slowest: tuple[float, int] = (np.inf, -1)  # speed and number of the node at the goal that moves least
    _distance: Array = field(init=False)
    _tried: Array = field(init=False)

    def __post_init__(self) -> None:
        self.x = np.zeros((1024, self.task.step.nx))
        self.parent, self._tried = np.full(1024, -1), np.zeros(1024)
        self._distance = np.full(1024, np.inf)
        self.x[0] = self.task.start
        self._distance[0] = self.task.distances(self.task.start)

    @property
    def best(self) -> int:
        """The node nearest to the goal."""
        return int(np.argmin(self._distance[: self.count]))

    @property
    def distance(self) -> float:
        return float(self._distance[self.best])

    @property
    def end(self) -> int | None:
        """The node at the goal that moves least; None while there is none."""
        return None if self.slowest[1] < 0 else self.slowest[1]

    def extend(self) -> None:
        """Adds a batch of extensions; ``slowest`` is the node at the goal that moves least, once there is one."""
        task, step = self.task, self.task.step
        size = int(np.clip(self.count // SHARE, *BATCH))
        chosen = self._chosen(size)
        U = self._inputs(self.x[chosen])
        found = step.rollout_many(self.x[chosen], U, strict=False)
        self.extensions += size
        whole = np.flatnonzero(found.steps == STEPS)
        keeps, lost = task.sorted_out(found.x[whole, 1:], found.multipliers[whole])
        good = whole[keeps]
        lost[Fault.STEP] += size - len(whole)
        self.lost.update(lost)
        first = self.count
        self._reserve(len(good))
        new = slice(first, first + len(good))
        self.x[new], self.parent[new] = found.x[good, -1], chosen[good]
        self._distance[new] = task.distances(self.x[new])
        self.inputs.extend(U[good])
        self.count += len(good)
        there = np.flatnonzero(task.reached(self.x[new]))
        if len(there):
            pose = step.layout.pose(found.x[good[there], -2:])
            speed = np.linalg.norm(np.diff(pose, axis=1)[:, 0], axis=1) / step.dt
            least = int(np.argmin(speed))
            self.slowest = min(self.slowest, (float(speed[least]), first + int(there[least])))

    def _chosen(self, size: int) -> Array:
        """Nodes to extend: rarely tried ones, three of four near the goal; the others lead around obstacles."""
        n = self.count
        new = 1.0 / (1.0 + self._tried[:n])
        near = new * (self._distance[:n] + self.task.tolerance) ** -NEAR
        parts = []
        for weights, part in ((near, size - size // 4), (new, size // 4)):
            sums = np.cumsum(weights)
            parts.append(np.minimum(np.searchsorted(sums, self.rng.random(part) * sums[-1], side="right"), n - 1))
        chosen = np.concatenate(parts)
        np.add.at(self._tried, chosen, 1.0)
        return chosen

    def _inputs(self, x: Array) -> Array:
        """Inputs (m, STEPS, nu) from states (m, nx): speeds and forces that are drawn."""
        task, m = self.task, len(x)
        wanted = self.rng.uniform(-task.rate, task.rate, (m, len(task.rate)))
        return self.inputs_of(x, wanted, self.rng.uniform(task.push_low, task.push_high, (m, len(task.push_low))))

    def inputs_of(self, x: Array, wanted: Array, pushes: Array) -> Array:
        """Inputs (m, STEPS, nu): forces stay as they are, speeds go from the present ones to the wanted ones."""
        task, step = self.task, self.task.step
        rho, v = x[:, step.layout["rho"]], x[:, step.layout["v"]]
        part = (np.arange(1, STEPS + 1) / STEPS)[None, :, None]
        speed = np.clip(v, -task.rate, task.rate)[:, None] * (1 - part) + wanted[:, None] * part
        places = np.clip(rho[:, None] + step.dt * np.cumsum(speed, axis=1), task.low, task.high)
        forces = np.broadcast_to(pushes[:, None], (len(x), STEPS, pushes.shape[1]))
        return np.ascontiguousarray(np.concatenate([forces, places], axis=2))

    def _reserve(self, more: int) -> None:
        while self.count + more > len(self.x):
            self.x = np.concatenate([self.x, np.zeros_like(self.x)])
            self.parent = np.concatenate([self.parent, np.full_like(self.parent, -1)])
            self._tried = np.concatenate([self._tried, np.zeros_like(self._tried)])
            self._distance = np.concatenate([self._distance, np.full_like(self._distance, np.inf)])

    def path(self, node: int) -> Array:
        """Inputs (N, nu) from the start to a node."""
        parts = []
        while self.parent[node] >= 0:
            parts.append(self.inputs[node])
            node = int(self.parent[node])
        return np.concatenate(parts[::-1]) if parts else np.zeros((0, self.task.step.nu))

    def edges(self) -> Array:
        """Parent and child of every edge, (count − 1, 2)."""
        return np.column_stack([self.parent[1 : self.count], np.arange(1, self.count)])
