"""Jobs of kind "gait": read with every mistake at its line, solved and written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.jobs import optimize
from stepmap.optimal import Status
from tests.gaits import Biped, judge
from tests.pages import ROOT

EXAMPLE = ROOT / "examples" / "gaits" / "biped_planar.toml"


def changed(folder: Path, *changes: tuple[str, str]) -> Path:
    text = EXAMPLE.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "gait.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_job_is_solved_and_written(tmp_path: Path) -> None:
    """Another stride, slope and leg than those of the example, in 40 steps."""
    job = jobs.load(
        changed(tmp_path, ("stride = 0.56", "stride = 0.5\nleg = 0.9\nshank = 0.4"), ("steps = 80", "steps = 40"))
    )
    stage = optimize.stage(job, tmp_path)
    solution = job.solve()
    optimize.write(stage, job, solution, 1.0)
    told = json.loads((stage.folder / "summary.json").read_text(encoding="utf-8"))
    assert told["status"] == "converged"
    assert told["kind"] == "gait"
    assert 0 < told["transport"] < 1
    assert 0 < told["multiplier"] < 0.3
    assert told["parameters"]["leg"] == 0.9
    assert told["verdict"]["ok"]
    assert {"path.png", "energy.png", "ground.png", "inputs.png", "walk.gif"} <= {
        f.name for f in stage.folder.iterdir()
    }
    page = (stage.folder / "report.html").read_text(encoding="utf-8")
    assert 'id="sentence">The search converged: a gait whose period takes 0.9 s and 0.5 m;' in page
    with np.load(stage.folder / "solution.npz") as saved:
        assert saved["gains"].shape == (40, 4, 12)
        found = judge(Biped(0.4, 0.9, 0.5), saved["x"][:, :6], saved["u"], 0.9 / 40)
        assert np.abs(saved["u"]).max() <= 60 + 1e-6
        assert np.abs(np.diff(saved["u"], axis=0)).max() <= 600 * 0.9 / 40 + 1e-6
        assert saved["state_names"][6] == "p_x"
    assert max(found.motion, found.jump, found.periodic) <= 1e-8
    assert found.cone <= 0.8
    assert sm.Plan.load(stage.folder / "solution.npz").events[0].name == "swing"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('closed = ["stance"]', 'closed = ["heel"]', "heel"),
        ('closed = ["stance"]', 'closed = "stance"', "names of contacts"),
        ("time = 0.9", "time = [0.9, 0.5]", "upside down"),
        ("time = 0.9", "", "time"),
        ('y = "swing.y"', 'y = "swing.y + 0.1"', "place of no contact"),
        ('theta2 = "-theta4"', 'theta2 = "-knee"', "knee"),
        ("effort = 1.0", 'effort = 1.0\nrunning = "work"', "either"),
        ("rate = 600.0", "rate = -1.0", "rate"),
        ("[landing]\nswing", "[landing]\nfoot", "foot"),
        ("[friction]", "[design]\nthumb = [0.1, 0.2]\n[friction]", "thumb"),
        ("[friction]", "[design]\nshank = [0.6, 0.7]\n[friction]", "outside"),
        ("p = 1.0", "p = -1.0", "negative"),
        ("forces = 0.01", "hip = 0.01", "none, or zero"),
        ("[friction]", "[frictions]", "frictions"),
    ],
)
def test_mistakes_are_told_before_anything_is_solved(tmp_path: Path, old: str, new: str, text: str) -> None:
    with pytest.raises(sm.JobError, match=text):
        jobs.load(changed(tmp_path, (old, new)))


def test_an_error_at_a_table_names_it_once(tmp_path: Path) -> None:
    with pytest.raises(sm.JobError, match=r"toml:\d+: periodic: the renamed mechanism is another one"):
        jobs.load(changed(tmp_path, ('theta3 = "-theta3"', 'theta3 = "theta3"')))


def test_a_guess_is_within_the_limits_of_the_knees(tmp_path: Path) -> None:
    """Feet 0.8 m apart, from a start with 0.56 m between them: the pose nearest to it bends a knee the wrong way."""
    job = jobs.load(changed(tmp_path, ("steps = 80", "steps = 20")))
    found = sm.direct(job.system.with_parameters(stride=0.8), **job.options).require()  # type: ignore[attr-defined]
    assert found.trajectory.x[:, 3].min() >= -1e-9
    assert found.trajectory.x[:, 5].max() <= 1e-9


def test_a_gait_on_the_spot_has_no_cost_of_transport(tmp_path: Path) -> None:
    job = jobs.load(changed(tmp_path, ("stride = 0.56", "stride = 0.0"), ("steps = 80", "steps = 20")))
    found = job.solve().require()
    assert job.told(found)["transport"] is None  # type: ignore[attr-defined]


def test_what_has_no_motion_says_so_and_what_to_do(tmp_path: Path) -> None:
    """In 50 ms nobody walks half a metre."""
    short = ("time = 0.9", "time = 0.05"), ("[friction]", "[solver]\nmax_iterations = 30\n[friction]")
    job = jobs.load(changed(tmp_path, *short, ("steps = 80", "steps = 10")))
    found = job.solve()
    assert found.status is not Status.CONVERGED
    with pytest.raises(sm.ConvergenceError, match="direct: "):
        found.require()


def test_a_stride_longer_than_the_legs_is_told(tmp_path: Path) -> None:
    job = jobs.load(changed(tmp_path, ("stride = 0.56", "stride = 2.5"), ("steps = 80", "steps = 20")))
    with pytest.raises(sm.ModelError, match="stride is out of reach"):
        job.solve()
