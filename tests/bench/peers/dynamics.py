"""A mechanism of ours in MuJoCo and in Pinocchio: the same joints, masses and dampings, frame by frame.

Strings are tendons with an upper limit in MuJoCo, soft as it has them, their far ends held still; Pinocchio's forward
dynamics have none. What is measured is one step of MuJoCo's own rollouts, one call of Pinocchio's ``aba`` and
``computeABADerivatives`` from Python (about 1 µs of it), and of ``mjd_transitionFD``. Where one is not installed there
is no entry of it.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

import stepmap as sm
from stepmap.mechanics.constraints import Distance
from stepmap.mechanics.forces import Damping
from stepmap.mechanics.frames import Frame

Array = NDArray[np.float64]
Timed = dict[str, dict[str, float]]  # work -> name of the peer -> CPU seconds
STEPS = 300
ROUNDS = 12
AGREES = 1e-9
PEERS = {"mujoco": "MuJoCo", "pinocchio": "Pinocchio"}


def missing() -> list[str]:
    """Names of peers that are not installed."""
    return [name for module, name in PEERS.items() if importlib.util.find_spec(module) is None]


def number(system: sm.System, value: Any) -> Array:
    f = ca.Function("value", [system.expressions.parameters], [value])
    return np.asarray(f(system.parameter_values), dtype=float)


def fixed(system: sm.System, frame: Frame) -> tuple[Array, Array]:
    """Rotation and displacement of a frame that no coordinate moves."""
    motion = frame.motion
    assert motion is not None
    if motion.kind == "se3":
        R, t = motion.value
        return number(system, R), number(system, t).ravel()
    by, axis = float(number(system, motion.value).item()), np.eye(3)[motion.axis]
    if motion.kind[0] == "t":
        return np.eye(3), by * axis
    K = np.cross(np.eye(3), axis).T
    return np.eye(3) + np.sin(by) * K + (1 - np.cos(by)) * K @ K, np.zeros(3)


def bodies(system: sm.System) -> dict[int, tuple[float, Array]]:
    """Mass and inertia by the frame they sit in."""
    return {
        b.frame.index: (float(number(system, b.mass).item()), number(system, b.inertia).reshape(3, 3))
        for b in system.bodies
    }


def moved(frame: Frame, system: sm.System) -> str | None:
    """The dynamic coordinate that moves a frame."""
    by = frame.motion.coordinate if frame.motion else None
    return by.name if by is not None and by.name in {c.name for c in system.dynamic} else None


# Pinocchio ----------------------------------------------------------------------------------------------------------


def in_pinocchio(system: sm.System) -> Any:
    """One joint per coordinate."""
    import pinocchio as pin

    kinds = {"tx": "PX", "ty": "PY", "tz": "PZ", "rx": "RX", "ry": "RY", "rz": "RZ"}
    model, masses = pin.Model(), bodies(system)
    model.gravity.linear = number(system, ca.vertcat(*system.gravity)).ravel()
    at: dict[int, tuple[int, Any]] = {}  # frame -> joint and placement in it
    for frame in system.frames:
        joint, place = (0, pin.SE3.Identity()) if frame.parent is None else at[frame.parent.index]
        name = moved(frame, system)
        if name is not None:
            made = getattr(pin, "JointModel" + kinds[frame.motion.kind])()  # type: ignore[union-attr]
            joint, place = model.addJoint(joint, made, place, name), pin.SE3.Identity()
        elif frame.parent is not None and frame.motion.coordinate is None:  # type: ignore[union-attr]
            place = place * pin.SE3(*fixed(system, frame))
        at[frame.index] = joint, place
        if frame.index in masses:
            mass, inertia = masses[frame.index]
            model.appendBodyToJoint(joint, pin.Inertia(mass, np.zeros(3), inertia), place)
    return model


def time_pinocchio(step: sm.VariationalStep, path: sm.Trajectory) -> Timed:
    import pinocchio as pin

    system = step.system
    model = in_pinocchio(system)
    data = model.createData()
    order = [system.tangent.names.index(name) for name in model.names[1:]]
    q, v = path.x[STEPS // 2, : step.nd][order], np.full(model.nv, 0.1)
    M = pin.crba(model, data, q)
    M = np.triu(M) + np.triu(M, 1).T
    agree(system, path, order, M)
    tau = np.zeros(model.nv)
    return {
        "rollout": {"Pinocchio aba": best(lambda: [pin.aba(model, data, q, v, tau) for _ in range(200)]) / 200},
        "linearize_along": {
            "Pinocchio computeABADerivatives": best(
                lambda: [pin.computeABADerivatives(model, data, q, v, tau) for _ in range(100)]
            )
            / 100
        },
    }


# MuJoCo -------------------------------------------------------------------------------------------------------------


def in_mujoco(step: sm.VariationalStep, pose: Array) -> Any:
    """Coordinates that follow one another without an offset are joints of one body; strings are limited tendons."""
    import mujoco

    system, spec = step.system, mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep = step.dt
    spec.option.gravity = number(system, ca.vertcat(*system.gravity)).ravel()
    masses = bodies(system)
    damping = {
        f.coordinate.name: float(number(system, f.coefficient).item()) for f in system.forces if isinstance(f, Damping)
    }
    children: dict[int, list[Frame]] = {}
    for frame in system.frames[1:]:
        children.setdefault(frame.parent.index, []).append(frame)  # type: ignore[union-attr]
    parts: dict[str, tuple[Any, list[tuple[float, Array, Array, Array]]]] = {}
    at: dict[int, tuple[Any, Array, Array, bool]] = {0: (spec.worldbody, np.eye(3), np.zeros(3), False)}
    for frame in system.frames[1:]:
        body, R, t, open_ = at[frame.parent.index]  # type: ignore[union-attr]
        name = moved(frame, system)
        if name is not None:
            if not open_ or len(children[frame.parent.index]) > 1:  # type: ignore[union-attr]
                body, R, t = body.add_body(name=f"body_{name}", pos=t, quat=quaternion(R)), np.eye(3), np.zeros(3)
            kind = mujoco.mjtJoint.mjJNT_SLIDE if frame.motion.kind[0] == "t" else mujoco.mjtJoint.mjJNT_HINGE  # type: ignore[union-attr]
            joint = body.add_joint(name=name, type=kind, axis=np.eye(3)[frame.motion.axis])  # type: ignore[union-attr]
            joint.damping = [damping.get(name, 0.0), 0.0, 0.0]
            at[frame.index] = body, R, t, True
        else:
            by = frame.motion.coordinate  # type: ignore[union-attr]
            turn, shift = (np.eye(3), held(frame, pose, system)) if by is not None else fixed(system, frame)
            R, t = R @ turn, t + R @ shift
            at[frame.index] = body, R, t, False
        if frame.index in masses:
            parts.setdefault(body.name, (body, []))[1].append((*masses[frame.index], R, t))
            at[frame.index] = body, R, t, False
    for body, of in parts.values():
        add_mass(body, of)
    for c in system.constraints:
        assert isinstance(c, Distance)
        tendon = spec.add_tendon(name=c.name, limited=True)
        length = pose[system.tangent.names.index(c.length.name)]
        tendon.range = [0.0, float(length)]
        for end, which in ((c.a, "a"), (c.b, "b")):
            body, _, t, _ = at[end.index]
            body.add_site(name=f"{c.name}_{which}", pos=t)
            tendon.wrap_site(f"{c.name}_{which}")
    return spec.compile()


def held(frame: Frame, pose: Array, system: sm.System) -> Array:
    """The displacement by a kinematic coordinate, where it is."""
    motion = frame.motion
    assert motion is not None
    assert motion.kind[0] == "t"
    assert motion.coordinate is not None
    out: Array = pose[system.tangent.names.index(motion.coordinate.name)] * np.eye(3)[motion.axis]
    return out


def add_mass(body: Any, parts: list[tuple[float, Array, Array, Array]]) -> None:
    """All masses (mass, inertia, R, t) on one body as one; no points: MuJoCo wants all of them to have extent."""
    mass = sum(part[0] for part in parts)
    center = sum(m * t for m, _, _, t in parts) / mass
    full = 1e-9 * np.eye(3)
    for m, inertia, R, t in parts:
        d = t - center
        full += R @ inertia @ R.T + m * (d @ d * np.eye(3) - np.outer(d, d))
    body.mass, body.ipos, body.explicitinertial = mass, center, True
    body.fullinertia = [full[0, 0], full[1, 1], full[2, 2], full[0, 1], full[0, 2], full[1, 2]]


def quaternion(R: Array) -> Array:
    import mujoco

    out = np.zeros(4)
    mujoco.mju_mat2Quat(out, np.ascontiguousarray(R).ravel())
    return out


def time_mujoco(step: sm.VariationalStep, path: sm.Trajectory) -> Timed:
    import mujoco
    from mujoco import rollout

    system = step.system
    model = in_mujoco(step, path.x[0, : step.layout.nq])
    data = mujoco.MjData(model)
    order = [system.tangent.names.index(model.joint(j).name) for j in range(model.njnt)]
    data.qpos[:] = path.x[STEPS // 2, : step.nd][order]
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    agree(system, path, order, M)
    data.qpos[:] = path.x[0, : step.nd][order]
    data.qvel[:] = 0.0
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    state = np.zeros((1, size))
    mujoco.mj_getState(model, data, state[0], mujoco.mjtState.mjSTATE_FULLPHYSICS)
    n = 2 * model.nv
    A = np.zeros((n, n))
    found: Timed = {"rollout": {}, "linearize_along": {}}
    kinds = {"Euler": mujoco.mjtIntegrator.mjINT_EULER, "implicit": mujoco.mjtIntegrator.mjINT_IMPLICIT}
    for name, kind in kinds.items():
        model.opt.integrator = kind
        run = partial(rollout.rollout, model, [data], state, nstep=STEPS)
        found["rollout"][f"MuJoCo {name}"] = best(run) / STEPS
    derive = partial(mujoco.mjd_transitionFD, model, data, 1e-6, True, A, None, None, None)
    found["linearize_along"]["MuJoCo mjd_transitionFD"] = best(derive)
    return found


# both ---------------------------------------------------------------------------------------------------------------


def agree(system: sm.System, path: sm.Trajectory, order: list[int], M: Array) -> None:
    """Their mass matrix is ours, or what is compared are different mechanisms."""
    ours = system.mass_matrix(path.x[STEPS // 2, : len(system.tangent.names)])[np.ix_(order, order)]
    off = np.abs(ours - M).max() / np.abs(ours).max()
    if off > AGREES:
        raise AssertionError(f"{system.name}: mass matrices differ by {off:.2g} of the largest entry")


def best(call: Callable[[], object]) -> float:
    """CPU seconds of this thread, the best of several rounds."""
    out = np.inf
    for _ in range(ROUNDS):
        start = time.thread_time()
        call()
        out = min(out, time.thread_time() - start)
    return float(out)


def timings(step: sm.VariationalStep, path: sm.Trajectory) -> Iterator[tuple[str, str, float]]:
    """(work, peer, CPU seconds) of the peers that are installed."""
    gone = missing()
    for name, measure in (("MuJoCo", time_mujoco), ("Pinocchio", time_pinocchio)):
        if name not in gone:
            for work, times in measure(step, path).items():
                for peer, seconds in times.items():
                    yield work, peer, seconds
