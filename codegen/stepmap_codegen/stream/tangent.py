"""How reference and feedforward follow a set-point: the tangent of equilibria, and motion along it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.mechanics.quantity import Coordinate, Input
from stepmap.steps import VariationalStep
from stepmap_codegen.stream.follower import toward
from stepmap_codegen.stream.settings import Stream

EXACT = 1e-7  # residual of the equations of D and E, relative
ARRIVED = 1e-9  # of a tick's way: what rounding leaves
STANDING = 0.02  # of a coordinate's range: how far from the plan's last state the law may come to rest


@dataclass(frozen=True, eq=False)
class Tangent:
    """Around the equilibrium (x, u): references of a set-point s that changes by ds in one tick,

    (x, u) + D (s − x[states]) + E ds. D and E are (n, nx + nu), a row per streamed quantity.
    """

    states: list[int]
    x: Array
    u: Array
    D: Array
    E: Array

    def reference(self, s: Array, ds: Array) -> Array:
        """[x_ref, u_ref] of set-points (…, n), (…, nx + nu)."""
        there: Array = np.concatenate([self.x, self.u]) + (s - self.x[self.states]) @ self.D + ds @ self.E
        return there


def tangent(stream: Stream, step: VariationalStep, x: Array, u: Array) -> Tangent:
    """The tangent at the plan's last state and the input that holds it; raises ModelError where there is none.

    With A, B of the map there, and C that picks the streamed quantities: equilibria D = A D + B D_u with C D = 1, and
    motion along them at constant speed, D + E = A E + B E_u with C E = 0.
    """
    if step.nx != step.ndx:
        raise ModelError(
            f"[stream]: system {step.system.name!r} has ball joints or free bodies, whose equilibria are no plane",
            hint="Leave [stream] out, or model the mechanism with angles.",
        )
    at, n = step.linearize(x, u), len(stream.states)
    pick = np.zeros((n, step.nx))
    pick[range(n), stream.states] = 1.0
    matrix = np.block([[at.A - np.eye(step.nx), at.B], [pick, np.zeros((n, step.nu))]])
    names = ", ".join(stream.names)
    D = _solved(matrix, np.vstack([np.zeros((step.nx, n)), np.eye(n)]))
    if D is None:
        raise ModelError(
            f"[stream]: {names} cannot be set each by itself: not all near the end of the plan is an equilibrium",
            hint="Stream fewer coordinates: as many as there are inputs at most, and none that follows from another.",
        )
    E = _solved(matrix, np.vstack([D[: step.nx], np.zeros((n, n))]))
    if E is None:
        raise ModelError(f"[stream]: {names} cannot move at a constant speed near the end of the plan")
    return Tangent(stream.states, x, u, D.T, E.T)


def _solved(matrix: Array, right: Array) -> Array | None:
    """The least solution; None where there is none."""
    found: Array = np.linalg.lstsq(matrix, right, rcond=1e-11)[0]
    left = float(np.abs(matrix @ found - right).max())
    return found if left <= EXACT * (1.0 + float(np.abs(right).max())) else None


def extremes(stream: Stream, start: Array, period: float) -> Array:
    """Set-points (ticks, n) from ``start`` to two opposite corners of the limits, to two others, and back."""
    n = len(stream.names)
    signs = [np.ones(n), np.array([1.0 if i % 2 else -1.0 for i in range(n)])]
    centre, half = (stream.low + stream.high) / 2, (stream.high - stream.low) / 2
    corners = [centre + s * half for sign in signs[: 1 + (n > 1)] for s in (-sign, sign)]
    most, change = stream.rate * period, np.minimum(stream.acceleration * period, 2 * stream.rate) * period
    path, speed = [start], np.zeros(n)
    for corner in (*corners, start):
        while (path[-1] != corner).any() or speed.any():
            off = np.where(np.abs(corner - path[-1]) < ARRIVED * most, 0.0, corner - path[-1])
            speed = np.array([toward(*one) for one in zip(off, speed, most, change, strict=True)])
            path.append(np.where((off == 0.0) & (speed == 0.0), corner, path[-1] + speed))
    return np.array(path)


def streamed(stream: Stream, tangent: Tangent, period: float) -> Array:
    """[x_ref, u_ref] of every tick along the extremes."""
    path = extremes(stream, tangent.x[tangent.states], period)
    return tangent.reference(path[:-1], np.diff(path, axis=0))


def require_inside(stream: Stream, step: VariationalStep, tangent: Tangent, gain: Array) -> dict[str, float]:
    """How far from its set-point each coordinate comes to rest at worst, at the corners of the limits.

    Raises ModelError where the law does not hold the plan's end, or where a set-point would lead out of limits.
    """
    system, pose = step.system, step.layout.pose
    s0 = tangent.x[tangent.states]
    for q, value in zip(stream.quantities, s0, strict=True):
        if not q.low <= value <= q.high:
            raise ModelError(
                f"[stream.of.{q.name}]: the plan ends at {value:.4g} {q.unit}, outside {q.low:g} … {q.high:g}",
                hint="Set-points begin where the plan ends: widen the limits, or end the plan inside.",
            )
    spans = np.array([(c.high or 0.0) - (c.low or 0.0) for c in system.coordinates])
    first = np.abs(pose(_standing(step, tangent, gain, s0)))
    if (first > STANDING * spans).any():
        i = int(np.argmax(first / spans))
        c = system.coordinates[i]
        raise ModelError(
            f"[stream]: the plan does not end at rest: {c.name} would move on by {first[i]:.3g} {c.unit}",
            hint="Add rest = true to [end] of the job: set-points are followed from an equilibrium.",
        )
    worst = first
    for corner in product(*zip(stream.low, stream.high, strict=True)):
        _require_limits(step, tangent.reference(np.array(corner), np.zeros(len(corner))), stream, corner)
        worst = np.maximum(worst, np.abs(pose(_standing(step, tangent, gain, np.array(corner)))))
    return {c.name: float(v) for c, v in zip(system.coordinates, worst, strict=True)}


def _standing(step: VariationalStep, tangent: Tangent, gain: Array, s: Array) -> Array:
    """Where the closed loop comes to rest, minus its reference, to first order: (1 − A + B K)⁻¹ (f(x, u) − x)."""
    x, u = np.split(tangent.reference(s, np.zeros(len(s))), [step.nx])
    try:
        at = step.linearize(x, u)
    except ConvergenceError as error:
        raise ModelError(
            f"[stream]: nothing can stand at the corner {np.array2string(s, precision=3)} of the limits: {error}",
            hint="Narrow low and high in [stream.of].",
        ) from error
    rest: Array = np.linalg.lstsq(np.eye(step.nx) - at.A + at.B @ gain, at.x - x, rcond=None)[0]
    return rest


def _require_limits(step: VariationalStep, there: Array, stream: Stream, corner: tuple[float, ...]) -> None:
    for what, value, low, high, unit in _limited(step, there):
        slack = 1e-9 * (high - low)
        if not low - slack <= value <= high + slack:
            at = ", ".join(f"{n} = {v:g}" for n, v in zip(stream.names, corner, strict=True))
            raise ModelError(
                f"[stream]: at {at} {what} would be {value:.4g} {unit}, outside its limits {low:g} … {high:g}",
                hint="Narrow low and high in [stream.of], or widen the limits where the system declares them.",
            )


def _limited(step: VariationalStep, there: Array) -> Iterator[tuple[str, float, float, float, str]]:
    system = step.system
    values = [*step.layout.pose(there[: step.nx]), *there[step.nx : step.nx + len(system.inputs)]]
    quantities: list[Coordinate | Input] = [*system.coordinates, *system.inputs]
    for quantity, value in zip(quantities, values, strict=True):
        if quantity.low is not None and quantity.high is not None:
            yield quantity.name, float(value), quantity.low, quantity.high, quantity.unit
