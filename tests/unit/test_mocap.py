"""Motion capture: files of several programs beside rotations of scipy, mistakes with their lines, retargeting."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import JobError, ModelError
from stepmap.figures.theatre import _dancer
from stepmap.mocap import Recording, read_bvh, retarget
from stepmap.mocap.names import puppet_markers
from stepmap.mocap.rehearsal import Manner, rehearse
from stepmap.mocap.retarget import Targets
from tests import dancers

MIXAMO = {name: f"mixamorig:{name}" for name in dancers.BODY}
DAZ = {
    "Hips": "hip", "Spine": "abdomen", "Neck": "neck", "Head": "head", "LeftArm": "lShldr", "LeftForeArm": "lForeArm",
    "LeftHand": "lHand", "RightArm": "rShldr", "RightForeArm": "rForeArm", "RightHand": "rHand",
    "LeftUpLeg": "lThigh", "LeftLeg": "lShin", "LeftFoot": "lFoot", "RightUpLeg": "rThigh", "RightLeg": "rShin",
    "RightFoot": "rFoot",
}  # fmt: skip


def read(text: str) -> Recording:
    return read_bvh("dance.bvh", text.encode())


@pytest.mark.parametrize("six", [False, True])
def test_joints_are_where_rotations_of_scipy_put_them(six: bool) -> None:
    found = read(dancers.bvh(2.0, rate=25.0, unit=39.37, six=six))
    wanted = dancers.positions(np.arange(51) / 25.0)
    assert found.period == pytest.approx(0.04)
    assert np.allclose(found.up, [0, 1, 0])
    assert np.allclose(found.forward, [0, 0, 1], atol=0.1)  # arms are not lifted alike
    for name, places in wanted.items():
        # Angles have four digits after the point: 1e-4 degrees on an arm of a metre.
        assert np.abs(found.of([name])[:, 0] / 39.37 - places).max() < 1e-5


@pytest.mark.parametrize("prefix", ["", "mixamorig:", "Bip01_"])
def test_the_head_is_up_whatever_joints_are_called(prefix: str) -> None:
    """A skeleton whose arms, spread in the rest pose, reach farther than from the feet to the head."""
    called = {name: f"{prefix}{name}" for name in dancers.BODY}
    text = dancers.bvh(1.0, called=called, moves=dancers.stroll).replace("OFFSET 0.28", "OFFSET 0.48")
    found = read(text.replace("OFFSET -0.28", "OFFSET -0.48"))
    assert np.allclose(found.up, [0, 1, 0])
    assert np.allclose(found.forward, [0, 0, 1], atol=0.2)


def test_a_root_without_positions_stays() -> None:
    text = dancers.bvh(1.0)
    head, rows = text.split("Frame Time: 0.0333333\n")
    head = head.replace("CHANNELS 6 Xposition Yposition Zposition Zrotation", "CHANNELS 3 Zrotation")
    cut = "\n".join(" ".join(row.split()[3:]) for row in rows.splitlines())
    found = read(f"{head}Frame Time: 0.0333333\n{cut}\n")
    assert np.abs(found.of(["Hips"])).max() == 0.0
    whole = read(text)
    for name in ("LeftHand", "RightFoot"):
        arm, other = (r.of([name])[:, 0] - r.of(["Hips"])[:, 0] for r in (found, whole))
        assert np.abs(arm - other).max() < 1e-9


def test_a_pose_of_calibration_is_dropped() -> None:
    plain, posed = read(dancers.bvh()), read(dancers.bvh(t_pose=True))
    assert plain.without_calibration() is plain
    left = posed.without_calibration()
    assert left.dropped == 1
    assert np.abs(left.positions - plain.positions).max() < 1e-9


@pytest.mark.parametrize("called", [{}, MIXAMO, DAZ])
def test_joints_are_known_by_the_words_of_several_programs(called: dict[str, str]) -> None:
    found = puppet_markers(read(dancers.bvh(1.0, called=called)).names)
    words = {"lshoulder": "LeftArm", "relbow_end": "RightHand", "lhip_end": "LeftLeg", "torso": "Hips"}
    assert {frame: found[frame] for frame in words} == {f: called.get(j, j) for f, j in words.items()}


@pytest.mark.parametrize("joint", ["neck_01", "Bip01_Neck", "mixamorig:Neck", "Bip01 Neck", "Neck"])
def test_a_neck_has_many_names(joint: str) -> None:
    found = puppet_markers(read(dancers.bvh(1.0, called={"Neck": joint.replace(" ", "_")})).names)
    assert found["spine_top"] == joint.replace(" ", "_")


def test_a_recording_of_minutes_is_cut_or_given_steps() -> None:
    system = sm.systems.get("planar_arm")
    start = system.satisfy_constraints({"theta1": 0.3, "theta2": 0.9})
    t = np.linspace(0.0, 60.0, 1801)
    places = np.stack([0.3 + 0.02 * np.sin(t), 0.3 + 0.0 * t, 0.0 * t], axis=1)[:, None]
    targets = Targets(("tip",), t, places, 1.0, 1.0, places)
    with pytest.raises(sm.ModelError, match="lasts 62 s, more than 300 steps of 1/15 s; choose a part"):
        rehearse(system, start, targets, Manner())
    assert rehearse(system, start, targets, Manner(), steps=40).steps == 40


def test_units_axes_and_rates_do_not_matter() -> None:
    system = sm.systems.get("marionette")
    start, made = system.configuration({}), []
    for unit, rate in ((1.0, 30.0), (100.0, 30.0), (2.54, 60.0)):
        recording = read(dancers.bvh(2.0, rate=rate, unit=unit))
        targets = retarget(system, recording, puppet_markers(recording.names), start, 0.3)
        assert targets.scale * unit == pytest.approx(0.988, abs=0.01)
        made.append(targets.at(np.linspace(0, 2, 21)))
    assert np.abs(made[1] - made[0]).max() < 2e-4  # places in the file have four digits after the point
    assert np.abs(made[2] - made[0]).max() < 1e-3


def test_targets_have_the_lengths_of_the_mechanism_and_the_directions_of_the_dancer() -> None:
    system = sm.systems.get("marionette")
    recording = read(dancers.bvh(2.0))
    start = system.configuration({})
    targets = retarget(system, recording, puppet_markers(recording.names), start, travel=0.1)
    place = dict(zip(targets.names, np.moveaxis(targets.places, 1, 0), strict=True))
    own = dict(zip(system.frame_names, system.positions(start), strict=True))
    for a, b in (("lshoulder", "lshoulder_end"), ("rshoulder_end", "relbow_end"), ("lhip", "lhip_end")):
        assert np.linalg.norm(place[b] - place[a], axis=1) == pytest.approx(np.linalg.norm(own[b] - own[a]))
    # The dancer looks along z and its left is x; the puppet looks along y, left is −x, and z is up.
    theirs = dancers.positions(np.arange(61) / 30.0)
    arm = theirs["RightHand"] - theirs["RightForeArm"]
    wanted = np.stack([-arm[:, 0], arm[:, 2], arm[:, 1]], axis=1) / np.linalg.norm(arm, axis=1)[:, None]
    got = place["relbow_end"] - place["rshoulder_end"]
    got /= np.linalg.norm(got, axis=1)[:, None]
    assert np.abs(got - wanted).max() < 0.05  # but for a turn about the vertical that fits the start pose
    assert np.linalg.norm(place["torso"] - own["torso"], axis=1).max() == pytest.approx(0.1)


def changed(old: str, new: str, count: int = 1) -> str:
    text = dancers.bvh(1.0)
    assert old in text
    return text.replace(old, new, count)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not a motion", "is no BVH file"),
        (changed("Frames: 31", "Frames: 40"), "says that it has 40 frames, and holds 31"),
        (changed("Frame Time: 0.0333333", "Frame Time: 0"), "Frame Time must be positive"),
        (changed("JOINT LeftHand", "JOINT LeftArm"), "two joints are called 'LeftArm'"),
        (changed("OFFSET 0.28", "OFFSET x"), "expected OFFSET and three finite numbers"),
        (changed("CHANNELS 3 Z", "CHANNELS 4 Z"), "expected CHANNELS"),
    ],
)
def test_mistakes_of_files_are_told(text: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        read(text)


@pytest.mark.parametrize(("word", "message"), [("nan", "number 5 of this frame is nan"), ("x", "no number")])
def test_a_frame_with_a_hole_is_named_by_its_line(word: str, message: str) -> None:
    lines = dancers.bvh(1.0).splitlines()
    first = lines.index("Frame Time: 0.0333333") + 1
    words = lines[first + 7].split()
    lines[first + 7] = " ".join([*words[:4], word, *words[5:]])
    with pytest.raises(JobError, match=message) as told:
        read("\n".join(lines))
    assert told.value.line == first + 8
    lines[first + 7] = " ".join(words[:-1])
    with pytest.raises(JobError, match="the hierarchy has 51 channels, this frame 50 numbers"):
        read("\n".join(lines))


def test_a_missing_joint_is_told_with_what_there_is() -> None:
    names = read(dancers.bvh(1.0, called={"LeftHand": "Paw"})).names
    with pytest.raises(ModelError, match=r"no joint looks like the left hand, for the frame 'lelbow_end'.*Paw"):
        puppet_markers(names)
    assert puppet_markers(names, {"lelbow_end": "Paw"})["lelbow_end"] == "Paw"


def test_the_dancer_of_the_figure_stands_dances_and_stands() -> None:
    found = read(_dancer.bvh(4.0))
    assert set(puppet_markers(found.names).values()) < set(found.names)
    for joint, (parent, offset) in _dancer.SKELETON.items():
        if parent:
            length = np.linalg.norm(np.diff(found.of([parent, joint]), axis=1), axis=2)
            np.testing.assert_allclose(length, np.linalg.norm(offset), rtol=1e-9)
    hands = found.of(["LeftHand", "RightHand"])[..., 1]
    assert np.ptp(hands, axis=0).min() > 10  # cm: both are lifted
    assert np.abs(found.positions[-1] - found.positions[0]).max() < 1e-3
