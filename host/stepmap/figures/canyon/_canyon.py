"""The flight of Kobilarov et al., V: a helicopter through a canyon, with least effort, in a time that is found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from stepmap import systems
from stepmap.arrays import Array
from stepmap.figures.published import Progress
from stepmap.geometry import Heightmap, Sphere
from stepmap.geometry.room import between, rooms
from stepmap.optimal import DirectSolution
from stepmap.optimal.direct import direct
from stepmap.optimal.terms.clearance import Clearance

LENGTH, WIDTH, CEILING = 36.0, 20.0, 6.0  # m
BEGIN, END, HEIGHT = 3.0, 33.0, 2.5  # m along the canyon, and over its bottom
STEPS, TIME, MARGIN = 64, (3.0, 12.0), 0.4  # s, m
TURNS = [f"v_body.r{axis}" for axis in "xyz"]
RUNNING = "1e-3*(lift**2 + yaw**2) + 2*(pitch**2 + roll**2) + " + " + ".join(f"{name}**2" for name in TURNS)
ASSUMPTIONS = (
    "the paper prints neither the canyon nor the helicopter: heights are a formula, the rest is that of "
    "examples/flight/canyon.toml",
    "cost per second: 1e-3 (u_c² + u_ψ²) + 2 (α_p² + α_r²) + |Ω|²; the paper names control effort alone",
    f"{STEPS} steps, time found within {TIME[0]:g} to {TIME[1]:g} s, from a straight line through the rock",
)


def centre(x: Any) -> Any:
    """Where the canyon's bottom is, y [m] at x."""
    return 4.0 * np.sin(2 * np.pi * np.asarray(x) / 22.0)


def ground() -> Heightmap:
    """Two walls along the winding bottom, rough as rock is."""
    x, y = np.linspace(0.0, LENGTH, 55), np.linspace(-WIDTH / 2, WIDTH / 2, 31)
    away = np.abs(y - centre(x)[:, None])
    rough = 0.3 * np.sin(1.3 * x[:, None] + 0.8 * y) * np.sin(0.6 * x[:, None] - 1.1 * y)
    return Heightmap(x, y, 9 / (1 + np.exp(-(away - 3.6) / 0.6)) + rough)


@dataclass(frozen=True, eq=False)
class Flight:
    """The flight that was found, around its rock."""

    rock: Heightmap
    solution: DirectSolution

    @property
    def t(self) -> Array:
        return self.solution.trajectory.t

    @property
    def poses(self) -> Array:
        """x, y, z and the unit quaternion, (K+1, 7)."""
        return self.solution.trajectory.x[:, :7]

    @property
    def angles(self) -> Array:
        """Roll, pitch and yaw [rad]: turns about x, then y, then z of the world, (K+1, 3)."""
        w, x, y, z = self.poses[:, 3:].T
        roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
        pitch = np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0))
        return np.stack([roll, pitch, np.unwrap(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))], axis=1)

    @property
    def ahead(self) -> Array:
        """The body's x axis in the world, (K+1, 3)."""
        w, x, y, z = self.poses[:, 3:].T
        return np.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)], axis=1)

    @cached_property
    def least(self) -> float:
        """The least room from the rock, also between nodes [m]."""
        bound = [one.of(self.solution.system) for one in self.solution.task.clear]
        return float(min(one.values.min() for one in rooms(bound, between(bound, self.t, self.poses)[1])))

    @property
    def key_figures(self) -> list[tuple[str, str]]:
        found = self.solution
        return [
            ("time of the flight", f"{found.time:.3f} s, {found.step.dt * 1e3:.1f} ms a step"),
            ("cost", f"{found.cost:.4f}"),
            ("search", f"{found.iterations} iterations on {len(found.searched.iterations)} grids"),
            ("least room from the rock", f"{self.least:.3f} m"),
        ]


@cache
def _flown() -> Flight:
    rock = ground()
    body = [Sphere((along, 0.0, 0.0), 0.45) for along in (-0.9, -0.2, 0.5)]
    low, high = (0.0, -WIDTH / 2, -5.0), (LENGTH, WIDTH / 2, CEILING)
    tilts = {"pitch": (-0.4, 0.4), "roll": (-0.4, 0.4), "lift": (15.0, 85.0), "yaw": (-4.0, 4.0)}
    found = direct(
        systems.get("helicopter", low=low, high=high),
        steps=STEPS,
        time=TIME,
        start={"body": (BEGIN, float(centre(BEGIN)), HEIGHT, 1, 0, 0, 0)},
        goal={"body": (END, float(centre(END)), HEIGHT, 1, 0, 0, 0)},
        running=RUNNING,
        limits={**dict.fromkeys(TURNS, (-3.0, 3.0)), **tilts},
        clear=[Clearance("body", body, rock, margin=MARGIN)],
    )
    return Flight(rock, found.require())


def flight(progress: Progress) -> Flight:
    """The flight, once per process."""
    progress(0.1, "searching for the flight")
    found = _flown()
    progress(0.8, "drawing")
    return found
