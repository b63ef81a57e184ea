"""Values by name: numbers for ordinary coordinates, tuples for what turns freely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepmap.arrays import Array, numbers, vector
from stepmap.errors import ModelError
from stepmap.mechanics.poses.tangent import Tangent
from stepmap.mechanics.quantity import Ball, number

Places = Mapping[str, "int | list[int]"]

POSE = {3: "three numbers (x, y, z)", 4: "a quaternion (w, x, y, z)", 7: "(x, y, z, w, x, y, z)"}
VELOCITY = {3: "ω = (x, y, z) in the child's axes [rad/s]", 6: "its velocity and ω, six numbers"}


def pose_places(tangent: Tangent, balls: Sequence[Ball]) -> Places:
    """Where named values stand in q̄: one place of a coordinate, four of a ball, seven of a free body."""
    index = {name: i for i, name in enumerate(tangent.names)}
    return {**index, **{ball.name: [index[c.name] for c in (*ball.place, *ball.entries)] for ball in balls}}


def velocity_places(tangent: Tangent, balls: Sequence[Ball]) -> Places:
    """Where named values stand in the tangent space."""
    single = {name: i for i, (name, _) in enumerate(tangent.entries)}
    several = {}
    for ball in balls:
        at = tangent.places[ball.name]
        several[ball.name] = [*(tangent.places[c.name] for c in ball.place), at, at + 1, at + 2]
    return {**single, **several}


def fill(values: Mapping[str, Any], places: Places, default: Array, what: str) -> Array:
    """The default with the named values in their places."""
    out = np.array(default, dtype=float)
    for name, value in values.items():
        if name not in places:
            raise ModelError(f"{what}: no coordinate is called {name!r}; there are {', '.join(places)}")
        at = places[name]
        if isinstance(at, int):
            out[at] = number(value, f"{what} {name!r}")
            continue
        given = value if isinstance(value, str) else numbers(value, f"{what} {name!r}")
        if isinstance(given, str) or given.shape != (len(at),):
            form = (POSE if what == "pose" else VELOCITY).get(len(at), "")
            raise ModelError(f"{what} {name!r}: expected {form}, got {value!r}")
        out[at] = given
    return vector(out, len(out), what)
