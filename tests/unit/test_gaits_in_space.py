"""Gaits of what turns freely: the spatial biped by a checker of its own, its job, its multipliers, its mirror."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.jobs import optimize
from stepmap.jobs.gaits.job import GaitJob
from stepmap.mechanics.constraints import Row
from stepmap.optimal.direct import DirectSolution
from stepmap.optimal.direct.mechanism import Mode
from stepmap.optimal.direct.phases.cones import cones
from stepmap.optimal.gaits.hold import stride, transport
from stepmap.optimal.gaits.renaming import Renaming
from stepmap.walking.observer import Observer
from stepmap.walking.schedule import Schedule
from stepmap.walking.walk import walk
from tests.gaits_in_space import INPUTS, NAMES, JudgedInSpace, SpatialBiped, judge_in_space, matrix
from tests.pages import ROOT

EXAMPLE = ROOT / "examples" / "gaits" / "biped_spatial.toml"
STEPS, TIME = 24, 0.9


def changed(folder: Path, *changes: tuple[str, str]) -> Path:
    text = EXAMPLE.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "gait.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> GaitJob:
    """The example with longer steps."""
    coarse = ("steps = 80", f"steps = {STEPS}"), ("change = 0.1", "change = 0.3")
    made = jobs.load(changed(tmp_path_factory.mktemp("job"), *coarse))
    assert isinstance(made, GaitJob)
    return made


@pytest.fixture(scope="module")
def gait(job: GaitJob) -> DirectSolution:
    return job.solve().require()


@pytest.fixture(scope="module")
def judged(gait: DirectSolution) -> JudgedInSpace:
    return judge_in_space(SpatialBiped(), gait.trajectory.x[:, :13], gait.trajectory.u, TIME / STEPS)


def test_names_are_those_of_the_checker(gait: DirectSolution) -> None:
    assert list(gait.step.state_names[:13]) == NAMES
    assert list(gait.step.input_names) == INPUTS


def test_a_gait_in_space_keeps_hamilton_s_principle(judged: JudgedInSpace) -> None:
    """1e-7 of momenta of about 10 N m s was asked for; the solver's tolerance is 1e-9 of its own rows."""
    assert max(judged.motion, judged.jump, judged.periodic, judged.closed, judged.unit) <= 1e-8


def test_newton_s_law_holds_between_middles_of_steps(judged: JudgedInSpace) -> None:
    """Translations leave the action as it is, so momentum is kept to rounding; turns of 40 ms to order 2."""
    assert judged.newton <= 1e-9
    assert judged.spin <= 2e-2


def test_the_ground_pushes_within_its_cone(judged: JudgedInSpace) -> None:
    assert judged.normal > 0
    assert judged.cone <= 0.8
    assert judged.landing_cone <= 0.8
    assert judged.speed >= 0.2 - 1e-8


def test_legs_stay_apart(judged: JudgedInSpace) -> None:
    assert judged.feet >= 0.08 - 1e-8
    assert judged.knees >= 0.05 - 1e-8
    assert judged.apart > 0
    assert (judged.clearance >= 0.02 * np.sin(np.pi * np.arange(1, STEPS) / STEPS) - 1e-8).all()


def test_moments_keep_their_limits(gait: DirectSolution) -> None:
    u = gait.trajectory.u
    assert np.abs(u).max() <= 60 + 1e-6
    assert np.abs(np.diff(u, axis=0)).max() <= 600 * TIME / STEPS + 1e-6
    knees = gait.trajectory.x[:, [3, 8]]
    assert knees.min() >= -1e-8  # they bend one way


def test_transport_is_work_over_weight_and_way(gait: DirectSolution, judged: JudgedInSpace) -> None:
    """The way is that along x: feet also come 0.2 m to the side, and back."""
    assert stride(gait.cycle) == pytest.approx(0.45, abs=1e-8)
    assert transport(gait.cycle) == pytest.approx(judged.work / (10 * 9.81 * 0.45), rel=1e-9)


def test_the_landing_in_space_happens_at_the_end(gait: DirectSolution) -> None:
    landed = gait.cycle.landed(0)
    assert landed is not None
    assert landed.time == pytest.approx(TIME / STEPS, abs=1e-11)
    layout = gait.step.layout
    np.testing.assert_allclose(layout.difference(gait.trajectory.x[0], landed.x), 0.0, atol=1e-8)


def test_multipliers_in_space_are_those_of_the_map_itself(gait: DirectSolution) -> None:
    """Differences of the return map in its tangent space, with feedback."""
    cycle, plan, gains, layout = gait.cycle, gait.trajectory, gait.plan.gains, gait.step.layout
    step, landing, keep, by = cycle.maps[0], cycle.landing(0), gait._slopes.start, 1e-6
    assert landing is not None

    def walked(off: np.ndarray) -> np.ndarray:
        x = layout.retract(plan.x[0], off)
        for k in range(STEPS):
            u = plan.u[k] - gains[k] @ layout.difference(plan.x[k], x)
            x = step.step(x, u).x if k < STEPS - 1 else landing(x, u).x
        return layout.difference(plan.x[0], x)

    values, basis = np.linalg.eig(keep)
    Z = np.linalg.qr(basis[:, np.abs(values) > 0.5].real)[0]
    assert Z.shape == (22, 16)  # 11 coordinates, of which a standing foot takes 3
    columns = [keep @ (walked(by * z) - walked(-by * z)) / (2 * by) for z in Z.T]
    true = np.linalg.eigvals(Z.T @ np.array(columns).T)
    assert np.abs(true).max() == pytest.approx(np.abs(gait.plan.floquet).max(), abs=1e-4)
    assert np.abs(gait.plan.floquet).max() <= 0.1
    assert np.abs(gait.floquet).max() > 1e4


