"""Kinds of jobs: the built-in one, one of another package in a single file, and mistakes in naming one."""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.jobs import kinds
from stepmap_codegen.emit.schedule import unpack
from tests.undrawn import STEPMAP

EXAMPLES = Path(__file__).parents[2] / "examples"
KNOWN = sorted({*kinds.OWN, "hold", "lost"})
HOLD = """
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import stepmap as sm
from stepmap.jobs.parts import SHARED, read_start, read_system, read_time
from stepmap.jobs.weights import channel_names, read_noise, state_names
from stepmap.optimal import Status


@dataclass(frozen=True)
class Hold:
    "Keeps the pose it starts at."

    name: str
    root: object
    system: object
    dt: float
    steps: int
    pose: object
    noise: object
    kind = "hold"
    files = {}

    @property
    def document(self):
        return self.root.entries

    @cached_property
    def step(self):
        return sm.discretize(self.system, self.dt)

    def build(self):
        self.step.linearize(self.step.rest(self.pose), self.pose[self.step.nd :])

    def solve(self, monitor=None, guess=None):
        held = np.tile(self.pose[self.step.nd :], (self.steps, 1))
        found = self.step.rollout(self.step.rest(self.pose), held)
        Q, R = np.diag([100.0] * 4 + [1.0] * 4), np.eye(2)
        return sm.Solution(Status.CONVERGED, found, sm.lqr(self.step, found, Q, R, Q), cost=0.0)

    def ekf(self):
        return self.noise.ekf(self.step)


def read(root, name):
    root.only(("system", "time", "start", "noise", *SHARED), "table")
    system = read_system(root.table("system"))
    dt, steps = read_time(root.table("time"))
    noise = read_noise(root.table("noise"), state_names(system), channel_names(system))
    return Hold(name, root, system, dt, steps, read_start(root.table("start"), system), noise)
"""
JOB = """\
[job]
kind = "hold"
[system]
name = "suspended_mass"
[time]
dt = 0.05
steps = 20
[noise]
process = { q = 1e-3, rho = 1e-3, p = 2e-3, v = 2e-2 }
measurement = { mass = 0.01, xr = 0.01, r = 0.01 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that Python takes for an installed package with a kind of job: one file, and its metadata."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "holding.py").write_text(HOLD)
    info = folder / "holding-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: holding\nVersion: 1.0\n")
    entries = "[stepmap.jobs]\nhold = holding:read\nlost = holding:nothing\ntrack = holding:nothing\n"
    (info / "entry_points.txt").write_text(entries)
    return folder


def call(folder: Path, where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [*STEPMAP, *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, cwd=where, env=environment, timeout=600)


def test_a_kind_from_outside_is_optimized_and_generated(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "still.toml").write_text(JOB)
    done = call(folder, tmp_path, "optimize", "still.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "converged after 0 steps" in done.stdout
    with np.load(tmp_path / "build/still/optimize/solution.npz") as found:
        np.testing.assert_allclose(found["x"], np.tile(found["x"][0], (21, 1)), atol=1e-12)  # it stays where it is
        np.testing.assert_array_equal(found["x_ref"], found["x"])
        gains = found["gains"]
    done = call(folder, tmp_path, "generate", "still.toml")
    assert (done.returncode, done.stderr) == (0, "")
    blob = unpack((tmp_path / "build/still/generate/schedule.bin").read_bytes())
    sent = blob.values()[:-1, 10:]  # after x and u, the gains that are not always zero
    assert np.abs(sent).max() == pytest.approx(np.abs(gains).max(), rel=1e-6)
    assert call(folder, tmp_path, "generate", "still.toml").stdout.startswith("unchanged, skipped")


def test_a_change_of_its_source_is_a_change(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "still.toml").write_text(JOB)
    assert call(folder, tmp_path, "optimize", "still.toml").returncode == 0
    assert "unchanged" in call(folder, tmp_path, "optimize", "still.toml").stdout
    (folder / "holding.py").write_text(HOLD.replace("100.0", "90.0"))
    again = call(folder, tmp_path, "optimize", "still.toml")
    (folder / "holding.py").write_text(HOLD)
    assert again.returncode == 0
    assert "unchanged" not in again.stdout


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ('"hodl"', f"no job kind is called 'hodl' hint: Did you mean 'hold'? There are {', '.join(KNOWN)}."),
        ('"lost"', "job kind 'lost' of holding (holding:nothing) cannot be loaded cause: AttributeError"),
        ("3", "expected a text, got 3"),
    ],
)
def test_mistakes_name_file_and_line(kind: str, said: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "still.toml").write_text(JOB.replace('"hold"', kind))
    done = call(folder, tmp_path, "optimize", "still.toml")
    assert done.returncode == 2
    assert f"still.toml:2: job.kind: {said}" in " ".join(done.stderr.split())


def test_no_package_replaces_a_kind_of_stepmap(folder: Path, tmp_path: Path) -> None:
    """The folder offers a broken kind of the same name."""
    job = EXAMPLES / "suspended_mass.toml"
    assert call(folder, tmp_path, "optimize", str(job), "--force").returncode == 0


def test_track_is_the_kind_of_a_job_that_names_none(tmp_path: Path) -> None:
    text = (EXAMPLES / "pendulum_swingup.toml").read_text()
    for head in ("", "[job]\n", '[job]\nkind = "track"\n'):
        (tmp_path / "swing.toml").write_text(head + text)
        job = jobs.load(tmp_path / "swing.toml")
        assert (job.kind, type(job)) == ("track", jobs.TrackingJob)
    (tmp_path / "swing.toml").write_text('[job]\nkind = "trak"\n' + text)
    with pytest.raises(sm.JobError, match=r"no job kind is called 'trak'\nhint: Did you mean 'track'\?") as caught:
        jobs.load(tmp_path / "swing.toml")
    assert caught.value.line == 2
    (tmp_path / "swing.toml").write_text('[job]\nkinds = "track"\n' + text)
    with pytest.raises(sm.JobError, match=r"no key is called 'kinds'\nhint: Did you mean 'kind'\?"):
        jobs.load(tmp_path / "swing.toml")


def test_the_kind_of_stepmap_is_an_entry_point_too() -> None:
    assert "track" in kinds.names()
    for entry in entry_points(group=kinds.KINDS.group, name="track"):
        assert entry.load() is kinds.OWN["track"]
