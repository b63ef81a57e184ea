"""Recordings: any MCAP reader opens them, a replay gives the same bits, a report needs nothing else."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message_factory import GetMessages
from mcap.reader import make_reader
from PIL import Image, ImageSequence
from typer.testing import CliRunner

from stepmap.cli.application import app
from stepmap.errors import DamagedError, ModelError
from stepmap_codegen import generate as generation
from stepmap_hil.bench.execute import closed_loop, open_loop
from stepmap_hil.bench.replay import replay
from stepmap_hil.boards import NativeBoard
from stepmap_hil.report import write as results
from stepmap_hil.runs.filter_replay import replay_filter
from stepmap_hil.runs.foxglove.confidence import write_confidence
from stepmap_hil.runs.foxglove.points import PointWriter
from stepmap_hil.runs.mcap import Recorder, read
from stepmap_hil.runs.recording import RecordedRun, read_run
from stepmap_hil.runs.recover import recover
from tests.hil.rigs import quiet, rig, source
from tests.pil.built import KEY, ROOT, firmware, solution
from tests.processes import run_python

FACTS = {"seed": 1, "sensor": "gaussian", "flash_bytes": None, "ram_bytes": None, "instructions_per_tick": None}


def record(folder: Path, name: str | None, ticks: int, *, opened: bool = False) -> Path:
    path = folder / "run.mcap"
    made = rig(faults=name, ticks=ticks)
    with Recorder(path, made.about(), source().attachments()) as recorder:
        run = closed_loop(made, recorder, quiet)
        results.conclude(recorder, run, FACTS)
        results.complete(recorder, open_loop(made, quiet) if opened else None, FACTS)
        (folder / "digest").write_text(run.digest())
    assert recorder.failed is None
    return path


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With ticks that were done without a measurement, and an open loop to compare with."""
    return record(tmp_path_factory.mktemp("recording"), "hold_and_back", 60, opened=True)


@pytest.fixture(scope="module")
def told(recording: Path) -> RecordedRun:
    return read_run(recording)


