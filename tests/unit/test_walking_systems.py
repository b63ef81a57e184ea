"""The machines that walk and hop of the catalog, against formulas of their papers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stepmap as sm


@pytest.fixture(scope="module")
def biped() -> sm.System:
    return sm.systems.get("biped_planar", shank=0.4)


def test_the_swing_foot_is_where_the_thesis_has_it(biped: sm.System) -> None:
    """Pekarek 4.2.2 with symmetric legs: L₁ belongs to the first and the last link, L₂ to the two in the middle."""
    rng, swing = np.random.default_rng(2), biped.frame_names.index("swing")
    for q in rng.uniform(-1, 1, (5, 6)):
        a1, a12, a123, a1234 = np.cumsum(q[2:])
        x = q[0] + 0.4 * (math.sin(a1234) - math.sin(a1)) + 0.6 * (math.sin(a123) - math.sin(a12))
        y = q[1] + 0.4 * (math.cos(a1) - math.cos(a1234)) + 0.6 * (math.cos(a12) - math.cos(a123))
        np.testing.assert_allclose(biped.positions(q)[swing], [x, y, 0], atol=1e-14)


def test_the_biped_weighs_what_the_thesis_says(biped: sm.System) -> None:
    """10 kg in all; turned as a whole about its foot, its inertia is that of four rods with J = m L²/24."""
    M = biped.mass_matrix(np.zeros(6))  # stretched: both feet on the origin, centres of mass at 0.2 m and 0.7 m
    assert M[0, 0] == pytest.approx(10.0, rel=1e-14)
    rods = sum(2 * m * (c**2 + length**2 / 24) for m, c, length in ((2.0, 0.2, 0.4), (3.0, 0.7, 0.6)))
    assert M[2, 2] == pytest.approx(rods, rel=1e-14)


@pytest.mark.parametrize("knees", ["forward", "backward"])
@pytest.mark.parametrize("stride", [0.3, 0.56, 0.8])
def test_the_start_stands_on_both_feet_a_stride_apart(knees: str, stride: float) -> None:
    system = sm.systems.get("biped_planar", knees=knees, stride=stride)
    pose = system.configuration({})
    feet = system.positions(pose)[[system.frame_names.index(name) for name in ("stance", "swing")]]
    np.testing.assert_allclose(feet, [[0, 0, 0], [stride, 0, 0]], atol=1e-14)
    hip = system.positions(pose)[system.frame_names.index("hip")]
    assert hip[0] == pytest.approx(stride / 2, abs=1e-14)
    assert all((c.low or -9) <= q <= (c.high or 9) for c, q in zip(system.coordinates, pose, strict=True))


@pytest.mark.parametrize(("argument", "text"), [({"knees": "sideways"}, "knees"), ({"shank": 1.2}, "shank")])
def test_impossible_bipeds_are_refused(argument: dict[str, object], text: str) -> None:
    with pytest.raises(sm.ModelError, match=text):
        sm.systems.get("biped_planar", **argument)


def test_the_compass_has_two_names() -> None:
    assert sm.systems.get("compass").name == "compass_walker"
    assert sm.systems.example("compass") == sm.systems.example("compass_walker")


def test_a_wheel_without_inertia_rolls_on_its_spokes() -> None:
    """M is singular, though not on a mode. Coleman, Chatterjee & Ruina: ω⁺ = ω⁻ cos 2a where I = 0."""
    step = sm.discretize(sm.systems.get("rimless_wheel", inertia=0.0), 0.005)
    velocity = {"x": math.cos(0.05), "y": -math.sin(0.05), "theta": -1.0}
    start = step.from_velocity(sm.systems.example("rimless_wheel"), velocity, instant=True)
    lost = [e.energy for e in step.rollout(start, np.zeros((3000, 0))).events if e.kind == "impact"]
    kept = math.cos(math.pi / 4)
    # The limit: ½ ω⁻² (1 − kept²) is what the slope gives per spoke, 2 g sin(a) sin(slope), at order 2 in dt.
    assert lost[-1] == pytest.approx(2 * 9.81 * math.sin(math.pi / 8) * math.sin(0.08), abs=5e-5)
    assert (lost[1] - lost[-1]) / (lost[0] - lost[-1]) == pytest.approx(kept**2, abs=1e-3)


def test_what_moves_no_mass_in_any_mode_is_refused() -> None:
    b = sm.Builder("idle")
    x, y, turn = (b.coordinate(name) for name in ("x", "y", "turn"))
    ball = b.world.tx(x).ty(y, name="ball")
    b.mass(ball, 1.0)
    b.marker(ball.rz(turn).tx(0.1, name="hand"))
    b.contact(ball, b.world.rx(-math.pi / 2, name="floor"), friction=math.inf)
    with pytest.raises(sm.ModelError, match="moving 'turn' moves no mass"):
        b.build()
