"""What a trajectory is to be near: coordinates and forces over time, from formulas, way-points or a CSV file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.formula import FUNCTIONS, Formula, FormulaError, parse
from stepmap.jobs.columns import read_columns
from stepmap.jobs.parts import read_pose
from stepmap.mechanics import System
from stepmap.steps import VariationalStep
from stepmap.toml.tables import Table

KINDS = ("expressions", "waypoints", "csv")
MOMENTA = ("legendre", "zero")
INTERPOLATIONS = ("linear", "smooth", "hold")
KEYS = {"expressions": ("of", "let"), "waypoints": ("points", "interpolation"), "csv": ("file",)}


@dataclass(frozen=True, eq=False)
class Reference:
    """Poses q̄ (N+1, n) and forces (N, inputs). It need not satisfy any law of mechanics, nor the constraints."""

    poses: Array
    forces: Array
    momenta: str  # how p and v follow from the poses: one of MOMENTA
    named: tuple[str, ...]  # coordinates and inputs the job gives; the others stay at the start

    def states(self, step: VariationalStep) -> tuple[Array, Array]:
        """x_ref (N+1, nx) and u_ref (N, nu).

        p is the discrete Legendre transform of the differences of poses, p_k = D2 Ld(q̄_{k−1}, q̄_k), and v their rate;
        at k = 0 both are those of rest. Forces of the step before add to p as the map has it. Or both are zero.
        """
        q, layout = self.poses, step.layout
        u_ref = layout.hold(q[1:], self.forces)
        if self.momenta == "zero":
            return np.hstack([q, np.zeros((len(q), step.nx - q.shape[1]))]), u_ref
        velocity = step.system.tangent.difference(np.concatenate([q[:1], q[:-1]]), q) / step.dt
        x_ref = layout.state(q, velocity)
        before = np.concatenate([self.forces[:1], self.forces])
        if before.any():
            x_ref[:, layout["p"]] = layout.momentum(q, velocity, before)
        return x_ref, u_ref


def read_reference(table: Table, system: System, start: Array, t: Array, files: dict[str, bytes]) -> Reference:
    """The reference of a job; ``files`` collects the contents of the files it names."""
    table.need("kind", f"Name one of {', '.join(KINDS)}.")
    kind = table.choice("kind", KINDS)
    table.only(("kind", "momenta", *KEYS[kind]))
    momenta = table.choice("momenta", MOMENTA, "legendre")
    coordinates = [c.name for c in system.coordinates]
    forces = [i.name for i in system.inputs]
    known = [*coordinates, *forces]
    values: Mapping[str, Array]
    if kind == "expressions":
        values = _expressions(table, known, t)
    elif kind == "waypoints":
        values = _waypoints(table, known, dict(zip(coordinates, start, strict=True)), t)
    else:
        values = _csv(table, known, t, files)
    poses, force = np.tile(start, (len(t), 1)), np.zeros((len(t), len(forces)))
    for name, value in values.items():
        column = poses[:, coordinates.index(name)] if name in coordinates else force[:, forces.index(name)]
        column[:] = value
    try:
        poses = system.tangent.require_unit(poses, "reference")
    except ModelError as error:
        raise table.error(str(error)) from None
    return Reference(poses, force[:-1], momenta, tuple(values))


def read_goal(table: Table, system: System, start: Array, steps: int) -> Reference:
    """The goal as a reference that stands there all the time; coordinates that are not named stay at the start."""
    wanted = read_pose(table, system)
    if not wanted:
        raise table.error("name at least one coordinate and where it is to be")
    names = [c.name for c in system.coordinates]
    try:
        pose = system.configuration({**dict(zip(names, start, strict=True)), **wanted})
        system.require_on_constraints(pose)
    except ModelError as error:
        raise table.error(
            str(error).partition(";")[0], hint="Name coordinates that agree with the constraints."
        ) from None
    return Reference(np.tile(pose, (steps + 1, 1)), np.zeros((steps, len(system.inputs))), "legendre", tuple(wanted))


# formulas -------------------------------------------------------------------------------------------------------


def _expressions(table: Table, known: list[str], t: Array) -> dict[str, Array]:
    table.need("of", "Give formulas of time, by coordinate or force input.")
    let = table.table("let")
    words: dict[str, Formula] = {}
    for name in let:
        if not name.isidentifier() or name in ("t", "pi", *FUNCTIONS):
            raise let.error("cannot name a formula: take letters, digits and _, and no name that formulas know", name)
        words[name] = _fixed(_values(let, name, words, t))
    of = table.table("of")
    of.only(known, "coordinate or force input")
    return {name: _values(of, name, words, t) for name in of}


def _values(table: Table, name: str, words: Mapping[str, Formula], t: Array) -> Array:
    """A formula, or a plain number, at the times t."""
    if not isinstance(table.entries[name], str):
        return np.full(len(t), table.number(name))
    try:
        return parse(table.text(name), words)(t)
    except FormulaError as error:
        raise table.error(str(error), name) from None


def _fixed(values: Array) -> Formula:
    """Values that are there already, as a formula: all formulas of a job are asked for the same times."""
    return lambda t: values


# way-points -----------------------------------------------------------------------------------------------------


def _waypoints(table: Table, known: list[str], start: Mapping[str, float], t: Array) -> dict[str, Array]:
    """Each coordinate goes through the points that name it; before the first of them it comes from its start."""
    table.need("points", "Add a [[reference.points]] or more, with a time t and coordinates or force inputs.")
    between = INTERPOLATE[table.choice("interpolation", INTERPOLATIONS, "smooth")]
    points = table.tables("points")
    if not points:
        raise table.error("give at least one point", "points")
    times = [_time(point) for point in points]
    for earlier, later, point in zip(times, times[1:], points[1:], strict=False):
        if later <= earlier:
            raise point.error(f"points must follow each other in time, got {later:g} after {earlier:g}", "t")
    if times[-1] > t[-1] * (1 + 1e-9):
        raise points[-1].error(f"the job ends before, at {t[-1]:g} s", "t")
    knots: dict[str, list[tuple[float, float]]] = {}
    for time, point in zip(times, points, strict=True):
        point.only(("t", *known), "coordinate or force input")
        for name in (name for name in point if name != "t"):
            default = [] if time == 0.0 else [(0.0, start.get(name, 0.0))]
            knots.setdefault(name, default).append((time, point.number(name)))
    return {name: between(t, *np.array(pairs).T) for name, pairs in knots.items()}


def _time(point: Table) -> float:
    point.need("t", "Give the time of the point [s].")
    time = point.number("t", unit="seconds")
    if time < 0:
        raise point.error(f"must not be negative, got {time:g}", "t")
    return time


def _linear(t: Array, times: Array, values: Array) -> Array:
    return np.interp(t, times, values)


def _hold(t: Array, times: Array, values: Array) -> Array:
    """The value of the last point that has been reached; a point on a step counts whatever its rounding."""
    passed = np.searchsorted(times, t + 1e-9, side="right") - 1
    held: Array = values[np.maximum(passed, 0)]
    return held


def _smooth(t: Array, times: Array, values: Array) -> Array:
    """Of least jerk from point to point, at rest in each: twice continuously differentiable, without overshoot."""
    if len(times) == 1:
        return np.full(len(t), values[0])
    i = np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(times) - 2)
    s = np.clip((t - times[i]) / (times[i + 1] - times[i]), 0.0, 1.0)
    moved: Array = values[i] + (values[i + 1] - values[i]) * s**3 * (10 - 15 * s + 6 * s**2)
    return moved


INTERPOLATE: dict[str, Callable[[Array, Array, Array], Array]] = {"linear": _linear, "smooth": _smooth, "hold": _hold}


# files ----------------------------------------------------------------------------------------------------------


def _csv(table: Table, known: list[str], t: Array, files: dict[str, bytes]) -> dict[str, Array]:
    table.need("file", "Name a CSV file, relative to the job file.")
    path, content = table.content("file")
    files[table.text("file")] = content
    return read_columns(path, content, known).at(t)
