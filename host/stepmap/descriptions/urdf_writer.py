"""A System as URDF."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.descriptions.model import several
from stepmap.errors import ModelError
from stepmap.files import write_whole
from stepmap.mechanics import System
from stepmap.mechanics.constraints import Constraint
from stepmap.mechanics.elements.coupling import Coupling
from stepmap.mechanics.forces import Damping, Drive
from stepmap.mechanics.frames import Frame, Motion
from stepmap.mechanics.gravity import gravity
from stepmap.mechanics.kinematics import relative
from stepmap.mechanics.quantity import Ball, Coordinate, Input

NORMAL = (0.0, 0.0, -9.81)  # gravity of whoever reads a URDF


def to_urdf(system: System, path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Writes a URDF and returns what of the system it does not have; one link per frame, one joint per motion.

    Raises ModelError for a ball joint, which URDF does not know; a free body becomes a floating joint.
    """
    robot = ElementTree.Element("robot", name=system.name)
    values = _Values(system)
    children: dict[int, list[Frame]] = {}
    for frame in system.frames[1:]:
        if frame.parent is not None:
            children.setdefault(frame.parent.index, []).append(frame)
    moved = {frame.motion.coordinate for frame in system.frames[1:] if frame.motion is not None}
    floating = {c.name for m in moved if isinstance(m, Ball) for c in m.place}
    for frame in system.frames:
        if not _is_inside(frame, floating):
            _add_link(robot, values, frame)
    for frame in system.frames[1:]:
        if not _is_inside(frame, floating):
            _add_joint(robot, values, frame, floating)
    ElementTree.indent(robot)
    text = ElementTree.tostring(robot, encoding="unicode", xml_declaration=True)
    write_whole(Path(path), text + "\n")
    return tuple(_left_out(system))


