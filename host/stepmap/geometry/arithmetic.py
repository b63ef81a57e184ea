"""Functions that formulas of distances need, of CasADi expressions and of arrays alike, and checked arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from stepmap.arrays import numbers, rows
from stepmap.errors import ModelError, ShapeError

Triple: TypeAlias = tuple[float, float, float]


def symbolic(value: Any) -> bool:
    """Whether a value is an expression."""
    return isinstance(value, (ca.SX, ca.MX))


def components(point: Any) -> tuple[Any, Any, Any]:
    """x, y and z of an expression of three entries, or of points (..., 3)."""
    if symbolic(point):
        if point.numel() != 3:
            raise ShapeError(f"point: expected 3 entries, got {point.shape}")
        return point[0], point[1], point[2]
    array = rows(point, 3, "point")
    return array[..., 0], array[..., 1], array[..., 2]


def root(value: Any) -> Any:
    return ca.sqrt(value) if symbolic(value) else np.sqrt(value)


def greater(a: Any, b: Any) -> Any:
    return ca.fmax(a, b) if symbolic(a) or symbolic(b) else np.maximum(a, b)


def lesser(a: Any, b: Any) -> Any:
    return ca.fmin(a, b) if symbolic(a) or symbolic(b) else np.minimum(a, b)


def magnitude(value: Any) -> Any:
    return ca.fabs(value) if symbolic(value) else np.abs(value)


def within(value: Any, low: float, high: float) -> Any:
    """The value, moved into [low, high]."""
    return lesser(greater(value, low), high)


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    first, *others = (p * q for p, q in zip(a, b, strict=True))
    return sum(others, first)


def norm(vector: Iterable[Any], blunt: float) -> Any:
    """√(|v|² + blunt²): where v is 0 its slope is 0 and not undefined; elsewhere it is off by blunt²/2|v| at most."""
    entries = list(vector)
    return root(dot(entries, entries) + blunt**2)


def triple(value: Any, what: str) -> Triple:
    """Three finite numbers."""
    array = numbers(value, what)
    if array.shape != (3,):
        raise ShapeError(f"{what}: expected 3 numbers, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ModelError(f"{what}: must be finite, got {array.tolist()}")
    x, y, z = (float(e) for e in array)
    return x, y, z


def number(value: Any, what: str, *, least: float = -math.inf, above: float = -math.inf) -> float:
    """A finite number that is at least ``least`` and greater than ``above``."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ModelError(f"{what}: expected a number, got {value!r}") from None
    if not math.isfinite(found) or found < least or found <= above:
        must = f"greater than {above:g}" if above > least else f"{least:g} or more" if least > -math.inf else "finite"
        raise ModelError(f"{what}: must be {must}, got {found:g}")
    return found
