"""Acts of a script as a reference that depends on the times at which they begin.

Act 0 is told in the time t of the whole, act j in t − τ_{j−1}. From each τ on the reference passes from the act
before to the next one within ``blend`` seconds, by the polynomial of degree 9 whose first four derivatives vanish at
both ends: costs along a fixed grid are then smooth in τ, second derivatives too.

Formulas are expressions. Samples enter the expressions as their value, slope and second derivative at each time, as the
polynomial that has these: derivatives in τ up to the second are then those of the spline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.formula import FormulaError, express
from stepmap.graph.function import symmetric
from stepmap.optimal.switching_times.sampled import SampledAct
from stepmap.optimal.terms.expression import FUNCTIONS
from stepmap.steps import VariationalStep
from stepmap.steps.kernels.equations import entries

Act = Mapping[str, str | float] | SampledAct


class Reference(NamedTuple):
    """States and inputs that acts ask for, (N+1, nx) and (N, nu)."""

    x: Array
    u: Array


class Acts:
    """References of a script and their derivatives in the times at which its acts begin."""

    def __init__(self, step: VariationalStep, acts: Sequence[Act], steps: int, blend: float, start: Array) -> None:
        self.step, self.steps, self.switches = step, steps, len(acts) - 1
        self._played = [(j, act) for j, act in enumerate(acts) if isinstance(act, SampledAct)]
        t, before, tau = ca.SX.sym("t"), ca.SX.sym("before"), ca.SX.sym("tau", self.switches)
        names = [c.name for c in step.system.coordinates]
        whole = _blended(names, acts, step.layout.pose(start), blend)
        here, there = (ca.SX.sym(name, whole.size1_in(2)) for name in ("here", "there"))  # samples at t and before
        now = whole(t, tau, here)
        x = _state(step, whole(before, tau, there), now)
        forces = len(step.system.inputs)
        u = ca.vertcat(ca.SX.zeros(forces), entries(now, step.nd, step.nd + step.nk))
        par = step.system.expressions.parameters
        values = np.asarray(step.system.parameter_values, dtype=float)  # a map's own may be more
        self._x = _Along(x, [t, before], [here, there], (tau, par), values)
        self._u = _Along(u, [t], [here], (tau, par), values)
        self.t = step.dt * np.arange(steps + 1)

    @property
    def _times(self) -> tuple[Array, Array]:
        """Times of the states and of those before them; the first is at rest."""
        return self.t, np.concatenate([self.t[:1], self.t[:-1]])

    def _given(self, tau: Array, *times: Array) -> list[Array]:
        """Times, and what samples are there, a row per time."""
        return [*(t[:, None] for t in times), *(_samples(self._played, tau, t) for t in times if self._played)]

    def reference(self, tau: Array) -> Reference:
        """What is asked for with acts that begin at ``tau``."""
        x, u = self._given(tau, *self._times), self._given(tau, self.t[1:])
        found = Reference(self._x.values(tau, *x), self._u.values(tau, *u))
        bad = np.argwhere(~np.isfinite(found.x))
        if len(bad):
            k, i = bad[0]
            raise ModelError(f"acts: {self.step.state_names[i]} is {found.x[k, i]:g} at t = {self.t[k]:.4g} s")
        return found

    def slopes(self, tau: Array) -> tuple[Array, Array]:
        """∂x_ref/∂τ (N+1, nx, m) and ∂u_ref/∂τ (N, nu, m)."""
        x, u = self._given(tau, *self._times), self._given(tau, self.t[1:])
        return self._x.slopes(tau, *x), self._u.slopes(tau, *u)

    def bend(self, tau: Array, x: Array, u: Array) -> Array:
        """Second derivatives in τ of Σ x · x_ref + Σ u · u_ref, (m, m)."""
        along = self._x.bend(tau, x, *self._given(tau, *self._times))
        return along + self._u.bend(tau, u, *self._given(tau, self.t[1:]))


def _samples(played: Sequence[tuple[int, SampledAct]], tau: Array, t: Array) -> Array:
    """What samples are at times t of the whole, (len(t), entries): of each act ``SampledAct.at``."""
    begins = np.concatenate([[0.0], tau])
    return np.hstack([np.zeros((len(t), 0)), *(act.at(t - begins[j]) for j, act in played)])


class _Along:
    """An expression at many times, with its derivatives in τ."""

    def __init__(
        self, e: ca.SX, times: list[ca.SX], samples: list[ca.SX], same: tuple[ca.SX, ca.SX], parameters: Array
    ) -> None:
        weights, (tau, par) = ca.SX.sym("w", e.numel()), same
        self._size, self._m, self._par = int(e.numel()), int(tau.numel()), parameters
        arguments = [*times, tau, par, *(one for one in samples if one.numel())]
        self._times = len(times)
        slope, bend = ca.jacobian(e, tau), symmetric(ca.hessian(ca.dot(weights, e), tau)[0])
        self._value = ca.Function("value", arguments, [ca.densify(e)])
        self._slope = ca.Function("slope", arguments, [ca.densify(slope).T])
        self._bend = ca.Function("bend", [*arguments, weights], [ca.densify(bend)])

    def _call(self, function: ca.Function, tau: Array, given: tuple[Array, ...], *more: Array) -> Array:
        n, k = len(given[0]), self._times
        same = (np.tile(tau[:, None], n), np.tile(self._par[:, None], n))
        columns = (*(part.T for part in given[:k]), *same, *(part.T for part in (*given[k:], *more)))
        return np.ascontiguousarray(np.asarray(function.map(n)(*columns)).T)

    def values(self, tau: Array, *given: Array) -> Array:
        if not self._size:
            return np.zeros((len(given[0]), 0))
        return self._call(self._value, tau, given)

    def slopes(self, tau: Array, *given: Array) -> Array:
        if not self._size * self._m:
            return np.zeros((len(given[0]), self._size, self._m))
        return self._call(self._slope, tau, given).reshape(len(given[0]), self._size, self._m)

    def bend(self, tau: Array, weights: Array, *given: Array) -> Array:
        if not self._size * self._m:
            return np.zeros((self._m, self._m))
        each = self._call(self._bend, tau, given, weights)
        out: Array = each.reshape(len(given[0]), self._m, self._m).sum(axis=0)
        return out


def poses(names: Sequence[str], acts: Sequence[Act], start: Array, blend: float, t: Array, tau: ArrayLike) -> Array:
    """q̄ (N, n) that acts ask for at times t, where they begin at ``tau``; names are those of q̄."""
    begins = np.asarray(tau, dtype=float)
    played = [(j, act) for j, act in enumerate(acts) if isinstance(act, SampledAct)]
    function = _blended(names, acts, start, blend).map(len(t))
    out = function(t[None], np.tile(begins[:, None], len(t)), _samples(played, begins, t).T)
    return np.ascontiguousarray(np.asarray(out).T)


def _blended(names: Sequence[str], acts: Sequence[Act], start: Array, blend: float) -> ca.Function:
    """q̄ as a function of time, of the begins of all acts but the first, and of what samples are at that time."""
    parts = [require_act(names, act, start, f"acts[{j}]") for j, act in enumerate(acts)]
    t, tau = ca.SX.sym("t"), ca.SX.sym("tau", len(acts) - 1)
    samples = [ca.SX.sym(f"act{j}", part.size1_in(1)) for j, part in enumerate(parts)]
    out = parts[0](t, samples[0])
    for j, act in enumerate(parts[1:]):
        local = t - tau[j]
        there = act(local, samples[j + 1])
        mixed = out + step_of_degree_9(local / blend) * (there - out)
        out = ca.if_else(local <= 0, out, ca.if_else(local >= blend, there, mixed))
    return ca.Function("pose", [t, tau, ca.vertcat(*samples)], [ca.vec(out)])


def step_of_degree_9(s: ca.SX) -> ca.SX:
    """From 0 to 1 as s goes there, with four derivatives that vanish at both ends."""
    return s**5 * (126 - 420 * s + 540 * s**2 - 315 * s**3 + 70 * s**4)


def require_act(names: Sequence[str], act: Act, start: Array, what: str) -> ca.Function:
    """q̄ of an act as a function of its local time and of its samples there, as ``SampledAct.at`` has them.

    Coordinates that it does not name stay at the start. Raises ModelError where it is no act of these coordinates.
    """
    if not isinstance(act, Mapping | SampledAct):
        raise ModelError(f"{what}: expected formulas of its local time by coordinate, got {act!r}")
    for name in act.names if isinstance(act, SampledAct) else act:
        if name not in names:
            raise ModelError(f"{what}: no coordinate is called {name!r}; there are {', '.join(names)}")
    t = ca.SX.sym("t")
    if isinstance(act, SampledAct):
        n = len(act.names)
        samples = ca.SX.sym("samples", 1 + 3 * n)
        value, slope, bend = (samples[1 + k * n : 1 + (k + 1) * n] for k in range(3))
        near = t - samples[0]  # 0, but for its derivatives
        values = dict(zip(act.names, ca.vertsplit(value + slope * near + bend * near**2 / 2), strict=True))
        rows = [values.get(name, ca.SX(float(still))) for name, still in zip(names, start, strict=True)]
        return ca.Function("act", [t, samples], [ca.vertcat(*rows)])
    rows = []
    for name, still in zip(names, start, strict=True):
        formula = act.get(name, float(still))
        try:
            row = ca.SX(express(formula, {"t": t}, FUNCTIONS) if isinstance(formula, str) else float(formula))
        except FormulaError as error:
            raise ModelError(f"{what}, {name}: {error}") from None
        except (TypeError, ValueError):
            raise ModelError(f"{what}, {name}: expected a formula or a number, got {formula!r}") from None
        rows.append(row)
    return ca.Function("act", [t, ca.SX(0, 1)], [ca.vertcat(*rows)])


def _state(step: VariationalStep, before: ca.SX, now: ca.SX) -> ca.SX:
    """x of a pose that was reached from the one a step before: p = D2 Ld, v the rate of the kinematic coordinates."""
    e, nd, dt = step.system.expressions, step.nd, step.dt
    lq, lv = ca.gradient(e.lagrangian, e.q)[:nd], ca.gradient(e.lagrangian, e.v)[:nd]
    p = dt / 2 * lq + lv + (1 - step.left) * dt * e.force
    middle = ca.Function("p", [e.q, e.v, e.u, e.parameters], [p])
    rate = (now - before) / dt
    momentum = middle((before + now) / 2, rate, ca.SX.zeros(e.u.numel()), e.parameters)
    return ca.vertcat(now, momentum, entries(rate, nd, nd + step.nk))
