"""Schedules over the serial line to the real firmware, in the process and in an emulated chip."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from stepmap.errors import LinkError
from stepmap_codegen.schedule import unpack
from stepmap_hil import dialect
from stepmap_hil.boards import NativeBoard, QemuBoard
from stepmap_hil.dialect import Message
from stepmap_hil.link import Link
from stepmap_hil.upload import upload
from tests.pil.built import KEY, board, schedule
from tests.pil.robot import Robot

LARGE = 32 * 1024


def other(rows: int | None = None) -> bytes:
    """A schedule of the same model with other gains, and with more rows where they are asked for."""
    made = unpack(schedule())
    table = made.rows if rows is None else np.resize(made.rows, (rows, made.rows.shape[1]))
    return replace(made, rows=table + (np.arange(table.shape[1]) == 12)).pack()


def large() -> bytes:
    made = unpack(schedule())
    row = 4 * made.rows.shape[1]
    return other((LARGE - len(made.pack()) % 1000) // row)


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
    assert 26 * 1024 < len(blob) <= LARGE
    name = hashlib.sha256(blob).digest()[:8]
    assert bytes(beat(link).schedule) != name
    report = upload(link, blob, KEY)
    assert report.digest[:8] == name
    now = beat(link)
    assert bytes(now.schedule) == name
    assert now.flags & dialect.value("STEPMAP_FLAG_UPLOADED")
    again = upload(link, blob, KEY)
    assert again.chunks == 0  # it is there already
    it.reset()
    after = Link(it.open(), KEY)
    assert bytes(after.connect(timeout=20.0).schedule) == name


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
        with pytest.raises(LinkError, match="while the board is idle: stop it first"):
            upload(robot.link, other(), KEY)
        robot.session.stop()
        assert upload(robot.link, other(), KEY).chunks > 0


def test_a_chip_without_banks_says_that_it_has_none() -> None:
    with board("stm32f100") as it:
        link = Link(it.open(), KEY)
        link.connect(timeout=20.0)
        with pytest.raises(LinkError, match="no memory for uploads"):
            upload(link, other(), KEY)
