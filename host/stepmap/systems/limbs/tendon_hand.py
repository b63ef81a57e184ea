"""A hand of three fingers that holds a ball by fifteen tendons (after Murphey & Johnson, Fig. 5, which has no numbers).

Fingertips stick to the ball: nine constraint forces, which have to be in their friction cones. Finger i is the i-th of
three about the vertical axis; its own x axis points inward. Its joints spread it, and bend it at base and knuckle.
"""

from __future__ import annotations

import math

from stepmap.mechanics import Builder, System
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.quantity import Scalar

EXAMPLE = {"knuckle1": 1.0}
FINGERS, CIRCLE, HEIGHT = 3, 0.07, 0.13  # m: radius of the bases, height of the ball's centre over them
LINKS = (0.09, 0.07)  # m
MASSES = (0.08, 0.05)  # kg
Point = tuple[float, float, float]
# Via-points of each tendon [m]: on the palm, on the first link, on the second one, each in its own axes.
TENDONS: dict[str, tuple[Point, ...]] = {
    "left": ((0.0, 0.02, -0.015), (0.0, 0.014, 0.035)),
    "right": ((0.0, -0.02, -0.015), (0.0, -0.014, 0.035)),
    "flexor": ((0.024, 0.0, -0.015), (0.018, 0.0, 0.035)),
    "deep": ((0.018, 0.0, -0.015), (0.012, 0.0, 0.07), (0.01, 0.0, 0.018)),
    "extensor": ((-0.02, 0.0, -0.015), (-0.015, 0.0, 0.07), (-0.007, 0.0, 0.018)),
}


def tendon_hand(ball: float = 0.2, radius: float = 0.045, damping: float = 0.002, gravity: float = 9.81) -> System:
    """Palm down at the origin, fingers up around a ball of that mass [kg] and radius [m]."""
    b = Builder("tendon_hand")
    mass, size = b.parameter("ball", ball, unit="kg"), b.parameter("radius", radius, unit="m")
    c, g = b.parameter("damping", damping, unit="N m s"), b.parameter("gravity", gravity, unit="m/s²")
    x, y, z = (b.coordinate(name, unit="m", low=-0.1, high=0.2) for name in ("x", "y", "z"))
    rx, ry, rz = (b.coordinate(f"turn_{name}", unit="rad", low=-1.0, high=1.0) for name in "xyz")
    held = b.world.tz(HEIGHT, name="grip").tx(x).ty(y).tz(z, name="center").rz(rz).ry(ry).rx(rx, name="ball")
    b.mass(held, mass, inertia=(0.4 * mass * size**2,) * 3)
    b.gravity((0, 0, -g))
    for i in range(1, FINGERS + 1):
        turn = 2 * math.pi * i / FINGERS
        tip = _finger(b, i, turn, radius, c)
        at = held.translate(x=-size * math.cos(turn), y=-size * math.sin(turn), name=f"contact{i}")
        b.point_to_point(tip, at, name=f"grip{i}")
    b.marker(b.frame("ball"))
    return b.build()


def _finger(b: Builder, i: int, turn: float, radius: float, damping: Scalar) -> Frame:
    """A finger with its tendons; returns its tip."""
    bend, knuckle = _angles(radius)
    angles = [
        b.coordinate(f"{name}{i}", unit="rad", low=start - 1.0, high=start + 1.0, start=start)
        for name, start in (("spread", 0.0), ("bend", bend), ("knuckle", knuckle))
    ]
    palm = b.world.rz(turn).tx(-CIRCLE, name=f"palm{i}")
    first = palm.rx(angles[0]).ry(angles[1], name=f"first{i}")
    second = first.tz(LINKS[0], name=f"knuckle{i}").ry(angles[2], name=f"second{i}")
    for link, length, m in zip((first, second), LINKS, MASSES, strict=True):
        b.mass(link.tz(length / 2), m, inertia=(m * length**2 / 12, m * length**2 / 12, 5e-6))
    for angle in angles:
        b.damping(angle, damping)
        b.encoder(angle)
    for name, points in TENDONS.items():
        links = (palm, first, second)[: len(points)]
        path = [
            link.translate(*point, name=f"{name}{i}_{j}")
            for j, (link, point) in enumerate(zip(links, points, strict=True))
        ]
        b.tendon(path, tension=b.input(f"{name}{i}", unit="N", low=0.0, high=40.0))
    return second.tz(LINKS[1], name=f"tip{i}")


def _angles(radius: float) -> tuple[float, float]:
    """Of base and knuckle where the tip touches the ball's equator, the knuckle outward."""
    inward, (a, c) = CIRCLE - radius, LINKS
    knuckle = math.acos((inward**2 + HEIGHT**2 - a**2 - c**2) / (2 * a * c))
    return math.atan2(inward, HEIGHT) - math.atan2(c * math.sin(knuckle), a + c * math.cos(knuckle)), knuckle
