"""Jobs of kind "plan": a tree from a file, its summary and pictures; mistakes with their lines, and how far it came."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.cli.progress import IterationTable
from stepmap.errors import JobError
from stepmap.jobs import optimize as optimum
from tests.hil.commands import STEPMAP, call

EXAMPLE = Path(__file__).parents[2] / "examples" / "plans" / "reach.toml"


def changed(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = EXAMPLE.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "job.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_an_example_leaves_a_plan_that_replays(tmp_path: Path) -> None:
    code, _, said = call([*STEPMAP, "optimize", str(EXAMPLE), "--build", str(tmp_path)])
    assert code == 0, said
    folder = tmp_path / "reach" / "optimize"
    told = json.loads((folder / "summary.json").read_text())
    assert (told["kind"], told["status"]) == ("plan", "reached")
    assert told["plan"]["end"] <= 0.1 * np.sqrt(3)
    assert told["plan"]["nodes"] <= told["plan"]["extensions"]
    assert told["plan"]["room"] >= 0
    assert told["plan"]["rest"] is True
    assert told["verdict"]["ok"], told["verdict"]
    assert told["constraint_force_low"] > 0
    job = jobs.load(EXAMPLE)
    found = sm.Plan.load(folder / "solution.npz", job.step)
    again = job.step.rollout(found.trajectory.x[0], found.trajectory.u)
    assert np.array_equal(again.x, found.trajectory.x)
    ends = found.trajectory.x[-1, [0, 1, 3]]
    assert np.abs(ends - [0.9, -0.1, -1.7]).max() <= 0.1
    assert found.gains.shape == (found.trajectory.steps, 3, 14)


def test_what_came_nearest_is_told_and_kept(tmp_path: Path) -> None:
    """A goal where the ball is: no seed reaches it, and the advice says why."""
    file = changed(
        tmp_path,
        ("yaw = 0.9\npitch = -0.1", "yaw = 0.43\nroll = 0.0\npitch = -0.26"),
        ("elbow = -1.7", "elbow = -1.18"),
        ("tolerance = 0.1 ", "tolerance = 0.001 "),
        ("seed = 1", "seed = 1\nseeds = 2\nextensions = 1000"),
    )
    job = jobs.load(file)
    found = job.solve()
    assert (found.status.name, found.seeds) == ("EXHAUSTED", 2)
    assert "within an obstacle" in found.advice
    assert "by obstacles" in found.advice
    stage = optimum.stage(job, tmp_path)
    stage.prepare()
    told = optimum.summary(stage, job, found, 0.0)
    assert told["plan"]["distance"] < np.linalg.norm([0.43, 0.14, 0.58])
    assert not told["verdict"]["ok"]
    with pytest.raises(sm.ConvergenceError, match="2 seeds"):
        found.require()


def test_time_that_runs_out_keeps_the_nearest() -> None:
    job = jobs.load(EXAMPLE)
    options = {**job.options, "tolerance": 1e-9, "seconds": 1e-9}
    found = sm.plan(job.step, job.start, **options)
    assert (found.status.name, found.extensions) == ("LATE", 0)
    assert "seconds" in found.advice
    assert found.plan.trajectory.steps == 0


def test_nodes_distance_and_rate_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepmap.jobs.plans.job.OFTEN", 0.0)
    table, job = IterationTable(None), jobs.load(EXAMPLE)
    found = job.solve(table)
    nodes, distance, extensions, rate, _ = table.rows[-1]
    assert (int(nodes), int(extensions)) == (found.tree.count, found.extensions)
    assert float(distance) == pytest.approx(found.tree.distance, rel=1e-3)
    assert float(rate) > 0


def test_the_tree_is_drawn() -> None:
    """Dots where the hand is at every node, in axes of space; the smoothed path ends at the goal."""
    job = jobs.load(EXAMPLE)
    found = job.solve()
    drawn = job.drawn(found)
    assert list(drawn) == ["tree", "path", "tracking", "inputs", "tension"]
    (axes,) = drawn["tree"].axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert len(lines["nodes"].get_data_3d()[0]) == min(found.tree.count, 4000)  # as many as can be told apart
    hand = list(job.system.frame_names).index("hand")
    end = job.system.positions(job.step.layout.pose(found.plan.trajectory.x[-1]))[hand]
    assert np.array([values[-1] for values in lines["smoothed"].get_data_3d()]) == pytest.approx(end)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("yaw = 0.9", "yow = 0.9", r": goal: no coordinate is called 'yow'"),
        ("yaw = 0.9", "yaw = 9.0", "outside its range"),
        ("yaw = 0.9", "x = 2.0", "outside its range"),
        ("seed = 1", "sede = 1", "sede"),
        ("seed = 1", "seed = -1", "plan.seed: expected a whole number from 0 on"),
        ("seed = 1", "seeds = 0", "plan.seeds: expected a whole number from 1 on"),
        ("seed = 1", "seconds = 0.0", "seconds: must be positive"),
        ("rate = 0.6", "rate = 0.0", "plan.rate: rate of x: must be positive"),
        ("tolerance = 0.1", "tolerance = 2.0", "the start is there already"),
        ("center = [0.24, 0.11, -0.3]", "center = [0.2, 0.0, -0.3]", "start: link .* within an obstacle"),
        ('["elbow_joint", "hand"]]', '["elbow_joint"]]', "expected pairs of frames"),
        ('["elbow_joint", "hand"]]', '["elbow_joint", "foot"]]', "foot"),
        ("[[obstacles]]", "[box]\nx = [0.5, 0.6]\n[[obstacles]]", "start: x is 0.25, outside its box"),
        ("[time]\ndt = 0.02", "[time]\ndt = 0.02\nduration = 3.0", "duration"),
    ],
)
def test_mistakes_name_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(JobError, match=message) as told:
        jobs.load(changed(tmp_path, (old, new)))
    assert "job.toml:" in str(told.value)
