"""A job with a string: searched with relaxed gaps, written, judged, drawn, and read again."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import stepmap as sm
from stepmap import jobs
from stepmap.cli import app
from stepmap.jobs import optimize as optimum
from stepmap.optimal import Status

DROP = Path(__file__).parents[2] / "examples" / "strings" / "drop.toml"


@cache
def solved() -> tuple[Any, sm.Solution]:
    job = jobs.load(DROP)
    return job, job.solve()


def test_drop_is_caught() -> None:
    """The string goes slack before the fall and is taut after it; in between the mass falls freely."""
    job, found = solved()
    assert found.status is Status.CONVERGED
    assert [event.kind for event in found.plan.events] == ["release", "impact"]
    release, impact = (event.step for event in found.plan.events)
    height = found.trajectory.x[:, job.step.state_names.index("ym")]
    np.testing.assert_allclose(np.diff(height[release + 1 : impact + 1], 2) / job.dt**2, -9.81, rtol=1e-9)
    assert height[-1] == pytest.approx(-0.1, abs=1e-3)
    assert found.relaxation is not None
    assert abs(found.relaxation.gap) < 1e-3
    assert found.plan.fading == ""


def test_optimize_writes_plan_events_and_verdict(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["optimize", str(DROP), "--build", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "relaxed gaps" in result.output
    assert "1 impact and 1 release; string is open" in " ".join(result.output.split())
    folder = tmp_path / "drop" / "optimize"
    summary = json.loads((folder / "summary.json").read_text())
    assert [event["kind"] for event in summary["events"]] == ["release", "impact"]
    assert summary["relaxation"]["verified"] == pytest.approx(summary["relaxation"]["cost"], rel=1e-3)
    assert summary["constraint_gap"] < 1e-9  # an open gap holds
    assert summary["constraint_force_low"] == 0.0
    assert summary["verdict"]["ok"], summary["verdict"]
    job, found = solved()
    plan = sm.Plan.load(folder / "solution.npz", job.step)
    assert plan.events == found.plan.events
    assert plan.trajectory.modes == found.trajectory.modes


def test_plans_know_their_kind_of_step(tmp_path: Path) -> None:
    """One for events is none for relaxed gaps, nor for another set of contacts."""
    job, found = solved()
    path = tmp_path / "plan.npz"
    found.plan.save(path, job.step)
    again = sm.Plan.load(path, sm.discretize(job.system, job.dt))
    assert again.events == found.plan.events
    relaxed = sm.discretize(job.system, job.dt, gaps="relaxed")
    with pytest.raises(sm.ModelError, match=r"for a step of kind 'events'; .* 'relaxed'"):
        sm.Plan.load(path, relaxed)
    with pytest.raises(sm.ModelError, match="for contacts = "):
        sm.Plan.load(path, sm.discretize(job.system, job.dt, contacts=()))
    with pytest.raises(sm.ModelError, match="for substeps = 1"):
        sm.Plan.load(path, sm.discretize(job.system, job.dt, substeps=2))


def test_feedback_of_the_plan_brings_it_back() -> None:
    """From 10 mm beside its start, on the string: the catch is a little earlier or later, and its end is the same."""
    job, found = solved()
    step, plan = job.step, found.plan
    begin = step.system.satisfy_constraints({"xm": 0.01, "ym": 0.5, "xr": 0.0, "r": 0.5}, fixed=["xm", "xr", "r"])
    path = step.follow(step.rest(begin), plan.trajectory, plan.gains)
    assert [event.kind for event in path.events][:2] == ["release", "impact"]
    assert np.abs(path.x[-1, :2] - plan.trajectory.x[-1, :2]).max() < 2e-3


def test_pictures_mark_events() -> None:
    job, found = solved()
    for name, figure in optimum.draw(job, found).items():
        marks = [
            line
            for axes in figure.axes
            for line in axes.lines
            if list(line.get_xdata()) == [found.plan.events[1].time] * 2
        ]
        assert len(marks) == (len(figure.axes) if name in ("tracking", "inputs", "tension") else 0), name


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('gaps = "relaxed"', "kappa = [0.1, 1e-6]", "is of relaxed gaps"),
        ('gaps = "relaxed"', 'gaps = "relaxed"\nkappa = [1e-6, 0.1]', "the first and the last κ"),
        (
            'gaps = "relaxed"',
            'gaps = "relaxed"\nstages = [0.5, 1]',
            "a search in stages is one on the step with events",
        ),
        ('gaps = "relaxed"', 'gaps = "soft"', "gaps"),
        ('"suspended_mass_string"', '"suspended_mass"', "no gaps to relax"),
    ],
)
def test_wrong_keys_are_told(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = DROP.read_text()
    assert old in text
    path = tmp_path / "wrong.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(sm.JobError, match=message):
        jobs.load(path)


def test_bouncing_contacts_cannot_be_relaxed(tmp_path: Path) -> None:
    (tmp_path / "ball.py").write_text(
        "import stepmap as sm\n\n\ndef ball() -> sm.System:\n"
        "    b = sm.Builder('ball')\n    z = b.coordinate('z', unit='m', start=1.0)\n"
        "    point = b.world.tz(z)\n    b.mass(point, 1.0)\n    b.drive(z, b.input('lift', unit='N'))\n"
        "    b.contact(point, b.world, restitution=0.8, name='floor')\n"
        "    return b.build()\n"
    )
    path = tmp_path / "bounce.toml"
    path.write_text(
        '[system]\nfile = "ball.py"\n[time]\ndt = 0.01\nsteps = 10\n[reference]\nkind = "expressions"\n'
        'of = { z = 1.0 }\n[weights]\nstate = { q = 1 }\ninput = { lift = 1 }\n[solver]\ngaps = "relaxed"\n'
    )
    with pytest.raises(sm.JobError, match=r"restitution of 0\.8"):
        jobs.load(path)


def test_equilibria_know_open_gaps() -> None:
    """A mass on two strings hangs on the shorter one."""
    b = sm.Builder("two_strings")
    x, z = (b.coordinate(name, unit="m") for name in "xz")
    mass = b.world.tx(x).tz(z, name="mass")
    b.mass(mass, 1.0)
    b.gravity((0, 0, -9.81))
    b.string(mass, b.world.tx(0.1, name="left"), 1.0, name="short")
    b.string(mass, b.world.tx(0.3, name="right"), 1.5, name="long")
    step = sm.discretize(b.build(), 0.01)
    pose, u = step.equilibrium({"x": 0.1, "z": -1.0})
    np.testing.assert_allclose(pose[:2], [0.1, -1.0], atol=1e-12)
    np.testing.assert_allclose(step.step(pose, u).x, pose, atol=1e-12)
    for near in ({"x": 0.15, "z": -1.0}, {"x": 0.1, "z": -0.9}):  # beyond the short one, off balance; both slack
        np.testing.assert_allclose(step.equilibrium(near)[0][:2], [0.1, -1.0], atol=1e-9)
