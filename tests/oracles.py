"""Pinocchio and MuJoCo beside an imported system: mass matrix, gravity, bias and applied forces at random poses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

import stepmap as sm
from stepmap.mechanics.equations.forces import bias_forces, gravity_forces

POSES = 3
SMALL = 1e-3  # part of a mass matrix whose forces, at speeds and accelerations of 1, count as none


@dataclass(frozen=True)
class Deviation:
    """Largest |ours − theirs| over the largest |theirs| of any pose."""

    mass: float
    gravity: float
    bias: float
    forces: float = 0.0
    ties: float = 0.0

    @property
    def worst(self) -> float:
        return max(self.mass, self.gravity, self.bias, self.forces, self.ties)


class Widest:
    """Differences of several poses, and the size of what they belong to."""

    def __init__(self) -> None:
        self.off = self.size = 0.0

    def add(self, ours: Any, theirs: Any) -> None:
        ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
        assert ours.shape == theirs.shape
        if theirs.size:
            self.off = max(self.off, float(np.abs(ours - theirs).max()))
            self.size = max(self.size, float(np.abs(theirs).max()))

    def over(self, floor: float = 0.0) -> float:
        """``floor`` where all should be 0 and both sides have what is left of terms that cancel."""
        return self.off / max(self.size, floor) if self.off else 0.0


def random_pose(system: sm.System, rng: np.random.Generator) -> tuple[Any, Any]:
    """Around the start, so that quaternions are units."""
    start = system.configuration({})
    q = system.tangent.retract(start, rng.uniform(-1.0, 1.0, system.tangent.nv))
    return q, rng.uniform(-1.0, 1.0, system.tangent.nv)


# Pinocchio ------------------------------------------------------------------------------------------------------


def beside_pinocchio(system: sm.System, path: Path, *, floating: bool = False) -> Deviation:
    """Deviations from Pinocchio's own reading of the same URDF."""
    import pinocchio as pin

    root = (pin.JointModelFreeFlyer(),) if floating else ()
    model = pin.buildModelFromUrdf(str(path), *root)
    data, rng = model.createData(), np.random.default_rng(1)
    mass, gravity, bias = Widest(), Widest(), Widest()
    for _ in range(POSES):
        q, v = random_pose(system, rng)
        theirs_q, theirs_v, order = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv, dtype=int)
        turn = np.eye(model.nv)
        for name, joint in zip(model.names[1:], list(model.joints)[1:], strict=True):
            at_q, at_v = joint.idx_q, joint.idx_v
            if joint.nv == 6:  # position and quaternion x y z w; velocities in the body's axes
                place = system.tangent.names.index("root.tx")
                wxyz = q[place + 3 : place + 7]
                theirs_q[at_q : at_q + 7] = [*q[place : place + 3], *wxyz[1:], wxyz[0]]
                order[at_v : at_v + 6] = range(system.tangent.places["root.tx"], system.tangent.places["root.tx"] + 6)
                body = pin.Quaternion(np.array([*wxyz[1:], wxyz[0]])).matrix()
                turn[at_v : at_v + 3, at_v : at_v + 3] = body.T
                continue
            entry = q[system.tangent.names.index(name)]
            theirs_q[at_q : at_q + joint.nq] = (np.cos(entry), np.sin(entry)) if joint.nq == 2 else entry
            order[at_v] = system.tangent.places[name]
        assert sorted(order) == list(range(system.tangent.nv))
        theirs_v[:] = turn @ v[order]
        pin.crba(model, data, theirs_q)
        M = np.triu(data.M) + np.triu(data.M, 1).T
        mass.add(system.mass_matrix(q)[np.ix_(order, order)], turn.T @ M @ turn)
        weight = pin.computeGeneralizedGravity(model, data, theirs_q).copy()
        gravity.add(gravity_forces(system, q)[order], turn.T @ weight)
        effects = pin.nonLinearEffects(model, data, theirs_q, theirs_v).copy() - weight
        if floating:  # their linear velocity is in axes that turn: its rate has ω × v besides
            at = next(joint.idx_v for joint in list(model.joints)[1:] if joint.nv == 6)
            extra = np.zeros(model.nv)
            extra[at : at + 3] = -np.cross(theirs_v[at + 3 : at + 6], theirs_v[at : at + 3])
            effects = effects + M @ extra
        bias.add(bias_forces(system, q, v)[order], turn.T @ effects)
    return Deviation(mass.over(), gravity.over(SMALL * mass.size), bias.over(SMALL * mass.size))


# MuJoCo ---------------------------------------------------------------------------------------------------------


