"""Standard deviations that innovations of a board should have: those of the job's filter, settled at the start."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stepmap import jobs
from stepmap.arrays import Array
from stepmap.errors import StepmapError
from stepmap.estimate.measurement import measurement_model

TICKS = 60  # after which the filter's covariance has settled


def innovation_sigma(file: Path) -> Array | None:
    """One number per channel; None for a job without a start at rest, without noise, or whose system is not here."""
    try:
        job = jobs.load(file)
        filter_, belief, held = job.ekf(), job.belief(), job.held  # type: ignore[attr-defined]
        at, seen = belief.x, measurement_model(job.step).readings(belief.x)
        for _ in range(TICKS):
            belief, innovation = filter_.update(belief, seen)
            belief = filter_.predict(belief, held)._replace(x=at)
    except (StepmapError, AttributeError):
        return None
    out: Array = np.sqrt(innovation.variance)
    return out
