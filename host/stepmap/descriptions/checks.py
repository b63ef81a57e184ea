"""What may be wrong in a URDF, told with its file and line before anything is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepmap.descriptions import xml
from stepmap.errors import ModelError
from stepmap.text import nearest

TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical")
AXES = ("revolute", "continuous", "prismatic")
NUMBERS = {  # entries by element and attribute
    "origin": {"xyz": 3, "rpy": 3},
    "axis": {"xyz": 3},
    "mass": {"value": 1},
    "inertia": dict.fromkeys(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), 1),
    "limit": dict.fromkeys(("lower", "upper", "effort", "velocity"), 1),
    "dynamics": {"damping": 1, "friction": 1},
    "mimic": {"multiplier": 1, "offset": 1},
}


def check(root: Any, file: str, meshes: Path | None) -> dict[tuple[str, str], str]:
    """Lines of links and joints by tag and name; with ``meshes``, their files must be found from that folder."""
    lines: dict[tuple[str, str], str] = {}
    named = list(xml.children(root, "link", "joint"))
    if len(named) > xml.MOST:
        raise ModelError(f"{file}: has {len(named)} links and joints; {xml.MOST} are the most that are read")
    if root.get("name") is None:
        raise xml.fail(file, root, "<robot> has no name")
    for element in named:
        name = element.get("name")
        if not name:
            raise xml.fail(file, element, f"<{element.tag}> has no name")
        if (element.tag, name) in lines:
            raise xml.fail(file, element, f"{xml.called(element)} is declared twice; give the second one another name")
        lines[element.tag, name] = f"line {element.sourceline}"
    if not any(tag == "link" for tag, _ in lines):
        raise xml.fail(file, root, "has no <link>")
    for element in named:
        for tag, keys in NUMBERS.items():
            for part in element.iter(tag):
                for key, count in keys.items():
                    xml.numbers(file, part, key, count)
        _check_link(element, file, meshes) if element.tag == "link" else _check_joint(element, file, lines)
    _check_children(root, file)
    return lines


def _check_link(link: Any, file: str, meshes: Path | None) -> None:
    inertial = link.find("inertial")
    if inertial is not None:
        inertia, mass = inertial.find("inertia"), inertial.find("mass")
        if mass is None or mass.get("value") is None:
            raise xml.fail(file, inertial, f"<inertial> of {xml.called(link)} has no <mass value=…>")
        missing = [key for key in ("ixx", "iyy", "izz") if inertia is not None and inertia.get(key) is None]
        if missing:
            raise xml.fail(file, inertia, f"<inertia> of {xml.called(link)} has no {', '.join(missing)}")
    if meshes is None:
        return
    for mesh in link.iter("mesh"):
        given = mesh.get("filename", "")
        if not any(place.is_file() for place in _places(given, meshes)):
            raise xml.fail(
                file,
                mesh,
                f"mesh {given!r:.200} of {xml.called(link)} is not there",
                hint="Masses come from <inertial> alone. To import without the meshes: meshes=False; meshes = false in "
                "[system] of a job; --set meshes=false on the command line.",
            )


def _places(given: str, folder: Path) -> Iterator[Path]:
    """Where a mesh may lie: package://name/… in a folder of that name above, or in what lies beside."""
    name = given.removeprefix("file://")
    if "\0" in name or not name:
        return
    if not name.startswith(("package://", "model://")):
        yield folder / name
        return
    package, _, rest = name.split("://", 1)[1].partition("/")
    for above in (folder.resolve(), *folder.resolve().parents):
        yield above / package / rest
        yield above / rest


def _check_joint(joint: Any, file: str, lines: dict[tuple[str, str], str]) -> None:
    kind, called = joint.get("type"), xml.called(joint)
    if kind not in TYPES:
        raise xml.fail(file, joint, f"{called}: type {kind!r} is not carried over; known are {', '.join(TYPES)}")
    for tag in ("parent", "child"):
        end = joint.find(tag)
        link = None if end is None else end.get("link")
        if link is None:
            raise xml.fail(file, joint, f"{called} has no <{tag} link=…>")
        if ("link", link) not in lines:
            known = [name for kind, name in lines if kind == "link"]
            raise xml.fail(file, end, f"{called}: there is no {tag} link {link!r}", hint=nearest(link, known[:20]))
    axis = joint.find("axis")
    if axis is not None and kind != "fixed" and not any(float(e) for e in axis.get("xyz", "1 0 0").split()):
        raise xml.fail(file, axis, f"{called}: its axis is zero")
    mimic = joint.find("mimic")
    if mimic is not None:
        led = mimic.get("joint")
        others = [j for j in joint.getparent().findall("joint") if j.get("name") == led and j is not joint]
        if not others or others[0].get("type") not in (*AXES, "fixed") or kind not in (*AXES, "fixed"):
            raise xml.fail(file, mimic, f"{called} mimics {led!r}: both have to be joints that turn or slide")


def _check_children(root: Any, file: str) -> None:
    """A link has one joint above it."""
    above: dict[str, Any] = {}
    for joint in root.findall("joint"):
        link = joint.find("child").get("link")
        if link in above:
            raise xml.fail(
                file,
                joint,
                f"link {link!r} is the child of two joints, {above[link].get('name')!r} and {joint.get('name')!r}: "
                "the links form a loop, and a URDF is a tree",
                hint="Leave one out, and close the loop by b.point_to_point of a Builder; or write the model as MJCF.",
            )
        above[link] = joint
