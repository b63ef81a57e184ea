"""Schedules over the serial line to the real firmware, in the process and in an emulated chip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from stepmap.errors import LinkError
from stepmap_codegen.emit.schedule import unpack
from stepmap_hil.boards import NativeBoard, QemuBoard
from stepmap_hil.faults.port import FaultyPort, Rule
from stepmap_hil.faults.spec import LINE, Fault
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link, Port
from stepmap_hil.wire.upload import CHUNK, Settings, upload
from tests.pil.built import KEY, board, schedule
from tests.pil.power_cuts import sweep
from tests.pil.robot import Robot
from tests.pil.schedules import LARGE, large, name, other, small

FRAMES = ("UPLOAD_BEGIN", "UPLOAD_CHUNK", "UPLOAD_COMMIT", "UPLOAD_STATUS")


def beat(link: Link) -> Message:
    while link.poll("HEARTBEAT") is not None:
        pass
    found = link.receive("HEARTBEAT", timeout=5.0)
    assert found is not None
    return found


@pytest.fixture(params=["native", "stm32f405"])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[NativeBoard | QemuBoard, Link]]:
    with board(request.param) as it:
        link = Link(it.open(), KEY)
        link.connect(timeout=20.0)
        yield it, link


def test_32_kib_arrive_are_used_and_outlive_a_reset(running: tuple[NativeBoard | QemuBoard, Link]) -> None:
    it, link = running
    blob = large()
    assert LARGE <= len(blob) < LARGE + 100
    assert bytes(beat(link).schedule) != name(blob)
    report = upload(link, blob, KEY)
    assert report.digest[:8] == name(blob)
    now = beat(link)
    assert bytes(now.schedule) == name(blob)
    assert now.flags & dialect.value("STEPMAP_FLAG_UPLOADED")
    again = upload(link, blob, KEY)
    assert again.chunks == 0  # it is there already
    it.reset()
    after = Link(it.open(), KEY)
    assert bytes(after.connect(timeout=20.0).schedule) == name(blob)


def test_another_model_is_refused_and_the_schedule_stays(running: tuple[NativeBoard | QemuBoard, Link]) -> None:
    _, link = running
    before = bytes(beat(link).schedule)
    made = unpack(schedule())
    with pytest.raises(LinkError, match=r"(?s)made for another model.*flash the firmware of this job"):
        upload(link, replace(made, model="0123456789abcdef").pack(), KEY)
    assert bytes(beat(link).schedule) == before


def test_a_run_is_not_disturbed_by_an_upload() -> None:
    with board("native") as it:
        robot = Robot(it)
        robot.prepare()
        with pytest.raises(LinkError, match=r"while the board is idle\.\nhint: Stop it first"):
            upload(robot.link, other(), KEY)
        robot.session.stop()
        assert upload(robot.link, other(), KEY).chunks > 0


def test_a_chip_without_banks_says_that_it_has_none() -> None:
    with board("stm32f100") as it:
        link = Link(it.open(), KEY)
        link.connect(timeout=20.0)
        with pytest.raises(LinkError, match="no memory for uploads"):
            upload(link, other(), KEY)


@pytest.mark.parametrize("window", [1, 8])
def test_a_bad_line_only_takes_longer(running: tuple[NativeBoard | QemuBoard, Link], window: int) -> None:
    """3 % of the frames of an upload, in both directions, for each of the things that happen to frames."""
    it, _ = running
    port = FaultyPort(it.open())
    enough = 1e6
    port.rules = [
        Rule(Fault(kind, value=0.03, count=enough), np.random.default_rng([window, k])) for k, kind in enumerate(LINE)
    ]
    for rule in port.rules:
        rule.names = FRAMES
    blob = large()
    link = Link(port, KEY)
    link.connect(timeout=20.0)
    report = upload(link, blob, KEY, settings=Settings(window=window))
    hits = {rule.fault.kind: int(enough - rule.left) for rule in port.rules}
    print(
        f"{it.name}: {hits} of about {2 * report.chunks} frames, {report.repeated} chunks again, {report.seconds:.1f} s"
    )
    assert port.hit == sum(hits.values()) > 12  # 40 are expected of 171 chunks and their answers
    assert report.repeated > 0
    port.rules = []
    assert report.digest[:8] == name(blob)
    assert bytes(beat(link).schedule) == name(blob)


def test_power_lost_at_any_write_leaves_the_old_or_the_new() -> None:
    """`python -m tests.pil.power_cuts` does it with 32 KiB."""
    found = sweep(other(5), small(), other(5, off=2))
    assert found["writes"] >= 7  # erase, three chunks, and records that announce, name and count
    assert found["old"] + found["new"] == 3 * found["writes"]
    assert found["new"] > 0  # all of the last record was written


def test_power_lost_while_32_kib_arrive() -> None:
    found = sweep(other(5), large(), small(), every=29, parts=("",))
    assert found["old"] >= 5


class Dying:
    """The port of a host that ends at a chunk, behind some others: in the middle of the frame, or at its end."""

    def __init__(self, inner: Port, chunks: int, torn: bool) -> None:
        self.inner, self.chunks, self.torn = inner, chunks, torn
        self.timeout: float | None = None

    @property
    def in_waiting(self) -> int:
        return self.inner.in_waiting

    def read(self, size: int = 1, /) -> bytes:
        self.inner.timeout = self.timeout
        return self.inner.read(size)

    def write(self, data: bytes, /) -> int | None:
        chunk = dialect.decode(data)
        if chunk.name == "UPLOAD_CHUNK" and chunk.length:
            self.chunks -= 1
            if self.chunks < 0:
                self.inner.write(data[: len(data) // 2] if self.torn else data)
                raise OSError("the host has ended")
        return self.inner.write(data)

    def close(self) -> None:
        pass


def test_a_host_that_ends_at_any_chunk_goes_on_there() -> None:
    """Each host gets one chunk across and ends: before its answer, or, one in eight, in the middle of the next."""
    blob, quick = large(), Settings(retry=0.05)
    chunks = -(-len(blob) // CHUNK)
    begins: list[int] = []
    with board("native") as it:
        first = Link(it.open(), KEY)
        first.connect()
        known = first.board_id  # else every host would wait for a heartbeat that tells it
        while not begins or begins[-1] < len(blob) - 3 * CHUNK:
            reached: list[int] = []

            def note(done: int, total: int, reached: list[int] = reached) -> None:
                reached.append(done)

            torn = len(begins) % 8 == 0
            with pytest.raises(LinkError, match="the host has ended"):
                upload(
                    Link(Dying(it.open(), int(torn), torn), KEY, board_id=known),
                    blob,
                    KEY,
                    settings=quick,
                    progress=note,
                )
            assert not begins or begins[-1] <= reached[0] <= begins[-1] + 2 * CHUNK
            begins.append(reached[0])
        report = upload(Link(it.open(), KEY), blob, KEY)
        assert report.resumed_at >= begins[-1]
        assert bytes(Link(it.open(), KEY).connect().schedule) == name(blob)
    assert len({begin // CHUNK for begin in begins}) > 0.9 * chunks
