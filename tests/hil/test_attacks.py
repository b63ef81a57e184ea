"""Attacks and faults of docs/attacks.md that cost little to repeat."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import math
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from websockets.sync.client import connect

from stepmap.errors import ModelError
from stepmap_hil.bench.simulated import Bench
from stepmap_hil.boards.line import Line
from stepmap_hil.live import gate
from stepmap_hil.live.frame import LiveFrame
from stepmap_hil.live.page import LivePage
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.mcap import Recorder, read
from stepmap_hil.sensors.base import SensorError, checked
from stepmap_hil.sensors.measurement import Measurement
from tests.processes import wait_for

CHANNELS = ("mass.x", "mass.y", "robot", "string")
WHOLE = (1.0, 2.0, 3.0, 4.0)


# Sensors of others


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (Measurement(np.array([1.0, math.nan, 3.0, 4.0]), 15), "has seen mass.y, and returned nan"),
        (Measurement(np.array([1.0, math.inf, 3.0, 4.0]), 15), "has seen mass.y, and returned inf"),
        (Measurement(np.ones(3), 7), r"shape \(3,\) .* there are 4 channels"),
        (Measurement(np.ones(1), 15), r"shape \(1,\)"),  # numpy would give it to all four
        (Measurement(np.ones((1, 4)), 15), r"shape \(1, 4\)"),
        (Measurement(np.array(["a"] * 4), 15), "each a number"),
        (Measurement(np.ones(4), -1), "seen channels -1, and there are bits 0 to 3"),
        (Measurement(np.ones(4), 16), "seen channels 16"),
        (Measurement(np.ones(4), 1.5), "seen channels 1.5"),  # type: ignore[arg-type]
        (Measurement(np.ones(4), 15, time=math.nan), "returned the times nan"),
        (None, "returned NoneType"),
    ],
)
def test_a_sensor_that_returns_no_measurement_is_told(seen: object, told: str) -> None:
    with pytest.raises(SensorError, match=told):
        checked(seen, CHANNELS)


def test_what_a_sensor_has_not_seen_may_be_no_number() -> None:
    found = checked(Measurement(np.array([1.0, math.nan, 3.0, math.inf]), 5), CHANNELS)
    assert (found.z.tolist(), found.valid) == ([1.0, 0.0, 3.0, 0.0], 5)
    assert checked(Measurement(np.array(WHOLE), 15), CHANNELS).z.tolist() == list(WHOLE)


# The operating system


def test_a_folder_that_is_swapped_for_a_link_while_a_run_goes_on_is_not_written_to(tmp_path: Path) -> None:
    """The run of somebody who clears up meanwhile: nothing lands, or is removed, where the link leads."""
    victim = tmp_path / "victim"
    victim.mkdir()
    mine = {"run.json": "{}", ".lock": "mine", "report.html": "mine"}
    for name, text in mine.items():
        (victim / name).write_text(text)

    def swapped() -> None:
        with runs.begin(tmp_path / "runs", "native", {}) as run:
            run.path.rename(tmp_path / "moved")
            run.path.symlink_to(victim)
            run.end("passed", "done", 1)

    with pytest.raises(ModelError, match="was moved, removed or replaced while the run went on"):
        swapped()
    assert {path.name: path.read_text() for path in victim.iterdir()} == mine
    assert not (tmp_path / "runs/latest").exists()


def test_a_folder_that_is_removed_while_a_run_goes_on_is_not_made_again(tmp_path: Path) -> None:
    def removed() -> None:
        with runs.begin(tmp_path, "native", {}) as run:
            shutil.rmtree(run.path)
            run.end("passed", "done", 1)

    with pytest.raises(ModelError, match="was moved, removed or replaced"):
        removed()
    assert list(tmp_path.glob("2*")) == []


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    code = "import os, sys; os.chdir(sys.argv[1]); os.rmdir(sys.argv.pop()); from stepmap.cli import main; main()"
    (tmp_path / "gone").mkdir()
    words = [sys.executable, "-c", code, str(tmp_path / "gone")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: the folder in which this was started is gone")


def test_a_process_with_more_than_a_thousand_files_open_speaks_to_a_board() -> None:
    """select() takes no descriptor above 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("this user may not open 1200 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    ours, theirs = socket.socketpair()
    try:
        line = Line(socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD, 1100)), lambda: OSError("gone"))
        line.timeout = 0.01
        assert line.write(b"there") == 5
        assert theirs.recv(5) == b"there"
        theirs.send(b"back")
        assert (line.read(4), line.read(1)) == (b"back", b"")
        line.close()
    finally:
        ours.close()
        theirs.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Files


def packed(inner: bytes, size: int) -> bytes:
    """A chunk of a recording that says it unpacks to so many bytes."""
    data = zstandard.ZstdCompressor(level=3).compress(inner)
    body = struct.pack("<QQQII", 0, 0, size, 0, 4) + b"zstd" + struct.pack("<Q", len(data)) + data
    return struct.pack("<BQ", 6, len(body)) + body


