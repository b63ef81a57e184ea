"""The helicopter against the equations that Kobilarov et al. print, integrated by scipy."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import stepmap as sm

helicopter = partial(sm.systems.get, "helicopter")

MASS, INERTIA, MAST, BOOM = 5.0, np.array([0.2, 0.4, 0.45]), 0.3, 1.0
INPUT = np.array([55.0, 1.2, 0.2, -0.3])  # lift, yaw, pitch, roll
START = Rotation.from_rotvec([0.2, -0.4, 0.6])


def motion(seconds: float) -> tuple[np.ndarray, Rotation]:
    """Position and attitude after so long from rest, by eq. 6–8 and that of translations."""
    lift, yaw, pitch, roll = INPUT
    F_V = np.array([[np.sin(pitch) * np.cos(roll), 0], [-np.sin(roll), -1], [np.cos(pitch) * np.cos(roll), 0]])
    F_O = np.array([[MAST * np.sin(roll), 0], [MAST * np.sin(pitch) * np.cos(roll), 0], [0, BOOM]])
    force, moment = (F @ (lift, yaw) for F in (F_V, F_O))

    def rates(t: float, y: np.ndarray) -> np.ndarray:
        R, w = y[6:15].reshape(3, 3), y[15:]
        spin = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
        turn = (np.cross(INERTIA * w, w) + moment) / INERTIA
        return np.concatenate([y[3:6], R @ force / MASS - (0, 0, 9.8), (R @ spin).ravel(), turn])

    y0 = np.concatenate([[1, 2, 3], np.zeros(3), START.as_matrix().ravel(), np.zeros(3)])
    end = solve_ivp(rates, (0, seconds), y0, method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    return end[:3], Rotation.from_matrix(end[6:15].reshape(3, 3))


def test_steps_converge_to_the_paper_with_order_two() -> None:
    system, errors = helicopter(), []
    place, attitude = motion(0.4)
    pose = (1, 2, 3, *START.as_quat(scalar_first=True))
    for dt in (0.02, 0.01):
        step = sm.discretize(system, dt)
        x0 = step.from_velocity({"body": pose}, {"body": np.zeros(6)}, instant=True)
        end = step.rollout(x0, np.tile(INPUT, (round(0.4 / dt), 1))).x[-1]
        turned = Rotation.from_quat(end[3:7], scalar_first=True) * attitude.inv()
        errors.append([np.abs(end[:3] - place).max(), turned.magnitude()])
    ratio = np.array(errors[0]) / errors[1]
    assert np.abs(ratio - 4).max() < 0.3
    assert max(errors[1]) < 1e-3


def test_hovers_with_the_lift_of_its_weight() -> None:
    step = sm.discretize(helicopter(), 0.02)
    x0 = step.from_velocity({"body": (0, 0, 1, 1, 0, 0, 0)}, {"body": np.zeros(6)}, instant=True)
    found = step.rollout(x0, np.tile([MASS * 9.8, 0, 0, 0], (50, 1)))
    assert np.abs(step.layout.pose(found.x) - (0, 0, 1, 1, 0, 0, 0)).max() < 1e-12
