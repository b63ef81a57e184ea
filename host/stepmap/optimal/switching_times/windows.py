"""Scripts: plays of acts on the grid of one step map, with the times at which they begin and the motion found together.

    J(ξ, τ) = ½ Σ dxᵀQ dx + duᵀR du + ½ dxᵀQf dx at the end + ½ Σ ((τ − at)/give)²,   dx = x − x_ref(τ)

Newton's method on both: the linear-quadratic model of the motion is solved for the slope of J and for one more
linear term per switch, which leaves a model in the times alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, vector
from stepmap.errors import ConvergenceError, ModelError
from stepmap.mechanics.quantity import number
from stepmap.optimal.cost import TrackingCost
from stepmap.optimal.directions import ROUNDING
from stepmap.optimal.lqr import gains
from stepmap.optimal.objective import Weights
from stepmap.optimal.plan import Plan, gains_with_steady_end, with_acts
from stepmap.optimal.problem import Iteration, Problem, Status
from stepmap.optimal.projection import Monitor, optimize
from stepmap.optimal.riccati import Quadratic, recursions
from stepmap.optimal.switching_times.acts import Act, Acts
from stepmap.optimal.switching_times.newton import ARMIJO, SHORTEST, Derivatives, direction
from stepmap.steps import VariationalStep
from stepmap.steps.protocol import Trajectory

PARTS = (1.0, 0.5, 0.2, 0.0)  # of the curvature that a model takes
FORETOLD = 0.4  # part of the slope, half of which a model gains, that is enough to look no further


class _Model(NamedTuple):
    """J to second order about a motion and times, with the motion solved for."""

    z0: Array  # minimizer of the motion with the times as they are, (N+1, ndx)
    v0: Array
    z: Array  # its slopes in the times, (m, N+1, ndx)
    v: Array
    gradient: Array  # of the model that is left, in the times
    hessian: Array


class _Point(NamedTuple):
    tau: Array
    trajectory: Trajectory
    cost: float


def script(
    step: VariationalStep,
    acts: Sequence[Act],
    *,
    steps: int,
    at: ArrayLike,
    give: ArrayLike = 0.1,
    blend: float = 0.5,
    Q: ArrayLike,
    R: ArrayLike,
    Qf: ArrayLike,
    start: ArrayLike,
    names: Sequence[str] = (),
) -> Script:
    """A play of ``acts`` over so many steps of a map; act j ≥ 1 is written to begin ``at[j−1]`` and may ``give`` [s].

    An act has formulas of its local time by coordinate; what it does not name stays at the start. ``give`` is the
    standard deviation of a begin, one number or one per switch; ``blend`` is the time a change takes. ``names`` are
    those of the acts in the plan's events.
    """
    return Script(step, acts, steps, (at, give, blend), (Q, R, Qf), start, names)


def require_times(at: Sequence[float] | Array, give: Sequence[float] | Array, blend: float, end: float) -> None:
    """Raises ModelError where acts do not follow each other within a play, each change after the one before."""
    if not blend > 0 or not all(spread > 0 for spread in give):
        raise ModelError(f"blend, give: must be positive, got {blend:g} and {list(map(float, give))}")
    for j, (begin, after) in enumerate(pairwise([*at, end]), start=1):
        if begin <= 0 or begin >= end:
            raise ModelError(f"at: act {j} begins at {begin:g} s, outside the script of {end:g} s")
        if after <= begin:
            raise ModelError(f"at: act {j + 1} begins at {after:g} s, before act {j} at {begin:g} s; put them in order")
        if begin + blend > after:
            last = j == len(at)
            next_one = f"the script ends at {after:g} s" if last else f"act {j + 1} begins at {after:g} s"
            raise ModelError(
                f"at: {next_one}, while the change to act {j} at {begin:g} s still lasts; "
                f"move one of them, or make blend ({blend:g} s) shorter"
            )


class Script:
    """J(τ), the least cost of a motion for acts that begin at τ, and its best motion and times."""

    def __init__(
        self,
        step: VariationalStep,
        acts: Sequence[Act],
        steps: int,
        times: tuple[ArrayLike, ArrayLike, float],
        weights: tuple[ArrayLike, ArrayLike, ArrayLike],
        start: ArrayLike,
        names: Sequence[str] = (),
    ) -> None:
        if not isinstance(step, VariationalStep) or not step.layout.plain:
            raise ModelError("step: a script needs a map from sm.discretize whose coordinates are plain numbers")
        if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1:
            raise ModelError(f"steps: expected a whole number from 1 on, got {steps!r}")
        if isinstance(acts, str) or not acts:
            raise ModelError("acts: expected a list with formulas by coordinate for each act")
        self.names = tuple(names) or tuple(f"act {j}" for j in range(len(acts)))
        if len(self.names) != len(acts):
            raise ModelError(f"names: expected one for each of {len(acts)} acts, got {len(self.names)}")
        self.step, self.end = step, steps * step.dt
        m = len(acts) - 1
        self.at = vector(times[0], m, "at")
        self.give = vector(np.broadcast_to(np.asarray(times[1], dtype=float), m), m, "give")
        self.blend = number(times[2], "blend")
        require_times(self.at, self.give, self.blend, self.end)
        self.start = vector(start, step.nx, "start")
        self.acts = Acts(step, acts, int(steps), self.blend, self.start)
        self.weights = weights
        self.regulator: Weights | None = None  # of the plan's gains, where they are not those of the play
        _ = self._cost(self.at)  # raises where weights do not fit

    def _cost(self, tau: Array) -> TrackingCost:
        return TrackingCost(*self.weights, *self.acts.reference(tau))

    def _prior(self, tau: Array) -> float:
        return 0.5 * float(np.sum(((tau - self.at) / self.give) ** 2))

    def _checked(self, tau: ArrayLike) -> Array:
        times = vector(tau, len(self.at), "tau")
        if (np.diff([0.0, *times, self.end]) <= 0).any():
            raise ModelError(f"tau: acts must follow each other between 0 and {self.end:g} s, got {times.tolist()}")
        return times

    # derivatives of the least cost ------------------------------------------------------------------------------

    def derivatives(self, tau: ArrayLike, guess: Trajectory | None = None) -> Derivatives:
        """Least cost over motions for acts that begin at τ, its gradient (envelope) and its exact Hessian."""
        times = self._checked(tau)
        cost = self._cost(times)
        found = optimize(Problem(self.step, cost, self.start, guess=guess), tolerance=1e-20).require()
        model = self._model(_Point(times, found.trajectory, found.cost), 1.0)
        if model is None:
            raise ConvergenceError(
                "the motion is no minimum: its second derivative is not positive", iterations=0, residual=0.0, x=times
            )
        by_tau = self._by_tau(times, found.trajectory, cost)[0]
        return Derivatives(found.cost + self._prior(times), by_tau, model.hessian)

    def _by_tau(self, tau: Array, trajectory: Trajectory, cost: TrackingCost) -> tuple[Array, Array, Array, Array]:
        """∂J/∂τ and ∂²J/∂τ² with the motion kept, and mixed derivatives in x (N+1, ndx, m) and u (N, nu, m)."""
        x_tau, u_tau = self.acts.slopes(tau)
        pull = cost.expand(trajectory)  # x = Q dx, u = R du
        gradient = -np.einsum("ki,kia->a", pull.x, x_tau) - np.einsum("ki,kia->a", pull.u, u_tau)
        gradient += (tau - self.at) / self.give**2
        Qx = np.concatenate([_product(cost.Q, x_tau[:-1]), (cost.Qf @ x_tau[-1])[None]])
        Ru = _product(cost.R, u_tau)
        hessian = np.einsum("kia,kib->ab", x_tau, Qx) + np.einsum("kia,kib->ab", u_tau, Ru)
        hessian += np.diag(self.give**-2.0) - self.acts.bend(tau, pull.x, pull.u)
        return gradient, hessian, -Qx, -Ru

    def _model(self, at: _Point, part: float) -> _Model | None:
        """The model with a part of the curvature of the map; None where it has no minimum in the motion."""
        cost = self._cost(at.tau)
        e = cost.expand(at.trajectory)
        A, B = self.step.linearize_along(at.trajectory)
        bend = None
        if part:
            s = recursions().adjoint(A, B, np.zeros((len(B), B.shape[2], B.shape[1])), e.x, e.u)
            xx, xu, uu = self.step.curvature_along(at.trajectory, s[1:])
            bend = (xx, xu, uu)
        gradient, hessian, x_tau, u_tau = self._by_tau(at.tau, at.trajectory, cost)
        solved = []
        for q, r in [(e.x, e.u), *((x_tau[..., a], u_tau[..., a]) for a in range(len(at.tau)))]:
            status, K, f, _ = recursions().backward(Quadratic(A, B, e.xx, e.uu, e.terminal, q, r, bend), part)
            if status:
                return None
            solved.append(recursions().forward(A, B, K, f))
        z0, v0 = solved[0]
        z, v = (np.array([pair[i] for pair in solved[1:]]).reshape(-1, *solved[0][i].shape) for i in (0, 1))

        def by(z_: Array, v_: Array) -> Array:
            found: Array = np.einsum("kia,...ki->...a", x_tau, z_) + np.einsum("kia,...ki->...a", u_tau, v_)
            return found

        reduced = hessian + by(z, v)
        return _Model(z0, v0, z, v, gradient + by(z0, v0), (reduced + reduced.T) / 2)

    # search -----------------------------------------------------------------------------------------------------

    def solve(
        self,
        tau0: ArrayLike | None = None,
        *,
        guess: Trajectory | None = None,
        max_iterations: int = 50,
        tolerance: float = 1e-12,
        monitor: Monitor | None = None,
    ) -> ScriptSolution:
        """The best motion and times near ``tau0``, by default the written ones; ``guess`` is a motion to begin with."""
        tau = self.at if tau0 is None else self._checked(tau0)
        point = self._first(tau, guess)
        status, number_ = Status.ITERATIONS, 0
        history: list[Iteration] = []
        try:
            for number_ in range(max_iterations + 1):
                found = self._descend(point, tolerance, last=number_ == max_iterations)
                if isinstance(found, Status):
                    status = found
                    break
                before = point
                point, taken = found
                history.append(taken)
                if monitor is not None:
                    monitor(number_, taken, before.trajectory)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return ScriptSolution(status, point.tau, point.cost, number_, point.trajectory, self, tuple(history))

    def _first(self, tau: Array, guess: Trajectory | None) -> _Point:
        """The guess, or the reference itself, projected; where that fails, the start is held."""
        cost = self._cost(tau)
        wanted = Trajectory(self.acts.t, *self.acts.reference(tau)) if guess is None else guess
        try:
            found = optimize(Problem(self.step, cost, self.start, guess=wanted), max_iterations=0).trajectory
        except (ConvergenceError, ModelError):
            if guess is not None:
                raise
            found = optimize(Problem(self.step, cost, self.start), max_iterations=0).trajectory
        return _Point(tau, found, cost.value(found) + self._prior(tau))

    def _descend(self, at: _Point, tolerance: float, *, last: bool) -> tuple[_Point, Iteration] | Status:
        """The best of the steps that models with less and less curvature lead to, until one gains what it foretold."""
        cost = self._cost(at.tau)
        e, by_tau = cost.expand(at.trajectory), self._by_tau(at.tau, at.trajectory, cost)[0]
        best: tuple[_Point, Iteration] | None = None
        for part in PARTS:
            model = self._model(at, part)
            if model is None:
                continue
            dtau = direction(model.gradient, model.hessian, np.diff([0.0, *at.tau, self.end]))
            z = model.z0 + np.tensordot(dtau, model.z, axes=1)
            v = model.v0 + np.tensordot(dtau, model.v, axes=1)
            slope = float(np.sum(e.x * z) + np.sum(e.u * v) + by_tau @ dtau)
            if abs(slope) <= max(tolerance * max(1.0, abs(at.cost)), ROUNDING * abs(at.cost)):
                return Status.CONVERGED
            if slope > 0:
                continue
            if last:
                return Status.ITERATIONS
            trial = self._line_search(at, (z, v, dtau), slope)
            if trial is not None and (best is None or trial[0].cost < best[0].cost):
                name = {1.0: "newton", 0.0: "gauss-newton"}.get(part, f"newton {part:.2g}")
                best = trial[0], Iteration(at.cost, slope, trial[1], name)
            if best is not None and at.cost - best[0].cost >= FORETOLD * -slope:
                break
        return best or Status.STALLED

    def _line_search(self, at: _Point, along: tuple[Array, Array, Array], slope: float) -> tuple[_Point, float] | None:
        length, here = 1.0, at.trajectory
        weights = self._cost(at.tau).weights
        while length >= SHORTEST:
            z, v, dtau = (length * part for part in along)
            tau = at.tau + dtau
            wanted = Trajectory(here.t, self.step.layout.retract(here.x, z), here.u + v)
            try:
                K = gains(*self.step.linearize_along(here), *weights)
                found = self.step.follow(self.start, wanted, K)
                value = self._cost(tau).value(found) + self._prior(tau)
            except ConvergenceError:
                value = np.inf
            near = ROUNDING * abs(at.cost)
            if value <= at.cost + ARMIJO * length * slope + (near if -length * slope < 100 * near else 0.0):
                return _Point(tau, found, value), length
            length /= 2
        return None


@dataclass(frozen=True, eq=False)
class ScriptSolution:
    """The best motion and times of a script."""

    status: Status
    tau: Array
    cost: float
    iterations: int
    trajectory: Trajectory
    script: Script
    history: tuple[Iteration, ...] = ()

    @cached_property
    def plan(self) -> Plan:
        """The motion with gains of the script's weights, its reference, and the begins of its acts."""
        s = self.script
        cost = s._cost(self.tau)
        by = s.regulator or cost.weights
        K = gains(*s.step.linearize_along(self.trajectory), *by)
        K, fading = gains_with_steady_end(s.step, self.trajectory, by[0], by[1], K)
        reference = Trajectory(self.trajectory.t, cost.x_ref, cost.u_ref)
        acts = (0.0, *self.tau.tolist())
        events = with_acts(self.trajectory.events, s.names, acts, s.step.dt)
        return Plan(self.trajectory, K, reference, events, acts, fading)

    @cached_property
    def act_costs(self) -> tuple[float, ...]:
        """½ Σ dxᵀQ dx + duᵀR du over the steps that begin within each act; the end and the prior are in none."""
        plan, steps = self.plan, self.trajectory.steps
        dx, du = (getattr(self.trajectory, e)[:steps] - getattr(plan.reference, e)[:steps] for e in ("x", "u"))
        Q, R = (np.broadcast_to(w, (steps, *np.shape(w)[-2:])) for w in self.script.weights[:2])
        each = 0.5 * (np.einsum("ki,kij,kj->k", dx, Q, dx) + np.einsum("ki,kij,kj->k", du, R, du))
        act = np.searchsorted(np.array(plan.acts), self.trajectory.t[:-1] + 1e-9, side="right") - 1
        return tuple(float(each[act == i].sum()) for i in range(len(plan.acts)))

    def require(self) -> ScriptSolution:
        """Itself when converged; raises ConvergenceError otherwise."""
        if not self.status.ok:
            raise ConvergenceError(f"script {self.status}", iterations=self.iterations, residual=np.nan, x=self.tau)
        return self


def _product(matrix: Array, rows: Array) -> Array:
    """matrix_k @ rows_k for every k, (K, n, m)."""
    out: Array = np.einsum("ij,kja->kia" if matrix.ndim == 2 else "kij,kja->kia", matrix, rows)
    return out
