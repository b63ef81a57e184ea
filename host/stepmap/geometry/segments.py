"""Distances of segments from points and from each other, of expressions and of arrays alike."""

from __future__ import annotations

from typing import Any, TypeAlias

from stepmap.geometry.arithmetic import dot, norm, within

Vector: TypeAlias = tuple[Any, Any, Any]
TINY = 1e-12  # m², beside squared lengths of segments, which may have none


def point_to_segment(p: Vector, a: Vector, b: Vector, blunt: float) -> Any:
    """The distance of p from the segment a b; ``blunt`` as in ``norm``."""
    along, off = _minus(b, a), _minus(p, a)
    t = within(dot(off, along) / (dot(along, along) + TINY), 0.0, 1.0)
    return norm([o - t * e for o, e in zip(off, along, strict=True)], blunt)


def segment_to_segment(a: Vector, b: Vector, c: Vector, d: Vector, blunt: float) -> Any:
    """The distance between the segments a b and c d (Ericson, Real-Time Collision Detection, 5.1.9).

    The nearest point of the first line to the second, moved into the segment, decides the nearest point of the second;
    moved into its segment, that decides the first again.
    """
    first, second, between = _minus(b, a), _minus(d, c), _minus(a, c)
    ff, ss, fs = dot(first, first) + TINY, dot(second, second) + TINY, dot(first, second)
    f, s = dot(first, between), dot(second, between)
    # Parallel lines: any point of the first will do, and the denominator's floor makes it a = the first one.
    t = within((fs * s - f * ss) / (ff * ss - fs * fs + 1e-9 * TINY), 0.0, 1.0)
    r = within((fs * t + s) / ss, 0.0, 1.0)
    t = within((fs * r - f) / ff, 0.0, 1.0)
    return norm([e + t * p - r * q for e, p, q in zip(between, first, second, strict=True)], blunt)


def _minus(a: Vector, b: Vector) -> Vector:
    x, y, z = (p - q for p, q in zip(a, b, strict=True))
    return x, y, z
