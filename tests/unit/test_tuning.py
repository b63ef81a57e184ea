"""Tuning of the feedback: the margin against what it promises, simulated loops, the choice, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from stepmap import jobs
from stepmap.errors import ModelError
from stepmap.jobs import TrackingJob
from stepmap.jobs.tuning import Plant, Point, Sweep, choose, sweep
from stepmap.jobs.tuning.margin import End, modulus_margin, steady_gain
from stepmap.jobs.tuning.sweep import tuned, tuned_plan
from stepmap.optimal import Plan
from stepmap.optimal.lqr import riccati
from tests.hil.commands import call
from tests.undrawn import STEPMAP

ROOT = Path(__file__).parents[2]
JOB = ROOT / "examples" / "cart_pendulum.toml"


# Margin -----------------------------------------------------------------------------------------------------------


def falling(decay: float) -> tuple[End, np.ndarray]:
    """An unstable pair of modes with one input and one reading, its filter and its regulator."""
    A = np.array([[1.0, 0.1], [0.3, 1.0]])
    B, H = np.array([[0.0], [0.1]]), np.array([[1.0, 0.0]])
    gain = steady_gain(A, H, 1e-3 * np.eye(2), np.array([[decay]]), np.eye(2))
    R = np.array([[0.1]])
    P = riccati(A, B, np.eye(2), R)
    return End(A, B, H, gain), np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)


def radius(end: End, K: np.ndarray, factor: complex) -> float:
    """Of the loop whose plant gets ``factor`` times what the law commands and the filter predicts with."""
    A, B, H, L = end.A, end.B, end.H, end.gain
    after = np.eye(len(A)) - L @ H
    top = np.hstack([A - factor * B @ K @ L @ H, -factor * B @ K @ after])
    below = np.hstack([(A - B @ K) @ L @ H, (A - B @ K) @ after])
    return float(np.abs(np.linalg.eigvals(np.vstack([top, below]))).max())


@pytest.mark.parametrize("decay", [1e-4, 1e-2])
def test_the_margin_is_what_the_loop_stands(decay: float) -> None:
    """Every factor k with |1/k − 1| below the margin leaves the loop stable, and one just beyond it does not."""
    end, K = falling(decay)
    m = modulus_margin(end, K, np.ones(1))
    assert 0.05 < m < 1
    circle = np.exp(2j * np.pi * np.arange(720) / 720)
    assert max(radius(end, K, 1 / (1 + 0.99 * m * z)) for z in circle) < 1
    assert max(radius(end, K, 1 / (1 + 1.02 * m * z)) for z in circle) > 1


def test_worse_readings_leave_less_margin() -> None:
    margins = [modulus_margin(*falling(decay), np.ones(1)) for decay in (1e-6, 1e-4, 1e-2)]
    assert margins == sorted(margins, reverse=True)


def test_what_does_not_hold_has_no_margin() -> None:
    end, K = falling(1e-4)
    assert modulus_margin(end, 0 * K, np.ones(1)) == 0


# Sweep ------------------------------------------------------------------------------------------------------------


@cache
def solved() -> tuple[TrackingJob, Plan]:
    job = jobs.load(JOB)
    assert isinstance(job, TrackingJob)
    return job, job.solve().plan


def test_nothing_disturbs_a_quiet_loop() -> None:
    job, plan = solved()
    assert job.noise is not None
    quiet = replace(job, noise=replace(job.noise, process=1e-12 * job.noise.process, start=1e-12 * job.noise.start))
    found = sweep(quiet, plan, [1.0], [1.0], Plant(job.system, job.pose), runs=1)
    assert found.present.tracking < 1e-4  # m: the readings alone are noisy, and hardly believed
    assert found.present.effort < 1e-3


def test_stiffer_feedback_works_harder() -> None:
    job, plan = solved()
    aside = Plant(job.system, job.pose + np.array([0.0, 0.05]))
    found = sweep(job, plan, [0.25, 1.0, 4.0], [1.0], aside, runs=3)
    ((soft, same, stiff),) = found.points
    assert same == found.present
    assert stiff.effort > same.effort > soft.effort > 0
    assert stiff.roughness > same.roughness > soft.roughness > 0
    assert all(0.001 < point.tracking < 0.1 for point in found.points[0])  # m; it begins 0.05 rad aside
    assert found.data()["present"]["tracking"] == same.tracking


def test_the_gains_of_the_present_factors_are_those_of_the_plan() -> None:
    job, plan = solved()
    same = tuned_plan(tuned(job, 1.0, 1.0), plan)
    assert np.allclose(same.gains, plan.gains, rtol=1e-9, atol=1e-9)
    other = tuned_plan(tuned(job, 3.0, 1.0), plan)
    assert not np.allclose(other.gains, plan.gains, rtol=0.05)


def test_a_plan_that_cannot_be_held_is_not_tuned() -> None:
    job, plan = solved()
    with pytest.raises(ModelError, match="nothing to tune: it falls"):
        sweep(job, replace(plan, fading="it falls"), [1.0], [1.0])


# Choice -----------------------------------------------------------------------------------------------------------

NOW = Point(1, 1, tracking=10, effort=0.1, roughness=0.1, margin=0.6, limited=0, lost=0)


@pytest.mark.parametrize(
    ("other", "taken"),
    [
        (replace(NOW, state_factor=2, tracking=5), True),
        (replace(NOW, state_factor=2, tracking=9.8), False),  # no better to speak of
        (replace(NOW, state_factor=2, tracking=9.8, roughness=0.05), True),  # calmer
        (replace(NOW, state_factor=2, tracking=5, margin=0.45), False),
        (replace(NOW, state_factor=2, tracking=5, roughness=0.3), False),
        (replace(NOW, state_factor=2, tracking=5, lost=0.1), False),
        (replace(NOW, state_factor=2, tracking=5, limited=0.2), False),
    ],
)
def test_the_choice(other: Point, taken: bool) -> None:
    assert choose(Sweep("job", "m", NOW, ((NOW, other),))) == (other if taken else NOW)


# Command ----------------------------------------------------------------------------------------------------------


def test_the_command_says_how_to_take_factors_over(tmp_path: Path) -> None:
    words = [*STEPMAP, "tune", str(JOB), "--points", "2", "--runs", "1", "--at", "2,0.5", "--build", str(tmp_path)]
    code, told, complaints = call(words)
    assert (code, complaints) == (0, "")
    assert "state_factor = 2\n    speed_factor = 0.5\n" in told
    assert "The firmware stays as it is." in told
    folder = tmp_path / "cart_pendulum" / "tune"
    found = json.loads((folder / "tune.json").read_text())
    assert found["chosen"] == {"state_factor": 2, "speed_factor": 0.5}
    pairs = [(p["state_factor"], p["speed_factor"]) for p in found["points"]]
    assert pairs == [(0.25, 0.25), (4, 0.25), (0.25, 4), (4, 4)]
    assert (folder / "tune.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("at", ["2", "2,x", "0,1"])
def test_factors_that_are_none(at: str) -> None:
    code, _, complaints = call([*STEPMAP, "tune", str(JOB), "--at", at])
    assert code == 2
    assert "--at: " in complaints
