"""Forces without a potential against hand formulas and against the work they do on small displacements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import stepmap as sm
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.quantity import Coordinate
from tests.mechanisms import generalized_force
from tests.trees import motion, rigid

RNG = np.random.default_rng(4)
JOINTS = ("tx", "rz", "rx", "ty", "ry")
PLACE = rigid((0.4, -0.3, 0.8), (0.5, 0.1, -0.2))


Joints = dict[str, Coordinate]


def arm(act: Callable[[sm.Builder, Frame, Joints], None]) -> sm.System:
    """A spatial arm of five joints with a tool at its end, and something that acts on it."""
    b = sm.Builder("arm")
    joints = {kind: b.coordinate(kind) for kind in JOINTS}
    frame = b.world
    for kind, coordinate in joints.items():
        frame = getattr(frame, kind)(coordinate).tz(0.3)
        b.mass(frame, 1.0, inertia=(0.1, 0.1, 0.1))
    act(b, frame.fixed(PLACE, name="tool"), joints)
    return b.build()


def tool_pose(q: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    for kind, amount in zip(JOINTS, q, strict=True):
        pose = pose @ motion(kind, amount) @ motion("tz", 0.3)
    return pose @ PLACE


def work_of_wrench(q: np.ndarray, force: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Work, for a unit displacement of each coordinate, of a force and a moment in world axes at the tool's origin."""
    h, work = 1e-5, []
    for i in range(len(q)):
        ahead, behind = (tool_pose(q + s * h * np.eye(len(q))[i]) for s in (1, -1))
        turned = Rotation.from_matrix(ahead[:3, :3] @ behind[:3, :3].T).as_rotvec()
        work.append((force @ (ahead[:3, 3] - behind[:3, 3]) + moment @ turned) / (2 * h))
    return np.array(work)


@pytest.mark.parametrize("body", [True, False], ids=["body axes", "world axes"])
def test_wrench_does_the_work_of_its_force_and_moment(body: bool) -> None:
    force, moment = np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.8, -1.1])
    system = arm(lambda b, tool, _: b.wrench(tool, force=force, moment=moment, body=body))
    q, v = RNG.uniform(-1, 1, (2, 5))
    turn = tool_pose(q)[:3, :3] if body else np.eye(3)
    # Central differences: h² = 1e-10 and rounding 1e-16/h = 1e-11.
    np.testing.assert_allclose(
        generalized_force(system, q, v), work_of_wrench(q, turn @ force, turn @ moment), rtol=0, atol=1e-8
    )


def test_wrench_may_be_driven_by_inputs() -> None:
    def act(b: sm.Builder, tool: Frame, joints: Joints) -> None:
        b.wrench(tool, force=(b.input("thrust"), 0.0, 2.0), moment=(0.0, b.input("twist"), 0.0), body=False)

    system = arm(act)
    q = RNG.uniform(-1, 1, 5)
    expected = work_of_wrench(q, np.array([1.7, 0.0, 2.0]), np.array([0.0, -0.6, 0.0]))
    np.testing.assert_allclose(generalized_force(system, q, np.zeros(5), [1.7, -0.6]), expected, rtol=0, atol=1e-8)


def test_force_on_a_bob_is_a_torque_at_its_pivot() -> None:
    """r × f: l f for a force across the rod in the bob's axes, l f cos θ for a horizontal one."""
    length, theta = 0.8, 0.6
    for body, torque in ((True, length * 3.0), (False, length * 3.0 * math.cos(theta))):
        b = sm.Builder("bob")
        bob = b.world.rz(b.coordinate("theta")).ty(-length)
        b.mass(bob, 1.0)
        b.wrench(bob, force=(3.0, 0, 0), body=body)
        assert generalized_force(b.build(), [theta], [0.0])[0] == pytest.approx(torque, rel=1e-14)


def test_damper_between_frames_resists_their_approach() -> None:
    """Power −c ḋ²; on each coordinate −c ḋ ∂d/∂q."""
    anchor = np.array([0.5, -1.0, 0.7])
    system = arm(lambda b, tool, _: b.damper(b.world.translate(*anchor, name="anchor"), tool, 2.5))
    q, v = RNG.uniform(-1, 1, (2, 5))

    def distance(pose: np.ndarray) -> float:
        return float(np.linalg.norm(tool_pose(pose)[:3, 3] - anchor))

    h = 1e-5
    slope = np.array([(distance(q + h * e) - distance(q - h * e)) / (2 * h) for e in np.eye(5)])
    force = generalized_force(system, q, v)
    np.testing.assert_allclose(force, -2.5 * (slope @ v) * slope, rtol=0, atol=1e-8)
    assert force @ v == pytest.approx(-2.5 * (slope @ v) ** 2, rel=1e-7)


def test_damper_on_a_line_acts_on_both_ends() -> None:
    b = sm.Builder("line")
    left, right = (b.world.tx(b.coordinate(name)) for name in "ab")
    for cart in (left, right):
        b.mass(cart, 1.0)
    b.damper(left, right, 0.4)
    force = generalized_force(b.build(), [0.0, 1.0], [1.0, 3.5])
    np.testing.assert_allclose(force, [0.4 * 2.5, -0.4 * 2.5], rtol=1e-14)


def test_drive_and_damping_act_on_their_coordinate_alone() -> None:
    def act(b: sm.Builder, tool: Frame, joints: Joints) -> None:
        b.damping(joints["rz"], 0.3)
        b.drive(joints["rx"], b.input("torque"))
        b.drive(joints["ty"], -1.5)

    q, v = RNG.uniform(-1, 1, (2, 5))
    force = generalized_force(arm(act), q, v, [4.0])
    np.testing.assert_allclose(force, [0.0, -0.3 * v[1], 4.0, -1.5, 0.0], rtol=1e-14)


@pytest.mark.parametrize(("forces", "first"), [("held", 0.5), ("left", 0.0)])
def test_constant_force_gives_constant_acceleration(forces: Any, first: float) -> None:
    """A cart under a constant force from rest: q after n steps is dt² f/m n (n + 1)/2 by the discrete equations.

    A held force has given half of its impulse before the start.
    """
    b = sm.Builder("cart")
    x = b.coordinate("x")
    b.mass(b.world.tx(x), 2.0)
    b.drive(x, 3.0)
    step = sm.discretize(b.build(), 0.1, forces=forces)
    path = step.rollout(step.rest([0.0]), np.zeros((10, 0)))
    n = np.arange(11)
    np.testing.assert_allclose(path.x[:, 0], 0.1**2 * 3.0 / 2.0 * n * (n + 1) / 2, rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(path.x[:, 1], 0.1 * 3.0 * (n + first), rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize(
    ("forces", "start", "decay"),
    [("held", 2.0 - 0.025, (2.0 - 0.025) / (2.0 + 0.025)), ("left", 2.0, 2.0 / (2.0 + 0.05))],
)
def test_damped_cart_slows_as_the_midpoint_rule_says(forces: Any, start: float, decay: float) -> None:
    """m v′ = −c v by the midpoint rule: v decays by m/(m + c dt) per step, force on the left, or half on each side."""
    b = sm.Builder("cart")
    x = b.coordinate("x")
    b.mass(b.world.tx(x), 2.0)
    b.damping(x, 0.5)
    step = sm.discretize(b.build(), 0.1, forces=forces)
    path = step.rollout(step.from_velocity([0.0], [1.0]), np.zeros((20, 0)))
    np.testing.assert_allclose(path.x[:, 1], start * decay ** np.arange(21), rtol=1e-12)