def test_chunks_within_chunks_are_not_opened(tmp_path: Path) -> None:
    """Seven of them, each in the one before; 272 bytes for 64 MiB at the end."""
    inner = bytes(1 << 20)
    for _ in range(7):
        inner = packed(inner, len(inner))
    (tmp_path / "run.mcap").write_bytes(b"\x89MCAP0\r\n" + inner)
    with pytest.raises(ModelError, match="is no recording of a run"):
        read(tmp_path / "run.mcap")


def test_of_two_ends_the_last_counts(tmp_path: Path) -> None:
    """A recording to which another end, and a whole other file, were appended."""
    with Recorder(tmp_path / "run.mcap", {"job": "thing"}) as recorder:
        for ended in ("first", "second"):
            recorder.add("end", {"ended": ended})
    whole = (tmp_path / "run.mcap").read_bytes()
    (tmp_path / "run.mcap").write_bytes(whole + whole)
    assert read(tmp_path / "run.mcap").about["end"] == {"ended": "second"}


# The live page


@pytest.fixture
def page() -> Iterator[LivePage]:
    with LivePage("attacked", "suspended_mass") as made:
        yield made


def opened(page: LivePage, **more: Any) -> Any:
    place = page.url.removeprefix("http://")
    return connect(f"ws://{place}feed", origin=f"http://{place.split('/')[0]}", ping_interval=None, **more)  # type: ignore[arg-type]


def answer(page: LivePage, path: str) -> bytes:
    host, _, token = page.url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    with socket.create_connection((name, int(port)), 10) as line:
        line.sendall(f"GET /{token}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: line.recv(65536), b""))


def test_no_path_leads_out_of_the_folder_of_a_run(page: LivePage, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "secret").write_text("SECRET")
    (tmp_path / "run/report.html").write_text("fine")
    (tmp_path / "run/summary.json").symlink_to(tmp_path / "secret")
    page.saved(tmp_path / "run")
    assert b"fine" in answer(page, "report/report.html")
    up = "../" * 12 + str(tmp_path)[1:]
    for path in ("report/../secret", "report/..%2fsecret", f"report/{tmp_path}/secret", "report/summary.json",
                 f"scene/{up}/secret", f"scene/{tmp_path}/secret", "scene/..%2f..%2fsecret"):  # fmt: skip
        got = answer(page, path)
        assert b"404" in got.split(b"\r\n")[0], path
        assert b"SECRET" not in got


def test_a_page_that_reads_nothing_or_says_too_much_costs_the_others_nothing(page: LivePage) -> None:
    crowd = [opened(page, max_queue=1) for _ in range(8)]  # none of them reads
    crowd[0].send("x" * 3_000_000)
    for order in ("[" * 900, '{"do":"layer","what":{}}', '{"do":"show","what":1e999}', '{"do":["stop"]}', b"\xff"):
        crowd[1].send(order)
    for k in range(500):
        page.update(LiveFrame(k / 30, {"xm": 0.1, "ym": 0.2, "xr": 0.1, "r": 0.8}, state="running"))
    assert not page.stop_requested
    crowd[1].send(json.dumps({"do": "stop"}))
    wait_for(lambda: page.stop_requested, "STOP of the page that said too much")
    for one in crowd:
        one.socket.close()


def test_other_errors_of_the_server_are_still_told(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    gate._heed(loop, {"message": "no room", "exception": OSError(errno.EMFILE, "Too many open files")})
    assert caplog.records == []
    gate._heed(loop, {"message": "something else", "exception": OSError(errno.EIO, "broken")})
    assert [one.message.splitlines()[0] for one in caplog.records] == ["something else"]
    loop.close()


def test_strangers_for_whom_there_is_no_room_are_not_told_of(page: LivePage, caplog: pytest.LogCaptureFixture) -> None:
    """Connections up to the limit of the process, without a token: a page that is open still stops the run."""
    mine = opened(page)
    host, _, port = page.url.removeprefix("http://").partition("/")[0].partition(":")
    strangers = [socket.socket() for _ in range(60)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), limits[1]))
    try:
        for one in strangers:
            one.connect((host, int(port)))
        time.sleep(0.2)
        mine.send(json.dumps({"do": "stop"}))
        wait_for(lambda: page.stop_requested, "STOP of a page that was open before")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for one in strangers:
            one.close()
        mine.close()
    assert caplog.records == []


# A run


class Broken:
    """A sensor of somebody else's whose numbers are none after a while."""

    def __init__(self, after: int) -> None:
        self.left = after

    def look(self, plant: Any, at: float) -> Measurement:
        self.left -= 1
        z = plant.readings()
        z = z if self.left > 0 else z * math.nan
        return Measurement(z, (1 << len(z)) - 1)

    def unplug(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_sensor_whose_numbers_are_none_stops_the_robot(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepmap_hil.bench.execute import closed_loop
    from stepmap_hil.bench.setup import Setup
    from tests.hil.rigs import quiet, rig

    sensor, begun = Broken(10**6), Bench.go

    def go(bench: Bench, *given: Any) -> Any:
        sensor.left = 10
        return begun(bench, *given)

    monkeypatch.setattr(Setup, "sensor", lambda _: sensor)
    monkeypatch.setattr(Bench, "go", go)
    run = closed_loop(rig(ticks=30), None, quiet)
    assert run.ended == "the sensor says it has seen mass.x, and returned nan for it"
    assert run.broken
    assert len([row for row in run.rows if row.running]) < 30
