"""BVH files of all exporters in the one dialect that pybvh reads; what is wrong in a file, with its line.

pybvh wants six channels of the root and three rotations of every other joint. Exporters also write positions of inner
joints, which only repeat their offsets, joints with fewer rotations, and roots that stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import JobError

AXES = "XYZ"
STILL = 1e-3  # relative to the size of the skeleton: an inner joint whose position moves less repeats its offset


@dataclass
class Joint:
    """A joint as the hierarchy declares it."""

    name: str
    line: int  # of its CHANNELS, in the text
    offset: Array = field(default_factory=lambda: np.zeros(3))
    channels: list[str] = field(default_factory=list)  # such as Xposition


def canonical(file: str, content: bytes) -> str:
    """The text of a BVH file with the channels that pybvh reads; raises JobError at the first thing that is wrong."""
    lines = _text(file, content).splitlines()
    motion = next((i for i, line in enumerate(lines) if line.strip().upper() == "MOTION"), None)
    if motion is None or not any(line.split()[:1] == ["ROOT"] for line in lines[:motion]):
        raise JobError("is no BVH file: it has no ROOT and MOTION", file=file, hint="Export the motion as BVH.")
    joints = _joints(file, lines[:motion])
    first, count = _header(file, lines, motion)
    frames = _frames(file, lines, first, count, sum(len(joint.channels) for joint in joints))
    head, changed = list(lines[:first]), False
    columns: list[Array] = []
    size = max(float(np.abs([joint.offset for joint in joints]).sum()), 1e-12)
    begin = 0
    for number, joint in enumerate(joints):
        own = frames[:, begin : begin + len(joint.channels)]
        begin += len(joint.channels)
        names, values = _six(file, joint, own) if number == 0 else _three(file, joint, own, size)
        if names != joint.channels:
            head[joint.line - 1] = f"CHANNELS {len(names)} {' '.join(names)}"
            changed = True
        columns.append(values)
    if not changed:
        return "\n".join(lines)
    rows = (" ".join(map(repr, row)) for row in np.hstack(columns).tolist())
    return "\n".join([*head, *rows])


def _text(file: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise JobError(f"is not UTF-8 text: {error.reason}", file=file, line=line) from None


def _joints(file: str, lines: list[str]) -> list[Joint]:
    """Joints in the order of their channels."""
    joints: list[Joint] = []
    at: Joint | None = None  # the joint whose OFFSET and CHANNELS are next; None within an End Site
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if words[:1] in (["ROOT"], ["JOINT"]):
            if len(words) != 2:
                raise JobError(f"expected {words[0]} and a name without blanks", file=file, line=number)
            if any(joint.name == words[1] for joint in joints):
                raise JobError(f"two joints are called {words[1]!r}", file=file, line=number)
            at = Joint(words[1], number)
            joints.append(at)
        elif words[:1] == ["End"]:
            at = None
        elif words[:1] == ["OFFSET"]:
            offset = _floats(words[1:])
            if offset is None or len(offset) != 3 or not np.isfinite(offset).all():
                raise JobError("expected OFFSET and three finite numbers", file=file, line=number)
            if at is not None:
                at.offset = offset
        elif words[:1] == ["CHANNELS"] and at is not None:
            at.channels, at.line = _channels(file, words, number), number
    return joints


def _channels(file: str, words: list[str], line: int) -> list[str]:
    names = [f"{name[:1].upper()}{name[1:].lower()}" for name in words[2:]]
    known = {f"{axis}{kind}" for axis in AXES for kind in ("position", "rotation")}
    if words[1:2] != [str(len(names))] or not set(names) <= known or len(set(names)) < len(names):
        raise JobError(
            "expected CHANNELS, their number, and that many of Xposition … Zrotation, each once", file=file, line=line
        )
    return names


def _header(file: str, lines: list[str], motion: int) -> tuple[int, int]:
    """Index of the first frame's line, and the number of frames that the file declares."""
    count, seconds = None, None
    for i in range(motion + 1, len(lines)):
        words = lines[i].split()
        if words[:1] == ["Frames:"] and len(words) == 2 and words[1].isdigit():
            count = int(words[1])
        elif words[:2] == ["Frame", "Time:"] and len(words) == 3:
            found = _floats(words[2:])
            seconds = None if found is None else float(found[0])
        elif words:
            break
        if count is not None and seconds is not None:
            if not (np.isfinite(seconds) and seconds > 0):
                raise JobError(f"Frame Time must be positive, got {seconds:g}", file=file, line=i + 1)
            return i + 1, count
    raise JobError("after MOTION, expected 'Frames: <number>' and 'Frame Time: <seconds>'", file=file, line=motion + 1)


