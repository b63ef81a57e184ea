"""Acts of a script as a reference that depends on the times at which they begin.

Act 0 is told in the time t of the whole, act j in t − τ_{j−1}. From each τ on the reference passes from the act
before to the next one within ``blend`` seconds, by the polynomial of degree 9 whose first four derivatives vanish at
both ends: costs along a fixed grid are then smooth in τ, second derivatives too.
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
from stepmap.optimal.terms.expression import FUNCTIONS
from stepmap.steps import VariationalStep
from stepmap.steps.kernels.equations import entries

Act = Mapping[str, str | float]


class Reference(NamedTuple):
    """States and inputs that acts ask for, (N+1, nx) and (N, nu)."""

    x: Array
    u: Array


class Acts:
    """References of a script and their derivatives in the times at which its acts begin."""

    def __init__(self, step: VariationalStep, acts: Sequence[Act], steps: int, blend: float, start: Array) -> None:
        self.step, self.steps, self.switches = step, steps, len(acts) - 1
        t, before, tau = ca.SX.sym("t"), ca.SX.sym("before"), ca.SX.sym("tau", self.switches)
        names = [c.name for c in step.system.coordinates]
        whole = _blended(names, acts, step.layout.pose(start), blend)
        x = _state(step, whole(before, tau), whole(t, tau))
        forces = len(step.system.inputs)
        u = ca.vertcat(ca.SX.zeros(forces), entries(whole(t, tau), step.nd, step.nd + step.nk))
        par = step.system.expressions.parameters
        values = np.asarray(step.system.parameter_values, dtype=float)  # a map's own may be more
        self._x = _Along(x, [t, before, par], tau, values)
        self._u = _Along(u, [t, par], tau, values)
        self.t = step.dt * np.arange(steps + 1)

    @property
    def _times(self) -> tuple[Array, Array]:
        """Times of the states and of those before them; the first is at rest."""
        return self.t, np.concatenate([self.t[:1], self.t[:-1]])

    def reference(self, tau: Array) -> Reference:
        """What is asked for with acts that begin at ``tau``."""
        found = Reference(self._x.values(tau, *self._times), self._u.values(tau, self.t[1:]))
        bad = np.argwhere(~np.isfinite(found.x))
        if len(bad):
            k, i = bad[0]
            raise ModelError(f"acts: {self.step.state_names[i]} is {found.x[k, i]:g} at t = {self.t[k]:.4g} s")
        return found

    def slopes(self, tau: Array) -> tuple[Array, Array]:
        """∂x_ref/∂τ (N+1, nx, m) and ∂u_ref/∂τ (N, nu, m)."""
        return self._x.slopes(tau, *self._times), self._u.slopes(tau, self.t[1:])

    def bend(self, tau: Array, x: Array, u: Array) -> Array:
        """Second derivatives in τ of Σ x · x_ref + Σ u · u_ref, (m, m)."""
        return self._x.bend(tau, x, *self._times) + self._u.bend(tau, u, self.t[1:])


class _Along:
    """An expression at many times, with its derivatives in τ."""

    def __init__(self, e: ca.SX, times: list[ca.SX], tau: ca.SX, parameters: Array) -> None:
        weights = ca.SX.sym("w", e.numel())
        self._size, self._m, self._par = int(e.numel()), int(tau.numel()), parameters
        arguments = [*times[:-1], tau, times[-1]]
        slope, bend = ca.jacobian(e, tau), symmetric(ca.hessian(ca.dot(weights, e), tau)[0])
        self._value = ca.Function("value", arguments, [ca.densify(e)])
        self._slope = ca.Function("slope", arguments, [ca.densify(slope).T])
        self._bend = ca.Function("bend", [*arguments, weights], [ca.densify(bend)])

    def _call(self, function: ca.Function, tau: Array, times: tuple[Array, ...], *more: Array) -> Array:
        n = len(times[0])
        same = (np.tile(tau[:, None], n), np.tile(self._par[:, None], n))
        out = np.asarray(function.map(n)(*(time[None] for time in times), *same, *(part.T for part in more)))
        return np.ascontiguousarray(out.T)

    def values(self, tau: Array, *times: Array) -> Array:
        if not self._size:
            return np.zeros((len(times[0]), 0))
        return self._call(self._value, tau, times)

    def slopes(self, tau: Array, *times: Array) -> Array:
        if not self._size * self._m:
            return np.zeros((len(times[0]), self._size, self._m))
        return self._call(self._slope, tau, times).reshape(len(times[0]), self._size, self._m)

    def bend(self, tau: Array, weights: Array, *times: Array) -> Array:
        if not self._size * self._m:
            return np.zeros((self._m, self._m))
        each = self._call(self._bend, tau, times, weights)
        out: Array = each.reshape(len(times[0]), self._m, self._m).sum(axis=0)
        return out


def poses(names: Sequence[str], acts: Sequence[Act], start: Array, blend: float, t: Array, tau: ArrayLike) -> Array:
    """q̄ (N, n) that acts ask for at times t, where they begin at ``tau``; names are those of q̄."""
    times = np.asarray(tau, dtype=float)
    function = _blended(names, acts, start, blend).map(len(t))
    return np.ascontiguousarray(np.asarray(function(t[None], np.tile(times[:, None], len(t)))).T)


def _blended(names: Sequence[str], acts: Sequence[Act], start: Array, blend: float) -> ca.Function:
    """q̄ as a function of time and of the begins of all acts but the first."""
    parts = [_pose(names, act, start, f"acts[{j}]") for j, act in enumerate(acts)]
    t, tau = ca.SX.sym("t"), ca.SX.sym("tau", len(acts) - 1)
    out = parts[0](t)
    for j, act in enumerate(parts[1:]):
        local = t - tau[j]
        mixed = out + step_of_degree_9(local / blend) * (act(local) - out)
        out = ca.if_else(local <= 0, out, ca.if_else(local >= blend, act(local), mixed))
    return ca.Function("pose", [t, tau], [ca.vec(out)])


def step_of_degree_9(s: ca.SX) -> ca.SX:
    """From 0 to 1 as s goes there, with four derivatives that vanish at both ends."""
    return s**5 * (126 - 420 * s + 540 * s**2 - 315 * s**3 + 70 * s**4)


def _pose(names: Sequence[str], act: Act, start: Array, what: str) -> ca.Function:
    """q̄ of an act as a function of its local time; coordinates that it does not name stay at the start."""
    if not isinstance(act, Mapping):
        raise ModelError(f"{what}: expected formulas of its local time by coordinate, got {act!r}")
    for name in act:
        if name not in names:
            raise ModelError(f"{what}: no coordinate is called {name!r}; there are {', '.join(names)}")
    t = ca.SX.sym("t")
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
    return ca.Function("act", [t], [ca.vertcat(*rows)])


def _state(step: VariationalStep, before: ca.SX, now: ca.SX) -> ca.SX:
    """x of a pose that was reached from the one a step before: p = D2 Ld, v the rate of the kinematic coordinates."""
    e, nd, dt = step.system.expressions, step.nd, step.dt
    lq, lv = ca.gradient(e.lagrangian, e.q)[:nd], ca.gradient(e.lagrangian, e.v)[:nd]
    p = dt / 2 * lq + lv + (1 - step.left) * dt * e.force
    middle = ca.Function("p", [e.q, e.v, e.u, e.parameters], [p])
    rate = (now - before) / dt
    momentum = middle((before + now) / 2, rate, ca.SX.zeros(e.u.numel()), e.parameters)
    return ca.vertcat(now, momentum, entries(rate, nd, nd + step.nk))
