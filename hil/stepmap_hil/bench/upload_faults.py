"""The upload of a schedule before a run, and the faults that are injected into it."""

from __future__ import annotations

import hashlib

from stepmap.errors import LinkError, ModelError
from stepmap_hil.bench.setup import Setup
from stepmap_hil.boards import NativeBoard
from stepmap_hil.boards.base import Board, BoardError
from stepmap_hil.boards.native import EXIT_POWER_CUT
from stepmap_hil.faults.spec import UPLOADS, Fault, FaultVerdict
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.key import Key
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.upload import CHUNK, NAME, upload


def takes_uploads(heartbeat: Message) -> bool:
    """Whether a board has memory for a schedule; one without runs that of its image."""
    return bool(heartbeat.flags & dialect.value("STEPMAP_FLAG_TAKES_UPLOADS"))


def require_uploads(setup: Setup, *, takes: bool) -> None:
    uploads = [fault.kind for fault in setup.faults if fault.kind in UPLOADS]
    if uploads and not takes:
        raise ModelError(f"faults: {uploads[0]} happens to an upload, and {setup.firmware.board} takes none")


def bring_schedule(faults: tuple[Fault, ...], board: Board, link: Link, blob: bytes, key: Key) -> list[FaultVerdict]:
    """Uploads the schedule with the faults that are injected into uploads; it must be in use in the end."""
    results = []
    for fault in faults:
        if fault.kind == "wrong_schedule":
            results.append(_wrong_schedule(fault, link, blob, key))
        elif fault.kind == "brown_out":
            results.append(_brown_out(fault, board, link, blob, key))
    if not any(fault.kind == "brown_out" for fault in faults):
        upload(link, blob, key)
    return results


def _wrong_schedule(fault: Fault, link: Link, blob: bytes, key: Key) -> FaultVerdict:
    """One of another model; the board must refuse it."""
    other = blob[:8] + bytes(255 - b for b in blob[8:16]) + blob[16:]
    try:
        upload(link, other, key)
        seen, ok = "taken", False
    except LinkError as error:
        refusal, _ = dialect.cause_and_remedy("STEPMAP_RESULT", dialect.value("STEPMAP_RESULT_MODEL"))
        ok = error.cause == refusal
        seen = "refused, model" if ok else str(error)
    return FaultVerdict(fault.kind, fault.at, str(fault.expect), seen, ok and fault.expect.state == "refused")


def _brown_out(fault: Fault, board: Board, link: Link, blob: bytes, key: Key) -> FaultVerdict:
    """Power goes in the middle; afterwards the same upload must go through."""
    cut = _cut_power if isinstance(board, NativeBoard) else _reset_midway
    happened = cut(fault.amount, board, link, blob, key)
    heartbeat = link.connect()
    right = bytes(heartbeat.schedule) == hashlib.sha256(blob).digest()[:NAME]
    running = fault.expect.state == "running"  # no other end is foreseen
    parts = ("interrupted" if happened else "not interrupted", "then uploaded" if right else "then not in use")
    return FaultVerdict(fault.kind, fault.at, str(fault.expect), ", ".join(parts), happened and right and running)


def _cut_power(part: float, board: Board, link: Link, blob: bytes, key: Key) -> bool:
    """In the middle of a write, and back on."""
    if not isinstance(board, NativeBoard):
        raise TypeError("only a native board can lose its power")
    board.power_cut = f"{max(2, round(part * len(blob) / CHUNK))}:7"
    board.reset("power")
    link.connect()
    try:
        upload(link, blob, key)
        happened = False
    except (LinkError, BoardError):
        happened = board.wait() == EXIT_POWER_CUT
    board.power_cut = None
    board.reset("power")
    link.connect()
    upload(link, blob, key)
    return happened


def _reset_midway(part: float, board: Board, link: Link, blob: bytes, key: Key) -> bool:
    happened = False

    def progress(done: int, total: int) -> None:
        nonlocal happened
        if not happened and done >= part * total:
            happened = True
            board.reset()

    upload(link, blob, key, progress=progress)
    return happened