def _frames(file: str, lines: list[str], first: int, count: int, width: int) -> Array:
    """All frames, (count, width)."""
    rows = []
    for i in range(first, len(lines)):
        words = lines[i].split()
        if not words:
            continue
        row = _floats(words)
        if row is None:
            raise JobError("a frame holds something that is no number", file=file, line=i + 1)
        if len(row) != width:
            raise JobError(f"the hierarchy has {width} channels, this frame {len(row)} numbers", file=file, line=i + 1)
        if not np.isfinite(row).all():
            at = int(np.flatnonzero(~np.isfinite(row))[0]) + 1
            raise JobError(
                f"number {at} of this frame is {row[at - 1]}",
                file=file,
                line=i + 1,
                cause="A marker was lost there.",
                hint="Fill the gap in the program that made the file, or cut the frames off.",
            )
        rows.append(row)
    if len(rows) != count:
        raise JobError(
            f"says that it has {count} frames, and holds {len(rows)}",
            file=file,
            hint="It may be cut off: copy it anew.",
        )
    if count < 2:
        raise JobError(f"holds {count} frame, which is no motion", file=file)
    return np.array(rows)


def _six(file: str, root: Joint, values: Array) -> tuple[list[str], Array]:
    """Channels of the root with positions, which stay where it has none."""
    if not any(name.endswith("position") for name in root.channels):
        names = [f"{axis}position" for axis in AXES]
        values = np.hstack([np.zeros((len(values), 3)), values])
        return [*names, *_all_rotations(root.channels)], _padded(root.channels, values, 3)
    if sum(name.endswith("position") for name in root.channels) != 3:
        raise JobError(f"the root {root.name!r} has some positions and not all", file=file, line=root.line)
    positions = [i for i, name in enumerate(root.channels) if name.endswith("position")]
    rotations = [i for i in range(len(root.channels)) if i not in positions]
    positions.sort(key=lambda i: root.channels[i])
    turned = [root.channels[i] for i in rotations]
    names = [*(root.channels[i] for i in positions), *_all_rotations(turned)]
    return names, _padded(turned, values[:, [*positions, *rotations]], 3)


def _three(file: str, joint: Joint, values: Array, size: float) -> tuple[list[str], Array]:
    """Rotations of an inner joint; positions that only repeat its offset are left out."""
    rotations = [i for i, name in enumerate(joint.channels) if name.endswith("rotation")]
    for i, name in enumerate(joint.channels):
        if i in rotations:
            continue
        offset = float(joint.offset[AXES.index(name[0])])
        if min(float(np.abs(values[:, i] - at).max()) for at in (offset, 0.0)) > STILL * size:
            raise JobError(
                f"the position of joint {joint.name!r} moves ({name}); only that of the root may",
                file=file,
                line=joint.line,
                hint="Export the motion with rotations of inner joints alone.",
            )
    names = [joint.channels[i] for i in rotations]
    return _all_rotations(names), _padded(names, values[:, rotations], 0)


def _all_rotations(names: list[str]) -> list[str]:
    """The same with the axes that are missing after them."""
    rotations = [name for name in names if name.endswith("rotation")]
    return [*rotations, *(f"{axis}rotation" for axis in AXES if f"{axis}rotation" not in rotations)]


def _padded(rotations: list[str], values: Array, positions: int) -> Array:
    missing = 3 + positions - values.shape[1]
    return np.hstack([values, np.zeros((len(values), missing))]) if missing else values


def _floats(words: list[str]) -> Array | None:
    try:
        return np.array([float(word) for word in words])
    except ValueError:
        return None
