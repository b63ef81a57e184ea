"""Schultz & Murphey, Fig. 3: error of an extended Kalman filter against its time step.

The paper does not state its noise, mass or trajectory; ASSUMPTIONS is what is used here, and the figure prints it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np

from stepmap import systems
from stepmap.arrays import Array
from stepmap.estimate import Belief, ExtendedKalmanFilter
from stepmap.figures.published import Progress, Published
from stepmap.steps import EulerStep, VariationalStep, discretize, euler

HERTZ = (100, 80, 60, 50, 40, 30, 20, 15, 10)
CURVES = {
    "variational": "variational",
    "euler": "Euler",
    "expm": "matrix exponential",
    "euler_known_rho": "Euler, rho known",
}
TRIALS = 1000
CHUNK = 250  # trials a task
DURATION = 10.0
MASS = 0.1
SIGMA_Q, SIGMA_V, SIGMA_Z = 1e-3, 20e-3, 10e-3  # m, m/s, m

ASSUMPTIONS = (
    "robot x_r = 0.3 sin(2t)(1 − e^−t) m, string r = 1 + 0.2 sin(1.3t)(1 − e^−t) m, 10 s, mass 0.1 kg, from rest",
    "predictions are the nominal states plus N(0, Q), linearized about the present estimate; "
    "measurements are all of q̄ plus N(0, R)",
    "σ of a prediction: 1 mm on q̄, 20 mm/s on velocities (momentum: mass times that); of a measurement: 10 mm; P0 = Q",
    "a trial's error: L2 norm over [x_m, y_m, x_r, r], mean over time; "
    "points are means over trials, bars one standard deviation",
    "variational: exact linearization of the discrete map; Euler: I + dt ∂f/∂x with state [q̄, velocity]; "
    "matrix exponential: exp(dt ∂f/∂x); rho known: Euler with x_r and r given instead of estimated",
)


@dataclass(frozen=True)
class Task:
    """Some trials of one curve at one frequency."""

    curve: str
    hertz: int
    trials: int
    seed: int


def make(progress: Progress, trials: int = TRIALS) -> Published:
    """The figure, from that many trials a point."""
    rows = table(progress, trials)
    at_30 = next(row for row in rows if row["hz"] == 30)
    ratio = at_30["euler_mean_mm"] / at_30["variational_mean_mm"]
    return Published(
        title="Error of an extended Kalman filter against its time step",
        source="Schultz & Murphey, Fig. 3",
        caption=f"Mean over {trials} trials and one standard deviation of them; the dashed line is a Kinect's 30 Hz.",
        figure=_draw(rows),
        rows=rows,
        key_figures=[
            ("variational at 30 Hz", f"{at_30['variational_mean_mm']:.2f} mm"),
            ("Euler at 30 Hz", f"{at_30['euler_mean_mm']:.2f} mm, {ratio:.2f} times as much"),
        ],
        assumptions=ASSUMPTIONS,
    )


def table(progress: Progress, trials: int = TRIALS) -> list[dict[str, Any]]:
    """A row a frequency: hz, and mean and standard deviation [mm] of each curve."""
    norms: dict[tuple[int, str], list[Array]] = defaultdict(list)
    work = tasks(trials)
    weight = sum(task.hertz for task in work)
    done = 0
    for task, errors_of_task in run(work):
        norms[task.hertz, task.curve].append(errors_of_task)
        done += task.hertz
        progress(done / weight, f"{trials} trials at {task.hertz} Hz")
    rows = []
    for hertz in HERTZ:
        row: dict[str, Any] = {"hz": hertz}
        for curve in CURVES:
            millimetres = 1e3 * np.concatenate(norms[hertz, curve])
            row[f"{curve}_mean_mm"] = float(millimetres.mean())
            row[f"{curve}_std_mm"] = float(millimetres.std(ddof=1))
        rows.append(row)
    return rows


def tasks(trials: int = TRIALS) -> list[Task]:
    """All work, longest first; the trials of one seed see the same noise on every curve."""
    sizes = [min(CHUNK, trials - i) for i in range(0, trials, CHUNK)]
    return [Task(c, h, n, seed) for h in HERTZ for seed, n in enumerate(sizes) for c in CURVES]


def run(work: list[Task], workers: int | None = None) -> Iterator[tuple[Task, Array]]:
    """Each task with the error norms [m] of its trials, on all cores."""
    count = workers or os.cpu_count() or 1
    _maps(work[0].hertz)  # build before the workers ask for it
    if count == 1:
        yield from ((task, errors(task)) for task in work)
        return
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        yield from zip(work, pool.map(errors, work), strict=True)


def errors(task: Task) -> Array:
    """Error norms [m] of the trials of a task."""
    midpoint, explicit = _maps(task.hertz)
    nominal, inputs = _nominal(midpoint, task.curve)
    model = midpoint if task.curve == "variational" else explicit
    sigma = _sigma(task.curve)
    ekf = ExtendedKalmanFilter(model, np.diag(sigma**2), np.eye(4) * SIGMA_Z**2, constraint_projection=False)
    discrete: Callable[[Array], Array] = _exponential if task.curve == "expm" else np.asarray
    rng = np.random.default_rng([task.hertz, task.seed])
    belief = ekf.start(nominal[0] + _noise(rng, task.trials, sigma), ekf.process)
    total = np.zeros(task.trials)
    for k, u in enumerate(inputs):
        A = discrete(ekf.transition(belief.x, u)[1])
        predicted = nominal[k + 1] + _noise(rng, task.trials, sigma)
        z = nominal[k + 1, :4] + SIGMA_Z * rng.standard_normal((task.trials, 4))
        belief, _ = ekf.update(Belief(predicted, ekf.spread(A, belief.P)), z)
        total += np.linalg.norm(belief.x[:, :4] - nominal[k + 1, :4], axis=1)
    return total / len(inputs)


def _noise(rng: np.random.Generator, trials: int, sigma: Array) -> Array:
    noise: Array = sigma * rng.standard_normal((trials, len(sigma)))
    return noise


def _sigma(curve: str) -> Array:
    """Standard deviations of a prediction; [q, rho, p, v] or [q, rho, q̇, rhȯ]."""
    velocity = MASS * SIGMA_V if curve == "variational" else SIGMA_V
    rho = 0.0 if curve == "euler_known_rho" else 1.0
    return np.array([SIGMA_Q] * 2 + [rho * SIGMA_Q] * 2 + [velocity] * 2 + [rho * SIGMA_V] * 2)


@cache
def _maps(hertz: int) -> tuple[VariationalStep, EulerStep]:
    system = systems.get("suspended_mass", mass=MASS)
    return discretize(system, 1 / hertz), euler(system, 1 / hertz)


def _nominal(midpoint: VariationalStep, curve: str) -> tuple[Array, Array]:
    """States (N+1, 8) and inputs (N, 2) of the nominal motion in the coordinates of a curve's model."""
    steps = round(DURATION / midpoint.dt)
    rho, rate, rate2 = _prescribed(midpoint.dt * np.arange(steps + 1))
    motion = midpoint.rollout(midpoint.rest({}), rho[1:])
    if curve == "variational":
        return motion.x, motion.u
    # A midpoint state's v is the last step's; the continuous state takes the velocities of this moment.
    velocity = midpoint.velocity(np.concatenate([motion.x[:, :6], rate], axis=1))
    return np.concatenate([motion.x[:, :4], velocity], axis=1), rate2[:-1]


