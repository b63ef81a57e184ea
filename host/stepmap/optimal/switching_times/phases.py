"""Switching times of modes, in phases: mode i has counts[i] equal steps between its switches.

    J(τ) = Σ h_i running(x_k, u_k, t_k, h_i) + terminal(x_N),   x_{k+1} = f(x_k, u_k; h_i),   u_k = law_i(x_k, t_k, h_i)

with h_i = (τ_{i+1} − τ_i)/counts[i], τ_0 = 0 and the last one the given time. Nodes move with the switches, so J is
smooth in τ; on a fixed grid it would have a corner wherever a switch passes a node. The gradient takes one adjoint
pass, the Hessian one forward sensitivity per switch with the contracted second derivatives of the map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, vector
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.switching_times.laws import Formula, Mode, Terminal
from stepmap.optimal.switching_times.newton import Derivatives, Monitor, minimize
from stepmap.optimal.switching_times.solution import SwitchingSolution
from stepmap.steps import VariationalStep, discretize
from stepmap.steps.protocol import Trajectory
from stepmap.steps.variational import Forces

SHORTEST = 1e-3  # of the even step: velocities are differences of poses over the step, which drown in rounding below


class _Grid(NamedTuple):
    """Lengths and begins of all steps, and their slopes in the switching times, which are constants."""

    mode: Array  # (N)
    h: Array  # (N)
    t: Array  # (N)
    h_tau: Array  # (N, m)
    t_tau: Array  # (N, m)


class _Run(NamedTuple):
    trajectory: Trajectory
    grid: _Grid


def switching(
    system: System,
    *,
    time: float,
    laws: Sequence[Mapping[str, Formula]],
    counts: Sequence[int],
    running: Formula = 0.0,
    terminal: Formula = 0.0,
    start: Mapping[str, float] | ArrayLike | None = None,
    forces: Forces = "held",
) -> Switching:
    """The problem of the best times to switch from one law to the next.

    ``laws`` has a mapping per mode from names of inputs to formulas of states, parameters, t and h, the length of the
    step; an input that is not named is 0, a kinematic coordinate stays. Mode i has ``counts[i]`` equal steps. The cost
    is Σ h · ``running`` + ``terminal``; running may use inputs, too. It starts at rest in the pose ``start``.
    """
    return Switching(system, float(number(time, "time")), laws, counts, (running, terminal), start, forces)


class Switching:
    """J(τ) of the switching times τ, with exact derivatives."""

    def __init__(
        self,
        system: System,
        time: float,
        laws: Sequence[Mapping[str, Formula]],
        counts: Sequence[int],
        cost: tuple[Formula, Formula],
        start: Mapping[str, float] | ArrayLike | None,
        forces: Forces = "held",
    ) -> None:
        if not time > 0:
            raise ModelError(f"time: must be positive, got {time:g}")
        if isinstance(laws, Mapping) or not laws:
            raise ModelError("laws: expected a list with formulas by input for each mode")
        self.counts = _whole_numbers(counts, len(laws))
        self.time = time
        self.step: VariationalStep = discretize(system, time / sum(self.counts), forces=forces)
        self.modes = [Mode(self.step, law, cost[0], f"laws[{i}]") for i, law in enumerate(laws)]
        self.terminal = Terminal(self.step, cost[1], time)
        self.start = self.step.rest(start)

    @property
    def switches(self) -> int:
        """How many switching times there are."""
        return len(self.counts) - 1

    def evenly(self) -> Array:
        """Switching times with steps of one length, (m)."""
        return np.cumsum(self.counts)[:-1] * (self.time / sum(self.counts))

    # values and derivatives -------------------------------------------------------------------------------------

    def rollout(self, tau: ArrayLike) -> Trajectory:
        """The motion with these switching times."""
        return self._run(self._checked(tau)).trajectory

    def cost(self, tau: ArrayLike) -> float:
        """J(τ)."""
        return self._cost(self._run(self._checked(tau)))

    def derivatives(self, tau: ArrayLike) -> Derivatives:
        """J(τ), gradient and Hessian, exact."""
        run = self._run(self._checked(tau))
        cost = self._cost(run)
        grid, n = run.grid, self.step.ndx
        slopes = self._slopes(run)
        _, end_x, end_xx = self.terminal(run.trajectory.x[-1])
        costates = _adjoint(slopes.next_y[:, :, :n], slopes.cost_y[:, :n], end_x)
        # Λ = ℓ + λᵀF: its slopes in t and h make the gradient, its second derivatives along the motion the Hessian.
        by = slopes.cost_y[:, n:] + np.einsum("ki,kij->kj", costates[1:], slopes.next_y[:, :, n:])
        gradient = by[:, 0] @ grid.t_tau + by[:, 1] @ grid.h_tau
        bends = self._bends(run, slopes, costates[1:])
        moved = np.zeros((n, self.switches))
        hessian = np.zeros((self.switches, self.switches))
        for k, bend in enumerate(bends):
            along = np.vstack([moved, grid.t_tau[k], grid.h_tau[k]])
            hessian += along.T @ bend @ along
            moved = slopes.next_y[k] @ along
        hessian += moved.T @ end_xx @ moved
        return Derivatives(cost, gradient, (hessian + hessian.T) / 2)

    def solve(
        self,
        tau0: ArrayLike | None = None,
        *,
        max_iterations: int = 50,
        tolerance: float = 1e-12,
        monitor: Monitor | None = None,
    ) -> SwitchingSolution:
        """The times near ``tau0`` (by default with even steps) at which J is least; 0 < τ_1 < … < T is kept.

        Steps of a mode that would rather not be have a thousandth of their usual length at the end.
        """
        first = self.evenly() if tau0 is None else self._checked(tau0)
        least = np.array(self.counts) * (SHORTEST * self.time / sum(self.counts))
        found = minimize(self.derivatives, self.cost, first, least, self.time, max_iterations, tolerance, monitor)
        run = self._run(found.tau)
        intervals = np.diff([0.0, *found.tau, self.time])
        vanished = tuple(np.flatnonzero(intervals <= least * (1 + 1e-6)).tolist())
        return SwitchingSolution(*found, run.trajectory, self.step, run.grid.h, vanished)

    # inside -----------------------------------------------------------------------------------------------------

    def _checked(self, tau: ArrayLike) -> Array:
        times = vector(tau, self.switches, "tau")
        if (np.diff([0.0, *times, self.time]) <= 0).any():
            raise ModelError(
                f"tau: switches must follow each other between 0 and {self.time:g} s, got {times.tolist()}"
            )
        return times

    @cached_property
    def _constant(self) -> tuple[Array, Array, Array]:
        """Mode of each step, and the slopes of lengths and begins in the switching times."""
        m = self.switches
        shifts = np.eye(m + 2)[:, 1:-1]  # slopes of τ_0, …, τ_{m+1}
        mode = np.repeat(np.arange(m + 1), self.counts)
        place = np.concatenate([np.arange(count) for count in self.counts])[:, None]
        h_tau = (np.diff(shifts, axis=0) / np.array(self.counts)[:, None])[mode]
        return mode, h_tau, shifts[mode] + place * h_tau

    def _grid(self, tau: Array) -> _Grid:
        mode, h_tau, t_tau = self._constant
        ends = np.array([0.0, *tau, self.time])
        h = (np.diff(ends) / self.counts)[mode]
        place = np.concatenate([np.arange(count) for count in self.counts])
        return _Grid(mode, h, ends[mode] + place * h, h_tau, t_tau)

    def _run(self, tau: Array) -> _Run:
        """The motion: laws of time alone give all inputs at once, those of states one after the other."""
        grid, step = self._grid(tau), self.step
        U = np.zeros((len(grid.h), step.nu))
        x = self.start
        for i, mode in enumerate(self.modes):
            there = np.flatnonzero(grid.mode == i)
            later = any(m.depends_on_state for m in self.modes[i + 1 :])
            for part in np.split(there, len(there)) if mode.depends_on_state else [there]:
                U[part] = mode.law(np.tile(x, (len(part), 1)), grid.t[part], grid.h[part])
                self._require_inputs(U[part], i, grid.t[part])
                if mode.depends_on_state or later:
                    x = self._moved(x, U, grid, part)
        try:
            return _Run(step.rollout(self.start, U, grid.h), grid)
        except ModelError as error:  # a length that no string can have: as good as no solution
            raise _lost(error, "", x) from None

    def _moved(self, x: Array, U: Array, grid: _Grid, part: Array) -> Array:
        """The state after some of the steps; raises with the time of the first of them where there is none."""
        try:
            after: Array = self.step.rollout(x, U[part], grid.h[part]).x[-1]
        except (ConvergenceError, ModelError) as error:
            raise _lost(error, f"laws[{grid.mode[part[0]]}], from t = {grid.t[part[0]]:.4g} s: ", x) from None
        return after

    def _require_inputs(self, U: Array, mode: int, t: Array) -> None:
        bad = np.argwhere(~np.isfinite(U))
        if len(bad):
            k, i = bad[0]
            what = f"laws[{mode}], {self.step.input_names[i]}: is {U[k, i]:g} at t = {t[k]:.4g} s"
            raise ConvergenceError(what, iterations=0, residual=np.inf, x=U[k])

    def _at(self, run: _Run, i: int) -> tuple[Array, tuple[Array, Array, Array, Array]]:
        """Steps of mode i, and x, u, t and h there."""
        there = np.flatnonzero(run.grid.mode == i)
        return there, (run.trajectory.x[:-1][there], run.trajectory.u[there], run.grid.t[there], run.grid.h[there])

    def _cost(self, run: _Run) -> float:
        total = 0.0
        for i, mode in enumerate(self.modes):
            there, point = self._at(run, i)
            costs = mode.costs(*point)
            if not np.isfinite(costs).all():
                k = int(np.flatnonzero(~np.isfinite(costs))[0])
                raise _no_cost("running", costs[k], run.grid.t[there[k]], run.trajectory.x[there[k]])
            total += float(costs.sum())
        end = self.terminal(run.trajectory.x[-1])[0]
        if not np.isfinite(end):
            raise _no_cost("terminal", end, self.time, run.trajectory.x[-1])
        return total + end

    def _slopes(self, run: _Run) -> _Slopes:
        n, nu, N = self.step.ndx, self.step.nu, run.trajectory.steps
        found = self.step.length_sensitivity_along(run.trajectory, run.grid.h)
        W = np.zeros((N, n + nu + 2, n + 2))
        W[:, :n, :n] = np.eye(n)
        W[:, n + nu :, n:] = np.eye(2)
        cost_w = np.zeros((N, n + nu + 2))
        for i, mode in enumerate(self.modes):
            there, point = self._at(run, i)
            slopes = mode.slopes(*point)
            W[there, n : n + nu], cost_w[there] = slopes.u_y, slopes.cost_w
        next_w = np.concatenate([found.A, found.B, np.zeros((N, n, 1)), found.T[..., None]], axis=2)
        return _Slopes(W, cost_w, next_w, next_w @ W, np.einsum("kw,kwy->ky", cost_w, W))

    def _bends(self, run: _Run, slopes: _Slopes, costates: Array) -> Array:
        """Second derivatives of ℓ + λᵀF in (dx, t, h), (N, ndx + 2, ndx + 2)."""
        n, nu = self.step.ndx, self.step.nu
        found = self.step.second_sensitivity_along(run.trajectory, costates, dt=run.grid.h)
        H = np.zeros((len(costates), n + nu + 2, n + nu + 2))
        H[:, :n, :n], H[:, :n, n : n + nu], H[:, n : n + nu, n : n + nu] = found.xx, found.xu, found.uu
        H[:, n : n + nu, :n] = np.swapaxes(found.xu, 1, 2)
        H[:, :n, -1] = H[:, -1, :n] = found.xt
        H[:, n : n + nu, -1] = H[:, -1, n : n + nu] = found.ut
        H[:, -1, -1] = found.tt
        by_input = (slopes.cost_w + np.einsum("ki,kiw->kw", costates, slopes.next_w))[:, n : n + nu]
        bends = np.zeros((len(costates), n + 2, n + 2))
        for i, mode in enumerate(self.modes):
            there, point = self._at(run, i)
            bends[there], own = mode.bends(*point, by_input[there])
            H[there] += own
        out: Array = bends + np.swapaxes(slopes.W, 1, 2) @ H @ slopes.W
        return out


class _Slopes(NamedTuple):
    """First derivatives at all steps; w = (dx, u, t, h), y = (dx, t, h), W = ∂w/∂y."""

    W: Array
    cost_w: Array
    next_w: Array
    next_y: Array
    cost_y: Array


def _adjoint(A: Array, cost_x: Array, end_x: Array) -> Array:
    """Costates λ_k = ℓ_x + Aᵀ λ_{k+1}, (N+1, ndx)."""
    out = np.concatenate([cost_x, end_x[None]])
    for k in reversed(range(len(A))):
        out[k] += A[k].T @ out[k + 1]
    return out


def _lost(error: ConvergenceError | ModelError, where: str, x: Array) -> ConvergenceError:
    """A rollout that failed, with where it was."""
    if isinstance(error, ConvergenceError):
        return ConvergenceError(f"{where}{error}", iterations=error.iterations, residual=error.residual, x=error.x)
    return ConvergenceError(f"{where}{error}", iterations=0, residual=np.inf, x=x)


def _no_cost(what: str, value: float, t: float, x: Array) -> ConvergenceError:
    return ConvergenceError(f"{what}: is {value:g} at t = {t:.4g} s", iterations=0, residual=np.inf, x=x)


def _whole_numbers(counts: Sequence[int], modes: int) -> tuple[int, ...]:
    given = np.asarray(counts)
    if given.shape != (modes,):
        raise ShapeError(f"counts: expected one number of steps per law, {modes}, got {counts!r}")
    if not np.issubdtype(given.dtype, np.integer) or (given < 1).any() or any(isinstance(c, bool) for c in counts):
        raise ModelError(f"counts: expected whole numbers of steps from 1 on, got {counts!r}")
    return tuple(int(count) for count in given)
