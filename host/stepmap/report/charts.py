"""Charts over one time axis, as data: lines, ribbons, limits, spans and marks; the page's script draws them."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array

MOST = 3000  # points of a line
BUDGET = 1_200_000  # bytes of all lines together


@dataclass(frozen=True)
class Line:
    """Values over the times of a `Timeline`; not a number where there is none, which stays a gap.

    ``role`` chooses the colour: plant, estimate, reference, open, measured, limit, other, or c0 to c7.
    """

    name: str
    values: Array
    role: str = "c0"
    dash: bool = False
    points: bool = False  # dots in place of a line
    width: float = 1.6
    scaled: bool = True  # whether the axis makes room for it


@dataclass(frozen=True)
class Ribbon:
    """What lies between two lines."""

    name: str
    low: Array
    high: Array
    role: str = "estimate"


@dataclass(frozen=True)
class Limit:
    """A level that should not be passed."""

    value: float
    name: str


@dataclass(frozen=True)
class Chart:
    """Lines of one unit. ``base`` is added to all of them where the reader asks for values, not for deviations."""

    key: str  # by which a script finds it
    title: str
    unit: str
    lines: tuple[Line, ...]
    ribbons: tuple[Ribbon, ...] = ()
    limits: tuple[Limit, ...] = ()
    base: Array | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Span:
    """A time in which something held, such as a state."""

    begin: float
    end: float
    label: str
    role: str


@dataclass(frozen=True)
class Mark:
    """Something that happened at one time."""

    time: float
    text: str
    role: str = "event"


@dataclass(frozen=True)
class Timeline:
    """Charts above each other that share their time axis [s]."""

    time: Array
    charts: Sequence[Chart]
    spans: Sequence[Span] = ()
    marks: Sequence[Mark] = ()

    def data(self, weight: Array | None = None) -> dict[str, Any]:
        """What the page's script reads. Of a long run it has, from as many equal parts, the point of most weight."""
        lines = sum(len(c.lines) + 2 * len(c.ribbons) + (c.base is not None) for c in self.charts)
        chosen = thinned(self.time, weight, min(MOST, BUDGET // (6 * max(lines, 1))))
        return {
            "time": packed(self.time[chosen]),
            "whole": len(self.time),
            "charts": [_chart(chart, chosen) for chart in self.charts],
            "spans": [[s.begin, s.end, s.label, s.role] for s in self.spans],
            "marks": [[m.time, m.text, m.role] for m in self.marks],
        }


def _chart(chart: Chart, chosen: Array) -> dict[str, Any]:
    lines = [
        {
            "name": line.name,
            "values": packed(line.values[chosen]),
            "role": line.role,
            "dash": line.dash,
            "points": line.points,
            "width": line.width,
            "scaled": line.scaled,
        }
        for line in chart.lines
    ]
    ribbons = [
        {"name": r.name, "low": packed(r.low[chosen]), "high": packed(r.high[chosen]), "role": r.role}
        for r in chart.ribbons
    ]
    return {
        "key": chart.key,
        "title": chart.title,
        "unit": chart.unit,
        "lines": lines,
        "ribbons": ribbons,
        "limits": [[limit.value, limit.name] for limit in chart.limits],
        "base": None if chart.base is None else packed(chart.base[chosen]),
        "low": chart.low,
        "high": chart.high,
        "note": chart.note,
    }


def thinned(time: Array, weight: Array | None, most: int) -> Array:
    """Indices of at most ``most`` points; each stands for a part of the time, and has the largest weight in it."""
    count = len(time)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, max(most, 2) + 1).astype(int)
    if weight is None:
        return edges[:-1]
    known = np.where(np.isfinite(weight), weight, -np.inf)
    return np.array([a + int(np.argmax(known[a:b])) for a, b in itertools.pairwise(edges)])


def packed(values: Array) -> str:
    """Numbers as base64 of little-endian float32."""
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def unpacked(text: str) -> Array:
    """What ``packed`` was given, in single precision."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(float)


def onto(time: Array, other: Array, values: Array) -> Array:
    """Values at other times, at the nearest of them; not a number farther than three quarters of a period away."""
    if not len(other):
        return np.full((len(time), *np.shape(values)[1:]), np.nan)
    period = float(np.median(np.diff(other))) if len(other) > 1 else np.inf
    place = np.clip(np.searchsorted(other, time), 1, max(len(other) - 1, 1))
    nearest = np.where(
        np.abs(other[np.minimum(place, len(other) - 1)] - time) < np.abs(other[place - 1] - time), place, place - 1
    )
    nearest = np.minimum(nearest, len(other) - 1)
    found = np.array(values, dtype=float)[nearest]
    found[np.abs(other[nearest] - time) > 0.75 * period] = np.nan
    return found
