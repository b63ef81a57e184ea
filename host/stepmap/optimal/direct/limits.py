"""Bounds of a program by name: those of the system, and those that are given in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.direct.names import momentum_names, velocity_names
from stepmap.text import nearest


class Limit(NamedTuple):
    """low ≤ value ≤ high and |rate of change| ≤ rate; infinite where there is none."""

    low: float = -np.inf
    high: float = np.inf
    rate: float = np.inf


@dataclass(frozen=True, eq=False)
class Bounds:
    """Low and high bounds of q̄ (n), p (nd), v̄ (n) and u (nu), rows (2, …), and the largest rates of u (nu)."""

    q: Array
    p: Array
    v: Array
    u: Array
    rate: Array


def read_limits(system: System, given: Mapping[str, Any]) -> dict[str, Limit]:
    """Limits by name: (low, high), or a mapping with low, high and rate; raises ModelError where they are none."""
    if not isinstance(given, Mapping):
        raise ModelError(f"limits: expected a mapping from names to (low, high), got {given!r}")
    known = known_names(system)
    both = {c.name for c in system.coordinates} & {i.name for i in system.inputs}
    out = {}
    for name, value in given.items():
        if name not in known:
            raise ModelError(f"limits: no coordinate, velocity, momentum or input is called {name!r}",
                             hint=nearest(str(name), known))  # fmt: skip
        if name in both:
            raise ModelError(f"limits: {name!r} is a coordinate and an input; give one of them another name")
        out[name] = _limit(value, f"limits of {name!r}")
    return out


def known_names(system: System) -> list[str]:
    """What may have limits."""
    coordinates, inputs = [c.name for c in system.coordinates], [i.name for i in system.inputs]
    following = [f"{c.name}_next" for c in system.kinematic]
    return [*coordinates, *velocity_names(system), *momentum_names(system), *inputs, *following]


def _limit(value: Any, what: str) -> Limit:
    if isinstance(value, Mapping):
        unknown = set(value) - set(Limit._fields)
        if unknown:
            raise ModelError(f"{what}: no key is called {min(unknown)!r}; there are low, high and rate")
        made = Limit(**{key: _end(value[key], f"{what}, {key}", key) for key in value})
    else:
        try:
            low, high = value
        except (TypeError, ValueError):
            raise ModelError(f"{what}: expected (low, high), or low, high and rate by name, got {value!r}") from None
        made = Limit(_end(low, what, "low"), _end(high, what, "high"))
    if not made.low <= made.high:
        raise ModelError(f"{what}: low ({made.low:g}) must not be above high ({made.high:g})")
    if not made.rate > 0:
        raise ModelError(f"{what}: rate must be positive, got {made.rate:g}")
    return made


def _end(value: Any, what: str, key: str) -> float:
    if value is None:
        return -np.inf if key == "low" else np.inf
    if isinstance(value, float) and np.isinf(value):
        return value
    return number(value, what)


def bounds_of(system: System, limits: Mapping[str, Limit]) -> Bounds:
    """The bounds of a system's variables within its own limits and the given ones."""
    tangent = system.tangent
    q, p, v = (np.tile([[-np.inf], [np.inf]], size) for size in (tangent.nq, tangent.nd, tangent.nv))
    u, rate = np.tile([[-np.inf], [np.inf]], len(system.inputs)), np.full(len(system.inputs), np.inf)
    for i, c in enumerate(system.coordinates):
        own = Limit(_end(c.low, "", "low"), _end(c.high, "", "high"))
        q[:, i] = _within(limits.get(c.name, limits.get(f"{c.name}_next", own)), own)
    for s, _ in tangent.balls:  # the norm keeps them within ±1; as bounds, these have no inside where w = 1
        at = q[:, s : s + 4]
        at[np.abs(at) >= 1.0] *= np.inf
    for i, (name, _) in enumerate(tangent.entries):
        speed, fastest = limits.get(f"v_{name}", Limit()), limits.get(name, limits.get(f"{name}_next", Limit())).rate
        v[:, i] = max(speed.low, -fastest), min(speed.high, fastest)
        if i < tangent.nd:
            p[:, i] = limits.get(f"p_{name}", Limit())[:2]
    for i, force in enumerate(system.inputs):
        own = Limit(_end(force.low, "", "low"), _end(force.high, "", "high"))
        limit = limits.get(force.name, own)
        u[:, i], rate[i] = _within(limit, own), limit.rate
    return Bounds(q, p, v, u, rate)


def _within(limit: Limit, own: Limit) -> tuple[float, float]:
    """A limit, and the system's own on a side where it has none."""
    low = own.low if np.isinf(limit.low) else limit.low
    return low, own.high if np.isinf(limit.high) else limit.high
