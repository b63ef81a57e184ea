"""A marionette on six strings: 22 dynamic and 18 kinematic coordinates (Murphey & Johnson, Fig. 2).

The figures are those of the puppet that the papers' library ships; lengths of left and right differ in the eighth digit
because they were measured from a drawing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.mechanics import Builder, System
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.quantity import Coordinate, Scalar

STRINGS = ("upper_torso", "lower_torso", "left_arm", "right_arm", "left_leg", "right_leg")
PLANE = 2.0  # height of the robots [m]
Links = tuple[tuple[float, tuple[float, float, float]], ...]

THIGH, SHIN = (1.5, (0.3, 0.3, 0.1)), (1.5, (0.3, 0.3, 0.1))  # mass, principal moments
UPPER_ARM, FOREARM = (0.5, (0.05, 0.05, 0.01)), (0.5, (0.05, 0.05, 0.01))

# side: hip offset, half and whole thigh, half and whole shin
LEGS = {
    "l": (-0.10000000633343277, 0.2000000071819642, 0.4000000143639284, 0.20000000406340365, 0.4000000081268073),
    "r": (0.10000000072551045, 0.20000000746930935, 0.4000000149386187, 0.20000000524335476, 0.4000000104867095),
}
# side: shoulder offset, half and whole upper arm, half and whole forearm
ARMS = {
    "l": (-0.15811387592769632, 0.12499999805011695, 0.2499999961002339, 0.12882950452903394, 0.2576590090580679),
    "r": (0.15811388178161004, 0.12500000646915005, 0.2500000129383001, 0.12882950288909756, 0.2576590057781951),
}
SPINE = 0.49134332092915983
HEAD = 0.04500002226970809 + 0.04499999114416735 + 0.09000001186557935

POSE = {
    "torso_rx": -0.05,
    "lelbow_rx": 1.57,
    "relbow_rx": 1.57,
    "lhip_rx": math.pi / 2 - 0.6,
    "rhip_rx": math.pi / 2 - 0.6,
    "lknee_rx": -math.pi / 2 + 0.6,
    "rknee_rx": -math.pi / 2 + 0.6,
}


def marionette(damping: float = 0.2, gravity: float = 9.8, mass: float = 1.0, reach: float = 0.0) -> System:
    """The puppet hanging from robots straight above its six hooks.

    ``mass`` is what its masses and moments of inertia are multiplied by. Coordinates have limits of ± ``reach``, which
    boards ask for, and lengths of strings are above 0; without ``reach`` there are no limits.
    """
    b = Builder("marionette")
    puppet = Puppet(b, b.parameter("damping", damping, unit="N s/m, N m s"), mass, reach)
    g = b.parameter("gravity", gravity, unit="m/s²")
    b.gravity((0, 0, -g))
    hooks = puppet.hooks()
    plane = b.world.tz(PLANE, name="string_plane")
    for string in STRINGS:
        x, y, length = (
            b.coordinate(f"{string}_string-{what}", unit="m", kinematic=True, **limits(reach, low))
            for what, low in (("x", -reach), ("y", -reach), ("length", 0.0))
        )
        robot = plane.tx(x).ty(y, name=f"{string}_string_control")
        b.distance(hooks[string], robot, length, name=f"{string}_string")
        b.marker(hooks[string], name=f"{string}_hook")
    return hang(b.build(), POSE, STRINGS)


def limits(reach: float, low: float) -> dict[str, Any]:
    """Limits of a coordinate, none without a reach."""
    return {"low": low, "high": reach} if reach > 0 else {}


@dataclass(frozen=True)
class Puppet:
    """Builds the bodies; every joint is damped alike."""

    b: Builder
    damping: Scalar
    heavier: float = 1.0  # what masses and moments of inertia are multiplied by
    reach: float = 0.0  # limits of all coordinates; 0: none

    def joint(self, name: str) -> Coordinate:
        made = self.b.coordinate(name, unit="m" if "_t" in name[-3:] else "rad", **limits(self.reach, -self.reach))
        self.b.damping(made, self.damping)
        return made

    def mass(self, frame: Frame, mass: float, inertia: tuple[float, float, float]) -> None:
        one, two, three = inertia
        self.b.mass(frame, self.heavier * mass, inertia=(self.heavier * one, self.heavier * two, self.heavier * three))

    def ball(self, frame: Frame, name: str) -> Frame:
        about_z, about_y, about_x = (self.joint(f"{name}_r{axis}") for axis in "zyx")
        return frame.rz(about_z).ry(about_y).rx(about_x, name=name)

    def limb(
        self, root: Frame, figures: tuple[float, ...], joints: tuple[str, str], links: Links
    ) -> tuple[Frame, Frame]:
        """A ball joint, a link, a hinge, a link; returns the ends of both links."""
        offset, half1, whole1, half2, whole2 = figures
        upper, lower = joints
        first = self.ball(root.tx(offset), upper)
        self.mass(first.tz(-half1), *links[0])
        bend = first.tz(-whole1, name=f"{upper}_end")
        second = bend.rx(self.joint(f"{lower}_rx"), name=lower)
        self.mass(second.tz(-half2), *links[1])
        return bend, second.tz(-whole2, name=f"{lower}_end")

    def hooks(self) -> dict[str, Frame]:
        """The frames that strings are tied to, by string, of a whole puppet."""
        joint = self.joint
        torso = self.b.world.tx(joint("torso_tx")).ty(joint("torso_ty")).tz(joint("torso_tz"))
        pelvis = self.ball(torso, "torso")
        self.mass(pelvis, 10.0, (1.0, 1.0, 1.0))
        spine = pelvis.tz(SPINE, name="spine_top")
        self.mass(spine.tz(HEAD, name="head"), 0.75, (0.08, 0.08, 0.08))
        hooks = {
            "upper_torso": spine.translate(x=-0.1, name="upper_torso_string_hook"),
            "lower_torso": spine.translate(x=0.1, name="lower_torso_string_hook"),
        }
        for side, word in (("l", "left"), ("r", "right")):
            knee, _ = self.limb(pelvis, LEGS[side], (f"{side}hip", f"{side}knee"), (THIGH, SHIN))
            hooks[f"{word}_leg"] = knee.translate(y=0.1, name=f"{word}_leg_string_hook")
        for side, word in (("l", "left"), ("r", "right")):
            _, hand = self.limb(spine, ARMS[side], (f"{side}shoulder", f"{side}elbow"), (UPPER_ARM, FOREARM))
            hooks[f"{word}_arm"] = hand.translate(y=0.1, name=f"{word}_arm_string_hook")
        return hooks


def hang(system: System, pose: Mapping[str, Any], strings: Sequence[str]) -> System:
    """Robots straight above the hooks in the start pose, strings as long as that asks for."""
    where = dict(zip(system.frame_names, system.positions(system.configuration(pose)), strict=True))
    hung = dict(pose)
    for string in strings:
        x, y, z = np.asarray(where[f"{string}_string_hook"])
        hung |= {f"{string}_string-x": x, f"{string}_string-y": y, f"{string}_string-length": PLANE - z}
    return system.with_start(hung)
