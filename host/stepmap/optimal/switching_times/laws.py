"""Laws and costs of modes as expressions of state, time and length of the step, with their derivatives.

u = law(x, t, h),   ℓ = h · running(x, u, t, h),   terminal(x, T)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.formula import FormulaError, express
from stepmap.graph.function import symmetric
from stepmap.optimal.terms.expression import FUNCTIONS
from stepmap.optimal.terms.residual import Symbols, retracted, symbols
from stepmap.steps.layout import MechanicalLayout
from stepmap.steps.protocol import StepMap

Formula: TypeAlias = str | float | Callable[[Mapping[str, ca.SX]], Any]
LENGTH = "h"  # what formulas call the length of a step


class Slopes(NamedTuple):
    """First derivatives at n points; y = (dx, t, h), w = (dx, u, t, h)."""

    u_y: Array  # (n, nu, ndx + 2)
    cost_w: Array  # (n, ndx + nu + 2)


class Mode:
    """One law with the running cost, for points (x, t, h) of a step map."""

    def __init__(self, step: StepMap, law: Mapping[str, Formula], running: Formula, name: str) -> None:
        at, h = symbols(step), ca.SX.sym(LENGTH)
        states = _named(step, at, h)
        u = _law(step, law, states, name)
        dx, moved = retracted(step, at.x)
        y = ca.vertcat(dx, at.t, h)
        w = ca.vertcat(dx, at.u, at.t, h)
        inputs = dict(zip(step.input_names, ca.vertsplit(at.u), strict=True)) if step.nu else {}
        cost = h * _scalar(running, inputs | states, "running")
        u_moved, cost_moved = (ca.substitute(e, at.x, moved) for e in (u, cost))
        z = ca.SX.sym("z", step.nu)
        point, zero = [at.x, at.t, h, at.parameters], ca.SX.zeros(step.ndx)

        def here(e: ca.SX) -> ca.SX:
            return ca.densify(ca.substitute(e, dx, zero))

        self.depends_on_state = any(ca.which_depends(u, at.x, 1, False)) if step.nu else False
        self._law = ca.Function("law", point, [ca.densify(u)])
        self._law_y = ca.Function("law_y", point, [here(ca.jacobian(u_moved, y)).T])
        self._law_yy = ca.Function("law_yy", [*point, z], [here(symmetric(ca.hessian(ca.dot(z, u_moved), y)[0]))])
        costs = [at.x, at.u, at.t, h, at.parameters]
        hessian, gradient = ca.hessian(cost_moved, w)
        self._cost = ca.Function("cost", costs, [ca.densify(cost), here(gradient)])
        self._cost_ww = ca.Function("cost_ww", costs, [here(symmetric(hessian))])
        self._par = np.asarray(getattr(getattr(step, "system", None), "parameter_values", np.zeros(0)), dtype=float)
        self._sizes = step.nu, step.ndx

    def law(self, x: Array, t: Array, h: Array) -> Array:
        """Inputs (n, nu) at n points."""
        return np.asarray(self._law(x.T, t[None], h[None], self._par)).T.reshape(len(t), self._sizes[0])

    def costs(self, x: Array, u: Array, t: Array, h: Array) -> Array:
        """h · running at n points."""
        return np.asarray(self._cost(x.T, u.T, t[None], h[None], self._par)[0]).reshape(len(t))

    def slopes(self, x: Array, u: Array, t: Array, h: Array) -> Slopes:
        n, (nu, ndx) = len(t), self._sizes
        u_y = self._blocks(self._law_y, (nu, ndx + 2), x, t[:, None], h[:, None])
        cost_w = self._cost(x.T, u.T, t[None], h[None], self._par)[1]
        return Slopes(u_y, np.asarray(cost_w).T.reshape(n, ndx + nu + 2))

    def bends(self, x: Array, u: Array, t: Array, h: Array, z: Array) -> tuple[Array, Array]:
        """Σ z_i D²u_i in y, and the second derivatives of the cost in w, at n points; z is (n, nu)."""
        nu, ndx = self._sizes
        law = self._blocks(self._law_yy, (ndx + 2, ndx + 2), x, t[:, None], h[:, None], after=(z,))
        cost = self._blocks(self._cost_ww, (ndx + nu + 2, ndx + nu + 2), x, u, t[:, None], h[:, None])
        return law, cost

    def _blocks(
        self, function: ca.Function, shape: tuple[int, int], *rows: Array, after: tuple[Array, ...] = ()
    ) -> Array:
        """A matrix per point, (n, *shape); the function returns its transpose."""
        n = len(rows[0])
        if not shape[0] * shape[1]:
            return np.zeros((n, *shape))
        par = np.tile(self._par[:, None], n)
        made = function.map(n)(*(part.T for part in rows), par, *(part.T for part in after))
        return np.ascontiguousarray(np.asarray(made).T).reshape(n, *shape)


class Terminal:
    """terminal(x) at the end, with its derivatives in the tangent space."""

    def __init__(self, step: StepMap, terminal: Formula, end: float) -> None:
        at, h = symbols(step), ca.SX.sym(LENGTH)
        named = {name: e for name, e in _named(step, at, h).items() if name != LENGTH}
        cost = ca.substitute(_scalar(terminal, named, "terminal"), at.t, end)
        dx, moved = retracted(step, at.x)
        hessian, gradient = ca.hessian(ca.substitute(cost, at.x, moved), dx)
        zero = ca.SX.zeros(step.ndx)
        outputs = [cost, *(ca.densify(ca.substitute(e, dx, zero)) for e in (gradient, hessian))]
        self._function = ca.Function("terminal", [at.x, at.parameters], outputs)
        self._par = np.asarray(getattr(getattr(step, "system", None), "parameter_values", np.zeros(0)), dtype=float)

    def __call__(self, x: Array) -> tuple[float, Array, Array]:
        """Value, gradient (ndx) and Hessian (ndx, ndx)."""
        value, gradient, hessian = self._function(x, self._par)
        return float(value), np.asarray(gradient)[:, 0], np.asarray(hessian)


def _named(step: StepMap, at: Symbols, h: ca.SX) -> dict[str, ca.SX]:
    """Symbols that formulas know: states, parameters, t and h."""
    names: Sequence[str] = step.layout.names
    for reserved in ("t", LENGTH):
        if reserved in (*names, *step.input_names):
            what = "the time" if reserved == "t" else "the length of a step"
            raise ModelError(f"system: a state or input is called {reserved!r}, which is {what} in formulas; rename it")
    system = getattr(step, "system", None)
    parameters = () if system is None else (p.name for p in system.parameters)
    known = dict(zip(parameters, ca.vertsplit(at.parameters), strict=True)) if at.parameters.numel() else {}
    return known | {name: at.x[i] for i, name in enumerate(names)} | {"t": at.t, LENGTH: h}


def _law(step: StepMap, law: Mapping[str, Formula], known: Mapping[str, ca.SX], what: str) -> ca.SX:
    """Inputs of a law: forces that it does not name are zero, kinematic coordinates stay where they are."""
    if not isinstance(law, Mapping):
        raise ModelError(f"{what}: expected formulas by the name of an input, got {law!r}")
    layout, names = step.layout, step.input_names
    forces = layout.forces if isinstance(layout, MechanicalLayout) else len(names)
    kinematic = {name.removesuffix("_next"): name for name in names[forces:]}
    given = {kinematic.get(name, name): formula for name, formula in law.items()}
    for name in given:
        if name not in names:
            raise ModelError(f"{what}: no input is called {name!r}; there are {', '.join(names)}")
    rows = []
    for i, name in enumerate(names):
        if name in given:
            rows.append(_scalar(given[name], known, f"{what}, {name}"))
        else:
            rows.append(ca.SX(0) if i < forces else known[name.removesuffix("_next")])
    return ca.vertcat(*rows) if rows else ca.SX(0, 1)


def _scalar(formula: Formula, known: Mapping[str, ca.SX], what: str) -> ca.SX:
    """One expression of known names."""
    try:
        if isinstance(formula, str):
            made = ca.SX(express(formula, known, FUNCTIONS))
        elif callable(formula):
            made = ca.SX(formula(known))
        else:
            made = ca.SX(float(formula))
    except FormulaError as error:
        raise ModelError(f"{what}: {error}") from None
    except KeyError as error:
        raise ModelError(f"{what}: no name {error}; there are {', '.join(known)}") from None
    except (TypeError, ValueError, NotImplementedError):
        raise ModelError(f"{what}: expected a formula as text, a number or a function, got {formula!r}") from None
    if made.shape != (1, 1):
        raise ModelError(f"{what}: expected one number, got an expression of shape {made.shape}")
    return made
