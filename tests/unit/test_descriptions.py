"""Imported robots beside Pinocchio and MuJoCo, and what a file from elsewhere may do wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mujoco
import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.descriptions import saved, urdf
from stepmap.descriptions.assemble import assemble
from stepmap.descriptions.mjcf import compiled, rotation
from stepmap.errors import JobError, ModelError
from stepmap.jobs.system import LeftOutWarning, read_source, read_system
from stepmap.toml.tables import parse_text, read
from tests.oracles import beside_mujoco, beside_pinocchio, orders, stripped
from tests.pages import ROOT

DATA = ROOT / "tests" / "data" / "descriptions"
AGREES = 1e-9  # relative; measured 1e-13


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("name", ["double_pendulum", "bolt", "so101", "panda"])
def test_urdf_moves_as_in_pinocchio(name: str, floating: bool) -> None:
    path = DATA / f"{name}.urdf"
    system = sm.from_urdf(path, meshes=False, floating=floating)
    assert beside_pinocchio(system, path, floating=floating).worst < AGREES


@pytest.mark.parametrize("name", ["acrobot", "ball_in_cup", "cheetah", "fish"])
def test_mjcf_moves_as_in_mujoco(name: str) -> None:
    path = DATA / "suite" / f"{name}.xml"
    assert beside_mujoco(sm.from_mjcf(path), compiled(path)[0]).worst < AGREES


EVERYTHING = """
<mujoco model="everything">
  <compiler angle="radian"/>
  <option gravity="0 1 -9.81" jacobian="dense"/>
  <worldbody>
    <site name="post" pos="0 0 2"/>
    <body name="crank" pos="0 0 1">
      <joint name="a" axis="0 1 0" ref="0.3" springref="0.1" stiffness="2" damping="0.1" armature="0.02"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/>
      <body name="rod" pos="0.3 0 0">
        <joint name="b" axis="0 -1 0" range="-2 2" limited="true"/>
        <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.02"/>
        <site name="knee" pos="0.2 0 0.1"/>
      </body>
    </body>
    <body name="rocker" pos="0.8 0 1">
      <joint name="c" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 0.4" size="0.02"/>
      <site name="tip" pos="0 0.1 0.3"/>
    </body>
    <body name="skew" pos="0 2 1" euler="0.3 0.5 0.7">
      <joint name="s" type="slide" axis="1 2 3" pos="0.1 0 0" damping="0.3"/>
      <joint name="t" axis="1 -1 0.5" pos="0 0.2 0"/>
      <geom type="box" size="0.1 0.2 0.3" pos="0.1 0.1 0"/>
      <body name="bob" pos="0.3 0 0.1">
        <joint name="ball" type="ball" pos="0 0 0.1" damping="0.05" armature="0.01"/>
        <geom type="ellipsoid" size="0.1 0.15 0.2" pos="0 0 -0.2"/>
      </body>
    </body>
    <body name="kite" pos="1 2 3" euler="0.2 0 0.9">
      <freejoint name="kite"/>
      <geom type="box" size="0.3 0.2 0.05"/>
      <site name="line" pos="0.3 0 0"/>
    </body>
    <body name="box" pos="3 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0"/></body>
  </worldbody>
  <equality>
    <connect name="loop" body1="rod" body2="rocker" anchor="0.5 0 0"/>
    <joint name="gear" joint1="s" joint2="t" polycoef="0 0.5 0.2 0 0.1"/>
    <connect name="hold" body1="box" anchor="0 0 0.2"/>
  </equality>
  <tendon>
    <spatial name="cable" stiffness="5" springlength="0 0.5">
      <site site="post"/><site site="knee"/><site site="tip"/>
    </spatial>
    <spatial name="wire" limited="true" range="0 3" damping="0.2"><site site="post"/><site site="line"/></spatial>
    <fixed name="sum" stiffness="3" damping="0.1" springlength="0.1">
      <joint joint="a" coef="1"/><joint joint="c" coef="-2"/>
    </fixed>
  </tendon>
  <actuator>
    <motor name="crank" joint="a" gear="3" ctrllimited="true" ctrlrange="-1 2"/>
    <position name="servo" joint="t" kp="7" kv="0.4"/>
    <motor name="winch" tendon="cable" gear="-2"/>
    <motor name="differential" tendon="sum" gear="0.5"/>
    <motor name="neck" joint="ball" gear="1 2 3"/>
    <muscle name="muscle" joint="b" lengthrange="0 1"/>
  </actuator>
