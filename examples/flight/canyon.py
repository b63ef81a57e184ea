"""A helicopter through a canyon (Kobilarov et al., V): least effort, free time, from a straight line through the rock.

python examples/flight/canyon.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import stepmap as sm

sys.path.insert(0, str(Path(__file__).parent))
from helicopter import helicopter

LENGTH, WIDTH, DEPTH = 36.0, 20.0, 9.0  # m
CEILING = 6.0  # m, so that it flies through and not over
START, GOAL = 3.0, 33.0  # m along the canyon
# With neither price nor limit on turning, 300 iterations per grid did not solve the flight, even without rock.
EFFORT = "1e-3 * (lift**2 + yaw**2) + 2 * (pitch**2 + roll**2) + v_body.rx**2 + v_body.ry**2 + v_body.rz**2"
TURNS = {f"v_body.r{axis}": (-3.0, 3.0) for axis in "xyz"}  # rad/s


def centre(x: np.ndarray | float) -> np.ndarray:
    """Where the canyon's bottom is, y [m] at x."""
    return 4.0 * np.sin(2 * np.pi * np.asarray(x) / 22.0)


def ground() -> sm.Heightmap:
    """Two walls along the centre line, rough as rock is: heights by a formula."""
    x, y = np.linspace(0.0, LENGTH, 55), np.linspace(-WIDTH / 2, WIDTH / 2, 31)
    away = np.abs(y[None] - centre(x)[:, None])
    wall = DEPTH / (1 + np.exp(-(away - 3.6) / 0.6))
    rough = 0.3 * np.sin(1.3 * x[:, None] + 0.8 * y) * np.sin(0.6 * x[:, None] - 1.1 * y)
    return sm.Heightmap(x, y, wall + rough)


def room(rock: sm.Heightmap) -> sm.Clearance:
    """The body as three balls along its axis, tail to nose."""
    body = [sm.Sphere((along, 0.0, 0.0), 0.45) for along in (-0.9, -0.2, 0.5)]
    return sm.Clearance("body", body, rock, margin=0.2)


def pose(x: float) -> tuple[float, ...]:
    """Level, in the middle of the canyon."""
    return (x, float(centre(x)), 2.5, 1.0, 0.0, 0.0, 0.0)


def system() -> sm.System:
    return helicopter(low=(0.0, -WIDTH / 2, -5.0), high=(LENGTH, WIDTH / 2, CEILING))


def plan(rock: sm.Heightmap | None, steps: int = 64, guess: sm.DirectSolution | None = None) -> sm.DirectSolution:
    """The flight, from rest to rest; without rock, the one that the search around it may begin with."""
    return sm.direct(
        system(),
        steps=steps,
        time=(3.0, 12.0),
        start={"body": pose(START)},
        goal={"body": pose(GOAL)},
        running=EFFORT,
        limits=TURNS,
        clear=[] if rock is None else [room(rock)],
        guess=guess,
    )


if __name__ == "__main__":
    rock = ground()
    found = plan(rock).require()
    rows = room(rock).of(system()).evaluate(found.step.layout.pose(found.trajectory.x))
    print(found)
    print(f"least room beside the margin: {rows.min():.3g} m")
