"""Boards that share a key and a system id: what was said to one is nothing to another."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepmap.errors import LinkError
from stepmap_hil.boards import NativeBoard, QemuBoard
from stepmap_hil.wire import dialect
from stepmap_hil.wire.link import Link, Port
from stepmap_hil.wire.session import Session
from stepmap_hil.wire.upload import upload
from tests.pil.built import KEY, board, firmware, schedule
from tests.pil.robot import Robot, at_start, words
from tests.pil.schedules import other, small
from tests.processes import PATIENCE


class Tap:
    """A port that keeps all that is written to it."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.frames: list[bytes] = []
        self.timeout: float | None = None

    @property
    def in_waiting(self) -> int:
        return self.port.in_waiting

    def read(self, size: int = 1, /) -> bytes:
        self.port.timeout = self.timeout
        return self.port.read(size)

    def write(self, data: bytes, /) -> int | None:
        self.frames.append(data)
        return self.port.write(data)

    def close(self) -> None:
        self.port.close()


@pytest.fixture
def heard_at_a() -> Iterator[list[bytes]]:
    """All frames of a host that uploads to board A, calibrates, arms and runs it."""
    with board("native") as a:
        tap = Tap(a.open())
        session = Session(Link(tap, KEY), words())
        session.connect()
        upload(session.link, small(), KEY)
        session.calibrate(at_start, [0, 0])
        session.arm()
        session.tick(*at_start())
        session.run()
        assert dialect.word("STEPMAP_STATE", session.state().state) == "running"
        yield list(tap.frames)


@pytest.mark.parametrize("name", ["native", "stm32f405"])
def test_what_was_recorded_at_one_board_does_nothing_at_another(name: str, heard_at_a: list[bytes]) -> None:
    with board(name) as b:
        line = Tap(b.open())
        line.timeout = PATIENCE
        assert line.read()  # it has booted: a chip whose serial port is not switched on yet hears nothing
        line.timeout = 0.001
        for frame in heard_at_a:  # before any host: nothing of it is too old for this board
            line.write(frame)
            line.read(max(1, line.in_waiting))  # a board that nobody listens to stands still
        replayed = len(line.frames)
        link = Link(line, KEY)
        beat = link.connect(timeout=20.0)
        assert dialect.word("STEPMAP_STATE", beat.state) == "idle"
        assert dialect.word("STEPMAP_REASON", beat.reason) == "booted"
        assert bytes(beat.schedule) == hashlib.sha256(schedule()).digest()[:8]  # that of the image
        assert not beat.flags & dialect.value("STEPMAP_FLAG_CALIBRATED")
        status = link.receive("LINK_STATUS", timeout=20.0)  # of after the answer to a ping of ours
        assert status is not None
        # A frame whose random bytes look like a header ends there, and counts as noise.
        assert len(heard_at_a) - 3 <= status.forged <= len(heard_at_a)
        assert 1 <= status.received <= len(line.frames) - replayed  # our own pings, which a slow board is sent again
        assert (status.bare, status.replayed) == (0, 0)


def test_an_upload_for_one_board_is_refused_by_another() -> None:
    """Though a holder of the key signs its frames for this one."""
    with board("native") as a, board("native") as b:
        tap = Tap(a.open())
        upload(Link(tap, KEY), small(), KEY)
        here = Link(b.open(), KEY)
        here.connect()
        [begin] = [m for m in map(dialect.decode, tap.frames) if m.name == "UPLOAD_BEGIN"]
        here.send("UPLOAD_BEGIN", **begin.fields)
        answer = here.receive("UPLOAD_STATUS", timeout=5.0)
        assert answer is not None
        assert answer.result == dialect.value("STEPMAP_RESULT_KEY")


def test_every_emulated_chip_is_another_board() -> None:
    found = set()
    for name in ("stm32f100", "stm32f405", "stm32f405"):
        with board(name) as it:
            beat = Link(it.open(), KEY).connect(timeout=20.0)
            assert isinstance(it, QemuBoard)
            assert bytes(beat.board_id) == it.board_id
            found.add(bytes(beat.board_id))
            it.reset()
            assert bytes(Link(it.open(), KEY).connect(timeout=20.0).board_id) == it.board_id
    assert len(found) == 3


def test_a_process_keeps_its_id_in_its_folder(tmp_path: Path) -> None:
    ids = []
    for folder in ("one", "one", "two"):
        with NativeBoard(firmware("native").program, regions=tmp_path / folder) as it:
            link = Link(it.open(), KEY)
            ids.append(bytes(link.connect().board_id))
            it.reset()
            link.connect()
            link.command("restart")
            assert bytes(link.connect().board_id) == ids[-1]
    assert ids[0] == ids[1] != ids[2]
    assert (tmp_path / "one" / "board_id").read_text() == ids[0].hex()


@pytest.mark.parametrize(("content", "told"), [("", "no id"), ("xyz", "no id"), ("0" * 25, "no id")])
def test_a_folder_with_half_an_id_is_refused(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "board_id").write_text(content)
    command = [firmware("native").program, "--regions", tmp_path]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 64
    assert f"{tmp_path}/board_id: {told}; remove it" in ended.stderr


def test_a_host_that_wants_one_board_speaks_to_no_other() -> None:
    with board("native") as it:
        link = Link(it.open(), KEY, board_id=bytes(12))
        with pytest.raises(LinkError, match=r"There is board [0-9a-f]{24} now, and 0{24} was expected"):
            link.connect(timeout=1.0)
        assert Link(it.open(), KEY, board_id=Link(it.open(), KEY).board_id).connect().trusted


def test_a_link_stays_with_the_board_that_answered() -> None:
    """A heartbeat of another board with the same key, signed as it should be, changes nothing."""
    with board("native") as a, board("native") as b:
        elsewhere = Link(b.open(), KEY)
        id_of_b = elsewhere.board_id
        link = Link(a.open(), KEY)
        id_of_a = bytes(link.connect().board_id)
        assert id_of_a != id_of_b
        told = dialect.Message("HEARTBEAT", {"protocol": 2, "board_id": id_of_b}, system=1, component=1)
        frame = dialect.encode(told, 0, key=KEY.of_board(id_of_b).link, timestamp=2**47)
        assert [*link._framer.feed(frame)] == []
        assert link.board_id == id_of_a
        assert link.ping() > 0


def test_a_board_with_another_schedule_is_not_armed() -> None:
    with board("native") as it:
        robot = Robot(it)
        upload(robot.link, other(), KEY)
        session = Session(robot.link, words(), schedule=hashlib.sha256(schedule()).digest()[:8])
        session.calibrate(at_start, [0, 0])
        with pytest.raises(LinkError, match=r"follows schedule [0-9a-f]{16}, and this job's is .*: upload it"):
            session.arm()
        assert robot.state() == "idle"
        upload(robot.link, schedule(), KEY)
        session.arm()
        assert robot.state() == "armed"


def test_a_board_without_memory_for_uploads_says_so() -> None:
    with board("stm32f100") as it:
        session = Session(Link(it.open(), KEY), words(), schedule=bytes(8))
        beat = session.connect(timeout=20.0)
        assert not beat.flags & dialect.value("STEPMAP_FLAG_TAKES_UPLOADS")
        with pytest.raises(LinkError, match="takes no uploads, so build and flash the job's firmware"):
            session.require_schedule(beat)
    with board("native") as it:
        assert Link(it.open(), KEY).connect().flags & dialect.value("STEPMAP_FLAG_TAKES_UPLOADS")
