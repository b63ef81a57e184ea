"""Distributions as drawings in the page itself: histograms with their ECDF, quantiles of groups, points.

They are SVG in the colours of the page, light or dark, and grow and shrink with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from stepmap.arrays import Array
from stepmap.report.document import Drawing

WIDTH, HEIGHT = 380.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 40.0, 12.0, 40.0
BINS = 40
MOST = 1500  # points of a picture: more are one blot, and megabytes
FAR = 25.0  # interquartile ranges, from which on an axis leaves out what lies beyond
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Axis:
    """From values to places on the page."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    @classmethod
    def over(cls, values: Array, begin: float, end: float, *, log: bool = False) -> Axis:
        """With room for all values; for those far beyond the others there is none."""
        finite = values[np.isfinite(values)]
        if not len(finite):
            return cls(0.0, 1.0, begin, end)
        low, high = float(finite.min()), float(finite.max())
        q1, q3 = (float(q) for q in np.quantile(finite, [0.25, 0.75]))
        if q3 > q1 and high - low > FAR * (q3 - q1):
            low, high = max(low, q1 - FAR / 2 * (q3 - q1)), min(high, q3 + FAR / 2 * (q3 - q1))
        if not high > low:
            room = abs(low) * 1e-3 or 0.5
            low, high = low - room, high + room
        if log and low > 0:
            return cls(low, high, begin, end, True)
        pad = 0.03 * (high - low)
        return cls(low - pad, high + pad, begin, end)

    def at(self, values: Array) -> Array:
        if self.log:
            part = (np.log(values) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            part = (values - self.low) / (self.high - self.low)
        place: Array = self.begin + part * (self.end - self.begin)
        return place

    def within(self, values: Array) -> Array:
        inside: Array = (values >= self.low) & (values <= self.high)
        return inside

    @property
    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            if last - first >= 1:
                return [10.0**k for k in range(first, last + 1)][:: max(1, (last - first) // 4)]
        return nice(self.low, self.high)


def nice(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers between two others."""
    raw = (high - low) / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * k for k in (1, 2, 2.5, 5, 10) if size * k >= raw * 0.999)
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def histogram(label: str, values: Array, *, expected: float | None = None) -> Drawing:
    """How often values come, and the part of them up to each (ECDF); with their mean, and the one it should be."""
    values = values[np.isfinite(values)]
    around = values if expected is None else np.append(values, expected)
    x = Axis.over(around, LEFT, WIDTH - RIGHT)
    seen = np.sort(values[x.within(values)])
    counts, edges = np.histogram(seen, bins=min(BINS, max(5, round(math.sqrt(len(seen) or 1)))), range=(x.low, x.high))
    bottom, height = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP
    parts = [_frame(x, label, count_axis=int(counts.max()) if len(counts) else 0)]
    for count, a, b in zip(counts, x.at(edges[:-1]), x.at(edges[1:]), strict=True):
        if count:
            tall = height * count / counts.max()
            parts.append(_rect("bar", a, bottom - tall, max(b - a - 0.6, 0.6), tall))
    if len(seen):
        below = int((values < x.low).sum())
        chosen = np.unique(np.linspace(0, len(seen) - 1, min(len(seen), 200)).astype(int))
        part = (below + chosen + 1) / len(values)
        line = " ".join(f"{a:.1f},{bottom - height * p:.1f}" for a, p in zip(x.at(seen[chosen]), part, strict=True))
        parts.append(f'<polyline class="ecdf" points="{line}"/>')
    parts += _levels(x, float(values.mean()) if len(values) else None, expected)
    beyond = len(values) - len(seen)
    told = f"{label}: {_quantiles(values)}" + (f"; {beyond} beyond the axis" if beyond else "")
    return Drawing(told, _svg(parts, label))


def groups(label: str, by: str, given: Sequence[tuple[str, Array]]) -> Drawing:
    """Quantiles of values in groups: 5 to 95 % as a line, 25 to 75 % as a bar, the median as a stroke."""
    known = [(name, values[np.isfinite(values)]) for name, values in given]
    inside = [np.quantile(values, [QUANTILES[0], QUANTILES[-1]]) for _, values in known if len(values)]
    y = Axis.over(np.concatenate(inside) if inside else np.zeros(0), HEIGHT - BOTTOM, TOP)
    parts = [_sides(y, label, by)]
    wide = (WIDTH - LEFT - RIGHT / 4) / max(len(known), 1)
    size, every = min(26.0, 0.6 * wide), max(1, math.ceil(len(known) * 46 / (WIDTH - LEFT)))
    for i, (name, values) in enumerate(known):
        middle = LEFT + wide * (i + 0.5)
        if i % every == 0:
            parts.append(_text(middle, HEIGHT - BOTTOM + 14, name, "middle"))
        if len(values):
            a, b, c, d, e = (float(v) for v in y.at(np.quantile(values, QUANTILES)))
            left, right = middle - size / 2, middle + size / 2
            parts.append(_rule(middle, middle, a, e, "span"))
            parts.append(_rect("box", left, d, size, max(b - d, 0.8)))
            parts.append(_rule(left, right, c, c, "median"))
    return Drawing(f"{label} over {by}: median, quartiles, 5 to 95 %.", _svg(parts, f"{label} over {by}"))


def points(label: str, by: str, x_values: Array, y_values: Array) -> Drawing:
    """One point per trial."""
    finite = np.isfinite(x_values) & np.isfinite(y_values)
    xs, ys = x_values[finite], y_values[finite]
    x, y = Axis.over(xs, LEFT, WIDTH - RIGHT / 4), Axis.over(ys, HEIGHT - BOTTOM, TOP)
    inside = np.flatnonzero(x.within(xs) & y.within(ys))
    chosen = (
        inside[np.unique(np.linspace(0, max(len(inside) - 1, 0), min(len(inside), MOST)).astype(int))]
        if len(inside)
        else inside
    )
    parts = [_sides(y, label, by), _across(x)]
    places = zip(x.at(xs[chosen]), y.at(ys[chosen]), strict=True)
    parts.append("".join(f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="1.9"/>' for a, b in places))
    beyond = len(xs) - len(inside)
    told = f"{label} over {by}" + (f", {len(chosen)} of {len(inside)} trials" if len(chosen) < len(inside) else "")
    return Drawing(told + (f"; {beyond} beyond the axes." if beyond else "."), _svg(parts, f"{label} over {by}"))


def _text(x: float, y: float, said: str, anchor: str = "", kind: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}"' + (f' text-anchor="{anchor}"' if anchor else "")
    return f"<text {place}{f' class={kind}' if kind else ''}>{escape(said)}</text>"


def _rule(x1: float, x2: float, y1: float, y2: float, kind: str = "rule") -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _rect(kind: str, x: float, y: float, wide: float, tall: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'


def _svg(parts: Sequence[str], said: str) -> str:
    inside = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(said)}">\n{inside}\n</svg>'


def _frame(x: Axis, label: str, *, count_axis: int) -> str:
    """Axes of a histogram: counts on the left, parts on the right."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    out = [_across(x), _text((LEFT + right) / 2, HEIGHT - 6, label, "middle", "name")]
    for part in (0.0, 0.5, 1.0):
        y = bottom - part * (bottom - TOP)
        out.append(_rule(LEFT, right, y, y))
        out.append(_text(LEFT - 6, y + 4, f"{round(part * count_axis):,}", "end"))
        out.append(_text(right + 5, y + 4, f"{part:.0%}", kind="part"))
    return "".join(out)


def _sides(y: Axis, label: str, by: str) -> str:
    right, middle = WIDTH - RIGHT / 4, (HEIGHT - BOTTOM + TOP) / 2
    turned = f'<text class="name" transform="translate(11 {middle:.1f}) rotate(-90)" text-anchor="middle">'
    out = [_text((LEFT + right) / 2, HEIGHT - 6, by, "middle", "name"), f"{turned}{escape(label)}</text>"]
    for tick in y.ticks:
        at = float(y.at(np.array(tick)))
        out.append(_rule(LEFT, right, at, at))
        out.append(_text(LEFT - 6, at + 4, f"{tick:.4g}", "end"))
    return "".join(out)


def _across(x: Axis) -> str:
    bottom = HEIGHT - BOTTOM
    out = []
    for tick in x.ticks:
        at = float(x.at(np.array(tick)))
        out.append(_rule(at, at, bottom, bottom + 4))
        out.append(_text(at, bottom + 15, f"{tick:.4g}", "middle"))
    return "".join(out)


def _levels(x: Axis, mean: float | None, expected: float | None) -> list[str]:
    out = []
    for value, kind in ((expected, "expected"), (mean, "mean")):
        if value is not None and x.low <= value <= x.high:
            at = float(x.at(np.array(value)))
            out.append(_rule(at, at, TOP, HEIGHT - BOTTOM, kind))
    return out


def _quantiles(values: Array) -> str:
    if not len(values):
        return "no value"
    low, median, high = np.quantile(values, [0.05, 0.5, 0.95])
    return f"mean {values.mean():.4g}, median {median:.4g}, 5 to 95 % {low:.4g} to {high:.4g}"
