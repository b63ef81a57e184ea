"""Tendons over via-points: virtual work, tension that only pulls, and what they can reach."""

from __future__ import annotations

import math

import casadi as ca
import numpy as np
import pytest

import stepmap as sm


def finger(kind: str) -> sm.System:
    """Two phalanges in a plane with a tendon over the knuckle, which a pulley 20 mm beside the joint guides."""
    b = sm.Builder("finger")
    a1, a2 = (b.coordinate(name, unit="rad", start=0.3) for name in ("a1", "a2"))
    first = b.world.rz(a1, name="first")
    knuckle = first.tx(0.05, name="knuckle")
    second = knuckle.rz(a2, name="second")
    b.mass(first.tx(0.025), 0.02, inertia=(0, 0, 5e-6))
    b.mass(second.tx(0.02), 0.01, inertia=(0, 0, 2e-6))
    b.damping(a1, 1e-4)
    b.damping(a2, 1e-4)
    path = [b.world.translate(-0.02, 0.02, 0, name="base"), first.translate(0.04, 0.02, 0, name="guide")]
    path.append(second.translate(0.02, 0.01, 0, name="end"))
    if kind == "tension":
        b.tendon(path, tension=b.input("pull", unit="N", low=0.0, high=5.0))
    elif kind == "length":
        b.tendon(path, length=b.coordinate("reel", unit="m", kinematic=True, start=0.2), name="flexor")
    else:
        b.tendon(path, length=b.coordinate("reel", unit="m", kinematic=True, start=0.05), stiffness=200.0)
    return b.build()


def extent(system: sm.System, pose: np.ndarray) -> float:
    """Length of the cable, from the positions of its frames."""
    at = system.positions(pose)[[system.frame_names.index(name) for name in ("base", "guide", "end")]]
    return float(np.linalg.norm(np.diff(at, axis=0), axis=1).sum())


def test_a_pulled_tendon_does_the_work_of_its_shortening() -> None:
    """Generalized force = −T ∂ℓ/∂q, differences of lengths from positions."""
    system = finger("tension")
    e = system.expressions
    force = ca.Function("force", [e.q, e.v, e.u, e.parameters], [e.force])
    pose, apart = np.array([0.4, 0.7]), 1e-6
    found = np.asarray(force(pose, np.zeros(2), [3.0], system.parameter_values))[:, 0]
    slope = [(extent(system, pose + d) - extent(system, pose - d)) / (2 * apart) for d in apart * np.eye(2)]
    assert found == pytest.approx(-3.0 * np.array(slope), rel=1e-8)


def test_an_elastic_tendon_pulls_or_is_slack() -> None:
    system = finger("stiffness")
    pose = system.configuration({})
    stretched = extent(system, pose) - 0.05
    assert system.potential_energy(pose) == pytest.approx(100.0 * stretched**2)
    assert system.potential_energy(system.configuration({"reel": 0.5})) == 0.0


def test_a_tendon_of_given_length_is_a_string_with_via_points() -> None:
    step = sm.discretize(finger("length"), 0.001)
    system = step.system
    assert system.gap_names == ("flexor",)
    x = step.rest({})  # slack
    U = np.linspace(0.2, 0.9 * extent(system, system.configuration({})), 400)[:, None]
    run = step.rollout(x, U)
    assert run.events[0].kind == "impact"
    assert run.multipliers.min() >= -1e-12
    gaps = [extent(system, pose) - pose[2] for pose in run.x[:, :3]]
    assert max(gaps) < 1e-12
    assert gaps[-1] > -1e-9  # taut in the end, and the finger has bent
    assert run.x[-1, 0] + run.x[-1, 1] > 0.61


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give either tension, or length"),
        ({"tension": "pushes"}, "may push; give it low=0.0"),
        ({"tension": 1.0, "stiffness": 2.0}, "stiffness goes with length"),
        ({"length": -1.0}, "length must be positive"),
        ({"length": 1.0, "stiffness": 0.0}, "stiffness must be positive"),
        ({"path": 1, "length": 1.0}, "two or more frames"),
    ],
)
def test_mistakes_are_told_at_once(given: dict, message: str) -> None:
    b = sm.Builder("wrong")
    frame = b.world.tx(b.coordinate("x", unit="m"), name="cart")
    options = {name: value for name, value in given.items() if name != "path"}
    if options.get("tension") == "pushes":
        options["tension"] = b.input("force", unit="N")
    with pytest.raises(sm.ModelError, match=message):
        b.tendon([frame] if "path" in given else [b.world, frame], **options)


def test_what_inputs_reach() -> None:
    """A cart with one pendulum: all; with two of the same length: not their difference; on a wire: its swing."""
    cart = sm.discretize(sm.systems.get("cart_pendulum"), 0.02)
    assert sm.controllability(cart, cart.rest({}), [0.0]).complete

    def twins(ratio: float) -> sm.VariationalStep:
        b = sm.Builder("twins")
        x = b.coordinate("x", unit="m")
        moved = b.world.tx(x, name="cart")
        b.mass(moved, 1.0)
        b.drive(x, b.input("force", unit="N"))
        for name, length in (("left", 0.5), ("right", 0.5 * ratio)):
            b.mass(moved.rz(b.coordinate(name, unit="rad")).ty(-length, name=f"bob_{name}"), 0.3)
        b.gravity((0, -9.81, 0))
        return sm.discretize(b.build(), 0.02)

    same = sm.controllability(twins(1.0), twins(1.0).rest({}), [0.0])
    assert (same.rank, same.dimension) == (4, 6)
    assert all("left" in words and "right" in words for words in same.unreachable)
    assert "4 of 6" in str(same)
    other = twins(math.sqrt(2))
    assert sm.controllability(other, other.rest({}), [0.0]).complete
    hanging = sm.discretize(sm.systems.get("suspended_mass"), 1 / 30)
    x, u = hanging.equilibrium({})
    found = sm.controllability(hanging, x, u)
    assert (found.rank, found.dimension) == (2, 2)
