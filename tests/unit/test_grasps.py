"""A hand of tendons holds a ball: statics by virtual work, what it reaches by another test, its answer to a push."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from stepmap import figures
from stepmap.figures import hand as figure


@pytest.fixture(scope="module")
def found() -> figure.Answer:
    return figure.answer()


def places(system: sm.System, pose: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(system.frame_names, system.positions(pose), strict=True))


def slope(function: object, pose: np.ndarray, i: int, apart: float = 1e-6) -> np.ndarray:
    """∂/∂q_i by central differences."""
    step = apart * np.eye(len(pose))[i]
    return (np.asarray(function(pose + step)) - np.asarray(function(pose - step))) / (2 * apart)  # type: ignore[operator]


def test_contact_forces_carry_the_ball(found: figure.Answer) -> None:
    """Their sum is its weight, and they do not turn it."""
    system = found.step.system
    at = places(system, found.held.x[:15])
    forces = -found.held.forces.reshape(3, 3)  # on the ball
    arms = np.array([at[f"tip{i}"] - at["ball"] for i in (1, 2, 3)])
    assert forces.sum(axis=0) == pytest.approx([0, 0, 0.2 * 9.81], abs=1e-9)
    assert np.cross(arms, forces).sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-10)


def test_tendons_contacts_and_weights_balance_every_joint(found: figure.Answer) -> None:
    """Virtual work of a turn of each joint, from places of frames alone: lengths of tendons, the tip, the links."""
    system, pose = found.step.system, found.held.x[:15]
    names = [c.name for c in system.coordinates]
    forces = found.held.forces.reshape(3, 3)  # on the tips
    guides = {"left": 2, "right": 2, "flexor": 2, "deep": 3, "extensor": 3}
    for i in (1, 2, 3):
        for joint in ("spread", "bend", "knuckle"):

            def work(q: np.ndarray, i: int = i) -> float:
                at = places(system, q)
                total = float(forces[i - 1] @ at[f"tip{i}"])
                for m, ends in ((0.08, ("palm", "knuckle")), (0.05, ("knuckle", "tip"))):
                    total -= 9.81 * m * sum(at[f"{end}{i}"][2] for end in ends) / 2
                for tendon, count in guides.items():
                    path = np.array([at[f"{tendon}{i}_{j}"] for j in range(count)])
                    tension = found.held.u[list(found.step.input_names).index(f"{tendon}{i}")]
                    total -= tension * np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
                return total

            torque = slope(work, pose, names.index(f"{joint}{i}"))
            assert abs(torque) < 1e-8, (joint, i)


def test_all_of_twelve_directions_are_reached(found: figure.Answer) -> None:
    """Hautus' test on the map of ball pose and velocity, by differences through poses that the contacts allow."""
    assert (found.reach.rank, found.reach.dimension) == (12, 12)
    step, held = found.step, found.held
    system, names = step.system, [c.name for c in step.system.coordinates]

    def state(small: np.ndarray) -> np.ndarray:
        pose = np.array(held.x[:15])
        pose[:6] += small[:6]
        pose = system.satisfy_constraints(pose, fixed=names[:6])
        D = system.residuals_slope(pose)
        velocity = np.concatenate([small[6:], np.linalg.solve(D[:, 6:], -D[:, :6] @ small[6:])])
        return step.from_velocity(pose, velocity)

    def ball(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[:6], step.velocity(x)[:6]])

    def after(small: np.ndarray, more: np.ndarray) -> np.ndarray:
        return ball(step.step(state(small), held.u + more).x)

    h, none = 1e-4, (np.zeros(12), np.zeros(15))
    A = np.column_stack([(after(d, none[1]) - after(-d, none[1])) / (2 * h) for d in h * np.eye(12)])
    B = np.column_stack([(after(none[0], d) - after(none[0], -d)) / (2 * h) for d in h * np.eye(15)])
    for value in np.linalg.eigvals(A):
        test = np.hstack([A - value * np.eye(12), B / np.abs(B).max()])
        singular = np.linalg.svd(test, compute_uv=False)
        assert singular[-1] > 1e-5 * singular[0]


def test_a_push_is_answered_by_pulling_alone(found: figure.Answer) -> None:
    pushed = found.step.velocity(found.closed.x[0])
    assert pushed[:6] == pytest.approx([0.1, 0, 0, 0, 0, 0], abs=1e-12)
    assert found.closed.u.min() >= 0
    assert found.closed.u.max() <= 40
    assert found.moved.max() < 1.2e-3
    assert found.moved[-1] < 1e-6
    assert np.abs(found.step.system.gaps(found.closed.x[:, :15])).max() < 1e-9
    assert found.grips.normal.min() > 0
    assert found.grips.used.max() < 1
    lost = np.linalg.norm(found.open - found.held.x[:3], axis=1)
    assert lost[-1] > 0.05  # with constant tensions it leaves the hand


def test_without_co_contraction_feedback_would_have_to_push() -> None:
    assert figure.answer(0.0).closed.u.min() < -1.0


def test_forces_are_least_and_cones_are_kept(found: figure.Answer) -> None:
    step = found.step
    for friction in (0.3, 0.5):
        grips = figure.contacts(friction)
        held = sm.co_contract(step, {}, low=0.2, grips=grips)
        assert held.u.min() >= 0.2
        still = step.rollout(held.x, held.u[None])
        # A pyramid of twelve sides is within the cone by 1 − cos(π/12) = 3.4 % at most; the least sum touches it.
        assert sm.grip_forces(step, still, grips).used.max() == pytest.approx(0.98, abs=0.021)
    assert sm.co_contract(step, {}, low=0.2).u.sum() < held.u.sum()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"low": 50.0}, "low: 50 is above the limit of left1, 40"),
        ({"low": [1.0, 2.0]}, "low: expected one number or 15"),
        ({"low": 39.0}, "no forces of 'tendon_hand' from 39 N on hold"),
        ({"grips": [sm.Grip("grip4", "ball", 0.5)]}, "no point_to_point .* 'grip4'; there are grip1, grip2, grip3"),
        ({"grips": [sm.Grip("grip1", "bal", 0.5)]}, "inside: no frame is called 'bal'; did you mean 'ball'"),
        ({"grips": [sm.Grip("grip1", "contact1", 0.5)]}, "there is no normal"),
    ],
)
def test_mistakes_are_told(found: figure.Answer, given: dict, message: str) -> None:
    with pytest.raises(sm.ModelError, match=f"(?i){message}"):
        sm.co_contract(found.step, {}, **given)


def test_friction_is_positive() -> None:
    with pytest.raises(sm.ModelError, match="friction of grip 'a': must be positive"):
        sm.Grip("a", "ball", 0.0)


def test_the_figure_is_made() -> None:
    made = figures.make("hand")
    told = dict(made.key_figures)
    assert "rank 12 of 12" in told["reachable"]
    assert len(made.rows) == figure.STEPS
    assert min(row["extensor1"] for row in made.rows) >= 0
