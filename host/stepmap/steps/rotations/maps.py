"""Maps from a rate to a turn: ω dt = φ(s) t with t = n tan(θ/4), s = |t|². Quotients of polynomials, without a branch.

exp       φ = 4 atan(√s)/√s, as a quotient that is exact to rounding up to 0.6 rad per step, to 4e-13 at 1 rad
cayley    φ = 4/(1 − s), that is ω dt = 2 n tan(θ/2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from stepmap.arrays import Array

Rotation: TypeAlias = Literal["exp", "cayley"]


@dataclass(frozen=True)
class RotationMap:
    """φ as a quotient of polynomials in s, lowest power first."""

    above: tuple[float, ...]
    below: tuple[float, ...]

    def phi(self, s: Any) -> Any:
        """φ(s) of a number, an array or a symbol."""
        return _value(self.above, s) / _value(self.below, s)

    def slope(self, s: Any) -> Any:
        """dφ/ds."""
        n, d = _value(self.above, s), _value(self.below, s)
        return (_value(_slope(self.above), s) * d - n * _value(_slope(self.below), s)) / (d * d)


MAPS: dict[str, RotationMap] = {
    "exp": RotationMap((60060.0, 77000.0, 23772.0, 1024.0), (15015.0, 24255.0, 11025.0, 1225.0)),
    "cayley": RotationMap((4.0,), (1.0, -1.0)),
}


def vectors(chosen: RotationMap, turns: Array, iterations: int = 30) -> Array:
    """t (..., 3) with φ(|t|²) t = the given turns ω dt; Newton's method on the length r φ(r²) = |ω dt|."""
    size = np.linalg.norm(turns, axis=-1, keepdims=True)
    r = np.tan(np.minimum(size, 3.0) / 4)
    for _ in range(iterations):
        phi, slope = chosen.phi(r * r), chosen.slope(r * r)
        change = (size - r * phi) / (phi + 2 * r * r * slope)
        r = r + change
        if np.abs(change).max(initial=0.0) <= 1e-16:
            break
    return turns * np.where(size > 0, r / np.where(size > 0, size, 1.0), 0.25)


def _value(coefficients: Sequence[float], s: Any) -> Any:
    total: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * s + c
    return total


def _slope(coefficients: Sequence[float]) -> tuple[float, ...]:
    return tuple(k * c for k, c in enumerate(coefficients))[1:] or (0.0,)
