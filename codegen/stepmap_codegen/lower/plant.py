"""What a controller is generated for."""

from __future__ import annotations

from dataclasses import dataclass

from stepmap.arrays import Array
from stepmap.estimate import registry
from stepmap.steps.variational import VariationalStep
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
class Plant:
    """What the program is made for."""

    step: VariationalStep
    noise: Noise
    gains: Array  # (N, nu, ndx): only their zeros matter here
    settings: Settings
    stream: Stream | None = None  # set-points that come while it runs
