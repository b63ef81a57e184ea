"""Simulations against single calls of the step map, and the rules by which a start is chosen."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap.formula import parse
from stepmap.simulation import inputs, simulate, start_pose
from tests.mechanisms import Case


def test_velocities_of_many_states_are_those_of_each(catalog: Case) -> None:
    step = catalog.midpoint
    pose = start_pose(catalog.system, sm.systems.example(catalog.name), firm=False)
    states = simulate(step, 20, pose).trajectory.x
    expected = np.array([step.velocity(x) for x in states])
    # Both solve the same system, one at a time and in a batch: rounding times its condition.
    np.testing.assert_allclose(step.velocity(states), expected, rtol=1e-9, atol=1e-11)


def test_energies_are_those_of_the_step(catalog: Case) -> None:
    pose = start_pose(catalog.system, sm.systems.example(catalog.name), firm=False)
    simulation = simulate(catalog.midpoint, 20, pose)
    expected = [catalog.midpoint.energy(x) for x in simulation.trajectory.x]
    np.testing.assert_allclose(simulation.energy, expected, rtol=1e-12, atol=1e-12)


def test_conservative_means_that_nothing_does_work() -> None:
    free = sm.discretize(sm.systems.get("pendulum"), 0.01)
    damped = sm.discretize(sm.systems.get("pendulum", damping=0.1), 0.01)
    assert simulate(free, 5, [1.0]).conservative
    assert not simulate(free, 5, [1.0], {"torque": parse("sin(t)")}).conservative
    assert not simulate(damped, 5, [1.0]).conservative
    hanging = sm.discretize(sm.systems.get("suspended_mass"), 0.01)
    pose = hanging.system.configuration({})
    assert simulate(hanging, 5, pose).conservative
    assert not simulate(hanging, 5, pose, {"xr": parse("0.1*t")}).conservative


def test_a_kinematic_coordinate_follows_its_formula() -> None:
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.02)
    law = parse("0.1*sin(3*t)")
    simulation = simulate(step, 50, step.system.configuration({}), {"xr": law})
    column = step.state_names.index("xr")
    np.testing.assert_allclose(simulation.trajectory.x[:, column], law(simulation.trajectory.t), atol=1e-15)


@pytest.mark.parametrize(("forces", "first"), [("held", 0.01), ("left", 0.0)])
def test_a_force_is_taken_where_its_impulse_has_its_centre(forces: Any, first: float) -> None:
    step = sm.discretize(sm.systems.get("cart_pendulum"), 0.02, forces=forces)
    U = inputs(step, 3, [0.0, 0.0], {"force": parse("t")})
    np.testing.assert_allclose(U[:, 0], first + np.array([0.0, 0.02, 0.04]), atol=1e-15)


def test_a_driven_oscillator_converges_to_its_exact_solution() -> None:
    """A driven mass on a spring: m ẍ + k x = a sin(w t) from rest at 0, solved by hand."""
    w0, w, a = 2.0, 5.0, 3.0 / 2.0
    b = sm.Builder("oscillator")
    x = b.coordinate("x", unit="m")
    b.mass(b.world.tx(x), 2.0)
    b.coordinate_spring(x, stiffness=8.0)
    b.drive(x, b.input("force", unit="N"))
    system = b.build()

    def error(dt: float) -> float:
        simulation = simulate(sm.discretize(system, dt), round(2 / dt), [0.0], {"force": parse("3*sin(5*t)")})
        t = simulation.trajectory.t
        exact = a / (w0**2 - w**2) * (np.sin(w * t) - w / w0 * np.sin(w0 * t))
        return float(np.abs(simulation.poses[:, 0] - exact).max())

    coarse, fine = error(2e-2), error(1e-2)
    assert coarse < 5e-3  # a few dt² w² times the amplitude 0.25
    assert 3.8 < coarse / fine < 4.2  # second order


class TestStart:
    system = sm.systems.get("suspended_mass")

    def start(self, wanted: dict[str, float], **more: object) -> dict[str, float]:
        pose = start_pose(self.system, wanted, **more)  # type: ignore[arg-type]
        return dict(zip((c.name for c in self.system.coordinates), pose, strict=True))

    def test_dynamic_coordinates_give_way_first(self) -> None:
        pose = self.start({"xm": 0.6})
        assert (pose["xm"], pose["xr"], pose["r"]) == (0.6, 0.0, 1.0)
        assert pose["ym"] == pytest.approx(0.2, abs=1e-12)  # 3-4-5 triangle under the rail at 1 m

    def test_then_kinematic_ones(self) -> None:
        pose = self.start({"xm": 0.3, "ym": 0.6})
        assert (pose["xm"], pose["ym"]) == (0.3, 0.6)
        assert np.abs(self.system.gaps(list(pose.values()))).max() < 1e-12

    def test_an_impossible_wish_is_an_error(self) -> None:
        with pytest.raises(sm.ConvergenceError):
            self.start({"xm": 3.0, "ym": 0.0, "xr": 0.0, "r": 1.0})

    def test_unless_it_is_only_an_example(self) -> None:
        pose = self.start({"xm": 0.6, "ym": 0.2}, moves={"xr": parse("0.1"), "r": parse("0.5")}, firm=False)
        assert (pose["xr"], pose["r"]) == (0.1, 0.5)

    def test_a_moved_coordinate_starts_where_its_formula_does(self) -> None:
        assert self.start({}, moves={"r": parse("0.8 + t")})["r"] == 0.8
        with pytest.raises(sm.ModelError, match="make them agree"):
            self.start({"r": 1.0}, moves={"r": parse("0.8 + t")})


def test_only_inputs_can_be_moved() -> None:
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.01)
    pose = step.system.configuration({})
    with pytest.raises(sm.ModelError, match=r"dynamic and moves by itself; .* xr, r"):
        simulate(step, 1, pose, {"xm": parse("t")})
    with pytest.raises(sm.ModelError, match="is called 'no'; there are xr, r"):
        simulate(step, 1, pose, {"no": parse("t")})
    with pytest.raises(sm.ModelError, match="at least 1"):
        simulate(step, 0, pose)


def test_units_of_the_state() -> None:
    step = sm.discretize(sm.systems.get("suspended_mass"), 0.01)
    assert step.layout.units == ("m", "m", "m", "m", "kg m/s", "kg m/s", "m/s", "m/s")
    step = sm.discretize(sm.systems.get("pendulum"), 0.01)
    assert step.layout.units == ("rad", "kg m²/s")


def bouncing() -> sm.System:
    """A ball above a floor."""
    b = sm.Builder("bouncing")
    ball = b.world.tz(b.coordinate("z", unit="m"), name="ball")
    b.mass(ball, 1.0)
    b.gravity((0, 0, -9.81))
    b.contact(ball, b.world, restitution=0.5, name="floor")
    return b.build()


def test_events_are_told_with_the_simulation() -> None:
    """A ball of 1 kg falls freely; it bounces at half its speed, so that flights take half as long each time."""
    simulation = simulate(sm.discretize(bouncing(), 0.01), 150, [0.5])
    begin = -simulation.trajectory.x[0, 1]  # downwards [m/s]: rest means that it did not move in the step before
    speed = np.sqrt(begin**2 + 2 * 9.81 * 0.5)
    fall, flight = (speed - begin) / 9.81, speed / 9.81
    document = json.loads(json.dumps(simulation.document(), allow_nan=False))
    assert document["gap_names"] == ["floor"]
    times = [event["time"] for event in document["events"]]
    assert times[:3] == pytest.approx([fall, fall + flight, fall + 1.5 * flight], abs=1e-12)
    assert {event["kind"] for event in document["events"]} == {"impact"}
    assert document["modes"][0] == []
    assert document["modes"][-1] == ["floor"]
    assert simulation.lost == pytest.approx(speed**2 / 2, abs=1e-3)
    assert simulation.open_phases("floor") == [(0.0, times[-1])]
    assert np.abs(simulation.violations).max() <= 1e-12


def test_open_phases_of_a_string() -> None:
    """It begins taut and is let go by a hook that comes down faster than the mass falls, until it is taut again."""
    step = sm.discretize(sm.systems.get("suspended_mass_string"), 0.01)
    pose = start_pose(step.system, {"xm": 0.0, "xr": 0.0, "ym": 0.0, "r": 1.0})
    simulation = simulate(step, 200, pose, {"r": parse("1 + 0.3*sin(12*t)")})
    (name,) = step.system.gap_names
    phases = simulation.open_phases(name)
    times = simulation.trajectory.t[1:]
    inside = np.array([any(begin < time <= end for begin, end in phases) for time in times])
    opened = np.array([name not in mode for mode in simulation.trajectory.modes])
    released = [event.time for event in simulation.trajectory.events if event.kind == "release"]
    settled = np.array([all(abs(time - one) > step.dt for one in released) for time in times])
    assert np.array_equal(inside[settled], opened[settled])  # a release is dated back, by less than a step
    assert len(phases) >= 2
