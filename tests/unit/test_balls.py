"""Ball joints and free bodies: the step against laws solved elsewhere, what it keeps, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from tests import turning

ROTATIONS = ("exp", "cayley")


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """Angle of the turn from a quaternion to another [rad]."""
    return 2 * float(np.arcsin(min(1.0, min(np.linalg.norm(a - b), np.linalg.norm(a + b)) / 2))) * 2


def ratios(errors: list[float]) -> np.ndarray:
    return np.array(errors[:-1]) / np.array(errors[1:])


@pytest.mark.parametrize("rotation", ROTATIONS)
@pytest.mark.parametrize("pushed", [False, True], ids=["free", "forced"])
def test_free_body_is_of_second_order(rotation: str, pushed: bool) -> None:
    system, time = turning.free_body(turning.GRAVITY * pushed), 1.0
    force = np.concatenate([turning.PUSH, turning.TWIST]) * pushed
    truth = turning.free_body_truth(time, turning.GRAVITY * pushed, force[:3], force[3:])
    errors = []
    for n in (40, 80, 160):
        step = sm.discretize(system, time / n, rotation=rotation)
        pose, velocity = {"body": (0, 0, 0, *turning.START)}, {"body": (0, 0, 0, *turning.OMEGA)}
        end = step.rollout(step.from_velocity(pose, velocity, instant=True), np.tile(force, (n, 1))).x[-1]
        errors.append(apart(end[3:7], truth[3:]) + float(np.abs(end[:3] - truth[:3]).max()))
    np.testing.assert_allclose(ratios(errors), 4.0, atol=0.3)


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_top_is_of_second_order(rotation: str) -> None:
    time, omega = 1.0, np.array([0.2, 0.4, 15.0])
    start = np.array([np.cos(0.2), np.sin(0.2), 0, 0])
    truth, errors = turning.top_truth(time, start, omega), []
    for n in (160, 320, 640):
        step = sm.discretize(turning.top(), time / n, rotation=rotation)
        x = step.from_velocity({"top": start}, {"top": omega}, instant=True)
        errors.append(apart(step.rollout(x, np.zeros((n, 0))).x[-1][:4], truth))
    np.testing.assert_allclose(ratios(errors), 4.0, atol=0.3)


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_top_keeps_its_momenta(rotation: str) -> None:
    """About its axis and about the vertical, over 1e5 steps; quaternions stay unit ones."""
    step = sm.discretize(turning.top(), 0.01, rotation=rotation)
    x = step.from_velocity({"top": (np.cos(0.2), np.sin(0.2), 0, 0)}, {"top": (0.2, 0.4, 15.0)}, instant=True)
    path = step.rollout(x, np.zeros((100_000, 0))).x
    assert np.abs(np.linalg.norm(path[:, :4], axis=1) - 1).max() <= 1e-14
    w, i, j, k = path[:, :4].T
    down = np.stack([2 * (i * k - w * j), 2 * (j * k + w * i), 1 - 2 * (i * i + j * j)], axis=1)
    for momentum in (path[:, 6], np.sum(down * path[:, 4:], axis=1)):
        assert np.abs(momentum - momentum[0]).max() <= 1e-12


@pytest.mark.parametrize("forces", ["held", "left"])
@pytest.mark.parametrize("rotation", ROTATIONS)
def test_derivatives_are_those_of_differences(rotation: str, forces: str) -> None:
    step = sm.discretize(turning.arm(), 0.02, rotation=rotation, forces=forces)
    rng = np.random.default_rng(2)
    pose = {"shoulder": turning.START, "elbow": 0.7, "wrist": turning.START[[1, 0, 3, 2]]}
    x = step.from_velocity(pose, {"shoulder": (1, 2, -1), "elbow": 2.0, "wrist": (-3, 1, 4)}, instant=True)
    u = 0.3 * rng.normal(size=step.nu)
    spacing = np.concatenate([np.full(step.nd, 1e-3), np.full(step.nd, 1e-5), np.full(step.nu, 1e-3)])
    errors = sm.check_derivatives(step, x, u, rng.normal(size=step.ndx), spacing)
    assert max(errors.A, errors.B) < 1e-9
    assert errors.worst < 1e-7


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_symplectic_form_is_kept(rotation: str) -> None:
    """Aᵀ W(x⁺) A = W(x) without forces: W = [[−p̂, I], [−I, 0]] with p̂ on blocks of balls."""
    step = sm.discretize(turning.arm(), 0.02, rotation=rotation)
    pose = {"shoulder": turning.START, "elbow": 0.7, "wrist": turning.START[[1, 0, 3, 2]]}
    x = step.from_velocity(pose, {"shoulder": (1, 2, -1), "elbow": 2.0, "wrist": (-3, 1, 4)}, instant=True)
    at = step.linearize(x, np.zeros(step.nu))

    def form(state: np.ndarray) -> np.ndarray:
        n, p = step.nd, state[step.layout["p"]]
        out = np.zeros((2 * n, 2 * n))
        out[:n, n:], out[n:, :n] = np.eye(n), -np.eye(n)
        for _, i in step.system.tangent.balls:
            out[i : i + 3, i : i + 3] = np.cross(p[i : i + 3], np.eye(3))
        return out

    np.testing.assert_allclose(at.A.T @ form(at.x) @ at.A, form(x), atol=1e-11)


def test_layout_s_maps_are_inverse() -> None:
    layout = sm.discretize(turning.arm(), 0.02).layout
    rng = np.random.default_rng(5)
    a, b = (layout.normalize(rng.normal(size=(20, layout.nx))) for _ in range(2))
    back = layout.retract(a, layout.difference(a, b))
    np.testing.assert_allclose(layout.difference(back, b), 0.0, atol=1e-13)
    np.testing.assert_allclose(layout.retract(a, np.zeros(layout.ndx)), a, atol=1e-15)
    assert (layout.nx, layout.ndx) == (16, 14)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ((0, 0, 0, 0), "norm 0"),
        ((1.0, 0.1, 0, 0), "norm 1.00499"),
        ((1.0, 0, 0), "expected a quaternion"),
        ("1", "expected a quaternion"),
        (0.5, "expected a quaternion"),
    ],
)
def test_quaternions_off_the_unit_are_refused(value: object, told: str) -> None:
    with pytest.raises(sm.ModelError, match=told):
        turning.top().configuration({"top": value})


def test_quaternions_near_the_unit_are_normalised() -> None:
    q = turning.top().configuration({"top": (0.6, 0, 0.8004, 0)})
    np.testing.assert_allclose(np.linalg.norm(q), 1.0, rtol=1e-15)
