"""Dancers written as BVH files: a skeleton of one's own, with the words, units and axes of several programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

# joint: parent, offset [m] in axes x left, y up, z ahead
BODY: dict[str, tuple[str | None, tuple[float, float, float]]] = {
    "Hips": (None, (0.0, 0.0, 0.0)),
    "Spine": ("Hips", (0.0, 0.25, 0.0)),
    "Neck": ("Spine", (0.0, 0.25, 0.0)),
    "Head": ("Neck", (0.0, 0.12, 0.02)),
    "LeftArm": ("Spine", (0.18, 0.22, 0.0)),
    "LeftForeArm": ("LeftArm", (0.28, 0.0, 0.0)),
    "LeftHand": ("LeftForeArm", (0.25, 0.0, 0.0)),
    "RightArm": ("Spine", (-0.18, 0.22, 0.0)),
    "RightForeArm": ("RightArm", (-0.28, 0.0, 0.0)),
    "RightHand": ("RightForeArm", (-0.25, 0.0, 0.0)),
    "LeftUpLeg": ("Hips", (0.1, -0.05, 0.0)),
    "LeftLeg": ("LeftUpLeg", (0.0, -0.42, 0.0)),
    "LeftFoot": ("LeftLeg", (0.0, -0.41, 0.0)),
    "RightUpLeg": ("Hips", (-0.1, -0.05, 0.0)),
    "RightLeg": ("RightUpLeg", (0.0, -0.42, 0.0)),
    "RightFoot": ("RightLeg", (0.0, -0.41, 0.0)),
}
ORDER = "ZXY"  # of the rotations, from the parent outwards


def angles(t: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Rotations (z, x, y) [rad] of joints that move: both arms are lifted, the right one waves, knees give way."""
    lift, zero = np.sin(np.pi * t / t[-1]) ** 2, np.zeros_like(t)
    wave = 0.4 * lift * np.sin(2 * np.pi * 0.8 * t)
    return {
        "LeftArm": np.stack([-1.2 + 0.7 * lift, zero, zero], axis=1),
        "LeftForeArm": np.stack([zero, zero, -0.5 - 0.4 * lift], axis=1),
        "RightArm": np.stack([1.2 - 1.6 * lift, zero, zero], axis=1),
        "RightForeArm": np.stack([wave, zero, 0.6 + 0.3 * lift], axis=1),
        "LeftUpLeg": np.stack([zero, -0.4 - 0.2 * lift, zero], axis=1),
        "LeftLeg": np.stack([zero, 0.4 + 0.2 * lift, zero], axis=1),
        "RightUpLeg": np.stack([zero, -0.5 + 0.1 * lift, zero], axis=1),
        "RightLeg": np.stack([zero, 0.5 - 0.1 * lift, zero], axis=1),
    }


