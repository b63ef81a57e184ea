"""MJCF: models of MuJoCo, as its own compiler understands them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.descriptions import mjcf_forces
from stepmap.descriptions.model import Body, Inertia, Joint, Model, located, matrix, several, vector
from stepmap.errors import ModelError
from stepmap.extras import require

KINDS = ("free", "ball", "slide", "hinge")  # in the order of MuJoCo's numbers
COPIES = 10_000  # that elements of a file may ask for


def read(path: str | os.PathLike[str]) -> Model:
    """The model of an MJCF file; raises ModelError, with file and line, where it cannot be read."""
    require("mjcf", "an MJCF", "mujoco", "lxml")
    place = Path(path)
    m, warned = compiled(place)
    if not m.nv:
        raise ModelError(f"{place}: has no joint, so nothing in it moves")
    names = Names(m)
    bodies = tuple(_bodies(m, names))
    left_out: list[str] = [*_left_out(m, names)]
    left_out += [f"nothing, but MuJoCo's compiler warns: {text}" for text in warned]
    loops, followers = mjcf_forces.ties(m, names, left_out)
    tendons = mjcf_forces.tendons(m, names, left_out)
    motors = mjcf_forces.motors(m, names, left_out)
    falls = not m.opt.disableflags & _flag("GRAVITY")
    return Model(
        name=names.model or place.stem,
        gravity=vector(m.opt.gravity) if falls else (0.0, 0.0, 0.0),
        bodies=bodies,
        loops=loops,
        followers=followers,
        tendons=tendons,
        motors=motors,
        left_out=tuple(left_out),
        file=str(place),
    )


def compiled(place: Path) -> tuple[Any, list[str]]:
    """The MjModel of a file, and what the compiler warns of; by itself it writes that into the folder one is in."""
    import mujoco

    from stepmap.descriptions import xml

    root = xml.parse(xml.read(place), str(place), "mujoco")
    for element in root.iter("replicate", "composite", "flexcomp"):
        counts = re.findall(r"\d+", element.get("count", ""))
        if any(len(count) > 5 for count in counts) or np.prod([int(e) for e in counts], initial=1) > COPIES:
            raise xml.fail(str(place), element, f"<{element.tag}> asks for more than {COPIES} copies")
    warned: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: warned.append(" ".join(text.split())))
    try:
        return mujoco.MjModel.from_xml_path(str(place)), warned
    except ValueError as error:
        said = " ".join(str(error).split())
        line = re.search(r"line (\d+)", said)
        where = f"line {line.group(1)}" if line and int(line.group(1)) else ""
        raise ModelError(f"{located(str(place), where)}: MuJoCo's compiler refuses it: {said}") from None
    finally:
        mujoco.set_mju_user_warning(before)


def _flag(name: str) -> int:
    import mujoco

    return int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}"))


class Names:
    """Names of what a compiled model holds; those that have none get one, and each kind has its own."""

    def __init__(self, m: Any) -> None:
        self.model = bytes(m.names).split(b"\0", 1)[0].decode("utf-8", "replace")
        self.bodies: list[str | None] = [None]
        self.bodies += _unique([m.body(i).name or f"body{i}" for i in range(1, m.nbody)], {"world"})
        joints = []
        for i in range(m.njnt):
            owner = int(m.jnt_bodyid[i])
            number = i - int(m.body_jntadr[owner])
            joints.append(m.jnt(i).name or f"{self.bodies[owner]}.joint{number + 1 if number else ''}")
        self.joints = _unique(joints, set())
        self.tendons = _unique([m.tendon(i).name or f"tendon{i}" for i in range(m.ntendon)], set())
        self.motors = _unique([m.actuator(i).name or f"motor{i}" for i in range(m.nu)], set())
        self.ties = _unique([m.equality(i).name or f"equality{i}" for i in range(m.neq)], set(self.tendons))


def _unique(names: list[str], taken: set[str]) -> list[str]:
    out: list[str] = []
    for name in names:
        while name in taken:
            name += "_"
        taken.add(name)
        out.append(name)
    return out


def _bodies(m: Any, names: Names) -> Iterator[Body]:
    for i in range(1, m.nbody):
        own = range(int(m.body_jntadr[i]), int(m.body_jntadr[i]) + int(m.body_jntnum[i]))
        turned = rotation(m.body_iquat[i])
        moments = turned @ np.diag(m.body_inertia[i]) @ turned.T
        yield Body(
            name=str(names.bodies[i]),
            parent=names.bodies[int(m.body_parentid[i])],
            position=vector(m.body_pos[i]),
            rotation=matrix(rotation(m.body_quat[i])),
            joints=tuple(_joint(m, names, j) for j in own),
            inertia=Inertia(float(m.body_mass[i]), vector(m.body_ipos[i]), matrix((moments + moments.T) / 2)),
        )


def _joint(m: Any, names: Names, j: int) -> Joint:
    kind, at, dof = KINDS[int(m.jnt_type[j])], int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
    one = kind in ("hinge", "slide")
    low, high = (float(e) for e in m.jnt_range[j]) if m.jnt_limited[j] and one else (None, None)
    reference = float(m.qpos0[at]) if one else 0.0
    return Joint(
        name=names.joints[j],
        kind=kind,
        axis=vector(m.jnt_axis[j]) if one else (0.0, 0.0, 1.0),
        anchor=vector(m.jnt_pos[j]) if kind != "free" else (0.0, 0.0, 0.0),
        low=low,
        high=high,
        reference=reference,
        start=reference,
        damping=float(m.dof_damping[dof]),
        stiffness=float(m.jnt_stiffness[j]) if one else 0.0,
        rest=float(m.qpos_spring[at]) if one else 0.0,
        rotor=float(m.dof_armature[dof]),
        where=f"joint {names.joints[j]!r}",
    )


def rotation(quaternion: Any) -> Array:
    """Of a quaternion (w, x, y, z)."""
    from scipy.spatial.transform import Rotation  # here, as it takes a while to load

    w, x, y, z = (float(e) for e in quaternion)
    if not 0 < math.hypot(w, x, y, z) < math.inf:
        raise ModelError(
            f"the quaternion {w:g} {x:g} {y:g} {z:g}, as MuJoCo made it of the file, is no rotation",
            hint="Look for numbers that are too large, or orientations of zeros.",
        )
    return np.asarray(Rotation.from_quat([x, y, z, w]).as_matrix())


def _left_out(m: Any, names: Names) -> Iterator[str]:
    touching = int(np.count_nonzero((m.geom_contype != 0) | (m.geom_conaffinity != 0)))
    if m.ngeom:
        yield f"{m.ngeom} geoms as shapes" + (f", and the contacts of {touching} of them" if touching else "")
    for what, found in (
        ("dry friction", m.dof_frictionloss[m.jnt_dofadr] != 0),
        ("damping that is not linear", m.dof_dampingpoly[m.jnt_dofadr].reshape(m.njnt, -1).any(axis=1)),
        ("springs that are not linear", m.jnt_stiffnesspoly.reshape(m.njnt, -1).any(axis=1)),
        ("springs of balls and free joints", (m.jnt_stiffness != 0) & (m.jnt_type < 2)),
        ("ranges of balls", (m.jnt_limited != 0) & (m.jnt_type == 1)),
        ("limits of the motors' force", m.jnt_actfrclimited != 0),
        ("springs that yield", m.jnt_springyield != 0),
    ):
        if found.any():
            yield f"{what} of {several([names.joints[int(j)] for j in np.flatnonzero(found)])}"
    for what, marked in (("gravity compensation", m.body_gravcomp != 0), ("motion capture", m.body_mocapid >= 0)):
        if marked.any():
            yield f"{what} of {several([str(names.bodies[int(i)]) for i in np.flatnonzero(marked)])}"
    if m.opt.density or m.opt.viscosity:
        yield "forces of the air or water around it"
    for what, count in (
        ("flexible bodies", m.nflex),
        ("plug-ins", m.nplugin),
        ("delays of motors and sensors", m.nhistory),
        ("plastic springs", m.nplastic),
        ("sensors", m.nsensor),
        ("keyframes", m.nkey),
    ):
        if count:
            yield f"{count} {what}"
