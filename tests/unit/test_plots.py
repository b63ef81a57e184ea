"""Pictures: every system of the catalog can be drawn, and what is drawn is what the tree holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import stepmap as sm
from stepmap import plots
from stepmap.formula import parse
from stepmap.plots.figures import poses as drawn_poses
from stepmap.plots.motion import Motion, coil
from stepmap.plots.series import panels
from stepmap.simulation import Simulation, simulate, start_pose
from stepmap.wireframe.skeleton import skeleton
from stepmap.wireframe.view import choose
from tests import machines
from tests.mechanisms import Case

MAGIC = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.fixture(scope="module")
def pendulum() -> Simulation:
    return simulate(sm.discretize(sm.systems.get("pendulum"), 0.01), 50, [2.0])


def test_every_system_can_be_drawn(catalog: Case) -> None:
    pose = start_pose(catalog.system, sm.systems.example(catalog.name), firm=False)
    simulation = simulate(catalog.midpoint, 30, pose)
    drawn = [plots.overview(simulation), plots.motion(simulation), plots.coordinates(simulation)]
    for figure in drawn:
        for axes in figure.axes:
            assert axes.lines, "an empty panel"
            assert not axes.axison or axes.get_ylabel(), "an axis without a name"
    assert drawn[0].axes[-1].get_xlabel() == "time [s]"


@pytest.mark.parametrize("form", plots.FORMATS)
def test_files_have_their_format_and_are_repeatable(pendulum: Simulation, form: str) -> None:
    first, second = (plots.render(plots.overview(pendulum), form) for _ in range(2))
    assert first.startswith(MAGIC[form])
    assert first == second


def test_a_step_of_a_single_instant_can_be_drawn(pendulum: Simulation) -> None:
    assert plots.overview(simulate(pendulum.step, 1, [2.0])).axes


def test_skeleton_of_the_suspended_mass() -> None:
    system = sm.systems.get("suspended_mass")
    parts = skeleton(system)
    names = system.frame_names
    assert [(names[a], names[b]) for a, b in parts.strings] == [("mass", "robot")]
    assert [names[i] for i in parts.carts] == ["robot"]
    assert parts.links == ()  # nothing rigid leads from the world to the mass
    assert [(names[i], m) for i, m in parts.masses] == [("mass", 0.1)]


def test_skeleton_leaves_out_the_centres_of_rods() -> None:
    system = sm.systems.get("planar_arm")
    parts = skeleton(system)
    assert parts.masses == ()
    assert [system.frame_names[i] for i in parts.pivots] == ["link1"]


def test_skeleton_of_springs() -> None:
    b = sm.Builder("spring")
    ball = b.world.rz(b.coordinate("theta", unit="rad")).ty(-1.0, name="ball")
    wall = b.world.tx(1.0, name="wall")
    b.mass(ball, 1.0)
    b.spring(ball, wall, stiffness=2.0, length=0.5)
    system = b.build()
    assert skeleton(system).springs == ((2, 3),)
    assert plots.motion(simulate(sm.discretize(system, 0.01), 5, [0.0])).axes


def test_planar_mechanisms_are_seen_straight_on(pendulum: Simulation) -> None:
    view = choose(pendulum.system, pendulum.system.positions(pendulum.poses))
    assert view.labels == ("x [m]", "y [m]")
    np.testing.assert_array_equal(view.project(np.array([1.0, 2.0, 3.0])), [1.0, 2.0])


def test_others_are_seen_by_an_orthonormal_camera() -> None:
    system = sm.systems.get("marionette")
    view = choose(system, system.positions(system.configuration({})[None]))
    assert view.labels is None
    axes = np.stack([view.right, view.top, view.toward])
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-15)
    assert view.top[2] > 0.9  # gravity points down the page


def test_a_mechanism_without_gravity_can_be_drawn() -> None:
    b = sm.Builder("free")
    frame = b.world.tx(b.coordinate("x")).ty(b.coordinate("y")).tz(b.coordinate("z"), name="body")
    b.mass(frame, 1.0)
    simulation = simulate(sm.discretize(b.build(), 0.01), 5, [0.0, 0.0, 0.0])
    assert [panel.label for panel in panels(simulation)] == ["coordinates"]  # no unit, no brackets
    assert plots.motion(simulation).axes


def test_inputs_have_a_panel_when_they_are_used(pendulum: Simulation) -> None:
    driven = simulate(pendulum.step, 5, [0.0], {"torque": parse("1+t")})
    assert [panel.label for panel in panels(pendulum)] == ["coordinates [rad]"]
    assert [panel.label for panel in panels(driven)] == ["coordinates [rad]", "inputs [N m]"]


def test_of_many_coordinates_those_that_move_most_are_named() -> None:
    step = sm.discretize(sm.systems.get("pendulum_chain", n=12), 0.01)
    figure = plots.coordinates(simulate(step, 20, start_pose(step.system, {"theta1": 1.5})))
    legend = figure.axes[0].get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[0] == "theta1"
    assert labels[-1] == "6 more"


def test_a_crane_is_drawn_in_space_at_its_places() -> None:
    """In the world's axes with equal scales, z upward; every pose is where the mechanism was."""
    system = machines.crane()
    t = np.linspace(0.0, 1.0, 5)
    poses = np.array([system.configuration({"x": a, "y": 2 * a, "bridge": a, "trolley": 2 * a}) for a in 0.3 * t])
    motion = Motion.of(system, t, poses)
    assert not motion.planar
    assert not motion.in_a_row
    figure = drawn_poses(motion, poses, "run")
    (axes,) = figure.axes
    assert [getattr(axes, f"get_{name}label")() for name in "xyz"] == ["x [m]", "y [m]", "z [m]"]
    load = system.frame_names.index("load")
    balls = [line for line in axes.lines if line.get_marker() == "o"]
    places = np.array([[float(np.asarray(c)[0]) for c in line.get_data_3d()] for line in balls])  # type: ignore[attr-defined]
    np.testing.assert_allclose(places, motion.positions[:, load])
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"reference", "run"}


