"""Random trees of rigid bodies, each described once and built three ways: stepmap, 4x4 matrices, pinocchio."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import stepmap as sm
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.quantity import Coordinate

KINDS = ("tx", "ty", "tz", "rx", "ry", "rz")
GRAVITY = (0.7, -1.9, -9.5)
STIFFNESS, REST, DAMPING = 3.0, 0.2, 0.4  # of every joint


@dataclass(frozen=True, eq=False)
class Link:
    """A joint at a constant placement in its parent's frame, and the body it moves."""

    parent: int  # −1: the world
    kind: str
    placement: np.ndarray  # 4x4
    mass: float
    center: np.ndarray  # of mass, in the link's frame
    inertia: np.ndarray  # 3x3 about the centre, in the link's axes


Tree = Sequence[Link]


def rigid(turn: Any, offset: Any) -> np.ndarray:
    """The 4x4 transform of a rotation vector and an offset."""
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = Rotation.from_rotvec(turn).as_matrix(), offset
    return made


def motion(kind: str, amount: float) -> np.ndarray:
    """The 4x4 transform of one joint."""
    vector = amount * np.eye(3)["xyz".index(kind[1])]
    return rigid(vector, (0, 0, 0)) if kind[0] == "r" else rigid((0, 0, 0), vector)


def poses(tree: Tree, q: Sequence[float]) -> list[np.ndarray]:
    """World poses of all links by multiplying matrices."""
    made: list[np.ndarray] = []
    for link, amount in zip(tree, q, strict=True):
        parent = np.eye(4) if link.parent < 0 else made[link.parent]
        made.append(parent @ link.placement @ motion(link.kind, amount))
    return made


def random_tree(seed: int, links: int, kinds: Sequence[str] = KINDS) -> tuple[Link, ...]:
    """A tree in depth-first order, as pinocchio needs it: a link's parent is the link before or above that."""
    rng = np.random.default_rng(seed)
    made: list[Link] = []
    above = [-1]
    for i in range(links):
        above = above[: int(rng.integers(max(0, len(above) - 2), len(above))) + 1]
        placement = rigid(rng.uniform(-1.5, 1.5, 3), rng.uniform(-0.5, 0.5, 3))
        axes = Rotation.from_rotvec(rng.uniform(-1.5, 1.5, 3)).as_matrix()
        inertia = axes @ np.diag(rng.uniform(0.1, 0.2, 3)) @ axes.T
        mass, center = rng.uniform(0.3, 2.0), rng.uniform(-0.3, 0.3, 3)
        made.append(Link(above[-1], str(rng.choice(kinds)), placement, mass, center, inertia))
        above = [*above, i]
    return tuple(made)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Link, ...]:
    """Any tree of 2 to 5 links."""
    seed = draw(st.integers(0, 2**31 - 1))
    return random_tree(seed, draw(st.integers(2, 5)), draw(st.sampled_from((KINDS, ("rx", "ry", "rz"), ("tx", "rz")))))


def vectors(size: int, bound: float = 1.5) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(-bound, bound), min_size=size, max_size=size).map(np.array)


class Assembly(NamedTuple):
    builder: sm.Builder
    coordinates: list[Coordinate]  # q0 q1 …
    frames: list[Frame]  # link0 link1 …


def assemble(tree: Tree, gravity: Sequence[float] = GRAVITY) -> Assembly:
    """A builder with the tree in it."""
    b = sm.Builder("tree")
    b.gravity(gravity)
    coordinates = [b.coordinate(f"q{i}") for i in range(len(tree))]
    frames: list[Frame] = []
    for i, link in enumerate(tree):
        parent = b.world if link.parent < 0 else frames[link.parent]
        joint = parent.fixed(link.placement, name=f"joint{i}")
        frames.append(getattr(joint, link.kind)(coordinates[i], name=f"link{i}"))
        b.mass(frames[-1].translate(*link.center, name=f"center{i}"), link.mass, inertia=link.inertia)
    return Assembly(b, coordinates, frames)


@functools.cache
def sprung(seed: int, links: int) -> sm.System:
    """A random tree with a spring, a damper and a drive at every joint."""
    b, coordinates, _ = assemble(random_tree(seed, links))
    damping = b.parameter("damping", DAMPING)
    for i, q in enumerate(coordinates):
        b.coordinate_spring(q, stiffness=STIFFNESS, rest=REST)
        b.damping(q, damping)
        b.drive(q, b.input(f"torque{i}"))
    return b.build()


def pinocchio_model(tree: Tree, gravity: Sequence[float] = GRAVITY) -> Any:
    """The same tree in pinocchio, with a frame ``link<i>`` at each link."""
    import pinocchio as pin

    model = pin.Model()
    model.gravity.linear = np.array(gravity)
    for i, link in enumerate(tree):
        joint = getattr(pin, "JointModel" + {"t": "P", "r": "R"}[link.kind[0]] + link.kind[1].upper())()
        place = pin.SE3(link.placement[:3, :3], link.placement[:3, 3])
        added = model.addJoint(link.parent + 1, joint, place, f"q{i}")
        model.appendBodyToJoint(added, pin.Inertia(link.mass, link.center, link.inertia), pin.SE3.Identity())
        model.addFrame(pin.Frame(f"link{i}", added, 0, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    return model
