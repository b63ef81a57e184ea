"""A marionette on seven strings that go slack: 25 dynamic and 21 kinematic coordinates (Johnson & Murphey, Fig. 3).

The paper prints the numbers of coordinates and of strings; limbs and masses are those of the other marionette.
"""

from __future__ import annotations

from stepmap.mechanics import Builder, System
from stepmap.mechanics.frames import Frame
from stepmap.systems.marionette import (
    ARMS,
    FOREARM,
    HEAD,
    LEGS,
    PLANE,
    POSE,
    SHIN,
    SPINE,
    THIGH,
    UPPER_ARM,
    Puppet,
    hang,
)

STRINGS = ("head", "left_shoulder", "right_shoulder", "left_hand", "right_hand", "left_knee", "right_knee")
EXAMPLE = {"torso_tz": 0.05, "lelbow_rx": 2.0, "relbow_rx": 1.8}


def marionette_strings(damping: float = 0.2, gravity: float = 9.8) -> System:
    """The puppet under robots straight above its seven hooks, strings just taut; as wires they would be dependent."""
    b = Builder("marionette_strings")
    puppet = Puppet(b, b.parameter("damping", damping, unit="N s/m, N m s"))
    g = b.parameter("gravity", gravity, unit="m/s²")
    b.gravity((0, 0, -g))
    hooks = _hooks(puppet)
    plane = b.world.tz(PLANE, name="string_plane")
    for string in STRINGS:
        x, y, length = (
            b.coordinate(f"{string}_string-{what}", unit="m", kinematic=True) for what in ("x", "y", "length")
        )
        robot = plane.tx(x).ty(y, name=f"{string}_string_control")
        b.string(hooks[string], robot, length, name=f"{string}_string")
        b.marker(hooks[string], name=f"{string}_hook")
    return hang(b.build(), {name: POSE[name] for name in POSE if name != "torso_rx"}, STRINGS)


def _hooks(puppet: Puppet) -> dict[str, Frame]:
    """The frames that strings are tied to, by string: pelvis, waist, head, arms and legs."""
    b, joint = puppet.b, puppet.joint
    pelvis = puppet.ball(b.world.tx(joint("torso_tx")).ty(joint("torso_ty")).tz(joint("torso_tz")), "torso")
    b.mass(pelvis, 4.0, inertia=(0.4, 0.4, 0.4))
    chest = pelvis.tz(SPINE / 2).rx(joint("waist_rx"), name="waist")
    b.mass(chest.tz(SPINE / 4), 6.0, inertia=(0.6, 0.6, 0.6))
    spine = chest.tz(SPINE / 2, name="spine_top")
    skull = spine.rx(joint("head_rx")).ry(joint("head_ry"), name="neck")
    b.mass(skull.tz(HEAD / 2), 0.75, inertia=(0.08, 0.08, 0.08))
    hooks = {"head": skull.tz(HEAD, name="head_string_hook")}
    for side, word in (("l", "left"), ("r", "right")):
        hooks[f"{word}_shoulder"] = spine.tx(ARMS[side][0], name=f"{word}_shoulder_string_hook")
        _, hand = puppet.limb(spine, ARMS[side], (f"{side}shoulder", f"{side}elbow"), (UPPER_ARM, FOREARM))
        hooks[f"{word}_hand"] = hand.translate(y=0.1, name=f"{word}_hand_string_hook")
        knee, _ = puppet.limb(pelvis, LEGS[side], (f"{side}hip", f"{side}knee"), (THIGH, SHIN))
        hooks[f"{word}_knee"] = knee.translate(y=0.1, name=f"{word}_knee_string_hook")
    return hooks
