"""Of a body that flies: how far, how high, and how much it tilts."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.jobs.chapters.subject import Subject
from stepmap.mechanics import System
from stepmap.mechanics.gravity import upward
from stepmap.report.chapter import Chapter
from stepmap.report.charts import Chart, Line
from stepmap.report.explore import Tile


def chapter(subject: Subject) -> Chapter | None:
    """None for a mechanism without a free body, or with one that wires or contacts hold."""
    name = free_body(subject.system)
    if name is None or subject.system.constraint_names:
        return None
    place = [subject.system.tangent.names.index(f"{name}.t{axis}") for axis in "xyz"]
    up = upward(subject.system)
    at = subject.poses[:, place]
    known = np.isfinite(at).all(axis=1)
    gone = at[known][-1] - at[known][0]
    high, far = float(gone @ up), float(np.linalg.norm(gone - (gone @ up) * up))
    tilts = tilt(subject.system, subject.poses, name, up)
    most = float(np.nanmax(tilts))
    verb = "flew" if subject.flown else "a flight of"
    rise = f"{abs(high):.3g} m {'up' if high >= 0 else 'down'}"
    phrase = f"{name} {verb} {far:.3g} m and {rise}" if subject.flown else f"{verb} {far:.3g} m and {rise}"
    return Chapter(
        phrase=f"{phrase}, with a tilt of up to {most:.2g}°",
        tiles=[Tile("flown", f"{far:.3g} m", rise), Tile("largest tilt", f"{most:.3g}°", "of the body's up axis")],
        charts=[Chart("tilt", "Tilt of the body", "°", (Line("tilt", tilts, "plant"),), low=0.0)],
    )


def free_body(system: System) -> str | None:
    """The name of a free body, where there is one."""
    names = system.tangent.names
    balls = [names[at].rpartition(".")[0] for at, _ in system.tangent.balls]
    return next((ball for ball in balls if all(f"{ball}.t{axis}" in names for axis in "xyz")), None)


def tilt(system: System, poses: Array, name: str, up: Array) -> Array:
    """Angle between the vertical and the body's own up axis [°], of each pose."""
    first = next(
        i
        for i, known in enumerate(system.tangent.names)
        if known.startswith(f"{name}.") and any(i == at for at, _ in system.tangent.balls)
    )
    w, x, y, z = poses[:, first : first + 4].T
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    cosine = np.einsum("i,ijn,j->n", up, rotation, up)
    angle: Array = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    return angle
