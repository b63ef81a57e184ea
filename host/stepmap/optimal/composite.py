"""A cost as a sum of terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError, ShapeError
from stepmap.optimal.blocks import Blocks
from stepmap.optimal.objective import Bend, Expansion, Weights
from stepmap.optimal.terms.term import BoundTerm, Expanded, Part, Term, forces_count
from stepmap.steps.pointwise import as_step_map
from stepmap.steps.protocol import LengthSensitivity, StepMap, Trajectory


class Cost:
    """The sum of terms along trajectories of a step map, as an objective of a Problem.

    Terms are those of ``stepmap.optimal.terms``, or any object with ``value`` and ``expand`` (terms/term.py).
    """

    def __init__(self, step: StepMap, *terms: Term | BoundTerm) -> None:
        self.step: StepMap = as_step_map(step)
        if not terms:
            raise ModelError("terms: a cost needs at least one")
        self.given = terms
        self.terms = tuple(_bound(term, self.step) for term in terms)
        self.forces = any(getattr(term, "forces", False) for term in self.terms)
        horizons = {h for h in (getattr(term, "horizon", None) for term in self.terms) if h is not None}
        if len(horizons) > 1:
            raise ShapeError(f"terms: they are for different numbers of steps, {', '.join(map(str, sorted(horizons)))}")
        self.horizon: int | None = next(iter(horizons), None)

    @property
    def weights(self) -> Weights | None:
        """Those of a regulator, Q, R and Qf, of the first term that has them."""
        return next((found for term in self.terms if (found := getattr(term, "weights", None)) is not None), None)

    @property
    def reference(self) -> tuple[Array, Array] | None:
        """x_ref and u_ref of the first term that has them."""
        return next((found for term in self.terms if (found := getattr(term, "reference", None)) is not None), None)

    def on(self, step: StepMap) -> Self:
        """The cost for a step map: itself, or of the same terms where it was made for another dt or mechanism."""
        if step is self.step:
            return self
        if (step.layout.names, step.nu) != (self.step.layout.names, self.step.nu):
            raise ShapeError("cost: it was made for another step map")
        return type(self)(step, *self.given)

    def __reduce__(self) -> tuple[Any, ...]:
        """A cost is its step and its terms; expressions are made again."""
        return type(self), (self.step, *self.given)

    def value(self, trajectory: Trajectory) -> float:
        self._fits(trajectory)
        if self.forces and trajectory.multipliers is None:
            trajectory = dataclasses.replace(trajectory, multipliers=self._sensitivity(trajectory).multipliers)
        return sum(term.value(trajectory) for term in self.terms)

    def expand(self, trajectory: Trajectory) -> Expansion:
        self._fits(trajectory)
        change = self._sensitivity(trajectory) if self.forces else None
        if change is not None:
            trajectory = dataclasses.replace(trajectory, multipliers=change.multipliers)
        expanded = [term.expand(trajectory) for term in self.terms]
        if change is None:
            self._without_forces(expanded)
        n, ndx, nu = trajectory.steps, self.step.ndx, self.step.nu
        slope = np.zeros((n, ndx + nu + forces_count(self.step)))
        positive = Blocks(n, ndx, nu, change)
        for part in _running(expanded):
            slope[:, part.at] += part.slope
            positive.add(part.at, part.positive)
        x, u, forces = np.split(slope, [ndx, ndx + nu], axis=1)
        last, terminal = np.zeros((1, ndx)), Blocks(1, ndx, 0, None)
        for part in _end(expanded):
            last[:, part.at] += part.slope
            terminal.add(part.at, part.positive)
        if change is not None:
            x = x + np.einsum("kc,kcj->kj", forces, change.multipliers_x)
            u = u + np.einsum("kc,kcj->kj", forces, change.multipliers_u)
        return Expansion(
            np.concatenate([x, last]),
            np.ascontiguousarray(u),
            positive.filled("xx"),
            positive.filled("uu"),
            terminal.filled("xx").reshape(-1, ndx, ndx)[0],
            xu=positive.xu,
            bend=lambda: self._bend(expanded, n, change),
            multipliers=None if change is None else np.ascontiguousarray(forces),
            linearization=None if change is None else (np.ascontiguousarray(change.A), np.ascontiguousarray(change.B)),
        )

    def _without_forces(self, expanded: list[Expanded]) -> None:
        """Raises where a term depends on constraint forces and does not say so."""
        size = self.step.ndx + self.step.nu
        for term, each in zip(self.terms, expanded, strict=True):
            if any(len(part.at) and part.at.max() >= size for part in each.running):
                raise ModelError(f"terms: {type(term).__name__} depends on constraint forces; give it forces = True")

    def _bend(self, expanded: list[Expanded], n: int, change: LengthSensitivity | None) -> Bend:
        """What the positive parts leave out, apart from the curvature of forces."""
        ndx, nu = self.step.ndx, self.step.nu
        running, end = Blocks(n, ndx, nu, change), Blocks(1, ndx, 0, None)
        for parts, blocks in ((_running(expanded), running), (_end(expanded), end)):
            for part in parts:
                bend = part.bend() if callable(part.bend) else part.bend
                if bend is not None:
                    blocks.add(part.at, bend)
        last = None if end.xx is None else end.xx.reshape(-1, ndx, ndx)[0]
        return Bend(running.xx, running.xu, running.uu, last)

    def _sensitivity(self, trajectory: Trajectory) -> LengthSensitivity:
        found: LengthSensitivity = self.step.length_sensitivity_along(trajectory)  # type: ignore[attr-defined]
        return found

    def _fits(self, trajectory: Trajectory) -> None:
        if trajectory.x.shape[1] != self.step.nx or trajectory.u.shape[1] != self.step.nu:
            raise ShapeError(
                f"trajectory: the cost is for states of {self.step.nx} and inputs of {self.step.nu} entries, "
                f"got {trajectory.x.shape[1]} and {trajectory.u.shape[1]}"
            )
        forces = forces_count(self.step)
        if self.forces and trajectory.multipliers is not None and trajectory.multipliers.shape[1] != forces:
            raise ShapeError(
                f"trajectory: the cost is for {forces} constraint forces, got {trajectory.multipliers.shape[1]}"
            )


def _bound(term: Any, step: StepMap) -> BoundTerm:
    made = term.on(step) if hasattr(term, "on") else term
    if not (hasattr(made, "value") and hasattr(made, "expand")):
        raise ModelError(f"terms: expected terms such as sm.Track(...), got {type(term).__name__}")
    bound: BoundTerm = made
    return bound


def _running(expanded: Iterable[Expanded]) -> Iterable[Part]:
    return (part for each in expanded for part in each.running)


def _end(expanded: Iterable[Expanded]) -> Iterable[Part]:
    return (part for each in expanded for part in each.end)
