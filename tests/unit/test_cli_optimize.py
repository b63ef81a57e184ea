"""``stepmap optimize``: what it writes, when it does nothing, and how it fails."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import stepmap as sm
from stepmap import jobs
from stepmap.cli import app
from stepmap.jobs.stage import digest
from tests.processes import heed_signals

MASS = """\
[system]
name = "suspended_mass"
[time]
dt = 0.05
steps = 40
[reference]
kind = "csv"
file = "motion.csv"
[weights]
state = { q = 100, v = 1 }
input = { rho_next = 1 }
"""
MOTION = "t,xm,xr\n0,0,0\n1,0.2,0.2\n2,0.2,0.2\n"
PICTURES = {
    f"{name}.{form}" for name in ("path", "tracking", "inputs", "convergence", "tension") for form in ("png", "svg")
}
# Gradient descent over a long horizon: it goes on for minutes.
ENDLESS = """\
[system]
name = "cart_pendulum"
[time]
dt = 0.01
steps = 2000
[reference]
kind = "expressions"
of = { theta = "pi", x = "sin(t)" }
[weights]
state = { q = 100 }
input = { force = 1e-4 }
[solver]
method = "steepest"
max_iterations = 1000000
tolerance = 0
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["optimize", *map(str, arguments)])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "motion.csv").write_text(MOTION)
    path = tmp_path / "try.toml"
    path.write_text(MASS)
    return path


