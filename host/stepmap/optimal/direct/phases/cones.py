"""Friction cones of contacts that stick, of forces in a phase and of impulses in a landing alike."""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca

from stepmap.mechanics.constraints import Row
from stepmap.optimal.direct.mechanism import Mode


def cones(mode: Mode, along: ca.SX, friction: Mapping[str, float | None]) -> list[tuple[ca.SX, str]]:
    """What must not be negative so that |λ_t| ≤ μ λ_n, and the contact's name; ``along`` has one entry per row.

    In a plane there is one tangent, and both sides of the cone are rows; in space it is μ² λ_n² − |λ_t|².
    """
    rows: dict[str, list[int]] = {}
    owner = ""
    for i, (name, kind) in enumerate(zip(mode.labels, mode.kinds, strict=True)):
        owner = owner if kind is Row.TANGENT else name
        if kind is not Row.EQUALITY:
            rows.setdefault(owner, []).append(i)
    found = []
    for name, (normal, *tangents) in rows.items():
        ratio = friction.get(name)
        if not ratio or not tangents:
            continue
        push, side = along[normal], [along[i] for i in tangents]
        if len(side) == 1:
            found += [(ratio * push - side[0], name), (ratio * push + side[0], name)]
        else:
            found.append(((ratio * push) ** 2 - sum((e**2 for e in side), ca.SX(0)), name))
    return found
