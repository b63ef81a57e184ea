"""Alarms of boards: real pins of a process, and a recorded run that is repeated with them."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from stepmap.errors import LinkError
from stepmap_codegen.boards import NATIVE
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.boards.child import Child
from stepmap_hil.boards.serial import SerialBoard
from stepmap_hil.wire import dialect
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.upload import upload
from tests.hil.rigs import quiet, rig
from tests.pil.built import KEY, firmware, solution
from tests.processes import PATIENCE

SUPPLY = dialect.value("STEPMAP_ALARM_SUPPLY")


def test_a_supply_that_is_low_on_the_pins_of_a_process(tmp_path: Path) -> None:
    """The whole way: pin, fault, refused upload, a reset that does not help while it lasts, and one that does."""
    pins = np.memmap(tmp_path / "pins", dtype=np.int32, mode="w+", shape=2 + NATIVE.motors + NATIVE.encoders)
    child = Child([str(firmware("native").program), "--serial", "pty", "--pins", str(tmp_path / "pins")], remedy="none")
    try:
        deadline = time.monotonic() + PATIENCE
        while not child.log().startswith("/dev/") and time.monotonic() < deadline:
            time.sleep(0.01)
        with SerialBoard(child.log().split()[0]) as board:
            link = Link(board.open(), KEY)
            link.connect(PATIENCE)
            pins[-1] = SUPPLY
            low = until(link, ("fault", True))
            assert dialect.word("STEPMAP_REASON", low.reason) == "supply"
            assert pins[0] == 0  # the power stages
            with pytest.raises(LinkError, match="refused the schedule"):
                upload(link, solution()[1].schedule.pack(), KEY)
            link.command("reset_fault", timeout=PATIENCE)
            until(link, ("idle", True))  # for one step of the motor loop
            assert dialect.word("STEPMAP_REASON", until(link, ("fault", True)).reason) == "supply"
            pins[-1] = 0
            until(link, ("fault", False))  # the reason stays until a reset
            link.command("reset_fault", timeout=PATIENCE)
            until(link, ("idle", False))
            upload(link, solution()[1].schedule.pack(), KEY)
    finally:
        child.stop()


def until(link: Link, wanted: tuple[str, bool]) -> dialect.Message:
    """The next heartbeat with this state, and this opinion of the supply."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        message = link.receive("HEARTBEAT", timeout=PATIENCE)
        if message is not None:
            low = bool(message.flags & dialect.value("STEPMAP_FLAG_SUPPLY_LOW"))
            if (dialect.word("STEPMAP_STATE", message.state), low) == wanted:
                return message
    raise AssertionError(f"the board does not come to {wanted}")


def test_lost_edges_end_a_run_alike_on_every_board() -> None:
    runs = [closed_loop(rig(board, faults="lost_edges", ticks=40), None, quiet) for board in ("native", "stm32f100")]
    assert [[result.ok for result in run.results] for run in runs] == [[True], [True]]
    assert runs[0].digest() == runs[1].digest()
