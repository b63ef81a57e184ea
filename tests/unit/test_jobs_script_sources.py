"""Sources of acts: CSV files, motion capture, libraries of plans; and what is refused before anything is solved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.errors import JobError
from stepmap.jobs.script import ScriptJob
from stepmap.toml.tables import parse_text
from tests import dancers

SCRIPTS = Path(__file__).parents[2] / "examples" / "scripts"
PUPPET, WAVE = SCRIPTS / "puppet.toml", SCRIPTS / "wave.toml"


@pytest.fixture(scope="module")
def puppet() -> ScriptJob:
    job = jobs.load(PUPPET)
    assert isinstance(job, ScriptJob)
    return job


def spoilt(folder: Path, text: str, csv: str = "t,xm,xr\n0,0,0\n3.5,0,0\n") -> Path:
    """A job file, with a CSV file beside it."""
    (folder / "wave.csv").write_text(csv)
    path = folder / "play.toml"
    path.write_text(text)
    return path


def with_csv(more: str = "") -> str:
    text = WAVE.read_text()
    begin, end = text.index("[acts.of]"), text.index('[[acts]]\nname = "aside"')
    return f'{text[:begin]}csv = "wave.csv"\n{more}\n{text[end:]}'


def column(job: ScriptJob, name: str) -> np.ndarray:
    return job.reference.poses[:, [c.name for c in job.system.coordinates].index(name)]


def test_every_source_is_what_the_reference_asks_for(puppet: ScriptJob) -> None:
    """Inside acts, away from blends: beside the file, the dancer's formulas and the saved plan."""
    assert puppet.act_names == ("hang", "wave", "beckon", "greet", "nod")
    t, theta2 = puppet.t, column(puppet, "theta2")
    local = t - 4.0
    inside = (local > 1.0) & (local < 2.8)
    table = np.loadtxt(SCRIPTS / "beckon.csv", delimiter=",", skiprows=1)
    near = np.interp(local[inside], table[:, 0], table[:, 2])
    assert np.abs(theta2[inside] - near).max() < 5e-3  # a spline is no polygon
    local = t - 6.8
    inside = (local > 1.2) & (local < 4.6)
    dance = dancers.greeting(np.append(1.0 + local[inside], 8.0))["RightForeArm"][:-1, 2]  # from its first second on
    assert np.corrcoef(theta2[inside], dance)[0, 1] > 0.8  # as far as the wire lets it
    plan = sm.Plan.load(SCRIPTS / "library" / "nod.npz")
    local = t - 11.5
    inside = (local > 1.0) & (local < 3.0)
    saved = np.interp(local[inside], plan.trajectory.t, plan.trajectory.x[:, 1])
    assert np.abs(theta2[inside] - saved).max() < 1e-3
    after = local > 3.3
    assert np.abs(theta2[after] - plan.trajectory.x[-1, 1]).max() < 1e-3  # held


def test_the_library_holds_what_its_job_finds() -> None:
    solution = jobs.load(SCRIPTS / "nod.toml").solve().require()
    plan = sm.Plan.load(SCRIPTS / "library" / "nod.npz")
    np.testing.assert_allclose(plan.trajectory.x, solution.trajectory.x, atol=1e-6)


def test_the_play_is_solved_and_its_string_pulls(puppet: ScriptJob) -> None:
    solution = puppet.solve().require()
    assert solution.iterations <= 15
    forces = solution.trajectory.multipliers
    assert forces is not None
    assert forces.min() > 2.0


def test_a_job_of_a_recording_has_its_files_with_it(puppet: ScriptJob) -> None:
    assert set(puppet.files) == {"beckon.csv", "../imitation/greet.bvh", "library/nod.npz"}
    root = parse_text(PUPPET.read_bytes(), "job.toml", dict(puppet.files))
    again = jobs.parse(root, "puppet")
    assert isinstance(again, ScriptJob)
    np.testing.assert_array_equal(again.reference.poses, puppet.reference.poses)


