"""Formulas of a program: what their names stand for at a middle, at a node, at both ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import casadi as ca

from stepmap.errors import ModelError
from stepmap.formula import express
from stepmap.mechanics.system import System
from stepmap.optimal.direct.mechanism import Mechanism
from stepmap.optimal.terms.expression import FUNCTIONS

Formula: TypeAlias = "str | float | Callable[[Mapping[str, Any]], Any]"


def by_name(mechanism: Mechanism, q: ca.SX, par: ca.SX) -> dict[str, ca.SX]:
    """Parameters, axes of frames (``bob.x``) and coordinates by name."""
    system = mechanism.system
    named = {p.name: par[i] for i, p in enumerate(system.parameters)}
    positions = mechanism.positions(q, par)
    for i, frame in enumerate(system.frame_names):
        named |= {f"{frame}.{axis}": positions[k, i] for k, axis in enumerate("xyz")}
    return named | {name: q[i] for i, name in enumerate(stored_names(system))}


def stored_names(system: System) -> tuple[str, ...]:
    """Names of the numbers of q̄."""
    return tuple(c.name for c in system.coordinates)


def velocity_names(system: System) -> tuple[str, ...]:
    return tuple(f"v_{name}" for name, _ in system.tangent.entries)


def momentum_names(system: System) -> tuple[str, ...]:
    return tuple(f"p_{name}" for name, _ in system.tangent.entries[: system.tangent.nd])


def entries(names: tuple[str, ...], column: ca.SX) -> dict[str, ca.SX]:
    return {name: column[i] for i, name in enumerate(names)}


def expression(formula: Formula, names: Mapping[str, ca.SX], what: str) -> ca.SX:
    """The value of a formula: a text, a number, or a function of a mapping from names to symbols."""
    if callable(formula):
        try:
            made = ca.SX(formula(names))
        except KeyError as error:
            raise ModelError(f"{what}: no name {error}; there are {', '.join(names)}") from None
        except NotImplementedError:
            raise ModelError(f"{what}: the function must return an expression of the symbols it gets") from None
    elif isinstance(formula, str):
        try:
            made = ca.SX(express(formula, names, FUNCTIONS))
        except ModelError as error:
            raise ModelError(f"{what}: {error}") from None
    elif isinstance(formula, (int, float)) and not isinstance(formula, bool):
        made = ca.SX(float(formula))
    else:
        raise ModelError(f"{what}: expected a formula as text, or a function of symbols, got {formula!r}")
    if made.numel() != 1:
        raise ModelError(f"{what}: expected one value, got {made.numel()}")
    return made
