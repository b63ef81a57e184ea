"""Jobs of kind "script": acts from a file, solved and told in the summary; mistakes with their lines."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.errors import JobError
from stepmap.jobs.script import ScriptJob
from stepmap.optimal.switching_times import ScriptSolution
from tests.hil.commands import STEPMAP, call

EXAMPLE = Path(__file__).parents[2] / "examples" / "scripts" / "wave.toml"


def test_an_example_is_solved_and_tells_its_acts(tmp_path: Path) -> None:
    code, _, said = call([*STEPMAP, "optimize", str(EXAMPLE), "--build", str(tmp_path)])
    assert code == 0, said
    summary = json.loads((tmp_path / "wave" / "optimize" / "summary.json").read_text())
    assert (summary["kind"], summary["status"]) == ("script", "converged")
    assert summary["iterations"] <= 10
    assert [act["name"] for act in summary["acts"]] == ["hang", "wave", "aside"]
    assert [act["written"] for act in summary["acts"]] == [0.0, 1.2, 4.0]
    begins = [act["begins"] for act in summary["acts"]]
    assert begins[0] == 0.0 < begins[1] < begins[2] < 6.0
    assert begins[1] != 1.2
    assert 0 < sum(act["cost"] for act in summary["acts"]) < summary["cost"]  # the rest is end and prior
    page = (tmp_path / "wave" / "optimize" / "report.html").read_text(encoding="utf-8")
    assert 'id="sentence">The search converged: a play of 3 acts, hang from 0.00 s, wave from 1.' in page
    with np.load(tmp_path / "wave" / "optimize" / "solution.npz") as plan:
        assert plan["gains"].shape == (180, 2, 8)
    saved = sm.Plan.load(tmp_path / "wave" / "optimize" / "solution.npz")
    assert [(e.name, e.kind, e.time) for e in saved.events] == [
        (name, "act", begin) for name, begin in zip(("hang", "wave", "aside"), begins, strict=True)
    ]
    assert all(0 <= e.time - e.step / 30 < 1 / 30 for e in saved.events)
    assert not saved.trajectory.events  # they are of the play, not of its mechanics


CHANGES = {
    "nothing": {},
    "a wider wave": {"0.2*sin(3*t)": "0.22*sin(3*t)"},
    "an act moved by more than it gives": {"at = 4.0": "at = 4.7"},
    "a slower change": {"blend = 0.6": "blend = 0.7"},
    "a second more": {"duration = 6.0": "duration = 7.0"},
    "an act more": {'name = "aside"\nat = 4.0': 'name = "still"\nat = 3.2\n[[acts]]\nname = "aside"\nat = 4.3'},
    "finer steps": {'dt = "1/30"': 'dt = "1/40"'},
}


MOST = {"nothing": 0, "an act moved by more than it gives": 15, "an act more": 15}  # iterations; 8 where not said


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_play_is_solved_again_from_the_old_one(tmp_path: Path, what: str) -> None:
    text = EXAMPLE.read_text()
    for old, new in CHANGES[what].items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "wave.toml").write_text(text)
    plan, job = old_solution().plan, jobs.load(tmp_path / "wave.toml")
    assert isinstance(job, ScriptJob)
    anew, again = job.solve().require(), job.solve(guess=job.resumed(plan)).require()
    assert again.cost <= anew.cost * (1 + 1e-7)  # there are several minima
    assert again.iterations <= MOST.get(what, 8)


@functools.cache
def old_solution() -> ScriptSolution:
    return jobs.load(EXAMPLE).solve().require()


def test_the_command_goes_on_from_the_old_play(tmp_path: Path) -> None:
    path = tmp_path / "wave.toml"
    path.write_text(EXAMPLE.read_text())
    counts = []
    for wave in ("0.2", "0.22"):
        path.write_text(EXAMPLE.read_text().replace("0.2*sin", f"{wave}*sin"))
        more = ["--resume"] if counts else []
        code, _, said = call([*STEPMAP, "optimize", str(path), "--build", str(tmp_path), *more])
        assert code == 0, said
        counts.append(json.loads((tmp_path / "wave" / "optimize" / "summary.json").read_text())["iterations"])
    assert counts[1] < counts[0]


def test_plays_of_other_systems_are_no_old_solution() -> None:
    job = jobs.load(EXAMPLE.parent / "nod.toml")
    assert isinstance(job, ScriptJob)
    job = dataclasses.replace(job, system=sm.systems.get("pendulum"))
    with pytest.raises(sm.ModelError, match="the earlier plan is of another system"):
        job.resumed(old_solution().plan)


def test_feedback_has_weights_of_its_own(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("[noise]", "[weights.controller]\ninput_factor = 1000\n\n[noise]", 1)
    (tmp_path / "soft.toml").write_text(text)
    soft, usual = jobs.load(tmp_path / "soft.toml").solve().require(), old_solution()
    np.testing.assert_array_equal(soft.trajectory.x, usual.trajectory.x)
    assert np.linalg.norm(soft.plan.gains) < 0.7 * np.linalg.norm(usual.plan.gains)


def test_a_play_may_have_one_act(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    (tmp_path / "one.toml").write_text(text[: text.index('[[acts]]\nname = "wave"')] + text[text.index("[weights]") :])
    solution = jobs.load(tmp_path / "one.toml").solve().require()
    assert solution.plan.acts == (0.0,)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("at = 4.0", "at = 1.5", r"act 2 begins at 1.5 s, while the change to act 1"),
        ("at = 4.0", "at = 7.0", "outside the script of 6 s"),
        ("at = 4.0\n", "", "at"),
        ('xm = "0.2*sin(3*t)"', 'xm = "0.2*sin(3*t"', r"acts\[1\], xm"),
        ('xr = "0.2*sin(3*t)"', 'xq = "0.2*sin(3*t)"', "xq"),
        ('name = "hang"', 'name = "hang"\nat = 1.0', "the first act begins with the play"),
        ("blend = 0.6", "blend = -1.0", "blend, give: must be positive"),
    ],
)
def test_mistakes_name_the_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = EXAMPLE.read_text()
    assert old in text
    path = tmp_path / "wrong.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(JobError, match=message) as told:
        jobs.load(path)
    assert "wrong.toml" in str(told.value)