def stripped(model: Any, system: sm.System) -> Any:
    """The MjModel without what the import says it leaves out."""
    import mujoco

    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS)
    model.body_gravcomp[:] = 0.0
    model.opt.density = model.opt.viscosity = 0.0
    model.jnt_stiffness[model.jnt_type < 2] = 0.0
    model.actuator_forcelimited[:] = 0
    model.jnt_actfrclimited[:] = 0
    for t in range(model.ntendon):
        name = repr(model.tendon(t).name or f"tendon{t}")
        for what, array in (("spring", model.tendon_stiffness), ("damping", model.tendon_damping)):
            if any(line.startswith((f"{what} of tendon {name}", f"tendon {name}:")) for line in system.left_out):
                array[t] = 0.0
    carried = {source.name for source in system.inputs}
    for i in range(model.nu):
        if (model.actuator(i).name or f"motor{i}") not in carried:
            model.actuator_gear[i] = 0.0
    return model


def beside_mujoco(system: sm.System, model: Any) -> Deviation:
    """Deviations from MuJoCo's own quantities; of its model only what the import carries over."""
    import mujoco

    model = stripped(model, system)
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    mass, gravity, bias, forces, ties = Widest(), Widest(), Widest(), Widest(), Widest()
    e = system.expressions
    applied = ca.Function("applied", [e.q, e.v, e.u, e.parameters], [e.force])
    qs, vs = orders(system, model)
    inputs = [i for i in range(model.nu) if (model.actuator(i).name or f"motor{i}") in {s.name for s in system.inputs}]
    names = [model.actuator(i).name or f"motor{i}" for i in inputs]
    assert names == [source.name for source in system.inputs]
    for _ in range(POSES):
        q, v = random_pose(system, rng)
        data.qpos[:], data.qvel[:], data.ctrl[:] = q[qs], 0.0, 0.0
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        mass.add(system.mass_matrix(q)[np.ix_(vs, vs)], M)
        weight, springs = data.qfrc_bias.copy(), data.qfrc_passive.copy()
        gravity.add(gravity_forces(system, q)[vs], weight - springs)
        _add_ties(ties, system, model, data, q, vs)
        data.qvel[:] = v[vs]
        u = np.array([_control(source, rng) for source in system.inputs])
        data.ctrl[inputs] = u
        mujoco.mj_forward(model, data)
        bias.add(bias_forces(system, q, v)[vs], data.qfrc_bias - weight)
        ours = np.asarray(applied(q, v, u, system.parameter_values)).ravel()
        forces.add(ours[vs], data.qfrc_passive - springs + data.qfrc_actuator)
    return Deviation(
        mass.over(), gravity.over(SMALL * mass.size), bias.over(SMALL * mass.size), forces.over(), ties.over()
    )


def _control(source: Any, rng: np.random.Generator) -> float:
    low = -1.0 if source.low is None else source.low
    high = 1.0 if source.high is None else source.high
    return float(rng.uniform(low, high))


def orders(system: sm.System, model: Any) -> tuple[Any, Any]:
    """Where MuJoCo's numbers of poses and velocities stand in ours."""
    qs, vs = [], []
    for j in range(model.njnt):
        owner = int(model.jnt_bodyid[j])
        number = j - int(model.body_jntadr[owner])
        body = model.body(owner).name or f"body{owner}"
        name = model.jnt(j).name or f"{body}.joint{number + 1 if number else ''}"
        kind = int(model.jnt_type[j])
        if kind == 0:
            at, to = system.tangent.names.index(f"{name}.tx"), system.tangent.places[f"{name}.tx"]
            qs += range(at, at + 7)
            vs += range(to, to + 6)
        elif kind == 1:
            at, to = system.tangent.names.index(f"{name}.w"), system.tangent.places[name]
            qs += range(at, at + 4)
            vs += range(to, to + 3)
        else:
            qs.append(system.tangent.names.index(name))
            vs.append(system.tangent.places[name])
    assert sorted(vs) == list(range(system.tangent.nv))
    return np.array(qs, dtype=int), np.array(vs, dtype=int)


def _add_ties(ties: Widest, system: sm.System, model: Any, data: Any, q: Any, vs: Any) -> None:
    """Rows of connections and followers, whose residuals both sides define alike."""
    import mujoco

    if not data.nefc:
        return
    J = data.efc_J.reshape(data.nefc, model.nv) if data.efc_J.size == data.nefc * model.nv else None
    assert J is not None, "set jacobian to dense"
    slopes = system.residuals_slope(q)
    labels = {name: i for i, name in enumerate(system.constraint_names)}
    for row in range(data.nefc):
        if int(data.efc_type[row]) != int(mujoco.mjtConstraint.mjCNSTR_EQUALITY):
            continue
        tie = int(data.efc_id[row])
        name, kind = model.equality(tie).name or f"equality{tie}", int(model.eq_type[tie])
        if kind == int(mujoco.mjtEq.mjEQ_JOINT) and name in labels:
            ties.add(slopes[labels[name]][vs], J[row])
        elif kind == int(mujoco.mjtEq.mjEQ_CONNECT):
            first = next(
                r for r in range(data.nefc) if data.efc_id[r] == tie and data.efc_type[r] == data.efc_type[row]
            )
            label = f"{name}.{'xyz'[row - first]}"
            if label in labels:
                ties.add(-slopes[labels[label]][vs], J[row])
