"""Mechanisms that several tests use, and states worth testing at."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

import stepmap as sm

DT = 0.01
LARGEST = "marionette"
"""Of the catalog. Second derivatives of its Euler step compile for 25 s: one kind of step shows what size does."""
LARGE = (LARGEST, "tendon_hand")


@dataclass(frozen=True)
class Case:
    """A system of the catalog with both its steps, and a state in full motion."""

    name: str
    system: sm.System
    midpoint: sm.VariationalStep
    euler: sm.EulerStep
    x: np.ndarray
    u: np.ndarray

    @property
    def forces(self) -> int:
        return len(self.system.inputs)

    @property
    def nq(self) -> int:
        """Stored numbers of q̄."""
        return len(self.system.coordinates)

    @property
    def pose(self) -> np.ndarray:
        return self.x[: self.nq]

    @functools.cached_property
    def velocity(self) -> np.ndarray:
        return self.midpoint.velocity(self.x)

    @functools.cached_property
    def euler_point(self) -> tuple[np.ndarray, np.ndarray]:
        """The same motion for the Euler step, with some acceleration of the kinematic coordinates."""
        rho_rate2 = np.random.default_rng(3).normal(0.0, 0.3, self.midpoint.nk)
        return self.euler.pack(self.pose, self.velocity), np.concatenate([self.u[: self.forces], rho_rate2])

    @property
    def points(self) -> tuple[tuple[sm.StepMap, np.ndarray, np.ndarray], ...]:
        """Both steps, each with a state and an input; of large systems the midpoint step alone."""
        midpoint = (self.midpoint, self.x, self.u)
        return (midpoint,) if self.name in LARGE else (midpoint, (self.euler, *self.euler_point))


@functools.cache
def cataloged(name: str) -> sm.System:
    """A system of the catalog, made once per process: modules that are imported ask all of them for what they have."""
    return sm.systems.get(name)


@functools.cache
def case(name: str) -> Case:
    system = cataloged(name)
    midpoint = sm.discretize(system, DT)
    x, u = in_motion(midpoint, system.satisfy_constraints(sm.systems.example(name)))
    return Case(name, system, midpoint, sm.euler(system, DT), x, u)


def in_motion(step: sm.VariationalStep, pose: np.ndarray, steps: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """A state and an input after some steps from rest under random forces, the kinematic coordinates swinging 5 cm."""
    rng = np.random.default_rng(1)
    phase = 2 * step.dt * np.arange(1, steps + 2)[:, None]
    rho = pose[len(step.system.dynamic) :] + 0.05 * np.sin(phase) * rng.uniform(0.3, 1.0, step.nk)
    U = np.hstack([rng.normal(size=(steps + 1, len(step.system.inputs))), rho])
    return step.rollout(step.rest(pose), U[:-1]).x[-1], U[-1]


def hold(step: sm.VariationalStep, x: np.ndarray, forces: float = 0.0) -> np.ndarray:
    """The input that keeps the kinematic coordinates where they are."""
    return np.concatenate([np.full(len(step.system.inputs), forces), step.unpack(x).rho])


def generalized_force(system: sm.System, q: ArrayLike, v: ArrayLike, u: ArrayLike = ()) -> np.ndarray:
    """Forces without a potential on the dynamic coordinates, from the system's expressions."""
    e = system.expressions
    evaluate = ca.Function("force", [e.q, e.v, e.u, e.parameters], [e.force])
    return np.asarray(evaluate(q, v, np.asarray(u, dtype=float), system.parameter_values))[:, 0]


def furuta() -> sm.System:
    """A rotary arm, turned by a torque about the vertical, with a pendulum at its end (Furuta)."""
    b = sm.Builder("furuta")
    phi, theta = (b.coordinate(name, unit="rad") for name in ("phi", "theta"))
    torque = b.input("torque", unit="N m")
    arm = b.world.ry(phi, name="motor")
    b.mass(arm, 0.1, inertia=(0, 2e-3, 0))
    bob = arm.tx(0.2, name="tip").rx(theta, name="pivot").ty(-0.25, name="bob")
    b.mass(bob, 0.1)
    b.gravity((0, -9.81, 0))
    b.damping(phi, 1e-3)
    b.damping(theta, 2e-4)
    b.drive(phi, torque)
    b.encoder(phi)
    b.encoder(theta)
    return b.build()


def pushed_crane() -> sm.System:
    """A trolley that follows a plan and a load that swings below it, with a torque at the cable's top."""
    b = sm.Builder("pushed_crane")
    x = b.coordinate("x", unit="m", kinematic=True)
    theta = b.coordinate("theta", unit="rad")
    torque = b.input("torque", unit="N m")
    load = b.world.tx(x, name="trolley").rz(theta, name="cable").ty(-1.0, name="load")
    b.mass(load, 2.0)
    b.gravity((0, -9.81, 0))
    b.damping(theta, 0.1)
    b.drive(theta, torque)
    return b.build()


def require_copied(step: sm.StepMap, A: np.ndarray, B: np.ndarray) -> None:
    """Raises where derivatives are not those of a map that copies what its layout says."""
    known = step.layout.copied
    if known is None:
        return
    nd, nk = known
    forces, y = B.shape[1] - nk, known.without_rates
    assert y + nk == step.ndx
    kept = np.zeros((nk, step.ndx + B.shape[1]))
    kept[:, step.ndx + forces :] = np.eye(nk)
    np.testing.assert_array_equal(np.hstack([A, B])[nd : nd + nk], kept)
    kept[:, nd : nd + nk] = -np.eye(nk)
    np.testing.assert_allclose(np.hstack([A, B])[y:], kept / step.dt, rtol=1e-12)
    assert not A[:, y:].any()
