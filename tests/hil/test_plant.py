"""The simulated plant: a motion does not depend on the length of the steps it is simulated with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepmap import jobs
from stepmap_codegen.emit.motors import Axis
from stepmap_hil.plant.mechanism import Plant, PlantErrors
from tests.continuous import ContinuousPlant

EXAMPLES = Path(__file__).parents[2] / "examples"


def plant(name: str, start: dict[str, float]) -> Plant:
    job = jobs.load(EXAMPLES / f"{name}.toml")
    axes = [Axis() for _ in job.step.input_names]
    return Plant(job, axes, PlantErrors(start=start))


def moved(name: str, lengths: list[float], start: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Pose and velocity after these spans of time, the motors at rest."""
    made = plant(name, start)
    for seconds in lengths:
        made.advance([0] * len(made.axes), True, seconds)
    return made.coordinates, made._step(made._dt).velocity(made.x)


@pytest.mark.parametrize(("name", "start"), [("cart_pendulum", {"theta": 1.0}), ("suspended_mass", {"xm": 0.1})])
def test_velocity_is_kept_when_the_step_changes(name: str, start: dict[str, float]) -> None:
    """Steps that change all the time lead to where equal steps do, as near as 2 ms are to the continuous plant.

    Momenta of the wrong step would be off by half the difference of two steps times the weight, hundred times more.
    """
    equal = moved(name, [0.002] * 200, start)
    uneven = moved(name, [0.001, 0.0017, 0.0013, 0.002, 0.002] * 50, start)
    for a, b in zip(equal, uneven, strict=True):
        assert a == pytest.approx(b, abs=2e-5)


def test_a_changed_step_keeps_pose_velocity_and_constraint_forces() -> None:
    made = plant("suspended_mass", {"xm": 0.1})
    for _ in range(50):
        made.advance([0, 0], True, 0.002)
    old, x = made._step(made._dt), made.x
    new = made._step(0.001)
    made._convert(new)
    hold = old.layout.hold(x)
    assert made.coordinates == pytest.approx(old.layout.pose(x), abs=0.0)
    assert new.velocity(made.x) == pytest.approx(old.velocity(x), abs=1e-13)
    assert new.step(made.x, hold).multipliers == pytest.approx(old.step(x, hold).multipliers, rel=2e-3)


def test_forces_of_the_plant_are_held() -> None:
    """20 ms under a force end where the continuous plant ends: one step of 2 ms has an error of dt³."""
    made = plant("cart_pendulum", {"theta": 0.5})
    truth = ContinuousPlant(made.system, made.coordinates, np.zeros(2))
    made.x = made._step(0.001).from_velocity(made.coordinates, np.zeros(2), instant=True)
    per_unit = made.axes[0].effort_per_unit
    for force in (50.0, -20.0, 80.0):
        made.advance([round(force * per_unit)], True, 0.02)
        truth.advance(np.array([round(force * per_unit) / per_unit]), np.zeros(0), 0.02)
    assert made.coordinates == pytest.approx(truth.pose, abs=2e-6)
