"""Jobs of kind "design", and the examples of walkers without motors against the published cycles."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.jobs import optimize
from tests.pages import ROOT

GAITS = ROOT / "examples" / "gaits"


def changed(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    text = (GAITS / name).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def spring(folder: Path, *changes: tuple[str, str]) -> Path:
    """The hopper of the example, whose spring is found."""
    study = "[study]\nevaluations = 4\nrepeats = 1\nworkers = 1\n[design]\nstiffness = [200, 800]\n[landing]"
    return changed(folder, "hopper.toml", ('"gait"', '"design"'), ("[landing]", study), *changes)


def test_a_study_is_made_and_written(tmp_path: Path) -> None:
    job = jobs.load(spring(tmp_path))
    stage = optimize.stage(job, tmp_path)
    study = job.solve()
    optimize.write(stage, job, study, 1.0)
    told = json.loads((stage.folder / "summary.json").read_text(encoding="utf-8"))
    assert (told["kind"], told["status"]) == ("design", "converged")
    samples = told["study"]["samples"]
    assert [sample["values"]["stiffness"] for sample in samples[:3]] == [400, 200, 800]
    assert told["cost"] == min([told["study"]["exact"]["cost"], *(sample["cost"] for sample in samples)])
    assert told["parameters"]["stiffness"] == told["design"]["stiffness"]
    assert {"design.png", "path.png", "walk.gif"} <= {file.name for file in stage.folder.iterdir()}
    with np.load(stage.folder / "solution.npz") as saved:
        assert saved["gains"].shape == (60, 1, 4)
    assert any(name == "exact gradient" for name, _ in optimize.key_figures(job, study, 1.0))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("stiffness = [200, 800]", "", "the table \\[design\\] is missing"),
        ("stiffness = [200, 800]", "stiffness = [400, 400]", "low below high"),
        ("stiffness = [200, 800]", "spring = [200, 800]", "no parameter 'spring'"),
        ("evaluations = 4", "evaluations = 1", "at least 3"),
        ("evaluations = 4", 'method = "kriging"', "kriging"),
        ("evaluations = 4", "samples = 4", "samples"),
        ("stiffness = [200, 800]", "stiffness = [200, 800]\nlength = [0.4, 0.6]\n[study.x]", "x"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path: Path, old: str, new: str, text: str) -> None:
    with pytest.raises(sm.JobError, match=text):
        jobs.load(spring(tmp_path, (old, new)))


def test_a_spline_is_for_one_parameter(tmp_path: Path) -> None:
    both = "stiffness = [200, 800]\nlength = [0.4, 0.6]"
    path = spring(tmp_path, ("stiffness = [200, 800]", both), ("evaluations = 4", 'method = "spline"'))
    with pytest.raises(sm.JobError, match="for one parameter"):
        jobs.load(path)


def test_the_compass_walks_its_published_cycle(tmp_path: Path) -> None:
    """Goswami, Thuilot & Espiau 1998 at 3°: time 0.73472 s, of order 2, and multipliers −0.1997 ± 0.5445i, 0.1316."""
    off, angles = [], []
    for steps in (40, 80):
        found = jobs.load(changed(tmp_path, "compass.toml", ("steps = 80", f"steps = {steps}"))).solve().require()
        off.append(abs(found.time - 0.734721))
        angles.append(np.abs(found.trajectory.x[0, 2:4] - [0.21867, -0.32339]).max())
    assert off[1] < 1.3e-4
    assert off[0] / off[1] == pytest.approx(4.0, rel=0.05)
    assert angles[0] / angles[1] == pytest.approx(4.0, rel=0.25)  # the cycle is quoted to five digits
    values = found.floquet[:3]
    np.testing.assert_allclose(np.sort_complex(values), [-0.1997 - 0.5445j, -0.1997 + 0.5445j, 0.1316], atol=5e-3)
    np.testing.assert_allclose(np.abs(found.plan.floquet[:3]), np.abs(values), atol=1e-9)  # nothing holds it but itself


def test_a_cycle_without_motors_cannot_be_told_its_stride(tmp_path: Path) -> None:
    job = jobs.load(changed(tmp_path, "compass.toml", ("[design]\nstride = [0.3, 0.8]", "")))
    with pytest.raises(sm.ModelError, match="more equations than unknowns"):
        job.solve()


def test_the_rimless_wheel_rolls_its_published_cycle(tmp_path: Path) -> None:
    """McGeer 1990; Coleman, Chatterjee & Ruina 1997: its speed after an impact, of order 2, and the multiplier r²."""
    half, inertia, slope = math.pi / 8, 0.05, 0.08
    r = (math.cos(2 * half) + inertia) / (1 + inertia)
    speed = math.sqrt(4 * 9.81 * math.sin(half) * math.sin(slope) * r**2 / ((1 + inertia) * (1 - r**2)))
    off = []
    for steps in (40, 80):
        found = jobs.load(changed(tmp_path, "rimless_wheel.toml", ("steps = 80", f"steps = {steps}"))).solve().require()
        landed = found.cycle.landed(0)
        assert landed is not None
        off.append(abs(found.step.velocity(landed.x)[2] + speed))
    assert off[1] < 2e-4
    assert off[0] / off[1] == pytest.approx(4.0, rel=0.05)
    assert found.design["stride"] == pytest.approx(2 * math.sin(half), abs=1e-9)
    assert abs(found.floquet[0]) == pytest.approx(r**2, abs=5e-3)


def test_the_hopper_of_the_example_flies(tmp_path: Path) -> None:
    found = jobs.load(GAITS / "hopper.toml").solve().require()
    stance, flight = found.searched.motions
    height = flight.q[:, 0] + 4.0 / 4.5 * flight.q[:, 1]
    np.testing.assert_allclose(np.diff(height, 2) / flight.h**2, -9.81, atol=1e-6)
    assert flight.q[1:-1, 0].min() > 0
    assert stance.lam.min() >= -1e-9
    assert np.abs(found.plan.floquet).max() < 1
