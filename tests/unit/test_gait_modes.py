"""Modes and cycles of gaits: what is left to a mechanism that stands, by laws, and which contacts follow which."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import ModelError, ShapeError
from stepmap.optimal.gaits.cycle import Cycle, Stretch
from stepmap.optimal.gaits.modes import Mode, cyclic, rows_of
from stepmap.optimal.gaits.renaming import Renaming
from tests.unit.test_renaming import LEGS, Q, biped

PLACE = [0, 1]  # x and y of the biped: nothing depends on where it is


@pytest.mark.parametrize("closed", [("stance",), ("swing",), ("stance", "swing")])
def test_deviations_of_a_standing_robot_keep_its_feet(closed: tuple[str, ...]) -> None:
    """They are what is left of deviations when all that a foot holds back is taken off: once is as good as twice."""
    mode = Mode(biped(), closed)
    D, Pi = mode.slope(Q), mode.deviations(Q)
    assert D.shape == (2 * len(closed), 6)
    pose, momentum = Pi[:6, :6], Pi[6:, 6:]
    assert np.abs(Pi[:6, 6:]).max() == np.abs(Pi[6:, :6]).max() == 0
    np.testing.assert_allclose(D @ pose, 0, atol=1e-12)
    np.testing.assert_allclose(Pi @ Pi, Pi, atol=1e-12)
    np.testing.assert_allclose(momentum @ D.T, 0, atol=1e-12)  # what impulses of the foot do not matter
    np.testing.assert_allclose(momentum, momentum.T, atol=1e-12)
    assert np.linalg.matrix_rank(momentum, tol=1e-9) == 6 - 2 * len(closed)


def test_a_robot_that_stands_elsewhere_is_moved_back_and_bent_as_it_was() -> None:
    """One foot stands: where it is does not matter, and angles count as they are."""
    pose = Mode(biped(), ("stance",)).deviations(Q)[:6, :6]
    np.testing.assert_allclose(pose[:, PLACE], 0, atol=1e-12)
    np.testing.assert_allclose(pose[2:, 2:], np.eye(4), atol=1e-12)
    np.testing.assert_allclose(pose[:2, 2:], 0, atol=1e-12)


def test_nothing_is_held_in_flight() -> None:
    assert cyclic(biped()) == PLACE
    np.testing.assert_array_equal(Mode(sm.systems.get("hopper"), ()).deviations(np.array([1.0, 1.5])), np.eye(4))


def test_a_place_that_a_spring_knows_is_not_cyclic() -> None:
    """Its force is linear in it."""
    b = sm.Builder("tethered")
    x, y = b.coordinate("x", unit="m"), b.coordinate("y", unit="m")
    b.mass(b.world.tx(x).ty(y, name="bob"), 1.0)
    b.gravity((0, -9.81, 0))
    b.coordinate_spring(x, stiffness=3.0)
    assert cyclic(b.build()) == [1]


def test_rows_and_normals_of_contacts() -> None:
    system = biped()
    both = Mode(system, ("stance", "swing"))
    names = [system.constraint_names[row] for row in both.rows]
    assert [names[i] for i in both.normals] == ["stance", "swing"]
    assert rows_of(system, ["swing", "stance"]) == [both.rows[i] for i in reversed(both.normals)]
    assert Mode(system, ("swing",)).rows == both.rows[2:]
    with pytest.raises(ModelError, match="named twice in swing, swing"):
        Mode(system, ("swing", "swing"))


def cycle(*stretches: Stretch) -> Cycle:
    system, steps = biped(), sum(s.steps for s in stretches)
    return Cycle(system, stretches, Renaming(system, LEGS), np.zeros((steps + 1, 12)), np.zeros((steps, 4)))


THREE = (Stretch(("stance",), 3, 0.1), Stretch(("stance", "swing"), 2, 0.05), Stretch(("swing",), 4, 0.2))


def test_phases_follow_each_other_and_the_last_is_renamed() -> None:
    found = cycle(*THREE)
    assert [found.after(i) for i in range(3)] == [("stance", "swing"), ("swing",), ("swing",)]
    assert list(found.begins()) == [(0, 0), (1, 3), (2, 5)]
    assert found.steps == 9
    assert found.t == pytest.approx([0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.6, 0.8, 1.0, 1.2])
    assert found.landing(1) is None  # it only opens one
    assert found.landing(2) is None
    assert found.landed(1) is None


def test_both_feet_do_not_land_at_once() -> None:
    with pytest.raises(ModelError, match=r"phase 0 ends with 2 landings at once \(stance, swing\)"):
        cycle(Stretch((), 2, 0.1), THREE[1]).landing(0)


@pytest.mark.parametrize(("rows", "columns"), [(10, 12), (8, 12), (9, 11)])
def test_states_and_inputs_are_those_of_the_phases(rows: int, columns: int) -> None:
    system = biped()
    with pytest.raises(ShapeError, match=r"expected x \(10, 12\) and u \(9, 4\)"):
        Cycle(system, THREE, Renaming(system, LEGS), np.zeros((rows + 1, columns)), np.zeros((rows, 4)))
    with pytest.raises(ShapeError, match=r"expected x \(10, 12\)"):
        Cycle(system, THREE, Renaming(system, LEGS), np.zeros((10, 12)), np.zeros((9, 3)))