def test_a_robot_with_other_masses_and_friction_walks_in_space(gait: DirectSolution) -> None:
    schedule = Schedule.of(gait.cycle, gait.plan.gains)
    robot = gait.system.with_parameters(shank_mass=2.0 * 1.05, thigh_mass=3.0 * 0.95, friction=0.05)
    walked = walk(schedule, robot, 10, limits=np.full(8, 140.0))
    assert walked.fell == ""
    assert walked.steps == 10
    assert walked.normal > 0
    assert walked.cone < 0.8
    assert max(walked.off) < 0.02
    assert np.ptp(walked.off[5:]) < 1e-3  # it comes to a limit cycle of its own


def test_a_filter_in_space_is_renamed(gait: DirectSolution) -> None:
    """Encoders of knees, and of each thigh the directions of two axes of the world."""
    schedule = Schedule.of(gait.cycle, gait.plan.gains)
    robot = gait.system.with_parameters(shank_mass=2.0 * 0.97, thigh_mass=3.0 * 1.03)
    sensors = np.full(len(gait.system.sensor_channels), 5e-3)
    process, first = np.array([1e-4] * 11 + [1e-2] * 11), np.array([2e-3] * 11 + [1e-2] * 11)
    observer = Observer(gait.cycle, sensors, process, first, np.random.default_rng(2))
    walked = walk(schedule, robot, 3, observer=observer, limits=np.full(8, 140.0))
    assert walked.fell == ""
    assert walked.normal > 0
    assert np.sqrt(np.mean(np.square(walked.errors))) < 2e-2


def test_a_job_in_space_is_written(job: GaitJob, gait: DirectSolution, tmp_path: Path) -> None:
    stage = optimize.stage(job, tmp_path)
    optimize.write(stage, job, gait, 1.0)
    told = json.loads((stage.folder / "summary.json").read_text(encoding="utf-8"))
    assert (told["status"], told["kind"]) == ("converged", "gait")
    assert told["transport"] == pytest.approx(transport(gait.cycle))
    assert 0 < told["multiplier"] < 0.1
    assert told["parameters"]["stride"] == 0.45
    assert told["verdict"]["ok"]
    pictures = {"path.png", "energy.png", "ground.png", "inputs.png", "walk.gif"}
    assert pictures <= {f.name for f in stage.folder.iterdir()}
    with np.load(stage.folder / "solution.npz") as saved:
        assert saved["gains"].shape == (STEPS, 8, 22)
        assert list(saved["state_names"][:13]) == NAMES
        assert list(saved["state_names"][13:18]) == ["p_x", "p_y", "p_z", "p_stance_knee", "p_stance_thigh.rx"]
        assert list(saved["input_names"]) == INPUTS
    assert sm.Plan.load(stage.folder / "solution.npz").events[0].name == "swing"


@functools.cache
def biped() -> sm.System:
    return sm.systems.get("biped_spatial")


def mirror(**changes: object) -> dict[str, object]:
    """The formulas of the example, with changes."""
    legs = {
        f"{one}_thigh": [f"{other}_thigh.w", f"-{other}_thigh.x", f"{other}_thigh.y", f"-{other}_thigh.z"]
        for one, other in (("stance", "swing"), ("swing", "stance"))
    }
    knees = {"stance_knee": "swing_knee", "swing_knee": "stance_knee"}
    return {"x": "x - stride", "y": "-y", **legs, **knees, **changes}


def test_slopes_of_a_mirror_are_between_tangent_spaces() -> None:
    system = biped()
    renaming, tangent = Renaming(system, mirror()), system.tangent  # type: ignore[arg-type]
    q = tangent.retract(system.configuration({}), 0.3 * np.random.default_rng(1).normal(size=11))
    by = 1e-5
    ends = [[renaming.pose(tangent.retract(q, side * e)) for side in (by, -by)] for e in np.eye(11)]
    columns = [tangent.difference(b, a) / (2 * by) for a, b in ends]
    np.testing.assert_allclose(renaming.matrix(q), np.array(columns).T, atol=1e-9)
    assert renaming.partners == {"stance": "swing", "swing": "stance"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stance_thigh": ["swing_thigh.w", "swing_thigh.x", "swing_thigh.y", "swing_thigh.z"]}, "is another one"),
        ({"stance_thigh.w": "1.2*swing_thigh.w"}, "of the norm"),
        ({"stance_thigh": ["swing_thigh.w", "0"]}, "expected 4 formulas"),
        ({"stance_thigh": "swing_thigh"}, "expected 4 formulas"),
        ({"y": "y"}, "is another one"),
        ({"pelvis": ["1", "0", "0", "0"]}, "no coordinate is called 'pelvis'"),
        ({"swing_thigh.w": "pelvis.w"}, "pelvis.w"),
    ],
)
def test_mirrors_that_do_not_fit_are_refused(changes: dict[str, object], text: str) -> None:
    with pytest.raises(sm.ModelError, match=text):
        Renaming(biped(), mirror(**changes))  # type: ignore[arg-type]
    with pytest.raises(sm.ModelError, match=text):
        sm.direct(biped(), phases=[sm.Phase(["stance"], 8, 0.9)], periodic=mirror(**changes))  # type: ignore[arg-type]