def test_tempo_and_hold(tmp_path: Path) -> None:
    csv = "t,xm,xr\n" + "".join(f"{k / 10},{0.01 * k},{0.01 * k}\n" for k in range(11))
    with pytest.raises(JobError, match=r"play.toml:23: act 'wave': .*lasts 1 s, and the act 3.4 s"):
        jobs.load(spoilt(tmp_path, with_csv(), csv))
    for more, end in (("hold = true", 1.0), ("hold = true\ntempo = 0.5", 2.0)):
        job = jobs.load(spoilt(tmp_path, with_csv(more), csv))
        assert isinstance(job, ScriptJob)
        risen = column(job, "xr")[np.searchsorted(job.t, 1.2 + end + 0.2) :][: round(0.5 * 30)]
        np.testing.assert_allclose(risen, 0.1, atol=2e-3)
    assert isinstance(jobs.load(spoilt(tmp_path, with_csv("tempo = 0.25"), csv)), ScriptJob)  # 4 s are enough


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("t,xm\n0,0\n3.5,nan\n", r"wave.csv:3: act 'wave': xm: must be finite"),
        ("t,xm\n0,0\n3.5\n", r"wave.csv:3: act 'wave': expected 2 cells"),
        ("t,xq\n0,0\n3.5,0\n", r"wave.csv:1: act 'wave': column 2: no coordinate is called 'xq'"),
        ("t,xm\n0.5,0\n3.5,0\n", r"wave.csv:2: act 'wave': must begin at t = 0"),
        ("t\n0\n3.5\n", r"wave.csv:1: act 'wave': has the column t and no other"),
        ("t,xm\n0,0\n3.3,0\n", r"play.toml:23: act 'wave': .*its motion lasts 3.3 s, and the act 3.4 s"),
        ("t,xm\n0,0\n1.5,0\n1.55,0.5\n3.5,0.5\n", r"its motion asks for .* m/s² at t = 2\.7"),
        ("t,xm,xr\n0,9,0\n3.5,9,0\n", r"act 'wave': .*it asks for xm = 9 m, and its range is -1 to 1"),
    ],
)
def test_files_that_cannot_be_played(tmp_path: Path, csv: str, message: str) -> None:
    with pytest.raises(JobError, match=message) as told:
        jobs.load(spoilt(tmp_path, with_csv(), csv))
    assert "act 'wave'" in str(told.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('csv = "beckon.csv"', 'csv = "none.csv"', r"act 'beckon': acts\[3\].csv: .*none.csv cannot be read"),
        (
            'csv = "beckon.csv"',
            'csv = "beckon.csv"\nplan = "nod"',
            r"act 'beckon': .*give one of of, csv, motion, plan",
        ),
        ('csv = "beckon.csv"', 'csv = "beckon.csv"\nroom = 0.5', r"act 'beckon': .*is not of an act of 'csv'"),
        ('plan = "nod"', 'plan = "bow"', r"act 'nod': .*there is no .*bow.npz"),
        ('library = "library"', 'library = "../imitation"', r"act 'nod': .*there is no .*nod.npz"),
        ('tip = "RightHand"', 'tip = "RightClaw"', r"act 'greet': .*RightClaw"),
        ('motion = "../imitation/greet.bvh"', 'motion = "beckon.csv"', r"act 'greet': .*is no BVH file"),
        ('name = "greet"', 'name = "wave"', "two acts are called 'wave'"),
        ('name = "greet"\nat = 6.8', 'name = "greet"\nat = 99.0', "outside the script of 15 s"),
        ('name = "greet"\nat = 6.8', 'name = "greet"\nat = 4.5', "act 3 begins at 4.5 s, while the change to act 2"),
        ("theta1 = -1.2\n", 'theta1 = "sqrt(1 - t)"\n', r"act 'wave': .*theta1 is nan at 1\.\d+ s of its own time"),
        ("theta1 = -1.2\n", "theta3 = -1.2\n", r"act 'wave': .*no coordinate is called 'theta3'"),
        ("theta1 = -1.2\n", "theta1 = 9\n", r"act 'wave': .*it asks for theta1 = 9 rad, and its range is"),
        ("theta1 = -1.2\n", "theta1 = -1.2\nx = 0.9\nL = 0.5\n", r"act 'wave': .*cannot be reached: \w+ should be"),
        ("0.3*sin(3*t)", "0.3*sin(40*t)", r"act 'wave': .*its motion asks for .* m/s² at t ="),
        ("blend = 1.0", "blend = 0.1", r"act 'greet': .*it jumps where it begins: the change .* within 0.1 s"),
        ("blend = 1.0", "blend = 1.0\nreach = -1", r"script.reach: must be positive"),
    ],
)
def test_mistakes_name_act_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = PUPPET.read_text()
    assert old in text
    for name in ("beckon.csv", "library/nod.npz", "../imitation/greet.bvh"):
        path = tmp_path / "scripts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((SCRIPTS / name).read_bytes())
    path = tmp_path / "scripts" / "play.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(JobError, match=message) as told:
        jobs.load(path)
    assert told.value.line is not None or "no BVH" in str(told.value)


def test_hints_say_what_a_library_has(tmp_path: Path) -> None:
    text = PUPPET.read_text().replace('plan = "nod"', 'plan = "bow"')
    path = SCRIPTS / "library"
    with pytest.raises(JobError) as told:
        jobs.parse(parse_text(text.encode(), str(path.parent / "play.toml")), "play")
    assert told.value.hint == "There are nod."


def test_plans_of_other_systems_are_refused(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "nod.npz").write_bytes((SCRIPTS / "library" / "nod.npz").read_bytes())
    text = with_csv().replace('csv = "wave.csv"', 'plan = "nod"')
    with pytest.raises(JobError, match=r"act 'wave': .*has no coordinate of this system; it has theta1"):
        jobs.load(spoilt(tmp_path, text))
    (tmp_path / "library" / "nod.npz").write_bytes(b"PK nothing")
    with pytest.raises(JobError, match=r"act 'wave': .*it is no archive"):
        jobs.load(spoilt(tmp_path, text))
