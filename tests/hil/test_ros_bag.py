"""``stepmap report --rosbag``: what the recording says is in the bag, read by rosbags and by an independent decoder.

ROS 2 itself is not run here. rosbags wrote the bag, so what it reads back shows only that the bag is whole; the bytes
of each message are decoded by mcap-ros2-support, which shares no code with it.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foxglove_schemas_protobuf.FrameTransforms_pb2 import FrameTransforms
from foxglove_schemas_protobuf.PointCloud_pb2 import PointCloud
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Writer

import stepmap as sm
from stepmap.errors import DamagedError
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.report import write as results
from stepmap_hil.ros.frames import FramePoses
from stepmap_hil.ros.messages import FRAMES, HEALTH, JOINTS, LOG, NUMBERS, POINTS, Types
from stepmap_hil.ros.points import clouds
from stepmap_hil.ros.ticks import namespace
from stepmap_hil.runs.foxglove import SceneWriter
from stepmap_hil.runs.foxglove.points import PointWriter
from stepmap_hil.runs.log import RunLog
from stepmap_hil.runs.mcap import Recorder, read
from tests.hil.commands import call
from tests.hil.rigs import quiet, rig, source
from tests.undrawn import STEPMAP

FACTS = {"seed": 1, "sensor": "gaussian", "flash_bytes": None, "ram_bytes": None, "instructions_per_tick": None}
PUBLISHED = {  # type hashes as `ros2 topic info --verbose` and other implementations print them
    JOINTS: "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
    FRAMES: "RIHS01_e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087",
    HEALTH: "RIHS01_5a8a36efb05fb25070fa0fb3810290c0e6cd4862b54a8fb975a1ee8dc55a333e",
    LOG: "RIHS01_e28ce254ca8abc06abf92773b74602cdbf116ed34fbaf294fb9f81da9f318eac",
    POINTS: "RIHS01_9198cabf7da3796ae6fe19c4cb3bdd3525492988c70522628af5daa124bae2b5",
    "std_msgs/msg/String": "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
}


class Corner:
    """A camera that sees three points."""

    def points(self, most: int) -> np.ndarray:
        return np.array([[0.5, 0.25, -1.0], [0.0, 1.5, 2.0], [-0.125, 0.0, 1.0]])[:most]


@dataclass(frozen=True)
class Decoded:
    """A message of a bag."""

    stamp: int
    content: Any


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With ticks that were done without a measurement, events, and points of a camera."""
    path = tmp_path_factory.mktemp("run") / "run.mcap"
    made = rig(faults="hold_and_back", ticks=60)
    with pytest.MonkeyPatch.context() as patch, Recorder(path, made.about(), source().attachments()) as recorder:
        patch.setattr(RunLog, "watch", lambda log, sensor, rate: SceneWriter.watch(log.scene, Corner(), 5.0))
        run = closed_loop(made, recorder, quiet)
        results.conclude(recorder, run, FACTS)
        results.complete(recorder, None, FACTS)
    return path


