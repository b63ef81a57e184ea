"""Random trees against 4x4 matrices and against pinocchio, another implementation of rigid-body dynamics."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepmap as sm
from tests import trees
from tests.trees import Tree

pin = pytest.importorskip(
    "pinocchio", reason="pinocchio, the outside implementation, is not installed", exc_type=ImportError
)

# Values are of order 1 to 100, made of some hundred operations each.
TOLERANCE = {"rtol": 1e-11, "atol": 1e-11}


@st.composite
def motions(draw: st.DrawFn) -> tuple[Tree, np.ndarray, np.ndarray]:
    tree = draw(trees.trees())
    return tree, draw(trees.vectors(len(tree))), draw(trees.vectors(len(tree)))


@given(motions())
def test_positions_are_products_of_matrices(motion: tuple[Tree, np.ndarray, np.ndarray]) -> None:
    tree, q, _ = motion
    system = trees.assemble(tree).builder.build()
    where = dict(zip(system.frame_names, system.positions(q), strict=True))
    for i, pose in enumerate(trees.poses(tree, q)):
        np.testing.assert_allclose(where[f"link{i}"], pose[:3, 3], **TOLERANCE)
        np.testing.assert_allclose(where[f"center{i}"], (pose @ np.append(tree[i].center, 1.0))[:3], **TOLERANCE)


@given(motions())
def test_energies_and_mass_matrix_are_those_of_pinocchio(motion: tuple[Tree, np.ndarray, np.ndarray]) -> None:
    tree, q, v = motion
    system, model = trees.assemble(tree).builder.build(), trees.pinocchio_model(tree)
    data = model.createData()
    np.testing.assert_allclose(system.kinetic_energy(q, v), pin.computeKineticEnergy(model, data, q, v), **TOLERANCE)
    np.testing.assert_allclose(system.potential_energy(q), pin.computePotentialEnergy(model, data, q), **TOLERANCE)
    upper = np.triu(pin.crba(model, data, q))
    np.testing.assert_allclose(np.triu(system.mass_matrix(q)), upper, **TOLERANCE)


def hessians(system: sm.System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper triangles of the Lagrangian's Hessian: in closed form, and by differentiating its graph."""
    e = system.expressions
    assert e.closed_hessian is not None
    by_graph = ca.triu(ca.hessian(e.lagrangian, ca.vertcat(e.q, e.v))[0])
    both = ca.Function("both", [e.q, e.v, e.parameters], [e.closed_hessian(), by_graph])
    closed, graph = both(q, v, system.parameter_values)
    return np.asarray(ca.DM(closed)), np.asarray(ca.DM(graph))


@given(motions())
def test_second_derivatives_in_closed_form_are_those_of_the_energy_s_graph(
    motion: tuple[Tree, np.ndarray, np.ndarray],
) -> None:
    tree, q, v = motion
    np.testing.assert_allclose(*hessians(trees.assemble(tree).builder.build(), q, v), **TOLERANCE)


def test_second_derivatives_of_springs_and_rotors_are_in_the_closed_form() -> None:
    b = sm.Builder("sprung")
    x, a, c = b.coordinate("x"), b.coordinate("a"), b.coordinate("c")
    first = b.world.tx(x).rz(a).ty(-1.0, name="first")
    second = first.rx(c).tz(0.4, name="second")
    b.mass(first, 1.0)
    b.mass(second, 0.7, inertia=(0.1, 0.2, 0.15))
    b.spring(b.world, second, stiffness=3.0, length=0.5)
    b.rotor(c, 0.05)
    rng = np.random.default_rng(3)
    np.testing.assert_allclose(*hessians(b.build(), rng.normal(size=3), rng.normal(size=3)), **TOLERANCE)


def test_second_derivatives_do_not_depend_on_where_a_mechanism_stands() -> None:
    b = sm.Builder("far")
    x, a, c = b.coordinate("x"), b.coordinate("a"), b.coordinate("c")
    arm = b.world.tx(x).ty(2e5).rz(a).ty(-1.0).rz(c).ty(-0.5, name="arm")
    b.mass(arm, 1.0, inertia=(0, 0, 0.1))
    system, v = b.build(), np.array([0.3, -0.7, 0.4])
    near, far = (hessians(system, np.array([place, 0.4, -0.9]), v)[0] for place in (0.0, 1e6))
    np.testing.assert_array_equal(near, far)


@pytest.mark.parametrize(("seed", "links"), [(11, 2), (2, 3), (3, 4), (4, 5)])
def test_accelerations_are_those_of_pinocchio(seed: int, links: int) -> None:
    tree, system = trees.random_tree(seed, links), trees.sprung(seed, links)
    model = trees.pinocchio_model(tree)
    data, step = model.createData(), sm.euler(system, 0.01)

    @given(trees.vectors(links), trees.vectors(links), trees.vectors(links))
    def compare(q: np.ndarray, v: np.ndarray, torque: np.ndarray) -> None:
        acceleration, _ = step.acceleration(q, v, torque)
        total = torque - trees.STIFFNESS * (q - trees.REST) - trees.DAMPING * v
        np.testing.assert_allclose(acceleration, pin.aba(model, data, q, v, total), rtol=1e-10, atol=1e-10)

    compare()
