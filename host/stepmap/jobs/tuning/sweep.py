"""Sweep of two factors on the weights of a plan's feedback: of the whole state, and of its speeds on top of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.estimate.measurement import measurement_model
from stepmap.jobs.job import TrackingJob
from stepmap.jobs.limits import motor_limits
from stepmap.jobs.tuning.closed_loops import Loop, Runs, run
from stepmap.jobs.tuning.margin import End, modulus_margin, steady_gain
from stepmap.jobs.weights import Controller, Noise, speeds_of, state_names
from stepmap.mechanics import System
from stepmap.optimal import Plan
from stepmap.optimal.plan import gains_with_steady_end, held_input
from stepmap.steps import VariationalStep, discretize

NONE = np.zeros(0)


@dataclass(frozen=True)
class Point:
    """What the feedback does with two factors on its weights."""

    state_factor: float
    speed_factor: float
    tracking: float  # RMS distance from the plan, of the masses, or of the coordinates where no mass can travel
    effort: float  # RMS of what feedback adds to the plan's inputs, a part of their ranges
    roughness: float  # RMS second difference of the commands, a part of their ranges
    margin: float  # modulus margin at the plan's end, 0 to 1
    limited: float  # part of the ticks with a command at its limit
    lost: float  # part of the runs that could not go on, or left what they should follow

    @property
    def factors(self) -> tuple[float, float]:
        return self.state_factor, self.speed_factor


@dataclass(frozen=True)
class Sweep:
    """Points by factor: ``points[i][j]`` has the i-th speed factor and the j-th state factor."""

    job: str
    unit: str  # of tracking
    present: Point  # with the factors of the job
    points: tuple[tuple[Point, ...], ...]

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        listed = [asdict(point) for row in self.points for point in row]
        return {"job": self.job, "tracking_unit": self.unit, "present": asdict(self.present), "points": listed}


@dataclass(frozen=True, eq=False)
class Plant:
    """What moves in place of the model: the system with other parameters, and the pose q̄ it starts at, at rest."""

    system: System
    pose: Array


LOST = 1.0  # of the way that the plan goes: a run farther off than this follows nothing


def sweep(
    job: TrackingJob,
    plan: Plan,
    state_factors: Sequence[float],
    speed_factors: Sequence[float],
    plant: Plant | None = None,
    runs: int = 8,
    seed: int = 1,
) -> Sweep:
    """What the feedback of a plan does with every pair of factors in place of the job's own.

    Every law has the same ``runs`` with the noise of the job. A ``plant`` that differs from the model is disturbed by
    that alone; without one the model moves, disturbed by process noise. Raises ModelError where the job has no noise,
    or its end cannot be held.
    """
    if plan.fading:
        raise ModelError(f"the plan's end cannot be held, so there is nothing to tune: {plan.fading}")
    now = job.controller or Controller(None, speeds_of(state_names(job.system)))
    pairs = [(now.state_factor, now.speed_factor), *((a, b) for b in speed_factors for a in state_factors)]
    gains = np.array([_gains(job, plan, replace(now, state_factor=a, speed_factor=b)) for a, b in pairs])
    loop = _loop(job, plan, plant)
    made = run(loop, gains, runs, seed)
    end, span = _end(job, plan, loop), _spans(loop)
    distances, unit = _distances(loop.step, made.x, plan.trajectory.x)
    way = float(_distances(loop.step, plan.trajectory.x[None, None], plan.trajectory.x[:1])[0].max())
    points = [
        _point(pair, made, i, distances[i], span, plan.trajectory.u, way, modulus_margin(end, gains[i, -1], span))
        for i, pair in enumerate(pairs)
    ]
    columns = len(state_factors)
    rows = [tuple(points[1 + i : 1 + i + columns]) for i in range(0, len(points) - 1, columns)]
    return Sweep(job.name, unit, points[0], tuple(rows))


def tuned(job: TrackingJob, state_factor: float, speed_factor: float) -> TrackingJob:
    """The job with these factors on the weights of its feedback."""
    now = job.controller or Controller(None, speeds_of(state_names(job.system)))
    return replace(job, controller=replace(now, state_factor=state_factor, speed_factor=speed_factor))


def tuned_plan(job: TrackingJob, plan: Plan) -> Plan:
    """The plan with the gains of the job's feedback: its trajectory does not depend on them."""
    now = job.controller or Controller(None, speeds_of(state_names(job.system)))
    return replace(plan, gains=_gains(job, plan, now))