class _Values:
    """Numbers of a system at the values of its parameters."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.symbols = ca.vertcat(*system.symbols) if system.symbols else ca.SX(0, 1)

    def __call__(self, expression: Any) -> Array:
        function = ca.Function("value", [self.symbols], [ca.densify(ca.SX(expression))])
        return np.asarray(function(self.system.parameter_values), dtype=float)

    def damping(self, coordinate: Coordinate) -> float:
        same = (f for f in self.system.forces if isinstance(f, Damping) and f.coordinate.name == coordinate.name)
        return sum(float(self(f.coefficient)[0, 0]) for f in same)


def _is_inside(frame: Frame, floating: set[str]) -> bool:
    """Whether a frame is one of the three that slide below a free body."""
    made = frame.motion.coordinate if frame.motion is not None else None
    return isinstance(made, Coordinate) and made.name in floating


def _add_link(robot: Any, values: _Values, frame: Frame) -> None:
    link = ElementTree.SubElement(robot, "link", name=frame.name)
    bodies = [body for body in values.system.bodies if body.frame is frame]
    if not bodies:
        return
    inertial = ElementTree.SubElement(link, "inertial")
    mass = sum(float(values(body.mass)[0, 0]) for body in bodies)
    matrix = np.sum([values(body.inertia) for body in bodies], axis=0)
    ElementTree.SubElement(inertial, "mass", value=repr(mass))
    entries = {
        f"i{a}{b}": repr(float(matrix[i, j])) for i, a in enumerate("xyz") for j, b in enumerate("xyz") if i <= j
    }
    ElementTree.SubElement(inertial, "inertia", entries)


def _add_joint(robot: Any, values: _Values, frame: Frame, floating: set[str]) -> None:
    parent, motion = frame.parent, frame.motion
    if parent is None or motion is None:
        return
    by = motion.coordinate
    while _is_inside(parent, floating) and parent.parent is not None:
        parent = parent.parent
    if isinstance(by, Ball) and not by.place:
        raise ModelError(
            f"to_urdf: frame {frame.name!r} turns on a ball joint, which URDF does not know",
            hint="Give it three hinges instead: rx, ry and rz.",
        )
    name = by.name if by is not None else f"{frame.name}.fixed"
    joint = ElementTree.SubElement(robot, "joint", name=name, type=_kind(motion))
    ElementTree.SubElement(joint, "parent", link=parent.name)
    ElementTree.SubElement(joint, "child", link=frame.name)
    if by is None:
        from scipy.spatial.transform import Rotation  # here, as it takes a while to load

        rotation, offset = (values(e) for e in relative(motion, None))
        with_turn = " ".join(repr(float(e)) for e in Rotation.from_matrix(rotation).as_euler("xyz"))
        xyz = " ".join(repr(float(e)) for e in offset.ravel())
        ElementTree.SubElement(joint, "origin", xyz=xyz, rpy=with_turn)
    if isinstance(by, Coordinate):
        ElementTree.SubElement(joint, "axis", xyz=" ".join("1" if i == motion.axis else "0" for i in range(3)))
        _add_limits(joint, values, by, motion)


def _kind(motion: Motion) -> str:
    by = motion.coordinate
    if by is None:
        return "fixed"
    if isinstance(by, Ball):
        return "floating"
    if not motion.turns:
        return "prismatic"
    return "continuous" if by.low is None or by.high is None else "revolute"


def _add_limits(joint: Any, values: _Values, by: Coordinate, motion: Motion) -> None:
    effort = _effort(values.system, by)
    limits = {"effort": repr(effort), "velocity": "0"}
    if by.low is not None and by.high is not None:
        limits |= {"lower": repr(float(by.low)), "upper": repr(float(by.high))}
    if effort or len(limits) > 2 or not motion.turns:
        ElementTree.SubElement(joint, "limit", limits)
    damping = values.damping(by)
    if damping:
        ElementTree.SubElement(joint, "dynamics", damping=repr(damping))
    for tie in values.system.constraints:
        if isinstance(tie, Coupling) and tie.follower.name == by.name and _is_mimic(tie):
            offset, ratio = tie.coefficients
            ElementTree.SubElement(
                joint, "mimic", joint=tie.leader.name, multiplier=repr(ratio), offset=repr(offset - ratio * tie.rest)
            )


def _is_mimic(tie: Constraint) -> bool:
    return isinstance(tie, Coupling) and len(tie.coefficients) == 2


def _effort(system: System, by: Coordinate) -> float:
    """The largest force of an input that drives a coordinate by itself; 0 where none does."""
    for force in system.forces:
        if isinstance(force, Drive) and isinstance(force.source, Input) and force.coordinate.name == by.name:
            bounds = [abs(e) for e in (force.source.low, force.source.high) if e is not None]
            return max(bounds, default=1e3)
    return 0.0


def _left_out(system: System) -> list[str]:
    out = []
    if tuple(gravity(system)) != NORMAL:
        out.append(f"gravity {tuple(float(e) for e in gravity(system))}: a URDF has none, its readers take {NORMAL}")
    ties = [c.name for c in system.constraints if not _is_mimic(c)]
    plain = [
        f for f in system.forces if isinstance(f, Damping) or (isinstance(f, Drive) and isinstance(f.source, Input))
    ]
    unbounded = [
        f.source.name
        for f in plain
        if isinstance(f, Drive) and isinstance(f.source, Input) and f.source.low is None and f.source.high is None
    ]
    for names, what in (
        (ties, "constraints"),
        ([type(p).__name__ for p in system.potentials], "springs"),
        ([type(f).__name__ for f in system.forces if f not in plain], "forces"),
        ([s.name for s in system.sensors], "sensors"),
        ([p.name for p in system.parameters], "names of parameters, whose values are in it"),
        ([c.name for c in system.kinematic], "that coordinates are kinematic"),
        ([r.joint.name for r in system.rotors], "rotors"),
        (unbounded, "inputs without bounds, which have an effort of 1000 in it"),
    ):
        if names:
            out.append(f"{what}: {several(names)}")
    return out
