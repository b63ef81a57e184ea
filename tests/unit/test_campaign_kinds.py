"""Kinds of campaigns: what trials of each come to, beside what the library gives for one of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepmap import jobs
from stepmap.campaigns import Campaign, kinds, load
from stepmap.campaigns.study import Base
from stepmap.estimate import ParticleFilter
from tests.campaigns import FILTER, JOB, rows, written
from tests.pages import ROOT

SWINGUP = ROOT / "examples" / "pendulum_swingup.toml"


def made(campaign: Campaign, build: Path) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(1) as executor:
        return rows(campaign, build, executor=executor)


def test_all_kinds_are_found() -> None:
    assert kinds.KINDS.names() == ["bench", "design", "filter", "search"]


def test_a_filter_with_too_little_noise_is_overconfident(tmp_path: Path) -> None:
    """The truth has ten times the filter's process noise: NEES is far above its band, and is told so."""
    text = FILTER.replace("noise.process.p = [0.01, 0.02]", "truth.damping = [0.1, 5.0]")
    campaign = load(written(tmp_path, text, trials=20))
    table = made(campaign, tmp_path / "build")
    nees = np.array([row["nees"] for row in table])
    assert nees[:20].mean() < 2.0 < 5.0 < nees[20:].mean()


def test_other_filters_take_trial_after_trial(tmp_path: Path) -> None:
    """The particle filter, with draws of its own in every trial; its error is that of the Kalman filter, nearly."""
    (tmp_path / "one").mkdir()
    path = written(tmp_path / "one", FILTER, trials=6)
    job = path.with_name("pendulum.toml")
    job.write_text(JOB + '[filter]\nkind = "particle"\nparticles = 300\n')
    campaign = load(path)
    assert isinstance(campaign.base.job({}).filter(), ParticleFilter)
    particle = made(campaign, tmp_path / "build")
    kalman = made(load(written(tmp_path / "two", trials=6)), tmp_path / "other")
    assert all(row["ok"] for row in particle)
    ratio = np.mean([row["rms_theta"] for row in particle]) / np.mean([row["rms_theta"] for row in kalman])
    assert 0.8 < ratio < 1.5


def test_a_search_from_many_starts(tmp_path: Path) -> None:
    """Draw 0 is the job's own search, with its cost; others begin elsewhere and end at optima too, or say why not."""
    text = (
        f'[campaign]\nkind = "search"\njob = "{SWINGUP}"\ntrials = 4\nseed = 2\n[search]\ninputs = {{ torque = 3.0 }}\n'
    )
    path = tmp_path / "starts.toml"
    path.write_text(text)
    campaign = load(path)
    table = made(campaign, tmp_path / "build")
    own = jobs.load(SWINGUP).solve().require()
    assert (table[0]["cost"], table[0]["iterations"]) == (pytest.approx(own.cost, rel=1e-12), table[0]["iterations"])
    found = [row for row in table if row["ok"]]
    assert len(found) >= 2
    assert all(row["status"] == "converged" for row in found)
    assert all(row["reason"] for row in table if not row["ok"])
    assert len({row["iterations"] for row in found}) > 1
    told = dict(campaign.study.tells({name: np.array([row[name] for row in found]) for name in table[0]}))
    assert "trial" in told["least cost"]


def test_a_study_of_designs(tmp_path: Path) -> None:
    """Each design is the optimum of a job with that parameter, to the last bit."""
    path = tmp_path / "lengths.toml"
    path.write_text(
        f'[campaign]\nkind = "design"\njob = "{SWINGUP}"\n[grid]\nsystem.length = [0.8, 1.0]\nsystem.mass = [1.0]\n'
    )
    table = made(load(path), tmp_path / "build")
    assert [row["system.length"] for row in table] == [0.8, 1.0]
    own = Base.load(SWINGUP).job({"system.length": 0.8}).solve().require()
    assert table[0]["cost"] == own.cost
    assert table[0]["peak_torque"] == np.abs(own.plan.trajectory.u).max()
    assert table[0]["cost"] != table[1]["cost"]