@pytest.fixture(scope="module")
def bag(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bag") / "crane"
    code, told, complaints = call([*STEPMAP, "report", str(recording), "--rosbag", str(folder)])
    assert (code, complaints) == (0, "")
    assert "/suspended_mass/estimate" in told
    assert str(folder) in told
    return folder


@pytest.fixture(scope="module")
def decoded(bag: Path) -> dict[str, list[Decoded]]:
    """Messages by topic, decoded by mcap-ros2-support."""
    found: dict[str, list[Decoded]] = {}
    with (bag / "crane.mcap").open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        for _, channel, message, content in reader.iter_decoded_messages():
            found.setdefault(channel.topic, []).append(Decoded(message.log_time, content))
    return found


def header(message: Any) -> int:
    """The stamp of a header."""
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def viewed(recording: Path, topic: str, kind: Any) -> list[tuple[int, Any]]:
    """What the recording has for viewers."""
    with recording.open("rb") as file:
        return [
            (message.log_time, kind.FromString(message.data))
            for _, _, message in make_reader(file).iter_messages(topics=[topic])
        ]


def by_name(message: Any, values: str) -> dict[str, float]:
    return dict(zip(message.name, getattr(message, values), strict=True))


@pytest.mark.parametrize("topic", ["plant", "estimate", "reference"])
def test_coordinates_are_those_of_the_recording(
    recording: Path, decoded: Mapping[str, list[Decoded]], topic: str
) -> None:
    entries, found = read(recording).of(f"/{topic}"), decoded[f"/suspended_mass/{topic}"]
    assert len(found) == len(entries) > 60
    for entry, message in zip(entries, found, strict=True):
        joints = message.content
        assert message.stamp == header(joints) == entry.stamp_ns
        assert by_name(joints, "position") == {name: entry.content[name] for name in ("xm", "ym", "xr", "r")}
        assert len(joints.velocity) == len(joints.effort) == 0


def test_the_state_has_momenta_too(recording: Path, decoded: Mapping[str, list[Decoded]]) -> None:
    for entry, message in zip(read(recording).of("/estimate"), decoded["/suspended_mass/estimate_state"], strict=True):
        (dimension,) = message.content.layout.dim
        assert dict(zip(dimension.label.split(","), message.content.data, strict=True)) == entry.content


def test_commands_are_named(recording: Path, decoded: Mapping[str, list[Decoded]]) -> None:
    for entry, message in zip(read(recording).of("/command"), decoded["/suspended_mass/command"], strict=True):
        told = {f"{name}_next": value for name, value in by_name(message.content, "position").items()}
        assert told == entry.content


def test_what_was_not_seen_is_no_number(recording: Path, decoded: Mapping[str, list[Decoded]]) -> None:
    ticks = [entry for entry in read(recording).of("/tick") if entry.content["measured"]]
    found = decoded["/suspended_mass/measurement"]
    assert len(found) == len(ticks) < len(decoded["/suspended_mass/estimate"])
    for entry, message in zip(ticks, found, strict=True):
        seen = [bool(entry.content["valid"] >> k & 1) for k in range(len(entry.content["z"]))]
        assert [math.isfinite(value) for value in message.content.position] == seen
        assert [z for z, s in zip(message.content.position, seen, strict=True) if s] == [
            z for z, s in zip(entry.content["z"], seen, strict=True) if s
        ]


def test_frames_are_those_of_the_scene(recording: Path, decoded: Mapping[str, list[Decoded]]) -> None:
    for (at, frames), message in zip(viewed(recording, "/tf", FrameTransforms), decoded["/tf"], strict=True):
        assert message.stamp == at
        ours = {one.child_frame_id: one.transform.translation for one in message.content.transforms}
        for one in frames.transforms:
            place = ours.pop(one.child_frame_id)
            theirs = (one.translation.x, one.translation.y, one.translation.z)
            assert (place.x, place.y, place.z) == pytest.approx(theirs, abs=1e-15)
        assert ours == {}


def test_points_are_those_the_camera_saw(recording: Path, decoded: Mapping[str, list[Decoded]]) -> None:
    seen = viewed(recording, "/points", PointCloud)
    assert len(seen) > 3
    for (at, cloud), message in zip(seen, decoded["/suspended_mass/points"], strict=True):
        made = message.content
        assert (message.stamp, header(made)) == (at, cloud.timestamp.ToNanoseconds())
        assert (made.header.frame_id, made.height, made.width, made.point_step) == ("world", 1, 3, 12)
        assert [(field.name, field.offset, field.datatype) for field in made.fields] == [
            ("x", 0, 7),
            ("y", 4, 7),
            ("z", 8, 7),
        ]
        assert np.array_equal(np.frombuffer(bytes(made.data), "<f4").reshape(-1, 3), Corner().points(9))


def test_events_are_the_log(recording: Path, decoded: Mapping[str, list[Decoded]]) -> None:
    entries = read(recording).of("/event")
    told = [message.content for message in decoded["/rosout"]]
    assert [one.msg for one in told] == [entry.content["text"] for entry in entries]
    assert {one.level for one in told if "fault" in one.msg} == {30}
    assert {one.level for one in told if one.msg == "running"} == {20}


def test_the_supervisor_is_a_diagnosis(recording: Path, decoded: Mapping[str, list[Decoded]]) -> None:
    states = {entry.content["state"] for entry in read(recording).of("/state")}
    told = [message.content.status[0] for message in decoded["/diagnostics"]]
    assert {{pair.key: pair.value for pair in status.values}["state"] for status in told} == states
    levels = {status.message.partition(":")[0]: status.level for status in told}
    levels = {name: level if isinstance(level, int) else level[0] for name, level in levels.items()}
    assert levels["running"] == 0
    assert levels["holding"] == 1


def test_the_bag_is_whole(bag: Path, decoded: Mapping[str, list[Decoded]]) -> None:
    assert sorted(path.name for path in bag.iterdir()) == ["crane.mcap", "metadata.yaml"]
    assert [path.name for path in bag.parent.iterdir()] == ["crane"]
    with AnyReader([bag]) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
        stamps = [at for _, at, _ in reader.messages()]
        for connection, _, raw in reader.messages():
            reader.deserialize(raw, connection.msgtype)
    assert counts == {topic: len(messages) for topic, messages in decoded.items()}
    assert stamps == sorted(stamps)
    assert "storage_identifier: mcap" in (bag / "metadata.yaml").read_text()


def test_types_have_the_hashes_of_ros() -> None:
    types = Types()
    assert {name: types.hash(name) for name in PUBLISHED} == PUBLISHED
    assert types.hash(NUMBERS).startswith("RIHS01_")


def test_nothing_is_written_over(recording: Path, bag: Path, tmp_path: Path) -> None:
    before = (bag / "metadata.yaml").read_bytes()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for place in (bag, tmp_path / "link"):
        code, told, complaints = call([*STEPMAP, "report", str(recording), "--rosbag", str(place)])
        assert (code, told) == (2, "")
        assert complaints.startswith(f"error: --rosbag: {place} is there already\nhint: ")
    assert (bag / "metadata.yaml").read_bytes() == before


def test_a_place_that_cannot_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, told, complaints = call([*STEPMAP, "report", str(tmp_path / "none"), "--rosbag", str(tmp_path / "file/bag")])
    assert (code, told) == (2, "")
    assert complaints.startswith(f"error: --rosbag: {tmp_path / 'file'} is not a folder\nhint: ")


def test_a_bag_is_made_of_one_recording(recording: Path, tmp_path: Path) -> None:
    words = [*STEPMAP, "report", str(recording), str(recording), "--rosbag", str(tmp_path / "bag")]
    code, _, complaints = call(words)
    assert code == 2
    assert complaints.startswith("error: --rosbag: a bag is made of one recording")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, done = Writer.write, []

    def full(writer: Writer, *given: Any) -> None:
        done.append(write(writer, *given))
        if len(done) > 100:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Writer, "write", full)
    code, _, complaints = call([*STEPMAP, "report", str(recording), "--rosbag", str(tmp_path / "bag")])
    assert code == 1
    assert "No space left on device" in complaints
    assert list(tmp_path.iterdir()) == []


