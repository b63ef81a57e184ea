"""Systems, step maps, jobs and plans go to other processes by their data: copies give the same bits."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.campaigns.study import Base
from tests.pages import ROOT
from tests.processes import PATIENCE

pytestmark = pytest.mark.filterwarnings("ignore::stepmap.jobs.system.LeftOutWarning")

EXAMPLES = ROOT / "examples"
JOBS = (
    "suspended_mass.toml",  # of the catalog
    "mechanisms/crane.toml",  # a Python file
    "imported/arm.toml",  # a URDF
    "strings/drop.toml",  # events
    "turning/satellite.toml",  # a ball
    "direct/cart_swingup.toml",
    "gaits/compass.toml",
    "scripts/puppet.toml",
    "plans/reach.toml",
)


@pytest.mark.parametrize("name", JOBS)
def test_jobs_and_what_is_in_them(name: str) -> None:
    """Each by itself, and the job once its step is there."""
    job = jobs.load(EXAMPLES / name)
    fresh = pickle.loads(pickle.dumps(job))
    system = pickle.loads(pickle.dumps(job.system))
    x, u = job.step.rest(job.pose), job.step.layout.hold(job.step.rest(job.pose))
    used = pickle.loads(pickle.dumps(job))
    expected = job.step.step(x, u).x
    for step in (fresh.step, used.step, pickle.loads(pickle.dumps(job.step)), sm.discretize(system, job.dt)):
        if type(step) is type(job.step) and step.options == job.step.options:
            np.testing.assert_array_equal(step.step(x, u).x, expected)
    assert fresh.document == job.document
    assert system.parameters == job.system.parameters


def test_systems_of_files_are_read_again_where_these_are_not(tmp_path: Path) -> None:
    """What a worker on another computer does with a job: its file's content came with it."""
    for name in ("mechanisms/crane.toml", "imported/arm.toml"):
        base = pickle.loads(pickle.dumps(Base.load(EXAMPLES / name)))
        elsewhere = Base(replace(base.root, file=str(tmp_path / "job.toml")), base.name, base.files)
        job = elsewhere.job({"time.dt": base.root.entries["time"]["dt"]})
        assert job.system.parameters == jobs.load(EXAMPLES / name).system.parameters


def test_a_plan_in_another_process() -> None:
    plan = jobs.load(EXAMPLES / "pendulum_swingup.toml").solve().require().plan
    code = (
        "import pickle, sys; plan = pickle.load(sys.stdin.buffer); "
        "sys.stdout.buffer.write(pickle.dumps((plan.trajectory.x, plan.gains, plan.reference.u)))"
    )
    words = [sys.executable, "-c", code]
    made = subprocess.run(words, input=pickle.dumps(plan), capture_output=True, check=True, timeout=PATIENCE)
    for copied, own in zip(pickle.loads(made.stdout), (plan.trajectory.x, plan.gains, plan.reference.u), strict=True):
        np.testing.assert_array_equal(copied, own)
