"""Random trees whose last link hangs on a string that is wound: constraints, tangency, tension."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import stepmap as sm
from tests import trees

DT = 0.01
ANCHOR = np.array([0.4, 1.1, 2.5])
TREES = [(2, 3), (4, 5)]  # seed, links

each_tree = pytest.mark.parametrize(("seed", "links"), TREES)


class Hung(NamedTuple):
    system: sm.System
    step: sm.VariationalStep
    euler: sm.EulerStep


@functools.cache
def hung(seed: int, links: int) -> Hung:
    """The last link on a string of kinematic length from a fixed point, and springs that keep the joints near it."""
    b, coordinates, frames = trees.assemble(trees.random_tree(seed, links))
    for q in coordinates:
        b.coordinate_spring(q, stiffness=trees.STIFFNESS, rest=trees.REST)
    length = b.coordinate("length", kinematic=True)
    b.distance(frames[-1], b.world.translate(*ANCHOR, name="anchor"), length, name="string")
    system = b.build()
    return Hung(system, sm.discretize(system, DT), sm.euler(system, DT))


def on_string(system: sm.System, q: np.ndarray) -> np.ndarray:
    """q̄ with the string as long as the pose q asks for."""
    where = dict(zip(system.frame_names, system.positions(np.append(q, 0.0)), strict=True))
    return np.append(q, np.linalg.norm(where[f"link{len(q) - 1}"] - ANCHOR))


@each_tree
def test_constraint_is_kept_and_derivatives_are_tangent(seed: int, links: int) -> None:
    system, step, _ = hung(seed, links)

    @given(trees.vectors(links, 0.6), trees.vectors(links, 0.6), st.floats(-0.3, 0.3))
    def check(q: np.ndarray, v: np.ndarray, winding: float) -> None:
        pose = on_string(system, q)
        # Where the joints hardly change the length, the step's force direction cannot reach the next one.
        assume(np.linalg.norm(system.residuals_slope(pose)[0, :links]) > 0.5)
        x = step.from_velocity(pose, np.append(v, winding))
        u = pose[-1:] + DT * winding
        at = step.linearize(x, u)
        after = at.x[: links + 1]
        assert abs(system.gaps(after)[0]) < 2e-15 * after[-1]
        for part in (at.A, at.B):
            slide = system.gap_velocities(after, part[: links + 1].T)
            # Entries of A are sums of terms of the size of the largest.
            assert np.abs(slide).max() < 1e-13 * max(1.0, np.abs(part[: links + 1]).max())

    check()


@each_tree
def test_acceleration_and_tension_solve_the_constrained_equations(seed: int, links: int) -> None:
    """[M Jᵀ; J 0] [a; λ] = [τ − b; −J̇ v] with M, b and J of pinocchio and J the Jacobian of the string's length."""
    pin = pytest.importorskip("pinocchio", reason="pinocchio, the outside implementation, is not installed")
    system, _, euler = hung(seed, links)
    model = trees.pinocchio_model(trees.random_tree(seed, links))

    @given(trees.vectors(links, 0.6), trees.vectors(links, 0.6), st.floats(-1, 1))
    def check(q: np.ndarray, v: np.ndarray, winding: float) -> None:
        pose = on_string(system, q)
        J, bend = string_slope(pin, model, q, v)
        rate = float(J @ v)
        data = model.createData()
        M = np.array(pin.crba(model, data, q))
        M = np.triu(M) + np.triu(M, 1).T
        force = -trees.STIFFNESS * (q - trees.REST) - pin.nonLinearEffects(model, data, q, v)
        matrix = np.block([[M, J[:, None]], [J[None, :], np.zeros((1, 1))]])
        solution = np.linalg.solve(matrix, np.append(force, winding - bend))
        acceleration, tension = euler.acceleration(pose, np.append(v, rate), rho_acceleration=[winding])
        np.testing.assert_allclose(acceleration, solution[:links], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(tension, solution[links:], rtol=1e-9, atol=1e-9)

    check()


def string_slope(pin: Any, model: Any, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, float]:
    """J = d|Δ|/dq and J̇ v, for the distance |Δ| from the anchor to the last link."""
    data = model.createData()
    frame = model.getFrameId(f"link{len(q) - 1}")
    pin.forwardKinematics(model, data, q, v, np.zeros_like(v))
    world = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
    point = pin.updateFramePlacement(model, data, frame).translation - ANCHOR
    slope = pin.computeFrameJacobian(model, data, q, frame, world)[:3]
    velocity = slope @ v
    acceleration = pin.getFrameClassicalAcceleration(model, data, frame, world).linear
    distance = np.linalg.norm(point)
    along = point / distance
    bend = (velocity @ velocity - (along @ velocity) ** 2) / distance + along @ acceleration
    return along @ slope, float(bend)


@each_tree
def test_energy_does_not_drift_on_a_still_string(seed: int, links: int) -> None:
    system, step, _ = hung(seed, links)
    x = step.rest(on_string(system, np.full(links, 0.4)))
    path = step.rollout(x, np.tile(step.unpack(x).rho, (20_000, 1)))
    window = np.hanning(200) / np.hanning(200).sum()
    early, late = (np.array([step.energy(state) for state in part]) for part in (path.x[:1000:5], path.x[-1000::5]))
    swing = np.ptp(system.potential_energy(path.x[:1000, : links + 1]))  # energy that goes to and fro
    # The oscillation is second order, (ω dt)² of what goes to and fro; its average over 10 s differs by less.
    assert np.ptp(early) < 1e-3 * swing
    assert abs(window @ late - window @ early) < 1e-4 * swing
