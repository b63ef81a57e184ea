"""Scalars of a model: plain numbers, named parameters, and arithmetic on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import casadi as ca

from stepmap.errors import ModelError

OTHER_UNITS = {
    "rad": ("deg", "degs", "degree", "degrees", "°", "grad", "gon", "mrad", "rev", "turn", "turns"),
    "m": ("mm", "cm", "dm", "km", "um", "µm", "in", "inch", "inches", "ft"),
}
"""Units of coordinates that somebody may mean, by those that mechanics counts in."""

Scalar: TypeAlias = Any
"""A float, or a CasADi SX expression of the builder's parameters (``b.parameter`` returns one)."""


@dataclass(frozen=True)
class Coordinate:
    """A generalized coordinate; a kinematic one is prescribed, its next value is an input."""

    name: str
    kinematic: bool
    unit: str
    low: float | None
    high: float | None
    start: float


@dataclass(frozen=True)
class Input:
    """A force-like input u."""

    name: str
    index: int
    unit: str
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Parameter:
    """A named number of the model that can be changed without building it anew."""

    name: str
    index: int
    value: float
    unit: str


def check_unit(unit: str, what: str) -> str:
    """The unit of a coordinate; raises ModelError for one that would be a label only, beside values in SI."""
    si = next((si for si, others in OTHER_UNITS.items() if str(unit).strip().lower() in others), None)
    if si is not None:
        how = "math.radians(90)" if si == "rad" else "0.25"
        raise ModelError(
            f"{what}: its values are in {si}, and unit={unit!r} would be a label that does not convert them",
            hint=f"Write unit={si!r}, and low, high and start in {si}: high={how}.",
        )
    return unit


def scalar(value: Scalar, what: str) -> ca.SX:
    """``value`` as SX; a number must be finite, an expression may hold parameters only."""
    if isinstance(value, ca.SX):
        if value.shape != (1, 1):
            raise ModelError(f"{what}: expected one number, got an expression of shape {value.shape}")
        return value
    return ca.SX(number(value, what, "a number or a parameter"))


def number(value: Any, what: str, kind: str = "a number") -> float:
    """``value`` as a finite float; a text is none, whatever stands in it."""
    if isinstance(value, str | bytes):
        raise ModelError(f"{what}: expected {kind}, got the text {value!r}", hint="Leave out the quotes.")
    try:
        made = float(value)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what}: expected {kind}, got {value!r}") from error
    if not math.isfinite(made):
        raise ModelError(f"{what}: must be finite, got {made}")
    return made