def hopping() -> sm.System:
    """A free body on one foot that thrusters lift, carry on and set down."""
    b = sm.Builder("hopping")
    b.parameter("stride", 0.3)
    body = b.world.free("body")
    b.mass(body, 2.0, inertia=(0.02, 0.03, 0.04))
    b.gravity((0, 0, -9.81))
    b.contact(body.translate(0.05, 0.0, -0.3, name="foot"), b.world, friction=math.inf, name="foot")
    b.wrench(body, force=[b.input(f"f{e}") for e in "xyz"], moment=[b.input(f"m{e}") for e in "xyz"])
    return b.build().with_start({"body": (-0.05, 0, 0.3, 1, 0, 0, 0)})


def test_a_free_body_hops_by_seven_formulas() -> None:
    """Over a cycle of stance and flight the ground and the thrusters carry the weight, impulses counted."""
    found = sm.direct(
        hopping(),
        phases=[sm.Phase(["foot"], 8, 0.25), sm.Phase([], 8, 0.25)],
        periodic={"body": ["body.tx - stride", "body.ty", "body.tz", *(f"body.{e}" for e in "wxyz")]},
        running="effort",
        landing={"foot": 0.3},
    ).require()
    x, u, h = found.trajectory.x, found.trajectory.u, 0.25 / 8
    assert np.abs(np.linalg.norm(x[:, 3:7], axis=1) - 1).max() <= 1e-12
    middles = (x[1:, 3:7] + x[:-1, 3:7]) / np.linalg.norm(x[1:, 3:7] + x[:-1, 3:7], axis=1)[:, None]
    thrust = h * sum((matrix(q) @ force)[2] for q, force in zip(middles, u[:, :3], strict=True))
    others = found.searched.transcription.others(found.searched.found.w)
    ground = h * found.searched.motions[0].lam[:, 0].sum() + others["transition0"][6] + others["transition1"][-3]
    assert ground > 0
    assert thrust + ground == pytest.approx(2.0 * 9.81 * 0.5, rel=1e-9)
    assert stride(found.cycle) == pytest.approx(0.3, abs=1e-9)
    assert np.abs(found.plan.floquet).max() < 1 < np.abs(found.floquet).max()


def test_cones_in_space_are_round() -> None:
    mode = Mode((0, 1, 2), (Row.GAP, Row.TANGENT, Row.TANGENT), ("foot", "foot.x", "foot.y"))
    forces = ca.SX.sym("lam", 3)
    ((row, name),) = cones(mode, forces, {"foot": 0.5})
    margin = ca.Function("margin", [forces], [row])
    assert name == "foot"
    assert float(margin([10.0, 3.0, 4.0])) == pytest.approx(0.0)  # 5 N of 0.5 · 10 N
    assert float(margin([10.0, 4.0, 4.0])) < 0  # inside the square around the cone
    assert cones(mode, forces, {}) == []


def test_a_limit_of_what_two_things_are_called_is_refused() -> None:
    b = sm.Builder("twice")
    knee = b.coordinate("knee", unit="rad")
    b.mass(b.world.rz(knee).tx(1.0), 1.0)
    b.drive(knee, b.input("knee"))
    with pytest.raises(sm.ModelError, match="'knee' is a coordinate and an input"):
        sm.direct(b.build(), limits={"knee": (-1, 1)})


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"-swing_thigh.z"]', "true]", "thigh"),
        ('"stance.y - swing.y" = { low = 0.08 }', '"stance.y - heel.y" = { low = 0.08 }', "heel.y"),
        ("change = 0.1", "change = -0.1", "change"),
        ("stride = 0.45", "stride = 0.45\nshank = 1.2", "shank must be between"),
    ],
)
def test_mistakes_in_a_job_in_space_are_told(tmp_path: Path, old: str, new: str, text: str) -> None:
    with pytest.raises((sm.JobError, sm.ModelError), match=text):
        jobs.load(changed(tmp_path, (old, new))).solve()


def test_a_stride_in_space_that_is_out_of_reach_is_told(tmp_path: Path) -> None:
    job = jobs.load(changed(tmp_path, ("stride = 0.45", "stride = 2.5"), ("steps = 80", "steps = 20")))
    with pytest.raises(sm.ModelError, match="stride is out of reach"):
        job.solve()
