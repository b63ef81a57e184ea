"""Where a contact that sticks would slip, held against statics and against the law of plastic impacts."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stepmap as sm

DT, G = 0.01, 9.81


def block(tilt: float = 0.0, friction: float | None = math.inf) -> sm.System:
    """A point mass in space over a plane that is tilted about y."""
    b = sm.Builder("block")
    x, y, z = (b.coordinate(name, unit="m") for name in "xyz")
    bob = b.world.tx(x).ty(y).tz(z, name="bob")
    b.mass(bob, 0.5)
    b.gravity((0, 0, -G))
    b.contact(bob, b.world.ry(tilt, name="plane"), friction=friction, name="foot")
    return b.build()


def run(step: sm.StepMap, height: float, speed: tuple[float, float], steps: int = 30) -> sm.Trajectory:
    velocity = {"x": speed[0], "y": speed[1]}
    return step.rollout(step.from_velocity({"z": height}, velocity, instant=True), np.zeros((steps, 0)))


def test_a_block_on_a_slope_needs_the_tangent_of_its_angle() -> None:
    step = sm.discretize(block(0.4), DT)
    still = step.rollout(step.rest({}), np.zeros((10, 0)))
    assert step.outside_cone(still, math.tan(0.4) + 1e-6) == ()
    found = step.outside_cone(still, math.tan(0.4) - 1e-6)
    assert [slip.step for slip in found] == list(range(10))
    assert {(slip.name, slip.kind) for slip in found} == {("foot", "force")}
    assert [slip.needed for slip in found] == pytest.approx([math.tan(0.4)] * 10, rel=1e-9)
    assert [slip.time for slip in found] == pytest.approx(DT * np.arange(10))


def test_an_impact_needs_the_ratio_of_its_speeds() -> None:
    """A plastic impact of a point takes off all of its velocity: Λ_t / Λ_n = |v_t| / v_n, v_n = √(2 g h)."""
    step = sm.discretize(block(), DT)
    landed = run(step, 0.2, (0.9, -1.2))
    needed = 1.5 / math.sqrt(2 * G * 0.2)
    assert step.outside_cone(landed, needed * (1 + 1e-6)) == ()
    (slip,) = step.outside_cone(landed, {"foot": needed * (1 - 1e-6)})
    (impact,) = landed.events
    assert slip.kind == "impact"
    assert (slip.time, slip.step, slip.name) == (impact.time, impact.step, "foot")
    assert slip.needed == pytest.approx(needed, rel=1e-9)


def test_steps_of_other_lengths_are_solved_with_their_own() -> None:
    """Its impact is looked for within the step that was made, not within one of the map's own length."""
    step, height = sm.discretize(block(), DT), 0.2
    start = step.from_velocity({"z": height}, {"x": 0.9}, instant=True)
    needed, instant = 0.9 / math.sqrt(2 * G * height), math.sqrt(2 * height / G)
    for dt in (0.7 * DT, 1.45 * DT):  # with the second it lands later in a step than DT
        landed = step.rollout(start, np.zeros((30, 0)), dt=np.full(30, dt))
        (slip,) = step.outside_cone(landed, needed * (1 - 1e-6))
        assert slip.time == pytest.approx(instant, rel=1e-9)
        assert slip.needed == pytest.approx(needed, rel=1e-9)
        assert step.outside_cone(landed, needed * (1 + 1e-6)) == ()


def test_impacts_and_forces_come_in_the_order_of_time() -> None:
    step = sm.discretize(block(0.4), DT)
    found = step.outside_cone(run(step, 0.1, (0.5, 0.3)), 0.0)
    assert [slip.kind for slip in found[:2]] == ["impact", "force"]
    assert [slip.time for slip in found] == sorted(slip.time for slip in found)


@pytest.mark.parametrize("coefficient", [-0.1, math.nan, math.inf, "much", {"foot": -1}])
def test_a_coefficient_is_a_number_that_is_not_negative(coefficient: object) -> None:
    step = sm.discretize(block(), DT)
    with pytest.raises(sm.ModelError, match="coefficient of 'foot'"):
        step.outside_cone(run(step, 0.1, (0, 0)), coefficient)


def test_what_does_not_stick_has_no_cone() -> None:
    sticks, slides = sm.discretize(block(), DT), sm.discretize(block(friction=None), DT)
    path = run(sticks, 0.1, (0, 0))
    with pytest.raises(sm.ModelError, match="no contact that sticks is called 'toe'; there are foot"):
        sticks.outside_cone(path, {"toe": 0.5})
    with pytest.raises(sm.ModelError, match="'block' has no contact that sticks"):
        slides.outside_cone(run(slides, 0.1, (0, 0)), 0.5)
    with pytest.raises(sm.ModelError, match="no constraint forces"):
        sticks.outside_cone(sm.Trajectory(path.t, path.x, path.u), 0.5)
    with pytest.raises(sm.ShapeError):
        sticks.outside_cone(sm.Trajectory([0.0, DT], np.zeros((2, 3)), np.zeros((1, 0))), 0.5)
