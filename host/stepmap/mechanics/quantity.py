"""Scalars of a model: plain numbers, named parameters, and arithmetic on them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import casadi as ca

from stepmap.errors import ModelError
from stepmap.mechanics.symbols.arithmetic import Symbolic

OTHER_UNITS = {
    "rad": ("deg", "degs", "degree", "degrees", "°", "grad", "gon", "mrad", "rev", "turn", "turns"),
    "m": ("mm", "cm", "dm", "km", "um", "µm", "in", "inch", "inches", "ft"),
}
"""Units of coordinates that somebody may mean, by those that mechanics counts in."""

Scalar: TypeAlias = Any
"""A float, or a CasADi SX expression of the builder's parameters (``b.parameter`` returns one)."""

Source: TypeAlias = Any
"""What a force may be: a float, an Input, or an expression of inputs, coordinates, their rates and parameters."""


@dataclass(frozen=True)
class Coordinate(Symbolic):
    """A generalized coordinate; a kinematic one is prescribed, its next value is an input.

    ``symbol`` and ``rate`` stand for it and its velocity in expressions of forces.
    """

    name: str
    kinematic: bool
    unit: str
    low: float | None
    high: float | None
    start: float
    symbol: ca.SX = field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    rate: ca.SX = field(default=None, repr=False, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name, what in (("symbol", self.name), ("rate", f"{self.name}.rate")):
            if getattr(self, name) is None:
                object.__setattr__(self, name, ca.SX.sym(what))


@dataclass(frozen=True)
class Ball:
    """A joint that turns freely: a unit quaternion (w, x, y, z), child to parent. Its rate is ω in the child's axes.

    Each entry of the quaternion is a coordinate of its own; together they have three tangent dimensions. That of a free
    body has a ``place`` too: three coordinates in the parent's axes that move it before it turns.
    """

    name: str
    entries: tuple[Coordinate, ...]
    place: tuple[Coordinate, ...] = ()
    speed: float | None = None  # largest |ω| [rad/s] that generated code has to represent
    kinematic: ClassVar[bool] = False


@dataclass(frozen=True)
class Input(Symbolic):
    """A force-like input u; ``symbol`` stands for it in expressions of forces."""

    name: str
    index: int
    unit: str
    low: float | None
    high: float | None
    symbol: ca.SX = field(default=None, repr=False, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.symbol is None:
            object.__setattr__(self, "symbol", ca.SX.sym(self.name))


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


def three(values: Any, what: str) -> list[Any]:
    """Three entries, whatever they are."""
    if not isinstance(values, Iterable) or isinstance(values, str) or len(made := list(values)) != 3:
        raise ModelError(f"{what}: expected three entries, got {values!r}")
    return made


def check_limits(low: float | None, high: float | None, what: str) -> None:
    """Raises ModelError unless low is below high, where both are given."""
    for side, value in (("low", low), ("high", high)):
        if value is not None:
            number(value, f"{side} of {what}")
    if low is not None and high is not None and not low < high:
        raise ModelError(f"{what}: low ({low}) must be below high ({high})")


def check_axes(axes: str, what: str) -> str:
    """Letters of xyz, each once."""
    if not isinstance(axes, str) or not axes or len(set(axes)) != len(axes) or not set(axes) <= set("xyz"):
        raise ModelError(f"{what}: axes must be letters of 'xyz', each once, got {axes!r}")
    return axes
