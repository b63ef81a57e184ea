"""Jobs of kind "direct": read, solved, saved as a plan; mistakes with file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.jobs import optimize as optimum
from stepmap.jobs.direct.obstacles import read_obstacles
from stepmap.toml.tables import parse_text

EXAMPLE = Path(__file__).parents[2] / "examples" / "direct" / "cart_swingup.toml"
TEXT = EXAMPLE.read_text(encoding="utf-8")


def test_times_that_are_found_are_fitted_to_the_period(tmp_path: Path) -> None:
    job = jobs.load(EXAMPLE)
    job.build()
    found = job.solve().require()
    assert isinstance(found, sm.DirectSolution)
    assert len(found.starts) >= 2
    path = found.trajectory
    assert path.t[1] == pytest.approx(0.02, rel=1e-12)
    assert 1.0 <= found.time <= 4.0
    stage = optimum.stage(job, tmp_path)
    stage.prepare()
    (tmp_path / "solution.npz").write_bytes(optimum.arrays(job, found))
    plan = sm.Plan.load(tmp_path / "solution.npz", job.step)
    np.testing.assert_array_equal(plan.trajectory.x, path.x)
    assert plan.gains.shape == (path.steps, 1, 4)
    told = optimum.summary(stage, job, found, 0.0)
    assert told["kind"] == "direct"
    assert told["direct"]["time"] == found.time
    assert told["cost"] == found.cost


def changed(tmp_path: Path, old: str, new: str) -> Path:
    assert old in TEXT
    file = tmp_path / "job.toml"
    file.write_text(TEXT.replace(old, new), encoding="utf-8")
    return file


OBSTACLES = """
[[obstacles]]
kind = "sphere"
center = [{x}, 1.5, 0.0]
radius = 0.2

[[clear]]
frame = "bob"
radius = 0.05
margin = 0.02
"""


def test_obstacles_in_a_job(tmp_path: Path) -> None:
    file = changed(tmp_path, "[solver]", OBSTACLES.format(x=1.0) + "\n[solver]")
    job = jobs.load(file)
    (clearance,) = job.task.clear  # type: ignore[attr-defined]
    # At the start the bob hangs 1 m below the cart: 1, 2.5 m from the centre of the sphere.
    distance = float(clearance.of(job.system).evaluate(job.pose)[0])
    assert distance == pytest.approx(np.hypot(1.0, 2.5) - 0.2 - 0.05 - 0.02, abs=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("duration = [1.0, 4.0]", "duration = [4.0, 1.0]", "job.toml:13: time.duration: expected a range"),
        ("duration = [1.0, 4.0]", "duration = 1.015", "whole number of steps"),
        ("force**2/1000", "wind**2", "cost: unknown name 'wind'"),
        ("theta = 0.0", "theta = 9.0", "start: theta = 9 is outside its limits"),
        ('theta = "pi"', "phi = 1.0", "goal: no coordinate is called 'phi'"),
        ("force = {", "forze = {", "limits: no coordinate"),
        ("starts = 2", "start = 2", "solver.start: no key is called 'start'"),
        ("[cost]", "[costs]", "no table is called 'costs'"),
        ("[solver]", '[[obstacles]]\nkind = "cube"\n[solver]', "no choice is called 'cube'"),
        ("[solver]", OBSTACLES.format(x=0.0).replace("1.5", "-1.0") + "[solver]", "lacks"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(sm.JobError, match=said.replace("[", r"\[").replace("*", r"\*")):
        jobs.load(changed(tmp_path, old, new))


ROCK = """v 0 0 0
v 1 0 0
v 0 1 0
v 0 0 1
f 1 3 2
f 1 2 4
f 1 4 3
f 2 3 4
"""


def test_a_mesh_that_came_with_a_job_is_the_attached_one(tmp_path: Path) -> None:
    """Not what has its name on this computer: names in a job from elsewhere open nothing."""
    text = b'[[obstacles]]\nkind = "mesh"\nfile = "NAME"\n'
    other = tmp_path / "rock.obj"
    other.write_text(ROCK.replace("v 1 0 0", "v 2 0 0"))
    for name in ("rock.obj", str(other)):
        root = parse_text(text.replace(b"NAME", name.encode()), "job.toml", {name: ROCK.encode()})
        [(_, shape)] = read_obstacles(root, {})
        assert isinstance(shape, sm.Mesh)
        np.testing.assert_array_equal(shape.vertices, [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(sm.StepmapError, match=r"job\.toml:3.*came with it"):
        read_obstacles(parse_text(text.replace(b"NAME", str(other).encode()), "job.toml", {}), {})
