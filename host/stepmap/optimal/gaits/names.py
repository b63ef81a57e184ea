"""Formulas of a mechanism: texts of its coordinates, parameters and the positions of its frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import casadi as ca

from stepmap.errors import ModelError
from stepmap.formula import express
from stepmap.mechanics.system import System
from stepmap.optimal.terms.expression import FUNCTIONS
from stepmap.text import nearest

Formula: TypeAlias = "str | float | Callable[[Mapping[str, ca.SX]], Any]"


def spread(system: System, formulas: Any) -> dict[str, Formula]:
    """Formulas by coordinate; of a ball they may come as a list of four, (w, x, y, z), of a free body of seven."""
    if not isinstance(formulas, Mapping):
        raise ModelError(f"periodic: expected a mapping from coordinates to formulas, got {formulas!r}")
    several = {ball.name: [c.name for c in (*ball.place, *ball.entries)] for ball in system.balls}
    known = [c.name for c in system.coordinates]
    made: dict[str, Formula] = {}
    for name, formula in formulas.items():
        if name in several:
            parts = several[name]
            if isinstance(formula, str) or not isinstance(formula, Sequence) or len(formula) != len(parts):
                raise ModelError(f"periodic {name}: expected {len(parts)} formulas, those of {', '.join(parts)}")
            made |= dict(zip(parts, formula, strict=True))
        elif name in known:
            made[name] = formula
        else:
            hint = nearest(str(name), [*several, *known])
            raise ModelError(f"periodic: no coordinate is called {name!r}", hint=hint)
    return made


def symbols(system: System) -> dict[str, ca.SX]:
    """Coordinates, parameters, and frame.x, frame.y and frame.z in the world; a coordinate goes before all others."""
    e = system.expressions
    named = {p.name: e.parameters[i] for i, p in enumerate(system.parameters)}
    for i, frame in enumerate(system.frames):
        named |= {f"{frame.name}.{axis}": e.positions[k, i] for k, axis in enumerate("xyz")}
    return named | {c.name: e.q[i] for i, c in enumerate(system.coordinates)}


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