@pytest.fixture(autouse=True)
def _no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take most of the time and are looked at once."""
    if request.node.originalname != "test_pictures_are_drawn_when_asked_for":
        monkeypatch.setattr("stepmap.jobs.optimize.draw", lambda *_: {})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "build"


def test_pictures_are_drawn_when_asked_for(job: Path, out: Path) -> None:
    folder = out / "try" / "optimize"
    assert run(job, "--build", out).exit_code == 0
    assert not PICTURES & {path.name for path in folder.iterdir()}
    for expected in (False, True):
        result = run(job, "--build", out, "--pictures")
        assert result.exit_code == 0, result.output
        assert ("unchanged" in result.stdout) == expected
        assert {path.name for path in folder.iterdir()} >= PICTURES


def test_files(job: Path, out: Path) -> None:
    result = run(job, "--build", out)
    assert result.exit_code == 0, result.output
    folder = out / "try" / "optimize"
    files = {"solution.npz", "summary.json", "manifest.json", "report.html"}
    assert {path.name for path in folder.iterdir()} == files
    assert [path.name for path in folder.parent.iterdir()] == ["optimize"]
    for part in ("2 s in 40 steps of 0.05 s", "converged after", "constraint forces", str(folder)):
        assert part in result.stdout.replace("\n", "")
    assert result.stderr == ""

    loaded = jobs.load(job)
    solution = loaded.solve()
    with np.load(folder / "solution.npz") as arrays:  # without pickle
        for name, wanted in (
            ("t", loaded.t),
            ("x", solution.trajectory.x),
            ("u", solution.trajectory.u),
            ("multipliers", solution.trajectory.multipliers),
            ("gains", solution.plan.gains),
            ("x_ref", loaded.cost().x_ref),
            ("Q", np.diag(loaded.weights.state)),
        ):
            np.testing.assert_array_equal(arrays[name], wanted)
        assert float(arrays["cost"]) == solution.cost
        assert tuple(arrays["state_names"]) == loaded.step.state_names
        assert tuple(arrays["input_names"]) == loaded.step.input_names
        assert tuple(arrays["constraint_names"]) == ("string",)

    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["format"], summary["status"], summary["advice"]) == ("stepmap-optimum-1", "converged", "")
    assert (summary["job"], summary["system"], summary["steps"]) == ("try", "suspended_mass", 40)
    assert summary["cost"] == solution.cost
    assert [tuple(entry.values()) for entry in summary["history"]] == [tuple(entry) for entry in solution.history]
    assert summary["iterations"] == len(solution.history) - 1
    assert abs(summary["slope"]) <= 1e-12
    assert summary["cpu_s"] > 0
    assert summary["constraint_force_low"] > 0
    assert summary["constraint_gap"] < 1e-14

    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["digest"] == summary["digest"]
    assert manifest["inputs"]["file motion.csv"] == digest(MOTION)
    assert set(manifest["versions"]) == {"stepmap", "casadi", "matplotlib", "numpy"}
    for name, known in manifest["outputs"].items():
        assert digest((folder / name).read_bytes()) == known


def stamp(out: Path) -> int:
    return (out / "try" / "optimize" / "manifest.json").stat().st_mtime_ns


def test_skipped_if_nothing_changed(job: Path, out: Path) -> None:
    assert run(job, "--build", out).exit_code == 0
    first = stamp(out)
    result = run(job, "--build", out)
    assert result.exit_code == 0
    assert result.stdout == f"unchanged, skipped: {out / 'try' / 'optimize'}\n"
    assert stamp(out) == first
    assert "unchanged" not in run(job, "--build", out, "--force").stdout
    assert stamp(out) != first


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (lambda folder: (folder / "motion.csv").write_text(MOTION.replace("0.2", "0.25")), True),
        (lambda folder: (folder / "try.toml").write_text(MASS.replace("100", "101")), True),
        (lambda folder: (folder / "build/try/optimize/solution.npz").write_bytes(b"damaged"), True),
        (lambda folder: (folder / "build/try/optimize/summary.json").unlink(), True),
        (lambda folder: (folder / "try.toml").write_text(f"# a comment\n{MASS}\n[bench]\nseconds = 3\n"), False),
    ],
    ids=["csv", "job", "damaged", "missing", "comments and later stages"],
)
def test_what_is_a_change(job: Path, out: Path, change: object, again: bool) -> None:
    assert run(job, "--build", out).exit_code == 0
    assert callable(change)
    change(job.parent)
    result = run(job, "--build", out)
    assert result.exit_code == 0, result.output
    assert ("unchanged, skipped" not in result.stdout) == again


def test_other_sources_are_a_change(job: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(job, "--build", out).exit_code == 0
    monkeypatch.setattr("stepmap.jobs.optimize.digest_sources", lambda *_: "others")
    assert "unchanged" not in run(job, "--build", out).stdout


# failures -----------------------------------------------------------------------------------------------------------


def test_a_wrong_job_is_2_and_names_the_line(job: Path, out: Path) -> None:
    job.write_text(MASS.replace("dt =", "td ="))
    result = run(job, "--build", out)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {job}:4: time.td: no key is called 'td'\nhint: Did you mean 'dt'?")
    assert result.stderr.count("\n") == 2
    assert not out.exists()


def test_a_wrong_csv_is_2_and_names_its_line(job: Path, out: Path) -> None:
    (job.parent / "motion.csv").write_text(MOTION.replace("1,0.2", "1,nan"))
    result = run(job, "--build", out)
    assert result.exit_code == 2
    assert f"{job.parent / 'motion.csv'}:3: xm: must be finite, got nan" in result.stderr


def test_a_missing_job_is_2(out: Path) -> None:
    result = run("nothing.toml", "--build", out)
    assert result.exit_code == 2
    assert result.stderr == "error: nothing.toml: cannot be read: No such file or directory\n"


def test_a_search_that_ends_early_is_1_with_the_remedy(job: Path, out: Path) -> None:
    job.write_text(MASS + "[solver]\nmax_iterations = 1\n")
    result = run(job, "--build", out)
    assert result.exit_code == 1
    assert result.stderr == f"error: optimization {sm.optimal.Status.ITERATIONS}\n"
    folder = out / "try" / "optimize"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "iterations"
    assert summary["advice"] == str(sm.optimal.Status.ITERATIONS)
    assert (folder / "solution.npz").exists()
    assert json.loads((folder / "manifest.json").read_text())["complete"] is False
    assert run(job, "--build", out).exit_code == 1  # it is not taken for done


def test_resume_goes_on_from_the_best_trajectory(job: Path, out: Path) -> None:
    result = run(job, "--build", out, "--resume")
    assert result.exit_code == 2
    assert "there is no result to go on from" in result.stderr
    assert run(job, "--build", out).exit_code == 0
    summary = out / "try" / "optimize" / "summary.json"
    whole = json.loads(summary.read_text())
    job.write_text(MASS + "[solver]\nmax_iterations = 1\n")
    assert run(job, "--build", out).exit_code == 1
    job.write_text(MASS)
    assert run(job, "--build", out, "--resume").exit_code == 0
    rest = json.loads(summary.read_text())
    assert rest["iterations"] == whole["iterations"] - 1
    assert rest["cost"] == pytest.approx(whole["cost"], rel=1e-12)
    job.write_text(MASS.replace("steps = 40", "steps = 39"))
    result = run(job, "--build", out, "--resume")
    assert result.exit_code == 2
    assert "of another system or horizon" in result.stderr


def test_a_guess_that_leads_nowhere_is_1(job: Path, out: Path) -> None:
    (job.parent / "motion.csv").write_text("t,r,xr\n0,1,0\n0.05,0,3\n2,0,3\n")
    job.write_text(MASS + '[solver]\nguess = "reference"\n')
    result = run(job, "--build", out)
    assert result.exit_code == 1
    assert "leads to no trajectory" in result.stderr
    assert list((out / "try").iterdir()) == []


def test_a_folder_that_cannot_be_written_fails_before_the_work(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs.TrackingJob, "solve", lambda *_: pytest.fail("it should not have begun"))
    for folder in ("/dev/null", "/proc"):
        result = run(job, "--build", folder)
        assert result.exit_code == 1
        assert folder in result.stderr
        assert result.stderr.count("\n") == 1


def test_an_interrupt_while_writing_keeps_the_old_result(job: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(job, "--build", out).exit_code == 0
    first = stamp(out)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stepmap.jobs.optimize.render", interrupt)
    result = run(job, "--build", out, "--force", "--pictures")
    assert result.exit_code == 1
    assert result.stderr == "error: interrupted\n"
    assert stamp(out) == first
    assert [path.name for path in (out / "try").iterdir()] == ["optimize"]


def test_ctrl_c_saves_the_best_trajectory(tmp_path: Path) -> None:
    """A real process on a terminal: after two seconds it shows its iterations, then it is interrupted."""
    job, out = tmp_path / "endless.toml", tmp_path / "build"
    job.write_text(ENDLESS)
    terminal, end = pty.openpty()
    started = subprocess.Popen(
        [sys.executable, "-m", "stepmap.cli", "optimize", str(job), "--build", str(out)],
        preexec_fn=heed_signals,
        stdout=subprocess.PIPE,
        stderr=end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(end)
    seen = _read_until(terminal, b"steepest", seconds=60)
    assert b"iteration" in seen
    started.send_signal(signal.SIGINT)
    seen = _read_until(terminal, b"", seconds=60)
    printed, _ = started.communicate(timeout=600)
    os.close(terminal)
    assert started.returncode == 1, seen
    assert b"interrupted; the best trajectory so far is kept" in seen
    assert b"Traceback" not in seen
    assert b"interrupted after" in printed

    folder = out / "endless" / "optimize"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert summary["iterations"] >= 1
    assert summary["cost"] <= summary["history"][-1]["cost"]
    with np.load(folder / "solution.npz") as arrays:
        loaded = jobs.load(job)
        again = loaded.step.rollout(loaded.start, arrays["u"][:50])
        np.testing.assert_allclose(again.x, arrays["x"][:51], atol=1e-9)  # it is a trajectory
    assert list(folder.glob("*.png")) == []  # drawing takes seconds, and somebody waits for the answer
    assert [path.name for path in folder.parent.iterdir()] == ["optimize"]


def _read_until(terminal: int, wanted: bytes, seconds: float) -> bytes:
    """What a terminal shows until a text comes or, without one, until nobody writes any more."""
    seen, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline and not (wanted and wanted in seen):
        try:
            part = os.read(terminal, 4096)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        seen += part
    return seen


def test_the_old_name_of_an_option_is_taken_with_a_hint(job: Path, out: Path) -> None:
    result = run(job, "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stderr == "hint: --out is now called --build; the old name goes with the next release\n"
    assert (out / "try" / "optimize" / "solution.npz").exists()
    both = run(job, "--out", out, "--build", out)
    assert both.exit_code == 2
    assert "--out is the old name of --build" in both.stderr
