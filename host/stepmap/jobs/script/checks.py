"""What can be said of a play before it is solved: do acts last, follow each other smoothly, and ask for what can be?

All of it is about the acts as they are written; the search moves begins by what they give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics import System
from stepmap.mechanics.gravity import gravity
from stepmap.mechanics.quantity import Coordinate
from stepmap.optimal.switching_times.acts import Act
from stepmap.optimal.switching_times.sampled import SampledAct

LOOKS = 9  # poses of an act that are looked at
BARELY = 1e-3  # weight of a coordinate that no act names, beside one that it does
ON = 1e-9  # how far off a constraint counts as on it
TIMES_GRAVITY = 3.0  # that bodies may be accelerated by, where the job does not say


@dataclass(frozen=True)
class Doubt:
    """What is wrong with an act."""

    act: int
    text: str
    hint: str


@dataclass(frozen=True, eq=False)
class Play:
    """The acts of a play as they are written."""

    system: System
    acts: tuple[Act, ...]
    at: tuple[float, ...]
    blend: float
    t: Array
    poses: Array  # q̄ that they ask for at these times

    @property
    def begins(self) -> tuple[float, ...]:
        return (0.0, *self.at)

    def ends(self, j: int) -> float:
        """When the next act has taken over."""
        return self.at[j] + self.blend if j < len(self.at) else float(self.t[-1])

    def act_at(self, t: float) -> int:
        """The act that has begun last."""
        return int(np.searchsorted(self.begins, t + 1e-9, side="right")) - 1


def lasting(play: Play, held: Sequence[bool]) -> Iterator[Doubt]:
    """Acts whose samples end before the next act has taken over, where they are not to hold the last."""
    for j, act in enumerate(play.acts):
        needed = play.ends(j) - play.begins[j]
        if isinstance(act, SampledAct) and not held[j] and act.end < needed - 1e-9:
            yield Doubt(
                j,
                f"its motion lasts {act.end:.4g} s, and the act {needed:.4g} s, with the change to the next one",
                "Give a longer motion, let the next act begin sooner, or set hold = true to stay where it ends.",
            )


def finite(play: Play) -> Iterator[Doubt]:
    """The first act whose formula has no value."""
    bad = np.argwhere(~np.isfinite(play.poses))
    if len(bad):
        k, i = bad[0]
        j = play.act_at(float(play.t[k]))
        text = f"{play.system.coordinates[i].name} is {play.poses[k, i]:g} at {play.t[k] - play.begins[j]:.4g} s"
        yield Doubt(j, f"{text} of its own time", "Write a formula that has a value at all times of the act.")


def smooth(play: Play, most: float | None) -> Iterator[Doubt]:
    """The place where a play asks for the largest acceleration, if that is more than ``most`` [m/s²]."""
    system, t = play.system, play.t
    limit = most if most is not None else TIMES_GRAVITY * float(np.linalg.norm(gravity(system)))
    bodies = [body.frame.index for body in system.bodies]
    if not limit > 0 or len(t) < 3 or not bodies:
        return
    places = system.positions(play.poses)[:, bodies].reshape(len(t), -1)
    moved = [len(system.dynamic) + i for i, c in enumerate(system.kinematic) if c.unit == "m"]
    places = np.hstack([places, play.poses[:, moved]])
    pull = np.diff(places, 2, axis=0) / (t[1] - t[0]) ** 2
    size = np.abs(pull).max(axis=1)
    k = int(np.argmax(size))
    if size[k] <= limit:
        return
    j, at = play.act_at(t[k + 1]), float(t[k + 1])
    asked = f"{size[k]:.3g} m/s² at t = {at:.3g} s, and {limit:.3g} m/s² may be asked for"
    if j and at <= play.begins[j] + play.blend:
        yield Doubt(
            j,
            f"it jumps where it begins: the change from the act before, within {play.blend:g} s, asks for {asked}",
            "Let it begin nearer to where the act before is then, make blend longer, or allow more acceleration "
            "in [script].",
        )
    else:
        yield Doubt(
            j, f"its motion asks for {asked}", "Make it smoother or slower, or allow more acceleration in [script]."
        )


def reachable(play: Play, tolerance: float) -> Iterator[Doubt]:
    """The first pose of each act that is outside of declared ranges, or further than ``tolerance`` from constraints."""
    system = play.system
    for j, act in enumerate(play.acts):
        named = act.names if isinstance(act, SampledAct) else tuple(act)
        weights = np.array([1.0 if c.name in named else BARELY for c in system.coordinates])
        first = play.begins[j] + (play.blend if j else 0.0)
        looks = np.linspace(first, max(first, play.ends(j) - play.blend), LOOKS)
        near: Array | None = None
        for k in np.unique(np.searchsorted(play.t, np.minimum(looks, play.t[-1]) - 1e-9)):
            wanted, local = play.poses[k], float(play.t[k] - play.begins[j])
            if outside := _outside(system, named, wanted):
                yield Doubt(j, f"at {local:.3g} s of its own time {outside}", "Ask for less, or declare a wider range.")
                break
            near = _near(system, wanted, weights, near)
            off = np.where(weights == 1.0, np.abs(near - wanted), 0.0)
            if off.max() > tolerance or _gap(system, near) > 1e-6:
                i = int(np.argmax(off))
                yield _beyond(j, system.coordinates[i], local, float(wanted[i]), float(near[i]))
                break


def _beyond(j: int, c: Coordinate, local: float, wanted: float, near: float) -> Doubt:
    return Doubt(
        j,
        f"what it asks for at {local:.3g} s of its own time cannot be reached: {c.name} should be "
        f"{wanted:.4g} {c.unit}, and the nearest pose that constraints and ranges allow has {near:.4g}",
        "Ask for what the mechanism can reach, name fewer coordinates, or allow more with reach in [script].",
    )


def _outside(system: System, named: Sequence[str], wanted: Array) -> str:
    """Which named coordinate is out of its declared range; empty where none is."""
    for c, value in zip(system.coordinates, wanted, strict=True):
        low, high = -np.inf if c.low is None else c.low, np.inf if c.high is None else c.high
        if c.name in named and not low - 1e-9 <= value <= high + 1e-9:
            return f"it asks for {c.name} = {value:.4g} {c.unit}, and its range is {low:g} to {high:g}"
    return ""


def _gap(system: System, q: Array) -> float:
    return float(np.abs(system.violations(system.residuals(q))).max(initial=0.0))


def _near(system: System, wanted: Array, weights: Array, guess: Array | None) -> Array:
    """The pose on all constraints and within ranges that is nearest to a wanted one, by these weights."""
    if _gap(system, wanted) <= ON:
        return wanted
    low, high = (
        np.array([side * np.inf if value is None else value for value in values])
        for side, values in (
            (-1, [c.low for c in system.coordinates]),
            (1, [c.high for c in system.coordinates]),
        )
    )
    found = _projected(system, wanted, weights)
    if found is not None and (found >= low).all() and (found <= high).all():
        return found
    from scipy.optimize import least_squares

    def residual(q: Array) -> Array:
        return np.concatenate([weights * (q - wanted), HARD * system.violations(system.residuals(q))])

    def slope(q: Array) -> Array:
        h = system.violations(system.residuals(q))
        return np.vstack([np.diag(weights), HARD * system.residuals_slope(q) * (h != 0)[:, None]])

    begin = np.clip(wanted if guess is None else guess, low, high)
    made: Array = least_squares(residual, begin, slope, bounds=(low, np.maximum(high, low + 1e-9)), max_nfev=100).x
    return made


HARD = 1e4  # weight of a metre off a constraint beside one of a coordinate


def _projected(system: System, wanted: Array, weights: Array) -> Array | None:
    """The nearest pose on the constraints without regard to ranges (Gauss–Newton); None where none is found."""
    q = np.array(wanted)
    for _ in range(30):
        h = system.violations(system.residuals(q))
        if np.abs(h).max(initial=0.0) <= ON:
            return q
        jacobian = system.residuals_slope(q) * (h != 0)[:, None] / weights
        q = q + np.linalg.lstsq(jacobian, -h, rcond=1e-10)[0] / weights
        if not np.isfinite(q).all() or np.abs(q).max() > 1e6:
            return None
    return None
