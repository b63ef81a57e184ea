"""The fit itself: scipy's least squares on the residuals with their exact Jacobian, and a robust loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.identification.trajectories import FAR, Trajectories

LOSSES = ("arctan", "cauchy", "soft_l1", "huber", "linear")
FROM = 6.0  # standard deviations from which a reading counts less and less
TURNS = 60

Monitor = Callable[[int, float], None]  # turn, χ² per reading


@dataclass(frozen=True, eq=False)
class Fit:
    """A point of the search, with the covariance of the values and what is left."""

    task: Trajectories
    point: Array
    values: Array
    covariance: Array  # of the values
    residual: Array
    chi2: float  # per degree of freedom, robust
    turns: int
    status: str  # "converged", "turns", "interrupted"

    @property
    def sigma(self) -> Array:
        out: Array = np.sqrt(np.diagonal(self.covariance))
        return out

    @property
    def far(self) -> float:
        """The part of the readings that are so far off that they count less than half."""
        seen = max(1, self.task.seen)
        return float(np.sum(np.abs(self.residual[self.task.data]) > FROM)) / seen


def weights(residual: Array, data: np.ndarray, loss: str) -> Array:
    """What each residual counts, relative to a square."""
    z = (residual / FROM) ** 2
    slopes: dict[str, Callable[[], Array]] = {
        "arctan": lambda: 1 / (1 + z**2),
        "cauchy": lambda: 1 / (1 + z),
        "soft_l1": lambda: 1 / np.sqrt(1 + z),
        "huber": lambda: np.where(z <= 1, 1.0, 1 / np.sqrt(np.maximum(z, 1.0))),
        "linear": lambda: np.ones_like(z),
    }
    return np.where(data, slopes[loss](), 1.0)


def _loss(name: str, data: np.ndarray) -> Any:
    """ρ, ρ' and ρ'' of z = (e/6)², as scipy takes them; states' rows stay squares, or ties would tear."""

    def rho(z: Array) -> Array:
        if name == "arctan":
            parts = [np.arctan(z), 1 / (1 + z**2), -2 * z / (1 + z**2) ** 2]
        elif name == "cauchy":
            parts = [np.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2]
        elif name == "soft_l1":
            parts = [2 * (np.sqrt(1 + z) - 1), (1 + z) ** -0.5, -0.5 * (1 + z) ** -1.5]
        else:
            root = np.sqrt(np.maximum(z, 1.0))
            parts = [np.where(z <= 1, z, 2 * root - 1), 1 / root, np.where(z <= 1, 0.0, -0.5 / root**3)]
        squares = [z, np.ones_like(z), np.zeros_like(z)]
        return np.array([np.where(data, part, square) for part, square in zip(parts, squares, strict=True)])

    return "linear" if name == "linear" else rho


class _Search:
    """Residuals and Jacobian as scipy asks for them, and the best point so far, which an interrupt leaves."""

    def __init__(self, task: Trajectories, loss: str, monitor: Monitor | None) -> None:
        self.task, self.loss, self.monitor = task, loss, monitor
        self.best, self.least, self.turns = task.start, np.inf, 0

    def residual(self, point: Array) -> Array:
        found = self.task.residual(point)
        cost = float(np.sum(weights(found, self.task.data, self.loss) * found**2))
        if cost < self.least:
            self.best, self.least = np.array(point), cost
        return found

    def jacobian(self, point: Array) -> Array:
        self.turns += 1
        if self.monitor is not None:
            self.monitor(self.turns, self.least / max(1, self.task.seen))
        return self.task.jacobian(point)


def solve(task: Trajectories, loss: str = "arctan", monitor: Monitor | None = None, start: Array | None = None) -> Fit:
    """The best point, from a convex loss to the one asked for. Ctrl-C keeps the best so far."""
    if loss not in LOSSES:
        raise ModelError(f"loss: expected one of {', '.join(LOSSES)}, got {loss!r}")
    point = task.start if start is None else start
    first = task.residual(point)
    if (first == FAR).all():
        task.paths(point)  # raises with the reason
    search = _Search(task, loss, monitor)
    status = "converged"
    try:
        for stage in ("linear",) if loss == "linear" else ("soft_l1", loss):
            search.loss, search.least = stage, np.inf
            from scipy.optimize import least_squares  # takes as long to load as a third of stepmap

            found = least_squares(
                search.residual,
                point,
                jac=search.jacobian,
                x_scale="jac",
                loss=_loss(stage, task.data),
                f_scale=FROM,
                max_nfev=TURNS,
                xtol=1e-10,
                ftol=1e-11,
                gtol=1e-12,
            )
            point = found.x
            status = "converged" if found.status > 0 else "turns"
    except KeyboardInterrupt:
        point, status = search.best, "interrupted"
    return evaluate(task, point, loss, search.turns, status)


def evaluate(task: Trajectories, point: Array, loss: str, turns: int = 0, status: str = "converged") -> Fit:
    """The covariance at a point: (Jᵀ W J)⁻¹, larger where χ² says that the noise is."""
    n = len(task.unknowns.free)
    residual, J = task.residual(point), task.jacobian(point)
    W = weights(residual, task.data, loss)
    readings = W[task.data] * residual[task.data] ** 2
    chi2 = float(readings.sum() / max(1, task.seen - n - task.step.nx))
    M = J.T @ (W[:, None] * J)
    scale = np.sqrt(np.maximum(np.diagonal(M), 1e-300))
    inverse = np.linalg.pinv(M / np.outer(scale, scale), rcond=1e-13, hermitian=True) / np.outer(scale, scale)
    values = task.unknowns.values(point[:n])
    slopes = task.unknowns.slopes(values)
    covariance = inverse[:n, :n] * np.outer(slopes, slopes) * max(1.0, chi2)
    return Fit(task, point, values, covariance, residual, chi2, turns, status)


def require_enough(task: Trajectories) -> None:
    own = len(task.unknowns.free) + len(task.runs) * task.step.nx
    if task.seen < own:
        raise ModelError(
            f"runs: have {task.seen} readings, and {own} numbers are looked for: "
            f"{len(task.unknowns.free)} unknowns and the first state of each run",
            hint="Give a longer run, or look for less.",
        )


def again(fit: Fit, task: Trajectories, loss: str, monitor: Monitor | None = None) -> Fit:
    """The fit on another task with the same unknowns, from where this one ended."""
    point = np.array(task.start)
    point[: len(fit.values)] = fit.point[: len(fit.values)]
    return solve(task, loss, monitor, point)
