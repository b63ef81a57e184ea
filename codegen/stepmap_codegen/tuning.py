"""Formats that stay when the feedback is tuned: docs/fixed-point.md, "Tuning without a new firmware".

Formats of a job are chosen from runs with gains of several weights: those that tuning begins with, and both ends of how
far it may go. Weights in between have other gains, hence another schedule, but the same formats and the same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import RangeError
from stepmap.optimal.plan import gains_with_steady_end
from stepmap.steps import VariationalStep
from stepmap.steps.protocol import Trajectory
from stepmap_codegen.controller import Design, Options, design
from stepmap_codegen.lower.controller import Plant
from stepmap_codegen.model.scalar import Scalar
from stepmap_codegen.precision import pinned as pinning
from stepmap_codegen.precision.ranges import MARGIN

FACTOR = 4.0  # that each weight of the feedback may be larger or smaller by
SAME = 1e-7  # of gains, relative
NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Family:
    """Gains (N, nu, ndx) of the weights that tuning begins with, and of the farthest from them."""

    name: str  # of those weights, for messages
    base: Array
    ends: tuple[Array, ...]

    def begins_with(self, gains: Array) -> bool:
        """Whether they are the base's, up to what another machine rounds otherwise."""
        return bool(np.allclose(self.base, gains, rtol=SAME, atol=SAME * float(np.abs(self.base).max())))

    def reaches(self, gains: Array, times: float = MARGIN) -> bool:
        """Whether no gain is so many times larger than the family's; by more than MARGIN, it cannot fit the formats."""
        largest = np.max([np.abs(one).max(axis=0) for one in (self.base, *self.ends)], axis=0)
        return bool((np.abs(gains).max(axis=0) <= times * largest).all())


def family(
    name: str, step: VariationalStep, trajectory: Trajectory, Q: Array, R: Array, factor: float = FACTOR
) -> Family | None:
    """Gains for weights that are ``factor`` times as large and others as much smaller.

    One part of the weights (coordinates, kinematic ones, momenta, velocities, inputs) goes one way and all others go
    the other way, each part in turn and both ways round. None where the end of the trajectory has no steady regulator.
    """
    scales = _scales(step, Q, factor)
    made = [gains_with_steady_end(step, trajectory, q * Q * q[:, None], r * R, NONE)[0] for q, r in scales]
    return None if any(gains is NONE for gains in made) else Family(name, made[0], tuple(made[1:]))


def _scales(step: VariationalStep, Q: Array, factor: float) -> Iterator[tuple[Array, float]]:
    """Roots of factors on the state's weights, and factors on the input's: none first, then those of the ends."""
    yield np.ones(step.ndx), 1.0
    parts = [step.layout.tangent_slices[part] for part in ("q", "rho", "p", "v")]
    weighed = [part for part in parts if np.diagonal(Q)[part].any()]
    for one in (factor, 1 / factor):
        yield np.full(step.ndx, np.sqrt(one)), 1 / one
        for part in weighed if len(weighed) > 1 else []:
            scale = np.full(step.ndx, np.sqrt(1 / one))
            scale[part] = np.sqrt(one)
            yield scale, 1 / one


def design_tunable(plant: Plant, trajectory: Trajectory, options: Options, families: Sequence[Family]) -> Design:
    """The controller in the formats of the first family that holds its gains; else in formats of its own."""
    if options.pinned is not None or options.scalar is not Scalar.FIXED32 or not families:
        return design(plant, trajectory, options)
    for k, one in enumerate(families):
        if not all(one.reaches(later.base, 1.0) for later in families[k + 1 :]):
            continue  # factors on the later one's weights would soon lead from one's formats to the other's
        if one.begins_with(plant.gains):
            return _with_ends(plant, trajectory, options, one.ends)
        if one.reaches(plant.gains):
            base = _with_ends(replace(plant, gains=one.base), trajectory, options, one.ends)
            try:
                return design(plant, trajectory, replace(options, pinned=_formats_of(base, one.name)))
            except RangeError:
                continue
    return _with_ends(plant, trajectory, options, (families[-1].base, *families[-1].ends))


def _with_ends(plant: Plant, trajectory: Trajectory, options: Options, ends: Sequence[Array]) -> Design:
    """Formats for other gains, too; without them where a loop with those cannot go on, or words are too short."""
    try:
        return design(plant, trajectory, options, ends)
    except RangeError:
        return design(plant, trajectory, options)


def _formats_of(base: Design, name: str) -> pinning.PinnedFormats:
    text = base.formats_file()
    assert text is not None  # fixed point has formats
    return pinning.unpack(text.encode(), name)
