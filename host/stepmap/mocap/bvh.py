"""BVH files, read by pybvh."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import JobError
from stepmap.extras import require
from stepmap.mocap.dialect import canonical
from stepmap.mocap.names import find
from stepmap.mocap.recording import Recording

CLEAR = 1.5  # times as far along one axis as along the next: that axis is up
UPS = ("x", "y", "z", "-x", "-y", "-z")


def read_bvh(file: str, content: bytes, up: str = "") -> Recording:
    """The motion of a BVH file; ``up`` is the axis that points up, by default the one along which the head is.

    Raises JobError with the file's name, and the line where there is one.
    """
    require("mocap", f"{file}, a recording of motion capture,", "pybvh")
    import pybvh  # no other command needs it

    text = canonical(file, content)

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it guesses; ``up`` and markers can be given
        path = Path(folder) / "motion.bvh"
        path.write_text(text, encoding="utf-8")
        try:
            found = pybvh.read_bvh_file(path, world_up=(f"+{up}" if up in "xyz" else up) if up else "auto")
            positions = np.array(found.node_positions())
            names = [
                f"{node.parent.name} end" if node.is_end_site() else node.name for node in found.nodes
            ]  # a joint's second end has the name of the first, which finds it
            if not up:
                found.world_up = _upright(names, positions) or found.world_up
            facing = found.facing_frame()
        except ValueError as error:
            reason = str(error).replace(str(path), "").replace(" in file ", "").strip()
            raise JobError(f"is no BVH file: {reason}", file=file) from None
    return Recording(
        tuple(names), positions, float(found.frame_time), np.array(facing.up[0]), np.array(facing.forward[0])
    )


def _upright(names: list[str], positions: Array) -> str:
    """The axis along which the head is above the hips, over all frames; empty where a name or a clear axis lacks.

    pybvh looks for a joint called "head" and takes the longest extent of the rest pose without one: arms spread.
    """
    head, hips = find("head", "", names) or find("neck", "", names), find("hips", "", names)
    if head is None or hips is None:
        return ""
    above = (positions[:, names.index(head)] - positions[:, names.index(hips)]).mean(axis=0)
    second, most = np.sort(np.abs(above))[1:]
    axis = int(np.argmax(np.abs(above)))
    return f"{'+' if above[axis] > 0 else '-'}{'xyz'[axis]}" if most > CLEAR * second else ""
