"""What contacts ask of the stages and nodes of a phase: open gaps, forces that push, and friction cones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.direct.conditions import Condition
from stepmap.optimal.direct.mechanism import Mode
from stepmap.optimal.direct.phases.cones import cones
from stepmap.optimal.direct.stage import Stage
from stepmap.text import nearest


def read_gaps(system: System, given: Any, what: str, *, none: bool = False) -> dict[str, float | None]:
    """Numbers that are not negative by names of gaps; None where that is allowed."""
    if not isinstance(given, Mapping):
        raise ModelError(f"{what}: expected a mapping from names of gaps to numbers, got {given!r}")
    out: dict[str, float | None] = {}
    for name, value in given.items():
        if name not in system.gap_names:
            raise ModelError(f"{what}: no gap is called {name!r}", hint=nearest(str(name), system.gap_names))
        out[name] = None if none and value is None else number(value, f"{what} of {name!r}")
        if out[name] is not None and out[name] < 0:  # type: ignore[operator]
            raise ModelError(f"{what} of {name!r}: must not be negative, got {value!r}")
    return out


def open_gaps(system: System, mode: Mode, clearance: Mapping[str, float | None]) -> list[int]:
    """Rows of gaps that are open in a mode and may not be passed."""
    names, kinds = system.constraint_names, system.constraint_rows
    gaps = (i for i, kind in enumerate(kinds) if kind is Row.GAP and i not in mode.rows)
    return [i for i in gaps if clearance.get(names[i], 0.0) is not None]


def most_open(system: System, rows: list[int], clearance: Mapping[str, float | None], steps: int) -> Array:
    """High bounds of h at nodes 1 … K−1, (K−1, rows): −clearance in the middle of a phase, 0 at its ends."""
    wanted = np.array([clearance.get(system.constraint_names[i]) or 0.0 for i in rows])
    swell = np.sin(np.pi * np.arange(1, steps) / steps)
    out: Array = -swell[:, None] * wanted
    return out


def cone_conditions(stage: Stage, friction: Mapping[str, float | None]) -> list[Condition]:
    """Forces of a step within their cones."""
    found = cones(stage.mode, stage.lam, friction)
    return [Condition(row, 0.0, np.inf, f"friction cone of {name}") for row, name in found]


def least_forces(mode: Mode) -> Array:
    """Low bounds of multipliers: what may open only pushes, or as a string pulls."""
    return np.array([0.0 if kind is Row.GAP else -np.inf for kind in mode.kinds])
