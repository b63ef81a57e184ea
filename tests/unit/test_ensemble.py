"""Simulated closed-loop runs that cannot go on are told in words."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import RangeError
from stepmap_codegen import Noise, Plant, Settings
from stepmap_codegen.lower.controller import lower
from stepmap_codegen.precision.ensemble import Ensemble, simulate


def test_a_loop_that_runs_away_is_told_with_its_time_and_what_to_do() -> None:
    """Opposite gains that overflow leave no number."""
    step = sm.discretize(sm.systems.get("pendulum"), 0.02)
    path = step.rollout(step.rest({}), np.zeros((5, 1)))
    noise = Noise(np.eye(2) * 1e-6, np.full(1, 1e-4), np.eye(2) * 1e4)
    plant = Plant(step, noise, np.tile([[1e308, -1e308]], (5, 1, 1)), Settings())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RangeError, match=r"cannot go on at t = 0\.\d+ s") as caught:
            simulate(lower(plant), plant, path, Ensemble(runs=8))
    assert "grow without bound" in str(caught.value.cause)
    assert "Reduce the noise" in caught.value.hint
