"""Hard limits of inputs: what a motor can give, and how fast it can move what it moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, numbers
from stepmap.errors import ModelError, ShapeError
from stepmap.steps.layout import MechanicalLayout
from stepmap.steps.protocol import StepMap
from stepmap.text import nearest

Given: TypeAlias = ArrayLike | Mapping[str, float] | None

NOT_TIED = -1
SLACK = 1e-10  # of an input's span, what rounding may exceed


class Box(NamedTuple):
    """Bounds of a change v of a trajectory's inputs, (N, nu): low ≤ v ≤ high, and rate_low + z ≤ v ≤ rate_high + z.

    z is the change of the state that an input is the next value of; entries are infinite where there is no bound.
    """

    low: Array
    high: Array
    rate_low: Array
    rate_high: Array
    slack: Array  # (nu)
    tied: Array  # (nu), integers: places in the tangent space


@dataclass(frozen=True, eq=False)
class InputBounds:
    """Limits for the inputs of one step map: low, high and largest change per step, (nu) each, infinite where none.

    ``tied`` are the places in x, and ``tied_tangent`` those in dx, that a kinematic input is the next value of; −1 for
    a force.
    """

    low: Array
    high: Array
    change: Array
    tied: Array
    tied_tangent: Array

    @property
    def packed(self) -> Array:
        """low, high and change as rows, as kernels take them."""
        return np.ascontiguousarray(np.stack([self.low, self.high, self.change]))

    @property
    def span(self) -> Array:
        """The width of each input's range, (nu); infinite where it has none."""
        width: Array = np.minimum(self.high - self.low, 2 * self.change)
        return width

    def clamp(self, u: Array, x: Array) -> Array:
        """The input nearest to u within the limits at a state x; for one or many."""
        low, high = self.at(x)
        return np.clip(u, low, high)

    def around(self, x: Array, u: Array) -> Box:
        """Bounds of changes of the inputs u (N, nu) at states x (N, nx)."""
        rho = self._tied_values(x)
        span = self.span
        slack = SLACK * np.where(np.isfinite(span), span, 1.0)
        rate_low, rate_high = rho - self.change - u, rho + self.change - u
        return Box(self.low - u, self.high - u, rate_low, rate_high, slack, self._tied_rates)

    def at_limit(self, x: Array, u: Array) -> Array:
        """−1, 0 or 1 where inputs u (N, nu) are at their low limit, within, or at the high one; ±2 at one of rate."""
        box = self.around(x, u)
        values = np.where(box.high <= box.slack, 1, 0) - np.where(box.low >= -box.slack, 1, 0)
        rates = np.where(box.rate_high <= box.slack, 2, 0) - np.where(box.rate_low >= -box.slack, 2, 0)
        return np.where(values != 0, values, rates).astype(np.intc)

    @property
    def _tied_rates(self) -> Array:
        return np.where(np.isfinite(self.change), self.tied_tangent, NOT_TIED).astype(np.intc)

    def _tied_values(self, x: Array) -> Array:
        values: Array = np.where(self.tied >= 0, x[..., self.tied], 0.0)
        return values

    def at(self, x: Array) -> tuple[Array, Array]:
        """Least and largest inputs at a state, for one or many."""
        rho = self._tied_values(x)
        return np.maximum(self.low, rho - self.change), np.minimum(self.high, rho + self.change)


@dataclass(frozen=True, eq=False)
class InputLimits:
    """Hard limits: low ≤ u ≤ high, and |du/dt| ≤ rate of inputs that are next values of kinematic coordinates.

    Each is one number for all inputs, one per input, or numbers by the name of the input; None is no limit. A rate is
    in the unit of the coordinate per second.
    """

    low: Given = None
    high: Given = None
    rate: Given = None

    def on(self, step: StepMap) -> InputBounds:
        """The limits for a step map; raises ModelError or ShapeError where they do not fit it."""
        low, high = _values(self.low, step, "low", -np.inf), _values(self.high, step, "high", np.inf)
        rate = _values(self.rate, step, "rate", np.inf)
        for name, least, most, fastest in zip(step.input_names, low, high, rate, strict=True):
            if not least < most:
                raise ModelError(f"limits: low of {name!r} ({least:g}) must be below high ({most:g})")
            if not fastest > 0:
                raise ModelError(f"limits: rate of {name!r} must be positive, got {fastest:g}")
        tied, tangent = _tied(step)
        loose = [name for name, r, at in zip(step.input_names, rate, tied, strict=True) if np.isfinite(r) and at < 0]
        if loose:
            raise ModelError(
                f"limits: rate of {', '.join(loose)}: only the input of a kinematic coordinate has a rate",
                hint="Weight changes of a force in the cost, or model the motor's lag as a coordinate.",
            )
        return InputBounds(low, high, rate * step.dt, tied, tangent)


def state_bounds(
    step: StepMap, states: Mapping[str, tuple[float, float]], end: ArrayLike | None
) -> tuple[Array, Array, Array]:
    """Low and high limits of states (nx) from limits by name, and a state to end in; raises where they do not fit."""
    if (states or end is not None) and not step.layout.plain:
        raise ModelError(
            "states, end: only states that are plain numbers can have them, and this map's lie on a manifold"
        )
    low, high = np.full(step.nx, -np.inf), np.full(step.nx, np.inf)
    for name, (least, most) in states.items():
        if name not in step.state_names:
            raise ModelError(f"states: no state is called {name!r}", hint=nearest(name, step.state_names))
        if not least < most:
            raise ModelError(f"states: low of {name!r} ({least:g}) must be below high ({most:g})")
        at = step.state_names.index(name)
        low[at], high[at] = least, most
    last = np.full(step.nx, np.nan) if end is None else numbers(end, "end")
    if last.shape != (step.nx,) or np.isinf(last).any():
        raise ShapeError(f"end: expected {step.nx} numbers, not a number where the end is free, got {end!r}")
    return low, high, last


def _tied(step: StepMap) -> tuple[Array, Array]:
    """Where the kinematic coordinates of inputs stand in x and in dx; −1 for forces."""
    tied = np.full((2, step.nu), NOT_TIED, dtype=np.intc)
    layout = step.layout
    if isinstance(layout, MechanicalLayout) and layout.nk and step.nu == layout.forces + layout.nk:
        names = [name.removesuffix("_next") for name in step.input_names[layout.forces :]]
        if all(name.endswith("_next") for name in step.input_names[layout.forces :]):
            tied[0, layout.forces :] = [layout.names.index(name) for name in names]
            tied[1, layout.forces :] = [layout.tangent_names.index(name) for name in names]
    return tied[0], tied[1]


def _values(given: Given, step: StepMap, what: str, none: float) -> Array:
    if given is None:
        return np.full(step.nu, none)
    if isinstance(given, Mapping):
        values = np.full(step.nu, none)
        for name, value in given.items():
            if name not in step.input_names:
                raise ModelError(f"limits: no input is called {name!r}", hint=nearest(name, step.input_names))
            values[step.input_names.index(name)] = float(value)
        return values
    values = numbers(given, f"limits, {what}")
    if values.shape not in ((), (1,), (step.nu,)):
        raise ShapeError(f"limits, {what}: expected one number or {step.nu}, got shape {values.shape}")
    if np.isnan(values).any():
        raise ShapeError(f"limits, {what}: has entries that are not numbers")
    return np.array(np.broadcast_to(values, (step.nu,)), dtype=float)
