"""The power goes at a write of an upload to the real firmware: the board starts again with the old or the new schedule.

`python -m tests.pil.power_cuts [EVERY]` does it with 32 KiB at every write, or at one in EVERY, and prints what was
found; it fails where a board was left without a schedule.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from stepmap.errors import StepmapError
from stepmap_hil.boards import NativeBoard
from stepmap_hil.boards.native import EXIT_POWER_CUT
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.upload import upload
from tests.pil.built import KEY, firmware
from tests.pil.schedules import large, name, other, small

BYTES = ("", ":0", ":4096000")  # of an operation that happen before the power goes: half, none and all of them


def begin(board: NativeBoard) -> tuple[Link, Message]:
    """A link to a board that was just started, and the heartbeat it starts with."""
    link = Link(board.open(), KEY)
    beat = link.receive("HEARTBEAT", timeout=5.0)
    assert beat is not None
    return link, beat


def with_schedule(blob: bytes, folder: Path) -> Path:
    """Regions of a board with an uploaded schedule."""
    with NativeBoard(firmware("native").program, regions=folder) as board:
        link = Link(board.open(), KEY)
        link.connect()
        upload(link, blob, KEY)
    return folder


def cut(regions: Path, number: int, part: str, old: bytes, new: bytes, next_one: bytes) -> str:
    """What is in use, "old" or "new", after the power went at a write; "whole" where there were not so many writes."""
    with NativeBoard(firmware("native").program, regions=regions, power_cut=f"{number}{part}") as board:
        told = False
        try:
            link, _ = begin(board)
            upload(link, new, KEY)
            told = True
        except StepmapError:
            assert board.wait() == EXIT_POWER_CUT
        else:
            board.child.stop()
        board.power_cut = None
        board.reset("power")
        link, beat = begin(board)
        found = {name(old): "old", name(new): "new"}[bytes(beat.schedule)]
        assert found == "new" or not told
        upload(link, next_one, KEY)
        board.reset()
        assert bytes(begin(board)[1].schedule) == name(next_one)
    return "whole" if told else found


def sweep(old: bytes, new: bytes, next_one: bytes, *, every: int = 1, parts: Sequence[str] = BYTES) -> Counter[str]:
    """How often "old" and "new" were in use after a cut at one in `every` of the "writes" from start to commit."""
    found = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        before = with_schedule(old, Path(folder, "before"))
        for number in itertools.count(1, every):
            results = []
            for part in parts:
                regions = shutil.copytree(before, Path(folder, "regions"), dirs_exist_ok=True)
                results.append(cut(regions, number, part, old, new, next_one))
            if "whole" in results:
                found["writes"] = number - 1
                break
            found.update(results)
    return found


def main(every: int) -> int:
    begun, new = time.monotonic(), large()
    found = sweep(other(), new, small(), every=every)
    cuts = found["old"] + found["new"]
    print(f"{cuts} cuts, {found['writes']} writes for {len(new)} bytes: {found['old']} old, {found['new']} new")
    print(f"never without a schedule, and each board took the next one; {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