@pytest.mark.parametrize(
    ("make", "masses"), [(machines.quadrotor, {"frame", "load"}), (machines.furuta, {"elbow", "bob"})]
)
def test_every_mass_has_a_ball_and_a_link(make: Callable[[], sm.System], masses: set[str]) -> None:
    system = make()
    parts, names = skeleton(system), system.frame_names
    assert {names[index] for index, _ in parts.masses} == masses
    assert {names[b] for _, b in parts.links} >= masses - {"frame"}


def test_a_closed_chain_is_drawn_from_pivot_to_pivot() -> None:
    system = machines.four_bar()
    parts, names = skeleton(system), system.frame_names
    assert {names[b] for _, b in parts.links} == {"pin1", "pin2", "pin3"}
    assert [names[i] for i in parts.pivots] == ["crank", "rocker"]
    assert len(parts.springs) == 1


def test_a_ball_on_a_beam_hangs_on_something() -> None:
    b = sm.Builder("ball_and_beam")
    beam = b.world.rz(b.coordinate("tilt", unit="rad"), name="beam")
    ball = beam.tx(b.coordinate("s", unit="m"), name="ball")
    b.mass(beam, 1.0, inertia=(0, 0, 0.1))
    b.mass(ball, 0.1)
    system = b.build()
    assert [(system.frame_names[i], system.frame_names[j]) for i, j in skeleton(system).links] == [("beam", "ball")]


def test_many_parts_stand_in_a_row_beside_the_axes_of_the_world() -> None:
    system = sm.systems.get("marionette")
    motion = Motion.of(system, np.arange(2.0), np.tile(system.configuration({}), (2, 1)))
    assert motion.in_a_row
    written = {
        text.get_text() for text in drawn_poses(motion, np.tile(system.configuration({}), (2, 1)), "run").axes[0].texts
    }
    assert written >= {"x", "y", "z", "0.00 s", "1.00 s"}


def test_a_coil_runs_from_end_to_end() -> None:
    for a, b in (((0.0, 1.0), (2.0, 0.0)), ((0.0, 1.0, 2.0), (0.0, 1.0, 3.0))):
        points = coil(np.array(a), np.array(b))
        np.testing.assert_array_equal(points[0], a)
        np.testing.assert_array_equal(points[-1], b)
        assert np.ptp(points[:, 0]) > 0  # and zigzags


def test_matplotlibs_settings_are_left_alone(pendulum: Simulation) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plots.render(plots.energy(pendulum), "png")
    assert dict(mpl.rcParams) == before
