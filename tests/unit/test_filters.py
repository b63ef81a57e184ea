"""Filters by name, one of another package in a single file, and filters on states that are no plain vectors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.estimate import consistency, nees, registry
from tests.rotor import Rotor, direction

EXAMPLES = Path(__file__).parents[2] / "examples"
TOY = """
from dataclasses import dataclass

import numpy as np

from stepmap.estimate import Belief, ExtendedKalmanFilter, Innovation


@dataclass(frozen=True)
class Constant:
    "A filter that never updates P: its belief is a pair of x and a count of steps."

    step: object
    process: np.ndarray
    measurement: np.ndarray
    gate: float | None = None

    def start(self, x, P):
        return np.array(x), 0

    def predict(self, belief, u):
        return self.step.linearize_many(belief[0][None], np.asarray(u)[None])[0][0], belief[1] + 1

    def update(self, belief, z, valid=None):
        first = ExtendedKalmanFilter(self.step, self.process, self.measurement)
        (x, _), seen = first.update(Belief(belief[0], self.process), z, valid)
        return (x, belief[1]), seen

    def estimate(self, belief):
        return Belief(belief[0], self.process)
"""
RUN = """
import sys

import numpy as np

from stepmap import jobs

job = jobs.load(sys.argv[1])
step, made = job.step, job.filter()
belief, x = job.belief(), job.start
for _ in range(20):
    x = step.step(x, job.held).x
    belief, seen = made.update(made.predict(belief, job.held), job.system.readings(step.layout.pose(x)))
x_hat, P = made.estimate(belief)
print(type(made).__name__, belief[1], np.abs(step.layout.difference(x_hat, x)).max() < 1e-9, P.shape)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that Python takes for an installed package with a filter: one file, and its metadata."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "toy.py").write_text(TOY)
    info = folder / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stepmap.filters]\nconstant = toy:Constant\nlost = toy:nothing\n")
    return folder


def job_with(folder: Path, filter: str) -> Path:
    text = (EXAMPLES / "suspended_mass.toml").read_text()
    file = folder / "job.toml"
    file.write_text(text.replace("[noise]\n", f'[noise]\nfilter = "{filter}"\n'))
    return file


def call(folder: Path, where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=where, env={**os.environ, "PYTHONPATH": path}, timeout=600
    )


def test_a_job_names_a_filter_of_another_package(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(RUN)
    done = call(folder, tmp_path, "run.py", str(job_with(tmp_path, "constant")))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["Constant", "20", "True", "(8,", "8)"]


def test_a_filter_that_cannot_be_loaded_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(RUN)
    done = call(folder, tmp_path, "run.py", str(job_with(tmp_path, "lost")))
    assert done.returncode == 1
    assert "filter 'lost' of toy (toy:nothing) cannot be loaded\ncause: AttributeError" in done.stderr


def test_no_code_is_generated_for_a_filter_without_a_lowering(folder: Path, tmp_path: Path) -> None:
    """Said before the trajectory is searched for."""
    done = call(folder, tmp_path, "-m", "stepmap.cli", "generate", str(job_with(tmp_path, "constant")))
    assert done.returncode != 0
    assert "no code can be generated for the filter 'constant'" in " ".join(done.stderr.split())
    assert not (tmp_path / "build").exists()


def test_the_extended_kalman_filter_is_the_default() -> None:
    job = jobs.load(EXAMPLES / "suspended_mass.toml")
    assert job.noise is not None
    assert job.noise.filter == "ekf"
    assert isinstance(job.filter(), sm.ExtendedKalmanFilter)
    assert registry.names()[0] == "ekf"


def test_an_unknown_filter_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(sm.JobError, match=r"(?s)job\.toml:\d+.*no filter is called 'efk'.*[Dd]id you mean 'ekf'"):
        jobs.load(job_with(tmp_path, "efk"))
    with pytest.raises(sm.ModelError, match=r"no filter is called 'efk'\s+hint: Did you mean 'ekf'\? There are ekf"):
        registry.maker("efk")


# states on a circle ---------------------------------------------------------------------------------------------


def test_a_filter_on_a_circle_is_the_filter_of_its_angle() -> None:
    """Two components with variance r each tell the angle with r, whatever the angle: P follows the scalar recursion."""
    q, r = 1e-4, 1e-2
    ekf = sm.ExtendedKalmanFilter(Rotor(), [[q]], r * np.eye(2))
    belief, variance, angle = ekf.start(direction(3.0), [[0.01]]), 0.01, 3.0
    for _ in range(40):  # past π, where angles jump and directions do not
        angle += 0.05
        belief, _ = ekf.update(ekf.predict(belief, [0.05]), direction(angle))
        variance = 1 / (1 / (variance + q) + 1 / r)
        assert belief.P[0, 0] == pytest.approx(variance, rel=1e-12)
    assert belief.x == pytest.approx(direction(angle), abs=1e-12)
    assert np.linalg.norm(belief.x) == pytest.approx(1.0, abs=1e-13)


def test_a_filter_on_a_circle_is_consistent() -> None:
    """NEES in the tangent space, and NIS, over 2000 runs, each within its 99.9 % band."""
    rng, runs, step = np.random.default_rng(4), 2000, Rotor()
    q, r, p = 2e-2, 5e-2, 5e-2  # standard deviations
    ekf = sm.ExtendedKalmanFilter(step, [[q**2]], r**2 * np.eye(2))
    truth = step.layout.retract(direction(2.0), p * rng.standard_normal((runs, 1)))
    belief = ekf.start(np.tile(direction(2.0), (runs, 1)), [[p**2]])
    for _ in range(50):
        truth = step.layout.retract(truth, 0.1 + q * rng.standard_normal((runs, 1)))
        z = truth + r * rng.standard_normal((runs, 2))
        belief, seen = ekf.update(ekf.predict(belief, [0.1]), z)
    error = step.layout.difference(belief.x, truth)
    assert consistency(nees(error, belief.P), 1, 0.999).ok
    assert consistency(seen.nis, 2, 0.999).ok


def test_a_map_without_sensors_is_refused() -> None:
    class Blind(Rotor):
        readings = property()  # type: ignore[assignment]

    with pytest.raises(sm.ModelError, match=r"expected a step map of a mechanism, or one with sensor_channels"):
        sm.ExtendedKalmanFilter(Blind(), [[1.0]], np.eye(2))
