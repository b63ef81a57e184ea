"""Laws that the midpoint step keeps on random trees: symplecticity, momentum, energy, reversibility."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given

import stepmap as sm
from tests import trees

DT = 0.01
TREES = [(11, 2), (2, 3), (3, 4), (4, 5)]  # seed, links

each_tree = pytest.mark.parametrize(("seed", "links"), TREES)


@functools.cache
def undamped(seed: int, links: int) -> sm.VariationalStep:
    return sm.discretize(trees.sprung(seed, links).with_parameters(damping=0.0), DT)


def amplification(step: sm.VariationalStep) -> float:
    """How much a rounding error of q grows in p: the largest mass over dt."""
    return float(np.abs(step.system.mass_matrix(np.zeros(step.nd))).max() / step.dt)


@each_tree
def test_symplectic_form_is_preserved_without_forces(seed: int, links: int) -> None:
    """Aᵀ J A = J: area in every plane (q_i, p_i) is kept."""
    step = undamped(seed, links)
    zero, one = np.zeros((links, links)), np.eye(links)
    J = np.block([[zero, one], [-one, zero]])

    @given(trees.vectors(links), trees.vectors(links))
    def check(q: np.ndarray, v: np.ndarray) -> None:
        A = step.linearize(step.from_velocity(q, v), np.zeros(links)).A
        # A comes from a linear system whose condition number, that of M, stays below 1e3.
        assert np.abs(A.T @ J @ A - J).max() < 1e3 * links * np.finfo(float).eps * np.abs(A).max() ** 2

    check()


@each_tree
def test_damping_shrinks_phase_space(seed: int, links: int) -> None:
    """det A is 1 without damping and exp(−dt c tr M⁻¹) with it, to second order in dt."""
    system = trees.sprung(seed, links)
    step = sm.discretize(system, 1e-3)
    q = np.full(links, 0.3)
    A = step.linearize(step.rest(q), np.zeros(links)).A
    rate = trees.DAMPING * np.trace(np.linalg.inv(system.mass_matrix(q)))
    assert np.linalg.det(A) == pytest.approx(np.exp(-step.dt * rate), rel=(step.dt * rate) ** 2)


@each_tree
def test_motion_can_be_reversed(seed: int, links: int) -> None:
    """With p turned round the step goes back where it came from: the midpoint rule is self-adjoint."""
    step = undamped(seed, links)

    @given(trees.vectors(links), trees.vectors(links))
    def check(q: np.ndarray, v: np.ndarray) -> None:
        x, still = step.from_velocity(q, v), np.zeros(links)
        there = step.step(x, still).x
        back = step.step(np.concatenate([there[:links], -there[links:]]), still).x
        np.testing.assert_allclose(back[:links], q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(-back[links:], x[links:], rtol=0, atol=1e-13 * amplification(step))

    check()


@each_tree
def test_energy_oscillates_with_the_square_of_dt(seed: int, links: int) -> None:
    system = undamped(seed, links).system
    spread = []
    for dt in (4e-3, 2e-3, 1e-3):
        step = sm.discretize(system, dt)
        x = step.from_velocity(np.full(links, 0.4), np.full(links, 0.5), instant=True)
        path = step.rollout(x, np.zeros((round(0.8 / dt), links)))
        energies = [step.energy(state) for state in path.x[:: round(0.008 / dt)]]  # at the same times
        spread.append(np.abs(np.array(energies) - energies[0]).max())
    # Fourth powers of dt times the highest frequency (some 10/s) are the next term.
    np.testing.assert_allclose(np.array(spread[:-1]) / spread[1:], 4.0, atol=0.1)


@pytest.mark.parametrize("kind", ["tx", "rz"])
def test_momentum_of_a_symmetry_is_conserved(kind: str) -> None:
    """Noether: where nothing depends on a coordinate, its momentum stays, whatever moves on top of it."""
    tree = trees.random_tree(5, 4, kinds=("rx", "ry", "rz"))
    first = trees.Link(-1, kind, np.eye(4), 1.0, np.zeros(3), 0.1 * np.eye(3))
    rest = [
        trees.Link(link.parent + 1, link.kind, link.placement, link.mass, link.center, link.inertia) for link in tree
    ]
    system = trees.assemble([first, *rest], gravity=(0, 0, -9.8)).builder.build()  # along z: symmetric for both kinds
    step = sm.discretize(system, DT)
    x = step.from_velocity(np.linspace(-0.5, 0.5, 5), np.linspace(1.0, -1.0, 5))
    path = step.rollout(x, np.zeros((500, 0)))
    momentum = path.x[:, 5]
    assert np.abs(path.x[:, 1:5] - path.x[0, 1:5]).max() > 1.0  # it did move
    # A step keeps it to rounding of q times M/dt; 500 of these errors, in the worst case of one sign.
    rounding = np.finfo(float).eps * np.abs(path.x[:, :5]).max() * amplification(step)
    assert np.abs(momentum - momentum[0]).max() < 500 * rounding


@pytest.mark.parametrize(("seed", "links"), [(2, 3), (3, 4)])
def test_derivatives_agree_with_differences(seed: int, links: int) -> None:
    step = sm.discretize(trees.sprung(seed, links), DT)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        q, v, u = rng.uniform(-1, 1, (3, links))
        errors = sm.check_derivatives(step, step.from_velocity(q, v), u, rng.normal(size=step.nx))
        # Rounding of q, amplified by M/dt and by 1/h = 1000, and truncation, h⁶ f⁽⁷⁾/140.
        assert errors.worst < 1e-9 + 10 * np.finfo(float).eps * amplification(step) * 1e3, errors
