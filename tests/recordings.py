"""Runs of plants that are not the map that is fitted: a step sixteen times shorter, other parameters, seeded noise."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import stepmap as sm
from stepmap.jobs.weights import Noise
from stepmap.steps.variational import VariationalStep

FINER = 16


def held(U: np.ndarray, before: np.ndarray, delay: float, dt: float) -> np.ndarray:
    """Inputs (FINER N, nu) of the fine plant: kinematic coordinates go evenly from one command to the next, late."""
    t = (np.arange(FINER * len(U)) + 1.0) * dt / FINER - delay
    knots = dt * np.arange(len(U) + 1)
    path = np.vstack([before, U])
    return np.array([np.interp(t, knots, column) for column in path.T]).T


def hanging(
    plan: sm.Trajectory,
    job: SimpleNamespace,
    seed: int,
    *,
    delay: float = 0.0,
    steps: int | None = None,
    **truth: float,
) -> sm.Observed:
    """The mass on its string with other parameters, along the commands of a plan."""
    rng = np.random.default_rng(seed)
    U = plan.u[:steps]
    system = job.step.system.with_parameters(**truth)
    fine = sm.discretize(system, job.step.dt / FINER)
    before = job.step.layout.hold(plan.x[0])
    pose = system.satisfy_constraints({"xm": 0.03, "ym": 0.25, "xr": before[0], "r": before[1]}, ["xr", "r"])
    path = fine.rollout(fine.rest(pose), held(U, before, delay, job.step.dt))
    Z = np.asarray(system.readings(path.x[::FINER, :4]))
    Z = Z + rng.normal(size=Z.shape) * job.noise.measurement
    return sm.Observed(job.step.dt, U, Z, before=before, guess=plan.x[: len(Z)], name=f"run {seed}")


def balanced(job: SimpleNamespace, seed: int, steps: int = 150, *, gain: float = 1.0, **truth: float) -> sm.Observed:
    """A cart that holds its pendulum upright while it is pushed to and fro, with other parameters."""
    rng = np.random.default_rng(seed)
    step: VariationalStep = job.step
    system = step.system.with_parameters(**truth)
    fine = sm.discretize(system, step.dt / FINER)
    upright = {"theta": np.pi}
    x0 = step.rest(upright)
    still = sm.Trajectory(step.dt * np.arange(400), np.tile(x0, (400, 1)), np.zeros((399, 1)))
    K = sm.lqr(step, still, np.diag([10.0, 100.0, 0.1, 0.1]), 1e-3 * np.eye(1), np.diag([10.0, 100.0, 0.1, 0.1]))[0]
    x, Z, U = fine.rest(upright), [], []
    for k in range(steps + 1):
        Z.append(np.asarray(system.readings(x[:2])) + rng.normal(size=2) * job.noise.measurement)
        if k == steps:
            break
        seen = np.concatenate([x[:2], step.from_velocity(x[:2], fine.velocity(x))[2:]])
        push = 8.0 * np.sin(2.9 * k * step.dt) + 5.0 * np.sin(7.3 * k * step.dt)
        U.append(-K @ step.layout.difference(x0, seen) + push)
        x = fine.rollout(x, gain * np.tile(U[-1], (FINER, 1))).x[-1]
    return sm.Observed(step.dt, np.array(U), np.array(Z), before=np.zeros(1), guess=x0, name=f"cart {seed}")


def job_of(
    step: VariationalStep, measurement: list[float], start: list[float], process: list[float]
) -> SimpleNamespace:
    """What identification asks of a job."""
    return SimpleNamespace(step=step, noise=Noise(np.array(process), np.array(measurement), np.array(start), None))
