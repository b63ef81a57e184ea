"""Equalities, tendons and actuators of a compiled MJCF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepmap.descriptions.model import Follower, Loop, Matrix, Motor, Point, Tendon, matrix, vector

if TYPE_CHECKING:
    from stepmap.descriptions.mjcf import Names


def ties(m: Any, names: Names, left_out: list[str]) -> tuple[tuple[Loop, ...], tuple[Follower, ...]]:
    """Connections and welds as loops, equalities of joints as followers."""
    import mujoco

    kinds = mujoco.mjtEq
    loops, followers = [], []
    for e in range(m.neq):
        name, kind = names.ties[e], int(m.eq_type[e])
        first, second, data = int(m.eq_obj1id[e]), int(m.eq_obj2id[e]), m.eq_data[e]
        if not m.eq_active0[e]:
            left_out.append(f"equality {name!r}: it is not active at the start")
        elif kind == kinds.mjEQ_CONNECT:
            loops.append(Loop(name, *_ends(m, names, e, data[0:3], data[3:6])))
        elif kind == kinds.mjEQ_WELD:
            loops.append(Loop(name, *_ends(m, names, e, data[3:6], data[0:3]), rotation=_relative(m, e)))
        elif kind == kinds.mjEQ_JOINT and second >= 0:
            start, rest = (float(m.qpos0[int(m.jnt_qposadr[j])]) for j in (first, second))
            by = (float(data[0]) + start, float(data[1]), *(float(c) for c in np.trim_zeros(data[2:5], "b")))
            followers.append(Follower(name, names.joints[first], names.joints[second], by, rest))
        else:
            word = str(kinds(kind)).rpartition("_")[2].lower()
            left_out.append(f"equality {name!r} of type {word}" + (" of one joint" if word == "joint" else ""))
    return tuple(loops), tuple(followers)


def _ends(m: Any, names: Names, e: int, at_first: Any, at_second: Any) -> tuple[Point, Point]:
    """Points of two bodies that stay together; sites are such points themselves."""
    import mujoco

    ends = (int(m.eq_obj1id[e]), int(m.eq_obj2id[e]))
    if int(m.eq_objtype[e]) == mujoco.mjtObj.mjOBJ_SITE:
        first, second = (site(m, names, i) for i in ends)
    else:
        first, second = (Point(names.bodies[i], vector(at)) for i, at in zip(ends, (at_first, at_second), strict=True))
    return first, second


def _relative(m: Any, e: int) -> Matrix:
    """The rotation of the second welded body in the first."""
    import mujoco

    from stepmap.descriptions.mjcf import rotation

    if int(m.eq_objtype[e]) == mujoco.mjtObj.mjOBJ_SITE:
        first, second = (rotation(m.site_quat[i]) for i in (m.eq_obj1id[e], m.eq_obj2id[e]))
        return matrix(first @ second.T)
    return matrix(rotation(m.eq_data[e][6:10]))


def site(m: Any, names: Names, i: int) -> Point:
    return Point(names.bodies[int(m.site_bodyid[i])], vector(m.site_pos[i]))


def tendons(m: Any, names: Names, left_out: list[str]) -> tuple[Tendon, ...]:
    """Tendons through sites, and sums of joints; those around geoms or over pulleys are told."""
    import mujoco

    wraps = mujoco.mjtWrap
    made = []
    for t in range(m.ntendon):
        name, at = names.tendons[t], range(int(m.tendon_adr[t]), int(m.tendon_adr[t] + m.tendon_num[t]))
        kinds = {int(m.wrap_type[i]) for i in at}
        of_joints = kinds == {int(wraps.mjWRAP_JOINT)}
        if not of_joints and kinds != {int(wraps.mjWRAP_SITE)}:
            left_out.append(f"tendon {name!r}: it wraps around geoms or runs over pulleys")
            continue
        for what, array in (
            ("dry friction", m.tendon_frictionloss),
            ("inertia", m.tendon_armature),
            ("yield of the spring", m.tendon_springyield),
            ("the spring's part that is not linear", m.tendon_stiffnesspoly),
            ("the damping's part that is not linear", m.tendon_dampingpoly),
            ("limit of the motors' force", m.tendon_actfrclimited),
        ):
            if np.any(array[t]):
                left_out.append(f"{what} of tendon {name!r}")
        low, high = (float(e) for e in m.tendon_range[t])
        limited = bool(m.tendon_limited[t])
        if limited and (of_joints or low > 0):
            left_out.append(f"{'range' if of_joints else 'shortest length'} of tendon {name!r}")
        made.append(
            Tendon(
                name,
                path=() if of_joints else tuple(site(m, names, int(m.wrap_objid[i])) for i in at),
                joints=tuple((names.joints[int(m.wrap_objid[i])], float(m.wrap_prm[i])) for i in at if of_joints),
                longest=high if limited and not of_joints and high > 0 else None,
                stiffness=float(m.tendon_stiffness[t]),
                rest=(float(m.tendon_lengthspring[t][0]), float(m.tendon_lengthspring[t][1])),
                damping=float(m.tendon_damping[t]),
            )
        )
    return tuple(made)


def motors(m: Any, names: Names, left_out: list[str]) -> tuple[Motor, ...]:
    """Actuators without memory on joints and along tendons; the others are told."""
    import mujoco

    made = []
    for i in range(m.nu):
        name, why = names.motors[i], _unlike(m, i)
        kind, target = int(m.actuator_trntype[i]), int(m.actuator_trnid[i][0])
        joint, tendon = None, None
        if kind in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT):
            joint = names.joints[target]
            if int(m.jnt_type[target]) == 0 or (int(m.jnt_type[target]) == 1 and kind != mujoco.mjtTrn.mjTRN_JOINT):
                why = "it acts on a free joint, or in the axes of a ball's parent"
        elif kind == mujoco.mjtTrn.mjTRN_TENDON:
            tendon = names.tendons[target]
            kinds = {
                int(m.wrap_type[w]) for w in range(m.tendon_adr[target], m.tendon_adr[target] + m.tendon_num[target])
            }
            if len(kinds) > 1 or kinds - {int(mujoco.mjtWrap.mjWRAP_JOINT), int(mujoco.mjtWrap.mjWRAP_SITE)}:
                why = "its tendon is not carried over"
        else:
            why = "it acts neither on a joint nor along a tendon"
        if why:
            left_out.append(f"motor {name!r}: {why}")
            continue
        if m.actuator_forcelimited[i]:
            left_out.append(f"limit of the force of motor {name!r}")
        low, high = (float(e) for e in m.actuator_ctrlrange[i]) if m.actuator_ctrllimited[i] else (None, None)
        x, y, z = (float(e) for e in m.actuator_gear[i][:3])
        bias = m.actuator_biasprm[i][:3] if m.actuator_biastype[i] else (0.0, 0.0, 0.0)
        made.append(Motor(name, joint, tendon, (x, y, z), float(m.actuator_gainprm[i][0]), vector(bias), low, high))
    return tuple(made)


def _unlike(m: Any, i: int) -> str:
    """Why a motor's force is no sum of its input, its length and its speed; nothing where it is one."""
    import mujoco

    if int(m.actuator_dyntype[i]) != mujoco.mjtDyn.mjDYN_NONE:
        return "it has a state of its own (activation dynamics)"
    if int(m.actuator_gaintype[i]) != mujoco.mjtGain.mjGAIN_FIXED:
        return "its gain changes with the pose"
    if int(m.actuator_biastype[i]) not in (mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtBias.mjBIAS_AFFINE):
        return "its bias is not affine"
    if m.actuator_armature[i] or m.actuator_damping[i] or m.actuator_dampingpoly[i].any():
        return "it has inertia or damping of its own"
    return ""
