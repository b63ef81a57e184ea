"""A dancer of formulas: a skeleton with a person's proportions, joints turned by functions of time, as a BVH file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepmap.arrays import Array

RATE = 60.0  # Hz
HIPS = 95.0  # cm above the floor; y points up, z ahead
BEAT = 0.35  # Hz: arms rise in turn, each with the knee of the other side

# joint: the joint that carries it, and where on that [cm]
SKELETON: Mapping[str, tuple[str, tuple[float, float, float]]] = {
    "Hips": ("", (0.0, 0.0, 0.0)),
    "Chest": ("Hips", (0.0, 24.0, 0.0)),
    "Neck": ("Chest", (0.0, 26.0, 0.0)),
    "Head": ("Neck", (0.0, 12.0, 2.0)),
    "LeftUpperArm": ("Chest", (17.0, 22.0, 0.0)),
    "LeftLowerArm": ("LeftUpperArm", (29.0, 0.0, 0.0)),
    "LeftHand": ("LeftLowerArm", (25.0, 0.0, 0.0)),
    "RightUpperArm": ("Chest", (-17.0, 22.0, 0.0)),
    "RightLowerArm": ("RightUpperArm", (-29.0, 0.0, 0.0)),
    "RightHand": ("RightLowerArm", (-25.0, 0.0, 0.0)),
    "LeftUpperLeg": ("Hips", (10.0, -4.0, 0.0)),
    "LeftLowerLeg": ("LeftUpperLeg", (0.0, -43.0, 0.0)),
    "LeftFoot": ("LeftLowerLeg", (0.0, -41.0, 0.0)),
    "RightUpperLeg": ("Hips", (-10.0, -4.0, 0.0)),
    "RightLowerLeg": ("RightUpperLeg", (0.0, -43.0, 0.0)),
    "RightFoot": ("RightLowerLeg", (0.0, -41.0, 0.0)),
}


def bvh(seconds: float) -> str:
    """The file: from standing with arms down through the dance and back."""
    t = np.arange(round(seconds * RATE) + 1) / RATE
    turned, columns, lines = _turns(t), [_path(t)], ["HIERARCHY"]

    def write(joint: str, pad: str) -> None:
        parent, offset = SKELETON[joint]
        rotations = "Zrotation Xrotation Yrotation"
        channels = f"3 {rotations}" if parent else f"6 Xposition Yposition Zposition {rotations}"
        columns.append(turned.get(joint, np.zeros((len(t), 3))))
        lines.append(f"{pad}{'JOINT' if parent else 'ROOT'} {joint}")
        lines.extend([f"{pad}{{", f"{pad} OFFSET {offset[0]} {offset[1]} {offset[2]}", f"{pad} CHANNELS {channels}"])
        carried = [other for other, (by, _) in SKELETON.items() if by == joint]
        for other in carried:
            write(other, f"{pad} ")
        if not carried:
            lines.extend([f"{pad} End Site", f"{pad} {{", f"{pad}  OFFSET 0.0 8.0 0.0", f"{pad} }}"])
        lines.append(f"{pad}}}")

    write("Hips", "")
    rows = np.hstack(columns)
    lines += ["MOTION", f"Frames: {len(rows)}", f"Frame Time: {1 / RATE:.8f}"]
    return "\n".join([*lines, *(" ".join(f"{value:.5f}" for value in row) for row in rows)]) + "\n"


def _path(t: Array) -> Array:
    """Places of the hips [cm]: from foot to foot, (N, 3)."""
    part, beat = _part(t), 2 * np.pi * BEAT * t
    return np.stack([12 * part * np.sin(beat), HIPS + 1.5 * part * np.cos(2 * beat), np.zeros_like(t)], axis=1)


def _turns(t: Array) -> dict[str, Array]:
    """Angles about z, x and y [degrees] of the joints that turn, (N, 3)."""
    part, beat, none = _part(t), 2 * np.pi * BEAT * t, np.zeros_like(t)
    left, right = (part * (1 + sign * np.sin(beat)) / 2 for sign in (1.0, -1.0))

    def about(z: Array | float = 0.0, x: Array | float = 0.0, y: Array | float = 0.0) -> Array:
        return np.stack([none + z, none + x, none + y], axis=1)

    return {
        "Hips": about(z=-3 * part * np.sin(beat), y=8 * part * np.sin(beat)),
        "LeftUpperArm": about(z=-75, y=-10 - 55 * left),
        "RightUpperArm": about(z=75, y=10 + 55 * right),
        "LeftLowerArm": about(y=-55 - 15 * left),
        "RightLowerArm": about(y=55 + 15 * right),
        "LeftUpperLeg": about(x=-25 - 35 * right),
        "LeftLowerLeg": about(x=25 + 35 * right),
        "RightUpperLeg": about(x=-25 - 35 * left),
        "RightLowerLeg": about(x=25 + 35 * left),
    }


def _part(t: Array) -> Array:
    """From 0 to 1 and back to 0, softly."""
    out: Array = np.sin(np.pi * t / t[-1]) ** 2
    return out
