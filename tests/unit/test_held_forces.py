"""Forces that are held over a step: the map is second order against a plant whose motors hold their command."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from stepmap.mechanics.gaps import Contact
from tests.continuous import ContinuousPlant
from tests.mechanisms import furuta, pushed_crane

HOLD, BLOCKS = 0.04, 10  # s, and how often inputs change
PARTS = {"tendon_hand": 16}  # steps per block, the fewest; 4 of others. Its fingers are light and its forces large


def forced() -> dict[str, sm.System]:
    """Systems of the catalog with a force and without impacts, and one with a kinematic coordinate besides."""
    catalog = {name: sm.systems.get(name) for name in sm.systems.names()}
    struck = {name for name, s in catalog.items() if any(isinstance(c, Contact) for c in s.constraints)}
    # The truth here knows coordinates only; test_balls.py has one of its own for what turns freely.
    return {name: s for name, s in catalog.items() if s.inputs and name not in struck and not s.balls} | {
        "pushed_crane": pushed_crane()
    }


def start_of(name: str, system: sm.System) -> tuple[np.ndarray, np.ndarray]:
    example = sm.systems.example(name) if name in sm.systems.names() else {"theta": 0.4}
    pose = system.satisfy_constraints(example)
    return pose, np.where(np.arange(len(pose)) < len(system.dynamic), 0.3, 0.0)


def inputs_of(system: sm.System, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forces and next kinematic coordinates of every block, the latter along a swing."""
    rng = np.random.default_rng(5)
    forces = rng.normal(0.0, 2.0, (BLOCKS, len(system.inputs)))
    t = HOLD * np.arange(1, BLOCKS + 1)[:, None]
    return forces, pose[len(system.dynamic) :] + 0.05 * np.sin(8 * t)


def error_of(system: sm.System, how: str, fine: int, name: str, truth: ContinuousPlant) -> float:
    """How far the map is from the plant at the end, pose and velocity, with ``fine`` steps per block."""
    step = sm.discretize(system, HOLD / fine, forces=how)
    pose, velocity = start_of(name, system)
    forces, rho = inputs_of(system, pose)
    before = np.vstack([pose[step.nd :], rho[:-1]])
    parts = (np.arange(1, fine + 1) / fine)[None, :, None]
    between = (before[:, None] + parts * (rho - before)[:, None]).reshape(BLOCKS * fine, step.nk)
    x0 = step.from_velocity(pose, velocity, instant=True)
    last = step.rollout(x0, np.hstack([np.repeat(forces, fine, axis=0), between])).x[-1]
    off = step.layout.pose(last) - truth.pose, step.velocity(last) - truth.velocity
    return float(np.linalg.norm(np.concatenate(off)))


@pytest.mark.parametrize("name", sorted(forced()))
def test_the_map_is_second_order_against_a_plant_with_held_inputs(name: str) -> None:
    system = forced()[name]
    plant = ContinuousPlant(system, *start_of(name, system))
    for f, rho in zip(*inputs_of(system, plant.pose), strict=True):
        plant.advance(f, rho, HOLD)
    errors = [error_of(system, "held", fine, name, plant) for fine in PARTS.get(name, 4) * np.array([1, 2, 4])]
    assert np.log2(errors[:-1]) - np.log2(errors[1:]) == pytest.approx([2.0, 2.0], abs=0.1)


def prediction_errors(how: str, dt: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors of one step of the map, of q and of p, along a Furuta pendulum that is held up by a torque."""
    system = furuta()
    step = sm.discretize(system, dt, forces=how)
    plant = ContinuousPlant(system, np.array([0.0, 0.1]), np.zeros(2))
    rng, torque, errors = np.random.default_rng(2), np.zeros(1), []

    def state() -> np.ndarray:
        """x of the plant; in the map with forces on the left, p lacks half of the last torque's impulse."""
        x = step.from_velocity(plant.pose, plant.velocity, instant=True)
        x[step.layout["p"]][0] -= (step.left - 0.5) * dt * torque[0]
        return x

    for _ in range(steps):
        before = state()
        torque = np.array([-0.05 * plant.pose[0] - 0.02 * plant.velocity[0] + rng.normal(0.0, 0.05)])
        plant.advance(torque, np.zeros(0), dt)
        errors.append(state() - step.step(before, torque).x)
    found = np.array(errors)
    return found[:, step.layout["q"]].std(axis=0), found[:, step.layout["p"]].std(axis=0)


def test_a_furuta_pendulum_needs_a_third_of_the_process_noise() -> None:
    """Standard deviations of what one step of 1/50 s does not predict, of the arm and of the pendulum."""
    held, left = (prediction_errors(how, 0.02, 150) for how in ("held", "left"))
    for of_held, of_left in zip(held, left, strict=True):
        assert (of_left >= 3 * of_held).all()