def _prescribed(t: Array) -> tuple[Array, Array, Array]:
    """rho(t) = [x_r, r] with its first and second derivative, each (N+1, 2)."""
    columns = [np.stack(_swell(t, amplitude, omega)) for amplitude, omega in ((0.3, 2.0), (0.2, 1.3))]
    rho, rate, rate2 = np.stack(columns, axis=2)
    return rho + np.array([0.0, 1.0]), rate, rate2


def _swell(t: Array, amplitude: float, omega: float) -> tuple[Array, Array, Array]:
    """a sin(ωt)(1 − e^−t) and its derivatives."""
    s, c, e = np.sin(omega * t), np.cos(omega * t), np.exp(-t)
    return (
        amplitude * s * (1 - e),
        amplitude * (omega * c * (1 - e) + s * e),
        amplitude * (-(omega**2) * s * (1 - e) + 2 * omega * c * e - s * e),
    )


def _exponential(A: Array) -> Array:
    """exp(A − I) for a batch: Taylor series after scaling, then squaring."""
    M = (A - np.eye(A.shape[-1])) / 16
    total, term = np.eye(A.shape[-1]) + M, M
    for k in range(2, 10):
        term = term @ M / k
        total = total + term
    for _ in range(4):
        total = total @ total
    return total


def _draw(rows: list[dict[str, Any]]) -> Any:
    from stepmap.plots.style import COLORS, FAINT, blank, styled

    dt = np.array([1e3 / row["hz"] for row in rows])
    with styled():
        figure = blank(7.0, 4.2)
        axes = figure.add_subplot()
        axes.axvline(1e3 / 30, color=FAINT, linestyle="--", linewidth=0.9)
        for i, (curve, label) in enumerate(CURVES.items()):
            mean, std = (np.array([row[f"{curve}_{what}_mm"] for row in rows]) for what in ("mean", "std"))
            shift = 0.35 * (i - 1.5)  # so that bars of curves that nearly coincide stay apart
            axes.errorbar(dt + shift, mean, std, color=COLORS[i], label=label, marker="o", markersize=3.5, capsize=2.5)
        axes.set_xlabel("time step [ms]")
        axes.set_ylabel("error norm [mm]")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
    return figure