def _gains(job: TrackingJob, plan: Plan, controller: Controller) -> Array:
    Q, R, _ = controller.weights(job.weights).matrices
    made, why = gains_with_steady_end(job.step, plan.trajectory, Q, R, NONE)
    if made is NONE:
        raise ModelError(f"weights of the feedback with which the plan's end cannot be held: {why}")
    return made


def _loop(job: TrackingJob, plan: Plan, plant: Plant | None) -> Loop:
    noise, limits = _noise(job), motor_limits(job.system)
    moves = job.step if plant is None else discretize(plant.system, job.dt, forces=job.forces)
    return Loop(
        job.step,
        moves,
        job.filter(),
        plan.trajectory,
        plan.trajectory.x[0] if plant is None else moves.rest(plant.pose, moves.holding_forces(plant.pose)),
        noise.process if plant is None else np.zeros(job.step.ndx),
        noise.measurement,
        noise.start,
        None if limits is None else limits.on(job.step),
    )


def _noise(job: TrackingJob) -> Noise:
    if job.noise is None:
        raise ModelError(f"job {job.name!r} has no table [noise]", hint="Add it: feedback acts on what a filter sees.")
    return job.noise


def _end(job: TrackingJob, plan: Plan, loop: Loop) -> End:
    """The plan's end, with the steady gain of a Kalman filter that has the job's noise, whatever filter it names."""
    x, noise = plan.trajectory.x[-1], _noise(job)
    at = job.step.linearize(x, held_input(job.step, x, plan.trajectory.u[-1]))
    seen = measurement_model(job.step).readings_slope(x)
    H = np.zeros((len(seen), job.step.ndx))
    H[:, : seen.shape[1]] = seen
    gain = steady_gain(at.A, H, np.diag(noise.process**2), np.diag(noise.measurement**2), np.diag(noise.start**2))
    return End(at.A, at.B, H, gain)


def _spans(loop: Loop) -> Array:
    """The range of each input; of one without limits, what the plan uses of it."""
    used = np.ptp(loop.trajectory.u, axis=0)
    span = np.full(len(used), np.inf) if loop.bounds is None else loop.bounds.span
    own = np.where(np.isfinite(span), span, used)
    return np.where(own > 0, own, 1.0)


def _distances(step: VariationalStep, x: Array, along: Array) -> tuple[Array, str]:
    """Distances (…, N + 1) of states from those of a plan, RMS over the bodies; else over the coordinates."""
    system, pose = step.system, step.layout.pose
    bodies = [body.frame.index for body in system.bodies]
    shape, flat = x.shape[:-1], x.reshape(-1, x.shape[-1])
    if bodies:
        here = system.positions(pose(flat))[:, bodies].reshape(*shape, len(bodies), -1)
        there = system.positions(pose(along))[:, bodies]
        if np.ptp(here.reshape(-1, len(bodies), here.shape[-1]), axis=0).max() > 1e-9:
            return np.sqrt(np.mean(np.sum((here - there) ** 2, axis=-1), axis=-1)), "m"
    off = system.tangent.difference(pose(along), pose(x))[..., : step.nd]
    units = {unit for _, unit in system.tangent.entries[: step.nd]}
    return np.sqrt(np.mean(off**2, axis=-1)), units.pop() if len(units) == 1 else ""


def _point(
    pair: tuple[float, float],
    made: Runs,
    i: int,
    distances: Array,
    span: Array,
    planned: Array,
    way: float,
    margin: float,
) -> Point:
    u = made.u[i] / span
    added, second = u - planned / span, np.diff(u, 2, axis=1)
    lost = made.lost[i] | (distances.max(axis=-1) > LOST * way)
    return Point(
        *pair,
        tracking=_rms(distances),
        effort=_rms(added),
        roughness=_rms(second),
        margin=margin,
        limited=float(made.limited[i].mean()),
        lost=float(lost.mean()),
    )


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))
