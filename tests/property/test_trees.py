"""Random trees against 4x4 matrices and against pinocchio, another implementation of rigid-body dynamics."""

from __future__ import annotations

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
