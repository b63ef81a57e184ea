"""Which schedule a board uses: the uploaded one where it fits the model, else that of the image, or none."""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import replace

import numpy as np
import pytest

from stepmap.errors import LinkError
from stepmap_codegen.emit.schedule import unpack
from stepmap_hil.wire import dialect
from stepmap_hil.wire.upload import upload
from tests.firmware.loop_board import KEY, VIRTUAL, LoopBoard, generated
from tests.firmware.loop_kinds import controller
from tests.firmware.loop_kit import arm, beat, calibrate, said

REGIONS, ROOM = 4, 128 * 1024  # of flash.h


def flash(board: LoopBoard) -> ctypes.Array[ctypes.c_char]:
    return (ctypes.c_char * (REGIONS * ROOM)).in_dll(board.core, "flash")


def changed(name: str) -> bytes:
    """The schedule of a job with another number in its last row."""
    schedule = unpack((generated(name) / "schedule.bin").read_bytes())
    rows = schedule.rows.copy()
    rows[-1, 0] += 1
    return replace(schedule, rows=rows).pack()


def used(board: LoopBoard) -> bytes:
    """The name of the schedule in use, as heartbeats tell it."""
    board.start()
    return bytes(beat(board).schedule)


def name(blob: bytes) -> bytes:
    return hashlib.sha256(blob).digest()[:8]


def test_a_schedule_must_stream_what_the_model_does() -> None:
    main, cart = LoopBoard(), LoopBoard("stream")
    main_one = unpack((generated("suspended_mass") / "schedule.bin").read_bytes())
    more = replace(main_one, tangent=np.zeros((2, main_one.rows.shape[1]), dtype=np.int64))
    less = replace(controller("stream").schedule, tangent=None)
    for board, wrong in ((main, more), (cart, less)):
        with pytest.raises(LinkError, match="not a schedule this firmware can read"):
            upload(board.link, wrong.pack(), KEY)
        assert (board.facts.uploaded, board.facts.has_schedule) == (0, 1)
    upload(cart.link, changed("stream"), KEY)
    assert cart.facts.uploaded == 1


def test_what_was_uploaded_for_another_firmware_is_not_used() -> None:
    """The memory of a board that gets the firmware of another job."""
    other, board = LoopBoard("stream"), LoopBoard()
    own = bytes(beat(board).schedule)
    upload(other.link, changed("stream"), KEY)
    flash(board)[:] = flash(other)[:]
    assert used(board) == own == name((generated("suspended_mass") / "schedule.bin").read_bytes())
    assert (board.facts.uploaded, board.facts.has_schedule) == (0, 1)
    upload(board.link, changed("suspended_mass"), KEY)
    assert used(board) == name(changed("suspended_mass"))


def test_a_board_without_a_schedule_waits_for_one() -> None:
    board = LoopBoard("unplanned")
    assert (board.facts.has_schedule, bytes(beat(board).schedule)) == (0, bytes(8))
    calibrate(board, *VIRTUAL, z=(0.0, 0.0), counts=(0, 0))
    answer = board.command("arm", *VIRTUAL)
    assert said(answer)[0] == "state"
    assert dialect.word("STEPMAP_REASON", answer.reason) == "no schedule"
    upload(board.link, changed("stream"), KEY)
    assert (board.facts.has_schedule, board.facts.uploaded) == (1, 1)
    arm(board, *VIRTUAL)
