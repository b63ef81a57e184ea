"""URDF, the robots of ROS: yourdfpy reads it, after checks of what a file from elsewhere may do wrong."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.descriptions.model import (
    LARGEST,
    Body,
    Follower,
    Inertia,
    Joint,
    Model,
    Motor,
    Vector,
    located,
    matrix,
    several,
    vector,
)
from stepmap.errors import ModelError
from stepmap.extras import require

AXES = ("revolute", "continuous", "prismatic")
PARTS = {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "safety_controller", "calibration"}
KINDS = {"revolute": "hinge", "continuous": "hinge", "prismatic": "slide", "floating": "free", "spherical": "ball"}


def read(
    path: str | os.PathLike[str],
    *,
    floating: bool = False,
    motors: tuple[str, ...] | None = None,
    meshes: bool = True,
    gravity: float = 9.81,
) -> Model:
    """The model of a URDF; raises ModelError, with file and line, where it cannot be read."""
    require("urdf", "a URDF", "yourdfpy", "lxml")
    from stepmap.descriptions import checks, xml

    place = Path(path)
    content = xml.read(place)
    root = xml.parse(content, str(place), "robot")
    lines = checks.check(root, str(place), place.parent if meshes else None)
    robot = _parsed(content, str(place))
    order = _parents_first(robot, str(place), lines)
    bodies = tuple(_bodies(robot, order, lines, floating))
    moving = {joint.name for joint in robot.joints if joint.type in AXES}
    mimics = [joint for joint in robot.joints if joint.mimic is not None and joint.type in AXES]
    held = [
        f"that joint {j.name!r} mimics {j.mimic.joint!r}, which is fixed" for j in mimics if j.mimic.joint not in moving
    ]
    return Model(
        name=robot.name or place.stem,
        gravity=(0.0, 0.0, -gravity),
        bodies=bodies,
        followers=tuple(_follower(joint) for joint in mimics if joint.mimic.joint in moving),
        motors=tuple(_motors(robot, motors, str(place))),
        left_out=(*held, *_left_out(root, robot)),
        file=str(place),
    )


def _parsed(content: bytes, file: str) -> Any:
    import yourdfpy

    try:
        return yourdfpy.URDF.load(io.BytesIO(content), build_scene_graph=False, load_meshes=False).robot
    except Exception as error:  # whatever a parser raises for a file that our checks take
        raise ModelError(f"{file}: is not a URDF that can be read: {type(error).__name__}: {error}") from error


def _parents_first(robot: Any, file: str, lines: Mapping[tuple[str, str], str]) -> list[tuple[Any, Any]]:
    """Links with the joint above each, parents first; raises ModelError for a circle or more than one root."""
    above = {joint.child: joint for joint in robot.joints}
    below: dict[str, list[Any]] = {}
    for joint in robot.joints:
        below.setdefault(joint.parent, []).append(joint)
    links = {link.name: link for link in robot.links}
    roots = [name for name in links if name not in above]
    if len(roots) > 1:
        raise ModelError(
            f"{located(file, lines['link', roots[1]])}: links {several([repr(name) for name in roots])} have no joint "
            "above them, and a URDF has one root",
            hint="Tie all others to it by joints.",
        )
    order: list[tuple[Any, Any]] = [(links[name], None) for name in roots]
    for link, _ in order:
        order += [(links[joint.child], joint) for joint in below.get(link.name, [])]
    if len(order) < len(links):
        circle = _circle(above, next(name for name in links if name not in {link.name for link, _ in order}))
        raise ModelError(
            f"{located(file, lines['joint', above[circle[0]].name])}: links {several(circle)} form a circle",
            cause="A URDF is a tree: the joint above each link leads to one root.",
            hint="Cut the loop at one joint; close it by b.point_to_point of a Builder, or write the model as MJCF.",
        )
    return order


def _circle(above: Mapping[str, Any], name: str) -> list[str]:
    seen: list[str] = []
    while name not in seen:
        seen.append(name)
        name = above[name].parent
    return seen[seen.index(name) :]


# links and joints -----------------------------------------------------------------------------------------------


def _bodies(
    robot: Any, order: list[tuple[Any, Any]], lines: Mapping[tuple[str, str], str], floating: bool
) -> Iterator[Body]:
    starts = _starts(robot)
    root, taken = order[0][0].name, {link.name for link, _ in order}
    while (floating and root == "world") or (root != order[0][0].name and root in taken):
        root += "_link"
    for link, joint in order:
        inertia, where = _inertia(link), lines["link", link.name]
        if joint is None:
            joints = (Joint("root", "free", where=where),) if floating else ()
            yield Body(root, None, joints=joints, inertia=inertia, where=where)
            continue
        at = np.eye(4) if joint.origin is None else joint.origin
        made = tuple(_joints(joint, lines["joint", joint.name], starts))
        parent = root if joint.parent == order[0][0].name else joint.parent
        yield Body(link.name, parent, vector(at[:3, 3]), matrix(at[:3, :3]), made, inertia, where)


def _joints(joint: Any, where: str, starts: Mapping[str, float]) -> Iterator[Joint]:
    """None for a fixed joint, three for a planar one."""
    damping = 0.0 if joint.dynamics is None else float(joint.dynamics.damping or 0.0)
    if joint.type == "planar":
        x, y, z = _plane(np.asarray(joint.axis, dtype=float))
        yield Joint(f"{joint.name}.x", "slide", x, damping=damping, where=where)
        yield Joint(f"{joint.name}.y", "slide", y, damping=damping, where=where)
        yield Joint(f"{joint.name}.turn", "hinge", z, damping=damping, where=where)
    elif joint.type in KINDS:
        low, high = _range(joint)
        axis = np.asarray(joint.axis, dtype=float)
        turned = vector(axis / np.linalg.norm(axis))
        start = starts.get(joint.name, 0.0)
        yield Joint(
            joint.name, KINDS[joint.type], turned, low=low, high=high, start=start, damping=damping, where=where
        )


def _range(joint: Any) -> tuple[float | None, float | None]:
    """A range from 0 to 0, or upside down, is none: it stands where nobody filled it in."""
    if joint.limit is None or joint.type not in ("revolute", "prismatic"):
        return None, None
    low, high = joint.limit.lower or 0.0, joint.limit.upper or 0.0
    return (low, high) if low < high else (None, None)


def _plane(normal: Any) -> tuple[Vector, Vector, Vector]:
    """Two axes of a plane and its normal."""
    z = normal / np.linalg.norm(normal)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return vector(x), vector(np.cross(z, x)), vector(z)


def _starts(robot: Any) -> dict[str, float]:
    """Where joints that mimic stand while those they follow are at 0, in chains too."""
    by = {joint.name: joint.mimic for joint in robot.joints if joint.mimic is not None}

    def start(name: str, depth: int = 0) -> float:
        mimic = by.get(name)
        if mimic is None or depth > len(by):
            return 0.0
        return float(mimic.offset + mimic.multiplier * start(mimic.joint, depth + 1))

    return {name: start(name) for name in by}


def _follower(joint: Any) -> Follower:
    return Follower(f"{joint.name}.mimic", joint.name, joint.mimic.joint, (joint.mimic.offset, joint.mimic.multiplier))


def _inertia(link: Any) -> Inertia | None:
    """About the centre of mass, turned from the axes of <origin> into those of the link."""
    inertial = link.inertial
    if inertial is None:
        return None
    at = np.eye(4) if inertial.origin is None else inertial.origin
    own = np.zeros((3, 3)) if inertial.inertia is None else inertial.inertia
    if max(abs(inertial.mass or 0.0), float(np.abs(own).max())) > LARGEST:
        raise ModelError(
            f"link {link.name!r}: mass and moments of inertia are up to {LARGEST:g} kg and kg m²",
            hint="Correct its <inertial>.",
        )
    turned = at[:3, :3] @ own @ at[:3, :3].T
    return Inertia(inertial.mass or 0.0, vector(at[:3, 3]), matrix((turned + turned.T) / 2))


def _motors(robot: Any, wanted: tuple[str, ...] | None, file: str) -> Iterator[Motor]:
    """One per joint that can make an effort, or per joint that is ``wanted``."""
    joints = {joint.name: joint for joint in robot.joints if joint.type in AXES}
    if wanted is not None:
        for name in wanted:
            if name not in joints:
                raise ModelError(
                    f"{file}: motors: no joint that turns or slides is called {name!r}; there are {', '.join(joints)}"
                )
    for name, joint in joints.items():
        effort = float(joint.limit.effort or 0.0) if joint.limit is not None else 0.0
        if name in wanted if wanted is not None else effort > 0 and joint.mimic is None:
            bound = effort if effort > 0 else None
            yield Motor(f"{name}.motor", name, low=None if bound is None else -bound, high=bound)


def _left_out(root: Any, robot: Any) -> Iterator[str]:
    shapes = {tag: len(root.findall(f"link/{tag}")) for tag in ("visual", "collision")}
    if any(shapes.values()):
        yield f"{shapes['visual']} visual and {shapes['collision']} collision shapes, and with them contacts"
    rubbing = [j.name for j in robot.joints if j.dynamics is not None and float(j.dynamics.friction or 0.0)]
    if rubbing:
        yield f"dry friction of {several(rubbing)}"
    fast = [j.name for j in robot.joints if j.limit is not None and j.limit.velocity and j.type in KINDS]
    if fast:
        yield f"limits of speed of {several(fast)}"
    for tag, what in (("safety_controller", "soft limits"), ("calibration", "calibration positions")):
        names = [e.getparent().get("name") for e in root.findall(f"joint/{tag}")]
        if names:
            yield f"{what} of {several(names)}"
    for parents, known, whose in (
        ([root], {"link", "joint", "material", "transmission"}, "the robot"),
        (root.findall("link"), {"inertial", "visual", "collision"}, "links"),
        (root.findall("joint"), PARTS, "joints"),
    ):
        others = {str(e.tag) for parent in parents for e in parent if isinstance(e.tag, str) and e.tag not in known}
        if others:
            yield f"elements {', '.join(f'<{tag}>' for tag in sorted(others))} of {whose}"
    if root.find("transmission") is not None:
        yield f"{len(root.findall('transmission'))} transmissions: gears and interfaces of motors"
