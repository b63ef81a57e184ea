"""Room of a law when masses are not as told: foretold, and what the plant then does under the clamped law."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.optimal.goals.room import room, room_of_masses
from stepmap.optimal.goals.verdict import judge
from stepmap.optimal.plan import Plan
from stepmap.steps.variational import VariationalStep

WHEEL = Path(__file__).parents[2] / "examples" / "mechanisms" / "reaction_wheel"
WEAK = sm.InputLimits(-0.4, 0.4)  # N m


def planned(folder: Path, use: float) -> tuple[VariationalStep, Plan]:
    """The reaction wheel with a motor of 0.4 N m, its plan with a part of that."""
    system = WHEEL.with_suffix(".py").read_text().replace("low=-0.6, high=0.6", "low=-0.4, high=0.4")
    (folder / "reaction_wheel.py").write_text(system)
    path = folder / "wheel.toml"
    path.write_text(WHEEL.with_suffix(".toml").read_text().replace("use = 0.5", f"use = {use}"))
    job = jobs.load(path)
    return job.step, job.solve().require().plan


def stands(step: VariationalStep, plan: Plan, mass: float) -> bool:
    """Whether a rod of another mass is up three seconds after the plan, its state known, its motor clamped."""
    plant = sm.discretize(step.system.with_parameters(mass=mass), step.dt)
    path, x = plan.trajectory, plant.rest(step.layout.pose(plan.trajectory.x[0]))
    nd, place = step.nd, step.layout["p"]

    def seen(of: VariationalStep, state: np.ndarray) -> np.ndarray:
        out = state.copy()
        out[place] = step.system.mass_matrix(state[:nd]) @ of.velocity(state)
        return out

    for k in range(path.steps + round(3.0 / step.dt)):
        i = min(k, path.steps - 1)
        off = seen(plant, x) - seen(step, path.x[min(k, path.steps)])
        x = plant.step(x, np.clip(path.u[i] - plan.gains[i] @ off, -0.4, 0.4)).x
    return bool(abs(x[0] - np.pi) < 0.3)


@pytest.mark.parametrize(("use", "up"), [(0.75, False), (0.4, True)])
def test_a_heavier_rod_needs_room_that_motors_alone_do_not_show(use: float, up: bool, tmp_path: Path) -> None:
    step, plan = planned(tmp_path, use)
    motor = WEAK.on(step)
    wanted = room(step, plan, motor)
    assert wanted is not None
    assert wanted < 0  # enough for motors that are off
    assert stands(step, plan, 0.5)
    assert stands(step, plan, 0.55) is up
    found = room_of_masses(step, plan, motor)
    told = [finding for finding in judge(step, plan, motor=motor).findings if finding.name == "room"]
    if up:
        assert found is None
        assert [finding.ok for finding in told] == [True]
    else:
        assert found is not None
        assert found.part > 0.05
        assert [finding.ok for finding in told] == [True, False]
        assert "10% " in told[1].text