def test_it_says_which_board_it_was(recording: Path, told: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(bytes.fromhex(told.closed.board_id)) == 12
    older = read(recording)
    del older.about["board"]  # as versions before wrote them: rows and raw values are the same
    monkeypatch.setattr("stepmap_hil.runs.recording.read", lambda path: older)
    assert read_run(recording).closed.board_id == ""


def test_any_reader_opens_it(recording: Path) -> None:
    with recording.open("rb") as file:
        reader = make_reader(file)
        summary = reader.get_summary()
        assert summary is not None
        topics = {channel.topic for channel in summary.channels.values()}
        ours = {"/tick", "/estimate", "/plant", "/event", "/sent", "/open_loop"}
        by_name = {"/command", "/reference", "/measurement", "/state"}
        assert topics == ours | by_name | {"/tf", "/scene", "/log"}
        for schema, channel, message in reader.iter_messages(topics=["/tick", "/estimate"]):
            assert schema is not None
            assert channel.message_encoding == "json"
            content = json.loads(message.data)
            assert set(content) == set(json.loads(schema.data)["properties"])
        assert [a.name for a in reader.iter_attachments()] == ["job.toml", "solution.npz"]


def test_viewers_find_frames_scene_and_log(recording: Path, told: RecordedRun) -> None:
    """By the schemas in the file alone, with classes that protobuf makes of them."""
    with recording.open("rb") as file:
        reader = make_reader(file)
        found: dict[str, list[Any]] = {}
        for schema, channel, message in reader.iter_messages(topics=["/tf", "/scene", "/log"]):
            assert schema is not None
            assert (schema.encoding, channel.message_encoding) == ("protobuf", "protobuf")
            made = GetMessages(FileDescriptorSet.FromString(schema.data).file)[schema.name]()
            made.ParseFromString(message.data)
            found.setdefault(channel.topic, []).append((message.log_time, made))
    rows = told.closed.rows
    assert len(found["/tf"]) == len(found["/scene"]) == len(rows)
    assert abs(found["/tf"][0][0] * 1e-9 - time.time()) < 3600  # by the clock on the wall, not since 1970
    for (at, scene), (_, frames), row in zip(found["/scene"], found["/tf"], rows, strict=True):
        assert [entity.id for entity in scene.entities] == ["plant", "estimate", "reference"]
        ball = scene.entities[0].spheres[0].pose.position
        assert (ball.x, ball.y) == pytest.approx(row.coordinates[:2], abs=1e-9)
        assert scene.entities[0].timestamp.ToNanoseconds() == at
        assert any((f.translation.x, f.translation.y) == (ball.x, ball.y) for f in frames.transforms)
    assert [entry.message for _, entry in found["/log"]] == [text for _, text in told.closed.events]
    assert read(recording).of("/tick")[3].time == pytest.approx(rows[3].time, abs=1e-6)


def test_times_of_frames_and_the_filter_s_confidence_are_told(
    recording: Path, told: RecordedRun, tmp_path: Path
) -> None:
    """A frame is older than its tick by its delay; σ and innovations are those of the report."""
    for entry in read(recording).of("/measurement"):
        assert -1e-9 <= entry.time - entry.content["frame_time"] < told.job.dt
    path = tmp_path / "run.mcap"
    with Recorder(path, {"job": "thing"}) as recorder:
        write_confidence(recorder, told.controller, told.closed)
    history, found = replay_filter(told.controller, told.closed), read(path)
    names = told.job.step.layout.tangent_names
    sigma = [[entry.content[name] for name in names[:4]] for entry in found.of("/sigma")]
    np.testing.assert_array_equal(sigma, history.sigma[:, :4])
    last = found.of("/innovation")[-1].content
    np.testing.assert_array_equal(list(last.values()), history.innovation[-1])


def test_points_of_a_camera_come_a_few_times_per_second(tmp_path: Path) -> None:
    class Camera:
        def points(self, most: int) -> np.ndarray:
            return np.arange(30.0).reshape(10, 3)[:most] / 7

    path = tmp_path / "run.mcap"
    with Recorder(path, {"job": "thing", "epoch_ns": "1000000000"}) as recorder:
        writer = PointWriter(recorder, Camera(), 5.0)
        for k in range(61):
            writer.tick(k / 30, k / 30 - 0.01)
    with path.open("rb") as file:
        told = list(make_reader(file).iter_messages(topics=["/points"]))
    assert len(told) == 11  # in two seconds, the first and the last among them
    for schema, _, message in told:
        assert schema is not None
        made = GetMessages(FileDescriptorSet.FromString(schema.data).file)[schema.name]()
        made.ParseFromString(message.data)
        assert made.timestamp.ToNanoseconds() == pytest.approx(message.log_time - 10_000_000, abs=2)
        read_back = np.frombuffer(made.data, "<f4").reshape(-1, 3)
        np.testing.assert_allclose(read_back, Camera().points(10), rtol=0, atol=2.0**-11)
        assert [(one.name, one.offset) for one in made.fields] == [("x", 0), ("y", 4), ("z", 8)]


def test_a_recording_without_a_start_is_read_as_before(recording: Path, tmp_path: Path) -> None:
    """As versions before wrote them: times since the start, nothing for viewers."""
    whole, old = read(recording), tmp_path / "old.mcap"
    about = {name: text for name, text in whole.about["run"].items() if name not in ("epoch_ns", "begun")}
    with Recorder(old, about, whole.attachments) as recorder:
        for entry in whole.entries:
            recorder.write(entry.topic, entry.time, **entry.content)
    again = read_run(old)
    assert [row.time for row in again.closed.rows] == [row.time for row in read_run(recording).closed.rows]
    assert read(old).of("/tick")[3].time == pytest.approx(again.closed.rows[3].time, abs=1e-6)


def test_any_cut_is_recovered_for_any_reader(recording: Path, tmp_path: Path) -> None:
    whole = recording.read_bytes()
    for k in random.Random(1).sample(range(len(whole) // 2, len(whole)), 12):
        cut, out = tmp_path / f"{k}.mcap", tmp_path / f"{k}-whole.mcap"
        cut.write_bytes(whole[:k])
        count = recover(cut, out)
        with out.open("rb") as file:
            summary = make_reader(file).get_summary()
            assert summary is not None
            assert summary.statistics is not None
            assert summary.statistics.message_count == count > 0
        assert read(out).entries == read(cut).entries
    with pytest.raises(ModelError, match="is there already"):
        recover(cut, out)


def test_a_recording_becomes_a_moving_picture(recording: Path, tmp_path: Path) -> None:
    """As long as the run, and pictures differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "controller", lambda *_: solution()[1])
        done = CliRunner().invoke(app, ["animate", str(recording), "--out", str(tmp_path / "run.gif")])
        assert done.exit_code == 0, done.output
        wrong = CliRunner().invoke(app, ["animate", str(recording), "--out", str(tmp_path / "run.avi")])
    assert isinstance(wrong.exception, ModelError) or wrong.exit_code == 2
    with Image.open(tmp_path / "run.gif") as film:
        frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(film)]
        seconds = sum(frame.info["duration"] for frame in ImageSequence.Iterator(film)) / 1000
    assert 2.0 <= seconds <= 2.0 + 1.5  # and it rests on its last picture
    assert len(frames) >= 12
    assert not np.array_equal(frames[0], frames[-1])


def test_a_replay_gives_the_same_bits(told: RecordedRun) -> None:
    found = replay(told, NativeBoard(firmware("native").program), KEY)
    assert found.first == ""
    assert found.ticks == found.equal == len(told.closed.rows) > 60
    assert found.reference_equal is True


def test_a_replay_notices_one_other_bit(told: RecordedRun) -> None:
    k = next(i for i, sent in enumerate(told.sent) if sent["kind"] == "measurement" and sent["sequence"] == 100)
    words = list(told.sent[k]["words"])
    words[0] ^= 1 << 14
    sent = [*told.sent[:k], {**told.sent[k], "words": words}, *told.sent[k + 1 :]]
    found = replay(replace(told, sent=sent), NativeBoard(firmware("native").program), KEY)
    assert 0 < found.equal < found.ticks
    assert "estimate was" in found.first


@pytest.mark.parametrize("name", ["lost_edges", "noisy_line", "reset"])
def test_runs_with_faults_replay_too(name: str, tmp_path: Path) -> None:
    found = replay(read_run(record(tmp_path, name, 45)), NativeBoard(firmware("native").program), KEY)
    assert found.first == ""
    assert found.equal == found.ticks > 30


def test_a_report_needs_nothing_but_the_recording(recording: Path, told: RecordedRun, tmp_path: Path) -> None:
    summary = results.write(tmp_path, told.controller, told.closed, told.opened, told.facts)
    assert summary["digest"] == (recording.parent / "digest").read_text()
    assert summary["bit_exact_with_host"] is True
    assert summary["open_loop_rms_m"] > summary["tracking_rms_m"]
    assert [result["ok"] for result in summary["fault_results"]] == [True]
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") >= 4
    assert "http" not in page.replace("http://www.w3.org", "")  # nothing is asked of the network


@pytest.mark.parametrize("part", [0.3, 0.6, 0.7])
def test_what_is_left_of_a_cut_file_is_read(part: float, recording: Path, tmp_path: Path) -> None:
    whole = recording.read_bytes()
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(whole[: int(part * len(whole))])
    entries, all_of_them = read(cut).entries, read(recording).entries
    assert 0 < len(entries) <= len(all_of_them)
    assert entries == all_of_them[: len(entries)]
    assert read_run(cut).closed.ended == "the recording ends here"


@pytest.mark.parametrize("seed", range(1, 12, 2))
def test_a_damaged_file_is_read_as_far_as_it_is_whole_or_refused(seed: int, recording: Path, tmp_path: Path) -> None:
    """Some bits turned over, anywhere: never another error than one that names the file."""
    chance = random.Random(seed)
    content = bytearray(recording.read_bytes())
    for _ in range(1 + 3 * (seed % 4)):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    damaged = tmp_path / "damaged.mcap"
    damaged.write_bytes(content)
    try:
        rows = len(read_run(damaged).closed.rows)
    except (ModelError, DamagedError) as error:
        rows, said = 0, str(error)
    else:
        said = str(damaged)
    assert str(damaged) in said
    assert rows <= len(read_run(recording).closed.rows)


@pytest.mark.parametrize("content", [b"", b"no recording", b"\x89MCAP0\r\n"])
def test_what_is_no_recording_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "other.mcap"
    file.write_bytes(content)
    with pytest.raises(ModelError, match="no recording"):
        read(file)


def test_a_recording_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read(tmp_path / "none.mcap")


FULL = """
import resource, signal, sys
from pathlib import Path
from stepmap_hil.runs.mcap import Recorder
from stepmap_codegen import generate as generation
from stepmap_hil.bench.execute import closed_loop
from tests.hil.rigs import quiet, rig, source

made = rig(ticks=120)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
with Recorder(Path(sys.argv[1]), made.about(), source().attachments()) as recorder:
    run = closed_loop(made, recorder, quiet)
print(run.events[-1][1], "-", run.ended, "-", len(run.rows))
"""


def test_a_full_disk_ends_the_run_safely(tmp_path: Path) -> None:
    rig()  # what has to be built is built without a limit
    path = tmp_path / "run.mcap"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    event, ended, rows = done.stdout.strip().split(" - ")
    assert event == "stopped"
    assert ended == "the recording could not go on: File too large"
    assert 10 < int(rows) < 120
    left = read_run(path)
    assert 10 < len(left.closed.rows) <= int(rows)
    assert left.closed.ended == "the recording ends here"


INTERRUPTED = """
import os, random, signal, sys, threading
from pathlib import Path
from stepmap.cli.signals import Ending, Told
from stepmap_hil.runs.mcap import Recorder, read

chance, path = random.Random(1), Path(sys.argv[1])
for _ in range(25):
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # after an interrupt they are ignored
        signal.signal(each, signal.SIG_DFL)
    count = 0
    with Recorder(path, {"job": "a"}) as recorder:
        with Ending().heeded():
            timer = threading.Timer(chance.uniform(0.005, 0.02), os.kill, (os.getpid(), signal.SIGTERM))
            try:
                timer.start()  # on a busy machine the signal comes before anything is written
                while True:
                    recorder.write("/tick", 0.01 * count, numbers=[1.0] * 200, count=count)
                    count += 1
            except Told:
                recorder.write("/event", 1.0, text="stopped")
            timer.join()
    found = read(path)
    assert [entry.content["text"] for entry in found.of("/event")] == ["stopped"]
    assert len(found.of("/tick")) in (count, count + 1)
"""


def test_a_signal_in_the_middle_of_a_record_leaves_a_whole_recording(tmp_path: Path) -> None:
    """What is written after it, such as that the robot was stopped, can be read."""
    done = run_python(INTERRUPTED, str(tmp_path / "run.mcap"))
    assert (done.returncode, done.stderr) == (0, "")
