"""Joints by what they are called in files of several programs, and frames of the catalog's puppets beside them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from stepmap.errors import ModelError

# Part of the body: names it has, in small letters without blanks, "left" and "right" apart.
PARTS: Mapping[str, tuple[str, ...]] = {
    "hips": ("hips", "hip", "pelvis", "root", "bip01"),
    "neck": ("neck", "neck1", "chest4", "upperneck", "lowerneck"),
    "head": ("head",),
    "shoulder": ("arm", "upperarm", "uparm", "shldr", "shoulder"),
    "elbow": ("forearm", "lowerarm", "loarm", "elbow"),
    "hand": ("hand", "wrist"),
    "thigh": ("upleg", "upperleg", "thigh", "hip"),
    "knee": ("leg", "lowerleg", "loleg", "shin", "knee", "calf"),
    "foot": ("foot", "ankle"),
}

# Frames of the marionettes: part, side, and how much its place counts. No string holds the feet.
PUPPET: Mapping[str, tuple[str, str, float]] = {
    "torso": ("hips", "", 1.0),
    "spine_top": ("neck", "", 1.0),
    "head": ("head", "", 1.0),
    **{
        f"{side[0]}{frame}": (part, side, weight)
        for side in ("left", "right")
        for frame, part, weight in (
            ("shoulder", "shoulder", 1.0),
            ("shoulder_end", "elbow", 1.0),
            ("elbow_end", "hand", 1.0),
            ("hip", "thigh", 1.0),
            ("hip_end", "knee", 1.0),
            ("knee_end", "foot", 0.1),
        )
    },
}


def puppet_markers(joints: Collection[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The joint of each frame of a puppet, but for those ``given``; raises ModelError where one is missing."""
    own = given or {}
    found = {frame: own.get(frame) or find(part, side, joints) for frame, (part, side, _) in PUPPET.items()}
    missing = [frame for frame, joint in found.items() if joint is None]
    if missing:
        frame = missing[0]
        part, side, _ = PUPPET[frame]
        raise ModelError(
            f"markers: no joint looks like the {' '.join(filter(None, (side, part)))}, for the frame {frame!r}; "
            f"there are {', '.join(joints)}",
            hint=f"Name it in [imitate.markers]: {frame} = …",
        )
    return {frame: joint for frame, joint in found.items() if joint is not None}


def find(part: str, side: str, joints: Collection[str]) -> str | None:
    """The joint that is a part of the body, by the first of the part's names that one has."""
    plain = {joint: _plain(joint) for joint in joints}
    for name in PARTS[part]:
        for joint, known in plain.items():
            if known == (side, name):
                return joint
    return None


def _plain(joint: str) -> tuple[str, str]:
    """Side and name without what programs put around them: ``mixamorig:LeftHand``, ``Hand.L``, ``neck_01``."""
    word = joint.rpartition(":")[2]
    word = re.sub(r"^bip\d+[_. ](?=.)", "", word, flags=re.IGNORECASE)
    word = re.sub(r"[_. ]0*1$", "", word)  # the first of several
    for side in ("left", "right"):
        if side in word.lower():
            return side, _letters(re.sub(side, "", word, flags=re.IGNORECASE))
    match = re.match(r"^([lLrR])(?:[_. ]|(?=[A-Z]))(.+)$", word) or re.match(r"^(?:.*[_. ])?([lLrR])[_. ](.+)$", word)
    if match:
        return _side(match[1]), _letters(match[2])
    match = re.match(r"^(.+)[_. ]([lLrR])$", word)
    if match:
        return _side(match[2]), _letters(match[1])
    return "", _letters(word)


def _side(letter: str) -> str:
    return "left" if letter in "lL" else "right"


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
