"""From a dancer's joints to places of a mechanism's frames, with the mechanism's own lengths.

Limbs take the dancer's directions, bodies with several markers the dancer's attitude, so units and proportions of the
recording do not matter. The path of the root is scaled like the limbs, and damped to stay within a distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics import System
from stepmap.mechanics.gravity import upward
from stepmap.mocap.bodies import Limb, limbs, moves
from stepmap.mocap.recording import Recording

LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class Targets:
    """Where named frames are to be, frame by frame of a recording, in the mechanism's world [m]."""

    names: tuple[str, ...]
    t: Array  # (frames)
    places: Array  # (frames, names, 3)
    scale: float  # metres of the mechanism per unit of the recording
    damping: float  # by which the root's path was made shorter yet
    dancer: Array  # (frames, joints, 3): the markers in the mechanism's axes, scaled

    def at(self, t: Array) -> Array:
        """Places at times t, (times, names, 3), by a cubic spline."""
        from scipy.interpolate import CubicSpline

        out: Array = CubicSpline(self.t, self.places)(t)
        return out


def retarget(
    system: System,
    recording: Recording,
    markers: Mapping[str, str],
    start: Array,
    travel: float,
    facing: Array | None = None,
) -> Targets:
    """Targets for the frames in ``markers``, which names the joint of each; ``start`` is the pose q̄ to begin near.

    The root stays within ``travel`` [m] of its start. ``facing`` is where the dancer is to look at first; by default
    the dancer is turned about the vertical to be as near to the start pose as it gets.
    """
    names = list(markers)
    for name in names:
        if name not in system.frame_names:
            raise ModelError(f"no frame is called {name!r}; there are {', '.join(system.frame_names)}")
    X0 = system.positions(start)
    place = {name: X0[system.frame_names.index(name)] for name in names}
    raw = recording.of([markers[name] for name in names])
    turned = raw @ _axes(system, recording, raw[0], np.array(list(place.values())), facing).T
    joints = {name: turned[:, i] for i, name in enumerate(names)}
    parts = limbs(system, names)
    scale = _scale(parts, joints, place)
    damping = 1.0
    targets: dict[str, Array] = {}
    for part in parts:
        if part.centre is None:
            for name in part.frames:
                path = scale * (joints[name] - joints[name][0])
                if not moves(system, name):
                    path = np.zeros_like(path)
                far = float(np.linalg.norm(path, axis=1).max())
                damping = min(1.0, travel / far) if far > 0 else 1.0
                targets[name] = place[name] + damping * path
        else:
            targets |= _carried(part, joints, place, targets[part.centre], scale)
    return Targets(
        tuple(names), recording.t, np.stack([targets[n] for n in names], axis=1), scale, damping, scale * turned
    )


def _carried(
    part: Limb, joints: Mapping[str, Array], place: Mapping[str, Array], centre: Array, scale: float
) -> dict[str, Array]:
    """Targets of frames about their centre, whose own targets are known."""
    assert part.centre is not None
    arms = np.stack([joints[name] - joints[part.centre] for name in part.frames], axis=1)
    if not part.rigid:
        return {name: centre + scale * arms[:, i] for i, name in enumerate(part.frames)}
    own = np.array([place[name] - place[part.centre] for name in part.frames])
    lengths = np.linalg.norm(own, axis=1)
    sizes = np.linalg.norm(arms, axis=2)
    for name, size in zip(part.frames, sizes.T, strict=True):
        if size.min() <= LEAST * max(1.0, float(sizes.max())):
            raise ModelError(f"the joints of {part.centre!r} and {name!r} are at one place, so they have no direction")
    directions = arms / sizes[..., None] * lengths[:, None]
    if np.linalg.matrix_rank(own, tol=1e-6 * float(lengths.max())) < 2:
        return {name: centre + directions[:, i] for i, name in enumerate(part.frames)}
    turn = _attitudes(own, directions)
    return {name: centre + turn @ own[i] for i, name in enumerate(part.frames)}


def _attitudes(own: Array, wanted: Array) -> Array:
    """Rotations (frames, 3, 3) that bring vectors nearest to the wanted ones (Kabsch)."""
    U, _, Vt = np.linalg.svd(np.einsum("kni,nj->kij", wanted, own))
    sign = np.linalg.det(U) * np.linalg.det(Vt)
    U[:, :, 2] *= sign[:, None]
    out: Array = U @ Vt
    return out


def _scale(parts: list[Limb], joints: Mapping[str, Array], place: Mapping[str, Array]) -> float:
    """Length of the mechanism's limbs over that of the dancer's."""
    own, dancer = 0.0, 0.0
    for part in parts:
        if part.centre is None:
            continue
        for name in part.frames:
            own += float(np.linalg.norm(place[name] - place[part.centre]))
            dancer += float(np.linalg.norm(joints[name] - joints[part.centre], axis=1).mean())
    if not dancer > 0:
        raise ModelError("markers: name at least two frames, one of which carries the other, or there is no scale")
    return own / dancer


def _axes(system: System, recording: Recording, joints: Array, places: Array, facing: Array | None) -> Array:
    """The rotation from the recording's axes to the mechanism's."""
    up = upward(system)
    own = _basis(up, np.eye(3)[int(np.argmin(np.abs(up)))])
    theirs = _basis(recording.up, recording.forward)
    if facing is None:
        a = (joints - joints.mean(axis=0)) @ theirs.T
        b = (places - places.mean(axis=0)) @ own.T
        size = np.linalg.norm(a) / max(float(np.linalg.norm(b)), LEAST)
        a = a / max(float(size), LEAST)
        angle = float(np.arctan2(np.sum(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]), np.sum(a[:, :2] * b[:, :2])))
    else:
        ahead = own @ facing
        if not np.hypot(ahead[0], ahead[1]) > 1e-6 * max(float(np.linalg.norm(facing)), LEAST):
            raise ModelError("facing: must have a horizontal part")
        angle = float(np.arctan2(ahead[1], ahead[0]))
    c, s = np.cos(angle), np.sin(angle)
    out: Array = own.T @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ theirs
    return out


def _basis(up: Array, forward: Array) -> Array:
    """Rows: ahead, to the left, up."""
    ahead = forward - (forward @ up) * up
    ahead = ahead / np.linalg.norm(ahead)
    return np.array([ahead, np.cross(up, ahead), up])
