"""What a set of runs can tell, before anything is solved.

The Jacobian of the readings by the unknowns, in logarithms or scales and in standard deviations, with what first states
can explain taken out, has singular values s: a direction with 1/s > 0.5 is not told. Priors and process noise stay out
of it: in units of momentum they would pretend to know a mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.identification.trajectories import Trajectories
from stepmap.identification.unknowns import Unknown

LEAST = 2.0  # singular value of a direction that is told
PART = 0.1  # of the largest entry of a direction, below which an unknown has no part in it
NUDGE = 3.0  # standard deviations by which what is zero is moved, so that its effect on others shows


@dataclass(frozen=True)
class Untold:
    """A direction that the runs do not tell: its unknowns with their parts, and that in words."""

    names: tuple[str, ...]
    parts: tuple[float, ...]
    words: str
    ratio: str = ""  # what can be told instead, of two unknowns

    def __str__(self) -> str:
        return self.words


def projected(J: Array, data: np.ndarray, n: int) -> Array:
    """Columns of the unknowns in rows of readings, less what columns of first states explain."""
    of_unknowns, of_states = J[data, :n], J[data, n:]
    of_states = of_states[:, np.abs(of_states).max(axis=0, initial=0.0) > 0]
    if not of_states.shape[1]:
        return of_unknowns
    Q, s, _ = np.linalg.svd(of_states / np.linalg.norm(of_states, axis=0), full_matrices=False)
    Q = Q[:, s > 1e-9 * s[0]]
    out: Array = of_unknowns - Q @ (Q.T @ of_unknowns)
    return out


def choose(task: Trajectories, point: Array) -> list[str]:
    """Unknowns that can be solved for together, chosen in their order; the others have to be held."""
    n = len(task.unknowns.free)
    J = projected(task.jacobian(point), task.data, n)
    chosen: list[int] = []
    for i in range(n):
        if np.linalg.svd(J[:, [*chosen, i]], compute_uv=False)[-1] >= LEAST:
            chosen.append(i)
    return [task.unknowns.free[i].name for i in chosen]


def untold(task: Trajectories, point: Array) -> list[Untold]:
    """Directions that are not told at a point, what is zero there moved away from it."""
    free, n = task.unknowns.free, len(task.unknowns.free)
    J = projected(task.jacobian(point), task.data, n)
    moved, scales = np.array(point), np.ones(n)
    for i, one in enumerate(free):
        if one.kind == "parameter" and not one.log and abs(point[i]) < 1e-12:
            size = np.linalg.norm(J[:, i])
            moved[i] = scales[i] = NUDGE / size if size > 1e-9 else 1.0
    J = projected(task.jacobian(moved), task.data, n) * scales
    _, s, Vt = np.linalg.svd(J, full_matrices=True)
    s = np.concatenate([s, np.zeros(n - len(s))])
    return [_direction(free, v) for v in _simplified(Vt[s < LEAST])]


def _simplified(rows: Array) -> Array:
    """A basis of the same directions in which each has one unknown that the others have not (row echelon)."""
    rows, at = np.array(rows), 0
    for i in range(len(rows)):
        rest = np.abs(rows[i:, at:])
        if not rest.size or rest.max() < 1e-9:
            break
        places = [int(j) for j in np.argsort(-np.abs(rows[i:]).max(axis=0))]
        column = places[0]
        best = i + int(np.argmax(np.abs(rows[i:, column])))
        rows[[i, best]] = rows[[best, i]]
        rows[i] /= rows[i, column]
        for k in range(len(rows)):
            if k != i:
                rows[k] -= rows[k, column] * rows[i]
    return rows


def _direction(free: Sequence[Unknown], v: Array) -> Untold:
    v = v / np.abs(v).max()
    places = [i for i in np.argsort(-np.abs(v)) if abs(v[i]) > PART]
    places.sort()
    taking_part = [free[i] for i in places]
    names, parts = tuple(one.name for one in taking_part), tuple(float(v[i]) for i in places)
    if len(names) == 1:
        held = f"{names[0]}={taking_part[0].value:.6g}"
        return Untold(names, parts, f"{names[0]} cannot be told: it moves no reading by more than noise; --hold {held}")
    ratio = _ratio(taking_part, parts) if len(names) == 2 else ""
    listed = " and ".join([", ".join(names[:-1]), names[-1]])
    hold = f"hold one: --hold {names[0]}={taking_part[0].value:.6g}"
    if ratio:
        return Untold(names, parts, f"{listed} cannot be told apart, only {ratio}; {hold}", ratio)
    alike = all(one.log for one in taking_part) and np.ptp(parts) < 0.1 * max(map(abs, parts))
    what = "share a factor: only their ratios can be told" if alike else "cannot be told apart"
    return Untold(names, parts, f"{listed} {what}; {hold}")


def _ratio(pair: Sequence[Unknown], parts: tuple[float, ...]) -> str:
    """What stays the same along a direction of two unknowns, as a formula: damping/mass, for example."""
    (a, b), (da, db) = pair, parts
    logarithmic = all(one.log or one.kind == "parameter" for one in pair)
    if logarithmic and abs(abs(da) - abs(db)) < 0.1:
        return f"{b.name}/{a.name}" if da * db > 0 else f"{a.name}·{b.name}"
    if not a.log and not b.log:
        slope = da * a.scale / (db * b.scale)
        return f"{a.name} {'-' if slope > 0 else '+'} {abs(slope):.3g}·{b.name}"
    return ""
