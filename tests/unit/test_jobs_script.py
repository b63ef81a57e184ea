"""Jobs of kind "script": acts from a file, solved and told in the summary; mistakes with their lines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.errors import JobError
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


def test_a_play_that_is_changed_goes_on_from_the_old_one() -> None:
    job = jobs.load(EXAMPLE)
    first = job.solve().require()
    again = job.solve(guess=first.trajectory).require()
    assert again.iterations <= first.iterations
    assert again.cost == pytest.approx(first.cost, rel=1e-9)


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
