"""Jobs of kind "imitate": a dancer's motion on the marionette, verified from a second start; mistakes with lines."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import stepmap as sm
from stepmap import jobs
from stepmap.errors import JobError
from stepmap.jobs.imitate.job import ImitationJob
from stepmap.jobs.optimize import verdict
from stepmap.optimal.plan import Plan
from stepmap.simulation import Simulation
from stepmap_codegen import Form, generate
from stepmap_codegen.emit import size, wire_limits
from stepmap_hil.wire import dialect
from tests import dancers

EXAMPLE = Path(__file__).parents[2] / "examples" / "imitation" / "marionette.toml"


@pytest.fixture(scope="module")
def job() -> ImitationJob:
    made = jobs.load(EXAMPLE)
    assert isinstance(made, ImitationJob)
    return made


@pytest.fixture(scope="module")
def solution(job: ImitationJob) -> sm.Solution:
    return job.solve().require()


def test_the_marionette_does_what_the_dancer_did(job: ImitationJob, solution: sm.Solution) -> None:
    assert sum(entry.length > 0 for entry in solution.history) <= 20
    told = job.told(solution)["imitation"]
    # By hand from the motion: where the hands are, and how hard each string pulls.
    found = job.system.positions(job.step.layout.pose(solution.trajectory.x))
    hand = found[:, job.system.frame_names.index("relbow_end")]
    wanted = job.rehearsal.dancer[:, job.rehearsal.names.index("relbow_end")]
    off = np.sqrt(np.mean(np.sum((hand - wanted) ** 2, axis=1)))
    assert told["markers"]["relbow_end"]["rms"] == pytest.approx(off)
    assert told["marker_rms"] < 0.07  # m; at the start pose it is ten times as much
    assert np.ptp(hand[:, 2]) > 0.25  # it is lifted
    forces = Simulation(job.step, solution.trajectory).multipliers
    assert forces.min() > 0
    assert {name: row["low"] for name, row in told["tensions"].items()} == pytest.approx(
        dict(zip(job.system.constraint_names, forces.min(axis=0), strict=True))
    )
    again = job.step.rollout(job.start, solution.trajectory.u)
    assert np.abs(again.x - solution.trajectory.x).max() < 1e-6


def test_another_start_leads_to_the_same_optimum(job: ImitationJob, solution: sm.Solution) -> None:
    """From the puppet at rest, not from the rehearsal; the cost is flat along what no marker sees."""
    still = sm.Trajectory(job.t, np.tile(job.start, (job.steps + 1, 1)), np.tile(job.held, (job.steps, 1)))
    other = job.solve(guess=still).require()
    assert other.cost == pytest.approx(solution.cost, rel=1e-4)
    names = [job.system.frame_names.index(name) for name in ("head", "lelbow_end", "rhip_end")]
    one, two = (job.system.positions(job.step.layout.pose(s.trajectory.x))[:, names] for s in (solution, other))
    assert np.abs(one - two).max() < 5e-3


def test_a_motion_that_nothing_was_tuned_for_is_led_by_strings_that_pull(tmp_path: Path) -> None:
    called = {name: f"mixamorig:{name}" for name in dancers.BODY}
    (tmp_path / "turning.bvh").write_text(dancers.bvh(4.0, called=called, moves=dancers.turning))
    path = tmp_path / "turning.toml"
    path.write_text('[job]\nkind = "imitate"\n[system]\nname = "marionette"\n[imitate]\nmotion = "turning.bvh"\n')
    job = jobs.load(path)
    assert isinstance(job, ImitationJob)
    solution = job.solve().require()
    assert sum(entry.length > 0 for entry in solution.history) <= 20
    assert job.told(solution)["imitation"]["marker_rms"] < 0.15  # m; legs that are nearly straight stay bent
    assert Simulation(job.step, solution.trajectory).multipliers.min() > 0


def test_a_dancer_in_a_mirror_who_looks_back_is_led_by_strings_that_pull(tmp_path: Path) -> None:
    """The marionette turns about on its way to the first pose; straight lines there would lead limbs through it."""
    (tmp_path / "steps.bvh").write_text(dancers.bvh(3.0, moves=dancers.mirrored(dancers.stroll)))
    path = tmp_path / "steps.toml"
    head = 'job.kind = "imitate"\nsystem.name = "marionette"\n'
    path.write_text(head + '[imitate]\nmotion = "steps.bvh"\nfacing = [0, -1, 0]\n')
    job = jobs.load(path)
    assert isinstance(job, ImitationJob)
    solution = job.solve().require()
    assert sum(entry.length > 0 for entry in solution.history) <= 20
    forces = Simulation(job.step, solution.trajectory).multipliers
    assert forces.min() > 0
    yaw = [c.name for c in job.system.coordinates].index("torso_rz")
    assert np.ptp(job.step.layout.pose(solution.trajectory.x)[:, yaw]) == pytest.approx(np.pi, abs=0.6)


def test_the_planar_arm_waves(tmp_path: Path) -> None:
    (tmp_path / "dance.bvh").write_text(dancers.bvh(3.0, rate=60.0, unit=100.0))
    path = tmp_path / "arm.toml"
    path.write_text(
        '[job]\nkind = "imitate"\n[system]\nname = "planar_arm"\n[start]\ntheta1 = 0.3\ntheta2 = 0.9\nsatisfy = true\n'
        '[imitate]\nmotion = "dance.bvh"\nfacing = [0, 0, 1]\n'
        '[imitate.markers]\nlink1 = "LeftArm"\nelbow = "LeftForeArm"\ntip = "LeftHand"\n[time]\nsteps = 100\n'
    )
    job = jobs.load(path)
    assert job.steps == 100
    solution = job.solve().require()
    told = job.told(solution)["imitation"]
    # The dancer's arm points out of the plane, too, where the mechanism's cannot.
    assert told["marker_rms"] < 0.15
    assert told["marker_rms_within_reach"] < 0.1
    assert job.regulator is not None
    assert solution.plan.gains.shape == (100, job.step.nu, job.step.ndx)
    pair = job.pair(solution)
    lengths = np.linalg.norm(np.diff(pair.dancer, axis=2)[:, :, 0], axis=2)
    # Seen in the plane, limbs of the dancer are as long as those of the mechanism, or shorter.
    assert lengths.max() < 0.25 + 1e-9
    np.testing.assert_allclose(np.linalg.norm(np.diff(pair.links, axis=2)[:, :, 0], axis=2).max(axis=1), 0.25)
    drawn = job.drawn(solution)
    assert len(drawn["imitation"].axes) == 14
    assert {"path", "tracking", "inputs", "tension"} < set(drawn)
    moving = Image.open(io.BytesIO(job.animated(solution)["dance.gif"]))
    shown = moving.n_frames * moving.info["duration"] / 1e3
    assert shown == pytest.approx(solution.trajectory.t[-1], rel=0.05)


@pytest.mark.parametrize("name", ["greeting", "two_arms"])
def test_arms_for_boards_do_what_the_dancer_did(name: str) -> None:
    job = jobs.load(EXAMPLE.parent / f"{name}.toml")
    assert isinstance(job, ImitationJob)
    solution = job.solve().require()
    assert sum(entry.length > 0 for entry in solution.history) <= 10
    told = job.told(solution)["imitation"]
    assert told["marker_rms"] < 0.12  # m, of arms half a metre long
    forces = Simulation(job.step, solution.trajectory).multipliers
    assert forces.min() > 0.5
    assert forces.max() < 5.0
    for c, values in zip(job.system.coordinates, job.step.layout.pose(solution.trajectory.x).T, strict=True):
        assert c.low is not None
        assert c.high is not None
        assert c.low < values.min() < values.max() < c.high


def test_two_arms_are_as_large_as_the_usual_messages_allow_and_a_marionette_fits_the_wide_ones() -> None:
    system = jobs.load(EXAMPLE.parent / "two_arms.toml").system
    usual = dialect.lengths("MEASUREMENT") | dialect.lengths("VIRTUAL_ACTUATOR")
    assert (wire_limits.commands(system), len(system.sensor_channels)) == (usual["effort"], usual["z"])
    wire_limits.require(system)
    wire_limits.require(sm.systems.get("marionette"))


def test_a_whole_marionette_is_a_job_for_a_process_and_no_smaller_board() -> None:
    job = jobs.load(EXAMPLE.parent / "whole.toml")
    choices = generate.choices_in(job.root)
    generate.require(job, choices)
    generate.require_board(job, "native")
    with pytest.raises(sm.ModelError, match=r"job 'whole': system 'marionette' has 18 commands, and stm32f405 has 6"):
        generate.require_board(job, "stm32f405")
    assert size.preferred(choices.options.scalar, job.step.nx, choices.options.form) is Form.LOOPS
    catalog = sm.systems.get("marionette")
    assert [c.name for c in job.system.coordinates] == [c.name for c in catalog.coordinates]
    assert job.system.sensor_channels == catalog.sensor_channels


def test_recordings_of_the_examples_are_those_of_their_dancers() -> None:
    for name, text in (("wave", dancers.bvh(seconds=5.0)), ("greet", dancers.bvh(8.0, 15.0, moves=dancers.greeting))):
        assert (EXAMPLE.parent / f"{name}.bvh").read_text() == text


def test_a_string_that_would_push_is_named_with_time_and_force(job: ImitationJob) -> None:
    held = job.step.rollout(job.start, np.tile(job.held, (job.steps, 1)))
    forces = np.array(held.multipliers)
    forces[40:44, 2], forces[50, 5] = -3.5, -1.0
    forces[42, 2] = -4.25
    path = sm.Trajectory(held.t, held.x, held.u, forces)
    plan = Plan(path, np.zeros((job.steps, job.step.nu, job.step.ndx)), path)
    (found,) = (one for one in verdict(job, plan).findings if one.name == "tension")
    names = job.system.constraint_names
    when, lasting = f"{42 * job.dt:.3g} s", f"{4 * job.dt:.2g} s"
    assert (
        f"{names[2]} is slack: it would have to push, with 4.25 N at {when}, for {lasting} in all; {names[5]} too"
        in found.text
    )
    assert "response" in found.remedy


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('motion = "wave.bvh"', 'motion = "none.bvh"', "none.bvh"),
        ('motion = "wave.bvh"', "", "motion"),
        ('motion = "wave.bvh"', 'motion = "wave.bvh"\nbegin = 9.0', "the recording lasts 5 s"),
        ('motion = "wave.bvh"', 'motion = "wave.bvh"\ntravel = -1', "must be positive"),
        ('motion = "wave.bvh"', 'motion = "wave.bvh"\nspeed = 1', "speed"),
        ('motion = "wave.bvh"', 'motion = "wave.bvh"\n[imitate.markers]\nhead = "Hat"', "no joint is called 'Hat'"),
        ('motion = "wave.bvh"', 'motion = "wave.bvh"\n[imitate.markers]\nnose = "Head"', "nose"),
        ('motion = "wave.bvh"', 'motion = "wave.bvh"\n[imitate.weights]\nhead = -1', "must not be negative"),
        ('name = "marionette"', 'name = "planar_arm"', "known for marionettes alone"),
        ('motion = "wave.bvh"', 'motion = "wave.bvh"\n[time]\ndt = 0.01\nsteps = 5', "dt .* or steps, or neither"),
    ],
)
def test_mistakes_name_the_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = EXAMPLE.read_text()
    assert old in text
    (tmp_path / "wave.bvh").write_bytes((EXAMPLE.parent / "wave.bvh").read_bytes())
    path = tmp_path / "wrong.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(JobError, match=message) as told:
        jobs.load(path)
    assert "wrong.toml" in str(told.value) or "none.bvh" in str(told.value)
