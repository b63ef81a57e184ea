"""A mass whose height alone is seen: sixty runs each of the Kalman filter and of particle filters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.estimate import ExtendedKalmanFilter, ParticleFilter
from stepmap.estimate.particle import Particles
from stepmap.figures.published import Progress, Published
from stepmap.mechanics import Builder, System
from stepmap.steps import VariationalStep, discretize

DT, STEPS, RUNS = 1 / 30, 150, 60
LOST = 0.1  # m off at the end
Q = np.diag([0, 0, 1e-6, 1e-6, 4e-6, 4e-6, 1e-8, 1e-8])
R = np.diag([1e-4, 1e-6, 1e-6])
P0 = np.diag([0.25, 0.02, 1e-6, 1e-6, 4e-4, 4e-4, 1e-6, 1e-6])
WAYS: dict[str, tuple[Any, dict[str, int]]] = {
    "extended Kalman filter": (ExtendedKalmanFilter, {}),
    "200 particles": (ParticleFilter, {"particles": 200}),
    "1000 particles": (ParticleFilter, {"particles": 1000}),
}
ASSUMPTIONS = (
    "suspended mass of 0.1 kg on about 1 m; a camera sees its height to 10 mm, encoders "
    "the robot and the string to 1 mm",
    "each run starts at rest 0.15 to 0.6 rad to one side; the filter starts below the robot, 0.5 m uncertain",
    "the robot drives to and fro by 0.15 m; process noise of 2 g m/s per step on the momenta; 30 Hz, 5 s",
    "lost: 0.1 m or more off after 5 s",
)


@dataclass(frozen=True, eq=False)
class Run:
    """Where the mass was and where it was believed to be (times), and the cloud, where there is one."""

    true: Array
    believed: Array
    cloud: list[tuple[Array, Array]]  # x of the particles and their weights


def seen_from_above() -> System:
    """The suspended mass of which only the height and the robot's encoders are seen: left and right look the same."""
    b = Builder("height_only")
    x, y = b.coordinate("x", unit="m"), b.coordinate("y", unit="m")
    robot = b.coordinate("robot", unit="m", kinematic=True)
    length = b.coordinate("length", unit="m", kinematic=True, start=1.0)
    mass, hook = b.world.tx(x).ty(y, name="mass"), b.world.tx(robot).ty(1.0, name="hook")
    b.mass(mass, 0.1)
    b.gravity((0, -9.81, 0))
    b.distance(hook, mass, length)
    b.marker(mass, axes="y")
    b.encoder(robot)
    b.encoder(length)
    return b.build()


def run(step: VariationalStep, made: Any, number: int) -> Run:
    """One run of a filter; its noise follows from its number."""
    rng, system = np.random.default_rng(number), step.system
    angle = rng.uniform(0.15, 0.6) * rng.choice([-1, 1])
    x = step.rest({"x": np.sin(angle), "y": 1 - np.cos(angle)})
    U = np.tile(step.layout.hold(x), (STEPS, 1))
    t = DT * np.arange(STEPS)
    U[:, 0] += 0.15 * np.sin(2 * t + rng.uniform(0, 6)) * np.minimum(1, t)
    belief = made.start(step.rest({}), P0)
    true, believed, cloud = [x[0]], [made.estimate(belief).x[0]], []
    for u in U:
        x[4:6] += rng.normal(0, 2e-3, 2)
        x = step.step(x, u).x
        z = system.readings(x[:4]) + rng.normal(0, np.sqrt(np.diag(R)))
        belief, _ = made.update(made.predict(belief, u), z)
        true.append(x[0])
        believed.append(made.estimate(belief).x[0])
        if isinstance(belief, Particles):
            cloud.append((belief.x[:, 0], belief.weights))
    return Run(np.array(true), np.array(believed), cloud)


def make(progress: Progress) -> Published:
    """The figure."""
    step = discretize(seen_from_above(), DT)
    errors: dict[str, Array] = {}
    cost: dict[str, float] = {}
    for i, (name, (kind, options)) in enumerate(WAYS.items()):
        made, off, begin = kind(step, Q, R, **options), [], time.process_time()
        for number in range(RUNS):
            progress((i + number / RUNS) / (len(WAYS) + 0.2), f"{name}, run {number + 1}")
            found = run(step, made, number)
            off.append(np.abs(found.believed - found.true))
        errors[name], cost[name] = np.array(off), 1e3 * (time.process_time() - begin) / (RUNS * STEPS)
    counts = {name: int((off[:, -1] >= LOST).sum()) for name, off in errors.items()}
    return Published(
        title="Which side is the mass on?",
        source="Schultz & Murphey, future work",
        caption="Left: a run in which the Kalman filter chose the wrong side; the cloud covers both until the motion "
        "tells. Right: runs that are 0.1 m or more off, over time.",
        figure=_draw(step, errors),
        rows=[
            {"t": DT * k, **{name: int((off[:, k] >= LOST).sum()) for name, off in errors.items()}}
            for k in range(STEPS + 1)
        ],
        key_figures=[
            (name, f"{counts[name]} of {RUNS} runs lost, {cost[name]:.2f} ms of CPU per step with its plant")
            for name in WAYS
        ],
        assumptions=ASSUMPTIONS,
    )


def _draw(step: VariationalStep, errors: dict[str, Array]) -> Any:
    from stepmap.plots.style import COLORS, INK, blank, styled

    off = {name: values[:, -1] >= LOST for name, values in errors.items()}
    first, *_, last = WAYS
    wrong = np.flatnonzero(off[first] & ~off[last])
    number = int(wrong[0]) if len(wrong) else 0
    runs = {name: run(step, WAYS[name][0](step, Q, R, **WAYS[name][1]), number) for name in (first, last)}
    t = DT * np.arange(STEPS + 1)
    with styled():
        figure = blank(9.0, 3.8)
        left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
        for k, (x, weights) in enumerate(runs[last].cloud, start=1):
            size = 60 * weights / weights.max() / len(weights) ** 0.5
            left.scatter(np.full(len(x), t[k]), x, s=size, color=COLORS[4], alpha=0.25, linewidths=0, zorder=1)
        left.plot(t, runs[first].true, color=INK, linewidth=2.2, label="true")
        left.plot(t, runs[first].believed, color=COLORS[1], label="Kalman")
        left.plot(t, runs[last].believed, color=COLORS[0], linestyle="--", label=last)
        left.set_ylim(-1.1, 1.1)
        left.set_xlabel("time [s]")
        left.set_ylabel("place of the mass [m]")
        left.set_title(f"run {number}")
        left.legend(loc="upper right", ncols=3)
        for color, (name, values) in zip((COLORS[1], COLORS[4], COLORS[0]), errors.items(), strict=True):
            right.plot(t, (values >= LOST).sum(axis=0), color=color, label=name)
        right.set_xlabel("time [s]")
        right.set_ylabel(f"runs off, of {RUNS}")
        right.set_ylim(0, RUNS)
        right.legend(loc="upper right")
    return figure
