"""Scenes for planners: mechanisms, where they start and go, what is in their way, and an outside judge of distances."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import coal
import numpy as np

import stepmap as sm
from stepmap.optimal.planner.search import checked
from stepmap.optimal.planner.task import Task


@dataclass(frozen=True, eq=False)
class Scene:
    step: sm.VariationalStep
    start: np.ndarray  # pose
    goal: dict[str, float]
    links: list[tuple[str, str]]
    radius: float
    spheres: list[tuple[tuple[float, float, float], float]]
    rate: float
    options: dict[str, float] = field(default_factory=dict)

    def plan(self, seed: int, **options: object) -> sm.PlannedMotion:
        return sm.plan(self.step, self.start, self.goal, **self._given(options | {"seed": seed}))

    def task(self, **options: object) -> Task:
        return checked(self.step, self.start, {"goal": self.goal, **self._given(options)})

    def _given(self, options: dict[str, object]) -> dict[str, object]:
        obstacles = [sm.Sphere(center, radius) for center, radius in self.spheres]
        given = {"links": self.links, "radius": self.radius, "obstacles": obstacles, "rate": self.rate}
        return given | self.options | options

    def room(self, x: np.ndarray) -> float:
        """The least distance between links and spheres over states (K, nx), by coal."""
        system, least = self.step.system, math.inf
        frames = list(system.frame_names)
        for places in system.positions(self.step.layout.pose(x)):
            for first, second in self.links:
                a, b = places[frames.index(first)], places[frames.index(second)]
                for center, radius in self.spheres:
                    least = min(least, _distance(a, b, self.radius, np.array(center), radius))
        return least


def _distance(a: np.ndarray, b: np.ndarray, radius: float, center: np.ndarray, ball: float) -> float:
    along = (b - a) / np.linalg.norm(b - a)
    side = np.linalg.svd(along[None])[2][1:]
    rotation = np.column_stack([*side, along])
    rotation[:, 0] *= np.sign(np.linalg.det(rotation))
    place = coal.Transform3s(rotation, (a + b) / 2)
    result = coal.DistanceResult()
    capsule, sphere = coal.Capsule(radius, float(np.linalg.norm(b - a))), coal.Sphere(ball)
    there = coal.Transform3s(np.eye(3), center)
    return float(coal.distance(capsule, place, sphere, there, coal.DistanceRequest(), result))


def planar() -> Scene:
    step = sm.discretize(sm.systems.get("planar_arm"), 0.01)
    start = step.layout.pose(step.equilibrium([-0.9, 0.6, 0.5, 1.2])[0])
    links = [("link1", "elbow"), ("elbow", "tip")]
    return Scene(step, start, {"theta1": 0.4, "theta2": 0.5}, links, 0.02, [((0.42, 0.0, 0.0), 0.05)], 1.0)


def spatial() -> Scene:
    step = sm.discretize(sm.systems.get("puppet_arm"), 0.02)
    pose = step.system.satisfy_constraints(
        {"pitch": -0.4, "elbow": -0.6, "x": 0.25}, fixed=("x", "y", "pitch", "elbow")
    )
    start = step.layout.pose(step.equilibrium(pose)[0])
    links = [("upper", "elbow_joint"), ("elbow_joint", "hand")]
    spheres = [((0.24, 0.11, -0.3), 0.06)]  # on the way
    return Scene(step, start, {"yaw": 0.9, "pitch": -0.1, "elbow": -1.7}, links, 0.03, spheres, 0.6)