def test_clouds_from_elsewhere_are_checked(tmp_path: Path) -> None:
    path, made = tmp_path / "run.mcap", rig()
    with Recorder(path, made.about()) as recorder:
        PointWriter(recorder, Corner(), 5.0).tick(0.0, 0.0)
        recorder.write_proto("/points", 0.2, PointCloud(point_stride=12, data=bytes(13)))
    with pytest.raises(DamagedError, match="points that are not x, y and z"):
        list(clouds(path))


def test_frames_turn() -> None:
    b = sm.Builder("arm")
    first, second = (b.coordinate(name, unit="rad") for name in ("a", "b"))
    upper = b.world.rz(first, name="upper").tx(1.0, name="elbow")
    hand = upper.ry(second).tx(0.5, name="hand")
    b.mass(upper, 1.0)
    b.mass(hand, 1.0)
    found = {name: (place, turned) for name, place, turned in FramePoses(b.build()).at([0.3, -0.7])}
    c, s, cb, sb = math.cos(0.15), math.sin(0.15), math.cos(-0.35), math.sin(-0.35)
    assert found["elbow"][0] == pytest.approx([math.cos(0.3), math.sin(0.3), 0.0])
    assert found["elbow"][1] == pytest.approx([0.0, 0.0, s, c])
    # q_z(a) q_y(b), multiplied out
    assert found["hand"][1] == pytest.approx([-s * sb, c * sb, s * cb, c * cb])


@pytest.mark.parametrize(
    ("job", "name"),
    [("crane", "/crane"), ("my crane-2", "/my_crane_2"), ("2nd", "/job_2nd"), ("__x__", "/x"), ("ü", "/job")],
)
def test_namespaces_are_legal_names(job: str, name: str) -> None:
    assert namespace(job) == name