def greeting(t: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Rotations (z, x, y) [rad] of a dancer whose right arm is lifted ahead, waves and sinks; the left one hangs."""
    still = np.full_like(t, np.pi / 2)  # from the pose with arms spread
    lift, zero = np.sin(np.pi * t / t[-1]) ** 2, np.zeros_like(t)
    return {
        "LeftArm": np.stack([-still, zero, zero], axis=1),
        "RightArm": np.stack([still, zero, 0.11 + 0.26 * lift], axis=1),
        "RightForeArm": np.stack([zero, zero, 1.75 + lift * (0.05 + 0.35 * np.sin(2 * t))], axis=1),
    }


def stroll(t: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Rotations (z, x, y) [rad] of a dancer who steps in place with bent knees; both arms swing at different rates."""
    ease, zero = np.minimum(t, 1.0), np.zeros_like(t)
    swing, bent = 0.26 * np.sin(2.0 * t), np.full_like(t, 0.26)
    return {
        "Spine": np.stack([zero, zero, 0.14 * np.sin(t)], axis=1),
        "LeftArm": np.stack([-1.31 + ease * (0.7 + 0.44 * np.sin(2.5 * t)), zero, zero], axis=1),
        "RightArm": np.stack([1.31 - ease * (1.05 + 0.35 * np.sin(3.0 * t)), zero, zero], axis=1),
        "LeftForeArm": np.stack([zero, zero, -0.35 * (1.0 + np.sin(2.0 * t))], axis=1),
        "RightForeArm": np.stack([zero, zero, 0.52 + zero], axis=1),
        "LeftUpLeg": np.stack([zero, -swing, zero], axis=1),
        "RightUpLeg": np.stack([zero, swing, zero], axis=1),
        "LeftLeg": np.stack([zero, bent, zero], axis=1),
        "RightLeg": np.stack([zero, bent, zero], axis=1),
    }


def turning(t: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The same while the hips turn about the vertical, by up to 70 degrees, and tilt."""
    hips = np.stack([0.15 * np.sin(2.0 * t), 0.1 * np.sin(1.3 * t), 1.2 * np.sin(0.9 * t)], axis=1)
    return {**stroll(t), "Hips": hips}


Moves = Callable[[NDArray[np.float64]], dict[str, NDArray[np.float64]]]


def mirrored(moves: Moves) -> Moves:
    """A motion seen in a mirror: left is right, and what turns about the lines in its plane turns the other way."""

    def seen(t: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        sides = {"L": "Right", "R": "Left"}
        return {
            sides[name[0]] + name.removeprefix("Left").removeprefix("Right")
            if name.startswith(("Left", "Right"))
            else name: turned * [-1.0, 1.0, -1.0]
            for name, turned in moves(t).items()
        }

    return seen


def path(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places of the hips [m]."""
    return np.stack([0.4 * np.sin(np.pi * t / t[-1]), 0.95 + 0.02 * np.sin(3 * t), 0.2 * t / t[-1]], axis=1)


def positions(t: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Places of all joints [m], (frames, 3), by rotations of scipy."""
    turned, where = angles(t), {}
    attitude: dict[str, Rotation] = {}
    for name, (parent, offset) in BODY.items():
        own = Rotation.from_euler(ORDER, turned.get(name, np.zeros((len(t), 3))))
        if parent is None:
            where[name], attitude[name] = path(t), own
        else:
            where[name] = where[parent] + attitude[parent].apply(offset)
            attitude[name] = attitude[parent] * own
    return where


def bvh(
    seconds: float = 4.0,
    rate: float = 30.0,
    unit: float = 1.0,
    called: Mapping[str, str] | None = None,
    six: bool = False,
    t_pose: bool = False,
    moves: Moves = angles,
) -> str:
    """The dancer as a BVH file: lengths times ``unit``, joints renamed, positions of inner joints where ``six``."""
    words = called or {}
    t = np.arange(round(seconds * rate) + 1) / rate
    turned, columns = moves(t), []
    lines = ["HIERARCHY"]

    def write(name: str, depth: int) -> None:
        pad, (parent, offset) = "  " * depth, BODY[name]
        lines.append(f"{pad}{'ROOT' if parent is None else 'JOINT'} {words.get(name, name)}")
        moved = path(t) * unit if parent is None else np.tile(np.array(offset) * unit, (len(t), 1))
        channels = "Zrotation Xrotation Yrotation"
        if parent is None or six:
            channels = f"Xposition Yposition Zposition {channels}"
            columns.append(moved)
        columns.append(np.degrees(turned.get(name, np.zeros((len(t), 3)))))
        shown = " ".join(f"{v * unit:.6f}" for v in offset)
        lines.extend([f"{pad}{{", f"{pad}  OFFSET {shown}", f"{pad}  CHANNELS {channels.count('ion')} {channels}"])
        children = [child for child, (above, _) in BODY.items() if above == name]
        for child in children:
            write(child, depth + 1)
        if not children:
            lines.extend([f"{pad}  End Site", f"{pad}  {{", f"{pad}    OFFSET 0.0 {-0.1 * unit:.6f} 0.0", f"{pad}  }}"])
        lines.append(f"{pad}}}")

    write("Hips", 0)
    rows = np.hstack(columns)
    if t_pose:
        rows = np.vstack([np.where(np.arange(rows.shape[1]) < 3, rows[0], 0.0), rows])
    lines += ["MOTION", f"Frames: {len(rows)}", f"Frame Time: {1 / rate:.7f}"]
    return "\n".join([*lines, *(" ".join(f"{v:.4f}" for v in row) for row in rows)]) + "\n"


if __name__ == "__main__":  # examples/imitation/wave.bvh; greet.bvh with the word "greet"
    greets = sys.argv[1:] == ["greet"]
    print(bvh(seconds=8.0, rate=15.0, moves=greeting) if greets else bvh(seconds=5.0), end="")
