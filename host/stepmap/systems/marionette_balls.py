"""The marionette on six wires whose torso, hips and shoulders turn freely: no pose of it has a gimbal lock.

Bodies, wires and damping are those of the other marionette, and so are its 22 + 18 tangent dimensions; five unit
quaternions make 27 + 18 stored numbers of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from stepmap.mechanics import Builder, System
from stepmap.mechanics.frames import Frame
from stepmap.systems.marionette import PLANE, POSE, STRINGS, Puppet, hang

BALLS = ("torso", "lhip", "rhip", "lshoulder", "rshoulder")


def turned(pose: dict[str, float]) -> dict[str, Any]:
    """A pose of the other marionette whose balls are turned about x alone."""
    angles = {name: pose.get(f"{name}_rx", 0.0) for name in BALLS}
    kept = {name: value for name, value in pose.items() if name.rpartition("_")[0] not in BALLS}
    return kept | {name: (math.cos(a / 2), math.sin(a / 2), 0.0, 0.0) for name, a in angles.items()}


EXAMPLE = turned(POSE)


@dataclass(frozen=True)
class FreePuppet(Puppet):
    """The same bodies on ball joints; their damping is that of their turning."""

    def ball(self, frame: Frame, name: str) -> Frame:
        made = frame.ball(name)
        self.b.damping(made, self.damping)
        return made


def marionette_balls(damping: float = 0.2, gravity: float = 9.8) -> System:
    """The puppet hanging from robots straight above its six hooks."""
    b = Builder("marionette_balls")
    puppet = FreePuppet(b, b.parameter("damping", damping, unit="N s/m, N m s"))
    g = b.parameter("gravity", gravity, unit="m/s²")
    b.gravity((0, 0, -g))
    hooks = puppet.hooks()
    plane = b.world.tz(PLANE, name="string_plane")
    for string in STRINGS:
        names = (f"{string}_string-{what}" for what in ("x", "y", "length"))
        x, y, length = (b.coordinate(name, unit="m", kinematic=True) for name in names)
        robot = plane.tx(x).ty(y, name=f"{string}_string_control")
        b.distance(hooks[string], robot, length, name=f"{string}_string")
        b.marker(hooks[string], name=f"{string}_hook")
    return hang(b.build(), EXAMPLE, STRINGS)
