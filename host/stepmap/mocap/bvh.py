"""BVH files, read by pybvh."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np

from stepmap.errors import JobError
from stepmap.extras import require
from stepmap.mocap.dialect import canonical
from stepmap.mocap.recording import Recording

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
            positions, facing = np.array(found.node_positions()), found.facing_frame()
        except ValueError as error:
            reason = str(error).replace(str(path), "").replace(" in file ", "").strip()
            raise JobError(f"is no BVH file: {reason}", file=file) from None
    names = [
        f"{node.parent.name} end" if node.is_end_site() else node.name for node in found.nodes
    ]  # a joint's second end has the name of the first, which finds it
    return Recording(
        tuple(names), positions, float(found.frame_time), np.array(facing.up[0]), np.array(facing.forward[0])
    )