</mujoco>
"""


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    path = tmp_path / "everything.xml"
    path.write_text(EVERYTHING)
    return path


def test_joints_loops_tendons_and_motors_are_those_of_mujoco(everything: Path) -> None:
    system = sm.from_mjcf(everything)
    deviation = beside_mujoco(system, mujoco.MjModel.from_xml_path(str(everything)))
    assert deviation.worst < AGREES
    assert {"loop.x", "loop.z", "gear", "hold.x", "wire"} <= set(system.constraint_names)
    assert "loop.y" not in system.constraint_names  # a planar loop: no coordinate moves that row
    assert np.abs(system.violations(system.gaps(system.configuration({})))).max() < 1e-9
    assert [source.name for source in system.inputs] == ["crank", "servo", "winch", "differential", "neck"]
    assert any("muscle" in line for line in system.left_out)
    joint = {c.name: c for c in system.coordinates}
    assert (joint["a"].start, joint["b"].low, joint["b"].high) == (0.3, -2.0, 2.0)


def test_a_weld_holds_all_six(tmp_path: Path) -> None:
    path = tmp_path / "weld.xml"
    path.write_text(
        """<mujoco><worldbody>
        <body name="a" pos="0 0 1" euler="10 20 30"><joint axis="0 0 1"/><geom size=".1"/></body>
        <body name="b" pos="1 .5 1" euler="40 0 10"><freejoint/><geom type="box" size=".1 .2 .3"/></body>
        </worldbody><equality><weld body1="a" body2="b"/></equality></mujoco>"""
    )
    system = sm.from_mjcf(path)
    start = system.configuration({})
    assert np.abs(system.gaps(start)).max() < 1e-12
    assert np.linalg.matrix_rank(system.residuals_slope(start)) == 6
    turned = system.satisfy_constraints(system.configuration({"a.joint": 0.4}), fixed=["a.joint"])
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qpos[:] = turned[orders(system, model)[0]]
    mujoco.mj_forward(model, data)
    assert np.abs(data.efc_pos[:6]).max() < 1e-9


def test_a_motion_is_that_of_mujoco(tmp_path: Path) -> None:
    path = DATA / "suite" / "acrobot.xml"
    system = sm.from_mjcf(path)
    model = stripped(mujoco.MjModel.from_xml_path(str(path)), system)
    start, rate, duration = np.array([0.4, -0.7]), np.array([0.5, 1.0]), 0.5
    data = mujoco.MjData(model)
    model.opt.timestep, model.opt.integrator = 1e-4, mujoco.mjtIntegrator.mjINT_RK4
    data.qpos[:], data.qvel[:] = start, rate
    for _ in range(round(duration / 1e-4)):
        mujoco.mj_step(model, data)
    off = []
    for dt in (0.01, 0.005):
        step = sm.discretize(system, dt)
        x0 = step.from_velocity(start, rate, instant=True)
        motion = step.rollout(x0, np.zeros((round(duration / dt), step.nu)))
        off.append(np.abs(motion.x[-1][:2] - data.qpos).max())
    assert off[1] < 2e-4
    assert off[0] / off[1] == pytest.approx(4.0, rel=0.2)  # of second order


def test_a_written_urdf_is_read_as_the_same_robot(tmp_path: Path) -> None:
    b = sm.Builder("arm")
    lift, turn = b.coordinate("lift", unit="m", low=-1.0, high=1.0), b.coordinate("turn", unit="rad")
    finger = b.coordinate("finger", unit="m", low=0.0, high=0.1)
    other = b.coordinate("other", unit="m", low=0.0, high=0.1)
    carriage = b.world.tz(lift, name="carriage")
    fore = carriage.translate(0.1, 0.2, 0.3).rx(0.3).rz(turn, name="fore")
    b.mass(carriage, 2.0, (0.1, 0.2, 0.25))
    b.mass(fore.ty(-0.4), 1.0, ((0.1, 0.01, 0.0), (0.01, 0.1, 0.0), (0.0, 0.0, 0.1)))
    for name, coordinate in (("left", finger), ("right", other)):
        b.mass(fore.tx(coordinate, name=name), 0.1)
    b.couple(other, finger, ratio=-1.0, offset=0.02)
    b.drive(lift, b.input("winch", unit="N", low=-30.0, high=30.0))
    b.damping(turn, 0.2)
    b.gravity((0.0, 0.0, -9.81))
    b.marker(fore)
    system = b.build()
    path = tmp_path / "arm.urdf"
    assert sm.to_urdf(system, path) == ("sensors: fore",)
    again = sm.from_urdf(path)
    pose = {"lift": 0.2, "turn": 0.7, "finger": 0.03, "other": -0.01}
    there, here = (s.mass_matrix(s.configuration(pose)) for s in (again, system))
    order = [[c.name for c in again.coordinates].index(c.name) for c in system.coordinates]
    np.testing.assert_allclose(there[np.ix_(order, order)], here, atol=1e-12)
    assert again.constraint_names == ("other.mimic",)
    assert [(i.low, i.high) for i in again.inputs] == [(-30.0, 30.0)]
    assert beside_pinocchio(again, path).worst < AGREES


def test_a_ball_is_refused_by_the_writer(tmp_path: Path) -> None:
    b = sm.Builder("swing")
    b.mass(b.world.ball("hip").tz(-1.0), 1.0, (0.1, 0.1, 0.1))
    with pytest.raises(ModelError, match="'hip' turns on a ball joint"):
        sm.to_urdf(b.build(), tmp_path / "swing.urdf")
    assert not list(tmp_path.iterdir())


# what a file may do wrong ---------------------------------------------------------------------------------------

LINK = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
JOINT = '<joint name="j" type="{}"><parent link="a"/><child link="b"/>{}</joint>'
ROBOT = '<robot name="r">\n<link name="a"/>\n<link name="b">{}</link>\n{}\n</robot>'
BOMB = '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n'
OUTSIDE = '<!DOCTYPE r [<!ENTITY secret SYSTEM "file:///etc/passwd">]>\n'
MESH = '<visual><geometry><mesh filename="package://r/gone.stl"/></geometry></visual>'

WRONG = [
    (
        ROBOT.format(LINK + MESH, JOINT.format("revolute", "")),
        r"robot\.urdf:3: mesh 'package://r/gone.stl' of link 'b'",
    ),
    (ROBOT.format(LINK, JOINT.format("gearbox", "")), r"robot\.urdf:4: joint 'j': type 'gearbox' is not carried over"),
    (ROBOT.format("", JOINT.format("revolute", "")), r"robot\.urdf:4: joint 'j' moves nothing with mass or inertia"),
    (
        ROBOT.format('<inertial><mass value="0"/></inertial>', JOINT.format("revolute", "")),
        r":4: joint 'j' moves nothing",
    ),
    (ROBOT.format(LINK, JOINT.format("revolute", '<axis xyz="0 0 0"/>')), r":4: joint 'j': its axis is zero"),
    (ROBOT.format(LINK, JOINT.format("revolute", '<axis xyz="0 nan 0"/>')), r":4: xyz of <axis> in joint 'j'"),
    (ROBOT.format(LINK, JOINT.format("revolute", '<origin xyz="0 0"/>')), r":4: xyz of <origin> in joint 'j'"),
    (ROBOT.format(LINK.replace('ixx="1" ', ""), JOINT.format("revolute", "")), r":3: <inertia> of link 'b' has no ixx"),
    (
        ROBOT.format(LINK.replace('ixx="1"', 'ixx="-1"'), JOINT.format("revolute", "")),
        r"link 'b' \(line 3\): mass 1 kg",
    ),
    (
        ROBOT.format(LINK.replace('ixy="0"', 'ixy="1e308"'), JOINT.format("revolute", "")),
        r"link 'b': mass and moments of inertia are up to 1e\+30 kg",
    ),
    (ROBOT.format(LINK, JOINT.format("revolute", "") * 2), r":4: joint 'j' is declared twice"),
    (
        ROBOT.format(LINK, JOINT.format("revolute", "").replace('"b"', '"c"')),
        r":4: joint 'j': there is no child link 'c'",
    ),
    (ROBOT.format(LINK, JOINT.format("revolute", '<mimic joint="k"/>')), r":4: joint 'j' mimics 'k'"),
    (ROBOT.format(LINK, ""), r":3: links 'a', 'b' have no joint above them"),
    (ROBOT.format(LINK, JOINT.format("fixed", "")), r"has no joint that moves"),
    (
        ROBOT.format(LINK, JOINT.format("fixed", "") + "\n" + JOINT.format("fixed", "").replace('"j"', '"k"')),
        r":5: link 'b' is the child of two joints, 'j' and 'k'",
    ),
    (
        ROBOT.format(
            LINK, JOINT.format("fixed", "") + '<joint name="k" type="fixed"><parent link="b"/><child link="a"/></joint>'
        ),
        r":4: links [ab], [ab] form a circle",
    ),
    ('<?xml version="0.0"?>' + ROBOT.format(LINK, JOINT.format("gearbox", "")), r":4: joint .j.: type .gearbox."),
    (BOMB + ROBOT.format(LINK, JOINT.format("revolute", "")), r"has a document type or entities"),
    (OUTSIDE + ROBOT.format(LINK, JOINT.format("revolute", "")), r"has a document type or entities"),
    ('<robot name="r">\n<link name="a">\n</robot>', r"robot\.urdf:3: is not valid XML"),
    ("<mujoco/>", r":1: expected <robot> as outermost element, got <mujoco>"),
    ('<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:arm/></robot>', r"holds xacro macros"),
    ('<robot name="r"/>', r":1: has no <link>"),
    ("", r"is not valid XML"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_wrong_urdfs_are_told_with_their_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    with pytest.raises(ModelError, match=said):
        sm.from_urdf(path)


def test_large_files_and_what_is_no_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    with path.open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(ModelError, match="has more than 32 MiB"):
        sm.from_urdf(path)
    with pytest.raises(ModelError, match="cannot be read"):
        sm.from_urdf(tmp_path)
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        sm.from_mjcf(tmp_path / "gone.xml")


def test_wrong_mjcfs_are_told(tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    for text, said in (
        (
            "<mujoco>\n<worldbody><body><joint/></body></worldbody></mujoco>",
            r"robot\.xml.*MuJoCo's compiler refuses it",
        ),
        ("<mujoco>\n<wordbody/></mujoco>", r"robot\.xml:2: MuJoCo's compiler refuses it"),
        ("<mujoco/>", "has no joint"),
        (
            '<mujoco>\n<worldbody><replicate count="99999999"/></worldbody></mujoco>',
            r":2: <replicate> asks for more than",
        ),
        (OUTSIDE + "<mujoco/>", "has a document type"),
    ):
        path.write_text(text)
        with pytest.raises(ModelError, match=said):
            sm.from_mjcf(path)


def test_a_mesh_is_found_where_its_package_is(tmp_path: Path) -> None:
    folder = tmp_path / "r" / "urdf"
    folder.mkdir(parents=True)
    path = folder / "robot.urdf"
    path.write_text(ROBOT.format(LINK + MESH, JOINT.format("revolute", "")))
    assert sm.from_urdf(path, meshes=False).left_out == ("1 visual and 0 collision shapes, and with them contacts",)
    (tmp_path / "r" / "gone.stl").touch()
    assert sm.from_urdf(path).tangent.nv == 1


def test_links_without_mass_keep_their_inertia(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(ROBOT.format(LINK.replace('value="1"', 'value="0"'), JOINT.format("revolute", "")))
    assert sm.from_urdf(path).mass_matrix([0.0])[0, 0] == 1.0


# jobs -----------------------------------------------------------------------------------------------------------


def test_a_job_names_a_description_and_its_recording_holds_it(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_bytes((DATA / "so101.urdf").read_bytes())
    job = tmp_path / "arm.toml"
    job.write_text('[system]\nurdf = "arm.urdf"\nmeshes = false\nmotors = ["shoulder_pan"]\n')
    table = read(job).table("system")
    used: dict[str, bytes] = {}
    with pytest.warns(LeftOutWarning, match=r"arm\.urdf: not carried over: \d+ visual and"):
        system = read_system(table, used)
    assert [source.name for source in system.inputs] == ["shoulder_pan.motor"]
    attached = parse_text(job.read_bytes(), "run.mcap", used).table("system")
    (tmp_path / "arm.urdf").unlink()
    again = read_source(attached).make()
    np.testing.assert_array_equal(again.mass_matrix(np.zeros(6)), system.mass_matrix(np.zeros(6)))
    assert str(tmp_path) not in used["arm.urdf"].decode()


def test_a_job_names_an_mjcf(tmp_path: Path) -> None:
    job = tmp_path / "acrobot.toml"
    job.write_text(f'[system]\nmjcf = "{DATA / "suite" / "acrobot.xml"}"\n')
    used: dict[str, bytes] = {}
    with pytest.warns(LeftOutWarning, match="4 geoms as shapes"):
        system = read_system(read(job).table("system"), used)
    again = read_source(parse_text(job.read_bytes(), "run.mcap", used).table("system")).make()
    assert again.left_out == system.left_out
    np.testing.assert_array_equal(again.mass_matrix([0.1, 0.2]), system.mass_matrix([0.1, 0.2]))


def test_the_example_is_solved() -> None:
    with pytest.warns(LeftOutWarning, match="limits of speed of shoulder, elbow"):
        job = jobs.load(ROOT / "examples" / "imported" / "arm.toml")
    solution = job.solve()
    assert isinstance(solution, sm.Solution)
    end = job.step.unpack(solution.require().trajectory.x[-1])
    np.testing.assert_allclose(end.q, (-0.6, -1.2), atol=1e-3)
    assert [(i.name, i.low, i.high) for i in job.system.inputs] == [
        ("shoulder.motor", -30.0, 30.0),
        ("elbow.motor", -12.0, 12.0),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[system]\nurdf = "gone.urdf"', r"job\.toml:2: system\.urdf: there is no file"),
        ('[system]\nurdf = "wrong.urdf"', r"job\.toml:2: system\.urdf: .*wrong\.urdf:1: has no <link>"),
        ('[system]\nmjcf = "wrong.urdf"\nfloating = true', r"job\.toml:3: .*no key is called 'floating'"),
    ],
)
def test_jobs_tell_wrong_descriptions(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.urdf").write_text('<robot name="r"/>')
    job = tmp_path / "job.toml"
    job.write_text(text)
    with pytest.raises(JobError, match=said):
        read_source(read(job).table("system"))


def test_models_of_recordings_are_checked() -> None:
    model = urdf.read(DATA / "double_pendulum.urdf", meshes=False)
    content = saved.dump(model)
    np.testing.assert_array_equal(
        assemble(saved.load(content, "x")).mass_matrix([0.1, 0.2]), assemble(model).mass_matrix([0.1, 0.2])
    )
    plain = json.loads(content)
    for change in (
        {"bodies": [{**plain["bodies"][0], "parent": "nobody"}]},
        {"gravity": [0, 0]},
        {"gravity": [0, 0, "9"]},
        {"file": 3},
        {"motors": [{**plain["motors"][0], "joint": "nobody"}] if plain["motors"] else [1]},
        {"format": "other"},
        {"more": 1},
    ):
        with pytest.raises(ModelError):
            saved.load(json.dumps({**plain, **change}).encode(), "x")
    for content in (b"", b"[" * 100_000, b"[]", b'{"format": "stepmap model 1", "gravity": [NaN]}'):
        with pytest.raises(ModelError):
            saved.load(content, "x")


@pytest.mark.parametrize("quaternion", [(0.0, 0.0, 0.0, 0.0), (math.inf, 0.0, 0.0, 1.0), (math.nan, 0.0, 0.0, 1.0)])
def test_what_is_no_rotation_is_refused(quaternion: tuple[float, ...]) -> None:
    with pytest.raises(ModelError, match="is no rotation"):
        rotation(quaternion)
