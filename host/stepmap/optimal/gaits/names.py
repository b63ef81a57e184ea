"""Formulas of a mechanism: texts of its coordinates, parameters and the positions of its frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import casadi as ca

from stepmap.errors import ModelError
from stepmap.formula import express
from stepmap.mechanics.system import System
from stepmap.optimal.terms.expression import FUNCTIONS

Formula: TypeAlias = "str | float | Callable[[Mapping[str, ca.SX]], Any]"


def symbols(system: System) -> dict[str, ca.SX]:
    """Coordinates, parameters, and frame.x, frame.y and frame.z in the world; a coordinate goes before a parameter."""
    e = system.expressions
    named = {p.name: e.parameters[i] for i, p in enumerate(system.parameters)}
    named |= {c.name: e.q[i] for i, c in enumerate(system.coordinates)}
    for i, frame in enumerate(system.frames):
        named |= {f"{frame.name}.{axis}": e.positions[k, i] for k, axis in enumerate("xyz")}
    return named


def expressed(system: System, formula: Formula, what: str) -> ca.SX:
    """The value of a formula as an expression of the system's own symbols; ``what`` names it in errors."""
    known = symbols(system)
    try:
        if callable(formula):
            return ca.SX(formula(known))
        if isinstance(formula, str):
            return ca.SX(express(formula, {"t": ca.SX.nan(), **known}, FUNCTIONS))
        return ca.SX(float(formula))
    except KeyError as error:
        raise ModelError(f"{what}: no name {error}; there are {', '.join(known)}") from None
    except (TypeError, NotImplementedError):
        raise ModelError(f"{what}: expected a formula, a number or a function of symbols, got {formula!r}") from None
    except ModelError as error:
        raise ModelError(f"{what}: {error}", cause=error.cause, hint=error.hint) from None
