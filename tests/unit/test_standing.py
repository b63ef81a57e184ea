"""Mechanisms on their stance foot: the same motion with fewer coordinates, and a landing without multipliers."""

from __future__ import annotations

import pickle

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import ModelError
from stepmap.optimal.gaits.renaming import Renaming
from stepmap.steps.kinds import discretize
from stepmap.walking.standing import Touchdown, stance_step, standing
from stepmap_codegen.lower.landing import Landing
from stepmap_codegen.lower.plant import Gait
from stepmap_codegen.model.nearest import AHEAD, BACK, nearest
from tests.gaits import Biped

NAMES = {
    "x": "swing.x - stride",
    "y": "swing.y",
    "theta1": "theta1 + theta2 + theta3 + theta4",
    "theta2": "-theta4",
    "theta3": "-theta3",
    "theta4": "-theta2",
}
TURNED = np.array([[1, 1, 1, 1], [0, 0, 0, -1], [0, 0, -1, 0], [0, -1, 0, 0]], dtype=float)  # angles after a landing
DT = 0.01


@pytest.fixture(scope="module")
def biped() -> sm.System:
    return sm.systems.get("biped_planar")


@pytest.fixture(scope="module")
def touchdown(biped: sm.System) -> Touchdown:
    stood = standing(biped, ("stance",), np.zeros(6))
    return Touchdown(stood, Renaming(biped, NAMES), biped.constraint_names.index("swing"))


def states(count: int) -> np.ndarray:
    """Poses with momenta of moderate speeds: a foot that stands must not leave the ground."""
    rng, made = np.random.default_rng(3), []
    for _ in range(count):
        q = np.array([-0.3, 0.2, 0.5, -0.4]) + rng.uniform(-0.1, 0.1, 4)
        v = rng.uniform(-0.5, 0.5, 4)
        made.append(np.concatenate([q, Biped().mass(np.concatenate([[0.0, 0.0], q]))[2:, 2:] @ v]))
    return np.array(made)


def struck(x: np.ndarray) -> np.ndarray:
    """The landing by multipliers, of the mechanism in plain numpy: plastic impact, then angles and rates renamed."""
    one = Biped()
    q = np.concatenate([[0.0, 0.0], x[:4]])
    M, B = one.mass(q), one.swing_slope(q)
    before = np.concatenate([[0.0, 0.0], np.linalg.solve(M[2:, 2:], x[4:])])
    matrix = np.block([[M, B.T], [B, np.zeros((2, 2))]])
    after = np.linalg.solve(matrix, np.concatenate([M @ before, np.zeros(2)]))[:6]
    angles, rates = TURNED @ x[:4], TURNED @ after[2:]
    return np.concatenate([angles, one.mass(np.concatenate([[0.0, 0.0], angles]))[2:, 2:] @ rates])


def test_it_moves_as_the_mechanism_with_the_contact(biped: sm.System, touchdown: Touchdown) -> None:
    whole, small = discretize(biped, DT, contacts=("stance",)), stance_step(touchdown.system, DT)
    for x in states(5):
        pose = touchdown.system.pose(x[:4])
        M = biped.mass_matrix(pose)
        p = M[:, 2:] @ np.linalg.solve(M[2:, 2:], x[4:])
        u = np.array([3.0, -5.0, 7.0, 1.0])
        moved = whole.step(np.concatenate([pose, p]), u).x
        assert np.abs(small.step(x, u).x - moved[[2, 3, 4, 5, 8, 9, 10, 11]]).max() < 1e-11


def test_a_landing_is_that_of_an_impact_with_multipliers(touchdown: Touchdown) -> None:
    for x in states(10):
        assert np.abs(touchdown(x) - struck(x)).max() < 1e-10


def test_it_is_pickled(touchdown: Touchdown) -> None:
    again = pickle.loads(pickle.dumps(touchdown.system.with_parameters(shank_mass=2.5)))
    assert again.parameter_values[2] == 2.5
    assert again.free == (2, 3, 4, 5)


def test_a_mechanism_that_is_not_rooted_in_its_foot_is_refused(biped: sm.System) -> None:
    with pytest.raises(ModelError, match="rooted in the foot"):
        standing(biped, ("swing",), np.zeros(6))


@pytest.mark.parametrize("age", [0.0, 0.004])
def test_the_block_jumps_where_the_foot_came_down(touchdown: Touchdown, age: float) -> None:
    """Taken back by the age, struck, and on with the new velocity; its slope is that of the jump."""
    x = ca.SX.sym("x", 8)
    landing = Landing(Gait(touchdown, "swing", 80, 10), x, DT)
    made = ca.Function("landing", [x, landing._age], [landing.after, ca.densify(landing.slope)])
    one = Biped()

    def velocity(state: np.ndarray) -> np.ndarray:
        M = one.mass(np.concatenate([[0.0, 0.0], state[:4]]))[2:, 2:]
        return np.linalg.solve(M, state[4:])

    for at in states(5):
        before = np.concatenate([at[:4] - age * velocity(at), at[4:]])
        after = struck(before)
        after[:4] += age * velocity(after)
        found, slope = (np.asarray(part) for part in made(at, age))
        assert np.abs(found[:, 0] - after).max() < 1e-10
        differences = [(struck(before + 1e-6 * e) - struck(before - 1e-6 * e)) / 2e-6 for e in np.eye(8)]
        assert np.abs(slope - np.array(differences).T).max() < 1e-6 * np.abs(slope).max()


def test_the_nearest_row_of_raw_values() -> None:
    rng = np.random.default_rng(1)
    of_pose, of_row = [29, 30, 20, 12], [28, 29, 22, 13]
    poses = np.cumsum(rng.normal(0, 0.02, (60, 4)), axis=0)
    rows = np.rint(poses * 2.0 ** np.array(of_row)).astype(np.int64)
    for expected in (0, 1, 30, 58, 59):
        pose = poses[min(expected + 2, 59)] + rng.normal(0, 0.005, 4)
        raw = [round(v) for v in pose * 2.0 ** np.array(of_pose)]
        window = range(max(0, expected - BACK), min(60, expected + AHEAD + 1))
        best = min(window, key=lambda k: float(((poses[k] - pose) ** 2).sum()))
        assert nearest(raw, rows, expected, of_pose, of_row) == best
