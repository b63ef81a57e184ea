"""Units as people read them: errors of lengths in millimetres, angles in radians or, where told, in degrees."""

from __future__ import annotations

import math
from dataclasses import dataclass

ANGLES = ("rad", "deg")  # how angles are shown


@dataclass(frozen=True)
class Shown:
    """A unit to show values in: ``factor`` times the SI value."""

    symbol: str
    factor: float = 1.0

    def label(self, name: str) -> str:
        """Name and unit of an axis."""
        return f"{name} [{self.symbol}]" if self.symbol else name

    def text(self, value: float) -> str:
        """A value with its unit."""
        space = "" if self.symbol in ("", "°") else " "
        return f"{self.factor * value:.3g}{space}{self.symbol}"


def whole(unit: str, angles: str = "rad") -> Shown:
    """The unit of a coordinate, an input or a rate of these: as declared, but for angles in degrees."""
    if angles == "deg" and (unit == "rad" or unit.startswith("rad/")):
        return Shown("°" + unit.removeprefix("rad"), math.degrees(1.0))
    return Shown(unit)


def small(unit: str, angles: str = "rad") -> Shown:
    """The unit of an error: thousandths of metres and radians."""
    if unit == "rad":
        return Shown("mrad", 1e3) if angles == "rad" else whole(unit, angles)
    return Shown("mm", 1e3) if unit == "m" else Shown(unit)


def size(value: float, unit: str, angles: str = "rad") -> str:
    """An error with its unit: 3.1 mm, 2.4 m, 5.2 mrad, 0.3°, 1.2 N."""
    chosen = small(unit, angles)
    return (chosen if chosen.factor != 1e3 or abs(value) < 1.0 else Shown(unit)).text(value)


def plural(unit: str) -> str:
    """What quantities of a unit are called together."""
    return {"m": "lengths", "rad": "angles"}.get(unit, f"coordinates in {unit}" if unit else "coordinates without unit")
