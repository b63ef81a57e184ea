"""Conditions of a path as rows: formulas with bounds, at the nodes or in the middles of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from stepmap.errors import ModelError
from stepmap.mechanics.quantity import number
from stepmap.optimal.direct.ends import SLACK, End
from stepmap.optimal.direct.names import expression
from stepmap.optimal.direct.stage import Node, Stage


@dataclass(frozen=True, eq=False)
class Condition:
    """low ≤ row ≤ high."""

    row: ca.SX
    low: float
    high: float
    label: str


def read_range(value: Any, what: str) -> tuple[float, float]:
    """(low, high), None where there is no end, or one number for both."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 2:
            raise ModelError(f"{what}: expected a number or (low, high), got {value!r}")
        low = -np.inf if value[0] is None else _number(value[0], what)
        high = np.inf if value[1] is None else _number(value[1], what)
    else:
        low = high = number(value, what)
    if not low <= high:
        raise ModelError(f"{what}: low ({low:g}) must not be above high ({high:g})")
    return low, high


def _number(value: Any, what: str) -> float:
    return float(value) if isinstance(value, float) and np.isinf(value) else number(value, what)


def path_conditions(stage: Stage, given: Mapping[Any, Any]) -> tuple[list[Condition], list[Condition]]:
    """Conditions at nodes, and those in the middles of steps: what knows of velocities, inputs and forces."""
    if not isinstance(given, Mapping):
        raise ModelError(f"path: expected a mapping from formulas to (low, high), got {given!r}")
    nodes, middles = [], []
    for formula, ends in given.items():
        label = formula if isinstance(formula, str) else getattr(formula, "__name__", "formula")
        what = f"path {label!r}"
        low, high = read_range(ends, what)
        try:
            nodes.append(Condition(expression(formula, stage.node.names, what), low, high, label))
        except ModelError:
            middles.append(Condition(expression(formula, stage.names, what), low, high, label))
    return nodes, middles


def require_at_ends(node: Node, conditions: Sequence[Condition], start: End, goal: End) -> None:
    """Raises ModelError where the start, or what a goal says of itself, breaks a condition at nodes."""
    m, par = node.mechanism, node.mechanism.system.parameter_values
    if not conditions or node.design:
        return
    rows = ca.Function("rows", [node.x, node.c], [ca.vertcat(*(condition.row for condition in conditions))])
    unknown = np.full(m.nd + 1, np.nan)  # momenta, where they follow from the search, and the length of a step
    begin = np.concatenate([start.q, m.instant(start.q[None], start.v[None])[0], [np.nan]])
    ends = {"start": (begin, 0.0), "goal": (np.concatenate([goal.q, unknown]), np.nan)}
    for what, (x, k) in ends.items():
        values = np.asarray(rows(x, np.concatenate([[k], par]))).ravel()
        for value, condition in zip(values, conditions, strict=True):
            if not np.isnan(value) and not condition.low - SLACK <= value <= condition.high + SLACK:
                raise ModelError(
                    f"path {condition.label!r}: is {value:.4g} at the {what}, outside of {condition.low:g} to "
                    f"{condition.high:g}"
                )


def boundary_conditions(
    first: Mapping[str, ca.SX], last: Mapping[str, ca.SX], given: Mapping[Any, Any]
) -> list[Condition]:
    """Conditions of both ends: formulas of ``start.name`` and ``end.name``, and the whole time ``t``."""
    if not isinstance(given, Mapping):
        raise ModelError(f"boundary: expected a mapping from formulas to (low, high), got {given!r}")
    names = {f"start.{name}": value for name, value in first.items() if "." not in name}
    names |= {f"end.{name}": value for name, value in last.items() if "." not in name} | {"t": last["t"]}
    out = []
    for formula, ends in given.items():
        label = formula if isinstance(formula, str) else getattr(formula, "__name__", "formula")
        what = f"boundary {label!r}"
        out.append(Condition(expression(formula, names, what), *read_range(ends, what), label))
    return out
