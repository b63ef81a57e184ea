"""What a controller is generated for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.estimate import registry
from stepmap.steps.variational import VariationalStep
from stepmap.walking.standing import Touchdown
from stepmap_codegen.stream.settings import Stream


@dataclass(frozen=True)
class Settings:
    """What besides the model decides the program."""

    newton: int = 2  # iterations after the predictor
    gate: float | None = 5.0  # standard deviations
    filter: str = registry.DEFAULT


@dataclass(frozen=True)
class Noise:
    """Covariances of the filter: process (ndx, ndx), measurement variances (nz), start (ndx, ndx)."""

    process: Array
    measurement: Array
    start: Array


@dataclass(frozen=True)
class Gait:
    """What a program that walks knows of landings."""

    touchdown: Touchdown
    contact: str  # that comes down
    steps: int  # rows of the plan; those beyond them are for landings that are late
    beyond: int


@dataclass(frozen=True)
class Plant:
    """What the program is made for."""

    step: VariationalStep
    noise: Noise
    gains: Array  # (N, nu, ndx): only their zeros matter here
    settings: Settings
    stream: Stream | None = None  # set-points that come while it runs
    gait: Gait | None = None  # of a robot that walks: ``step`` is the map while it stands on one foot


def stored_noise(plant: Plant) -> Array:
    """Standard deviations of a step's process noise per stored number; those of a quaternion are half its turn's."""
    process: Array = np.sqrt(np.diagonal(plant.noise.process))
    layout = plant.step.layout
    if layout.plain:
        return process
    origin = plant.step.rest()
    slope = [(layout.retract(origin, 1e-6 * e) - layout.retract(origin, -1e-6 * e)) / 2e-6 for e in np.eye(layout.ndx)]
    spread: Array = np.linalg.norm(np.array(slope) * process[:, None], axis=0)
    for at, _ in plant.step.system.tangent.balls:  # whichever entry a turn changes
        spread[at : at + 4] = spread[at : at + 4].max()
    return spread
