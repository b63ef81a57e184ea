"""Recordings looked at again: ``stepmap replay`` and ``stepmap report``."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from stepmap.errors import DamagedError, StepmapError
from stepmap_hil.boards.base import Board
from stepmap_hil.report.summary import bit_exact
from stepmap_hil.runs.log import Row
from stepmap_hil.runs.recording import RecordedRun
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.key import Key
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.session import VIRTUAL, Session
from stepmap_hil.wire.upload import upload


@dataclass(frozen=True)
class Comparison:
    """How a recording and its replay compare."""

    ticks: int  # recorded
    equal: int  # those the replay gave again
    first: str  # the first difference as a text; empty where there is none
    reference_equal: bool | None  # whether the bit-exact reference model gives the recorded ticks; None: not comparable
    left_out: int = 0  # ticks that cannot be replayed
    why: str = ""  # they cannot be replayed

    @property
    def compared(self) -> int:
        return self.ticks - self.left_out


def replay(recorded: RecordedRun, board: Board, key: Key) -> Comparison:
    """Sends the recorded messages to a fresh board, and compares its telemetry with the recorded ticks, bit for bit."""
    rows, why = (recorded.closed.rows, "") if recorded.closed.lockstep else _repeatable(recorded)
    with board:
        link = Link(board.open(), key)
        link.connect()
        upload(link, recorded.controller.schedule.pack(), key)
        telemetry = _telemetry(recorded, link, board, rows)
    by_tick: dict[tuple[int, ...], list[Message]] = {}
    for message in telemetry:
        by_tick.setdefault(_key(recorded, message), []).append(message)
    pairs = [(row, _next(by_tick.get(_key(recorded, row), []))) for row in rows]
    different = [(row, message) for row, message in pairs if message is None or not _same(row, message)]
    first = "" if not different else _difference(*different[0])
    ticks = len(recorded.closed.rows)
    equal = bit_exact(recorded.controller, recorded.closed)
    return Comparison(ticks, len(rows) - len(different), first, equal, ticks - len(rows), why)


def _telemetry(recorded: RecordedRun, link: Link, board: Board, rows: Sequence[Row]) -> list[Message]:
    """All telemetry in answer to what was sent then, as far as messages can carry it."""
    try:
        if recorded.closed.lockstep:
            return _send_again(recorded, link, board)
        return _VirtualTimeReplay(recorded, link).go(rows)
    except StepmapError:
        raise
    except (ValueError, LookupError, struct.error) as error:
        raise DamagedError(f"what was recorded cannot have been sent: {error}") from error


def _key(recorded: RecordedRun, tick: Row | Message) -> tuple[int, ...]:
    """What names a tick: when it was and, by the board's own clock, the measurement it followed."""
    return (tick.stamp_us if recorded.closed.lockstep else tick.sequence, tick.tick)


def _next(messages: list[Message]) -> Message | None:
    return messages.pop(0) if messages else None


def _same(row: Row, message: Message) -> bool:
    return (
        list(message.estimate[: len(row.estimate)]) == row.estimate
        and list(message.command[: len(row.command)]) == row.command
        and list(message.modes[: len(row.modes)]) == row.modes
        and (message.tick, message.taken, message.state) == (row.tick, row.taken, row.state)
    )


def _difference(row: Row, message: Message | None) -> str:
    if message is None:
        return f"tick {row.tick} at {row.time:.3f} s: the board did not report it"
    for name in ("estimate", "command", "modes"):
        then = getattr(row, name)
        now = list(getattr(message, name)[: len(then)])
        if then != now:
            return f"tick {row.tick} at {row.time:.3f} s: {name} was {then}, is {now}"
    then, now = [row.taken, row.state], [message.taken, message.state]
    return f"tick {row.tick} at {row.time:.3f} s: channels taken and state were {then}, are {now}"


def _send_again(recorded: RecordedRun, link: Link, board: Board) -> list[Message]:
    """All telemetry in answer to what was sent."""
    session = Session(link, SignalCodec.parse(recorded.controller.description()))
    session.connect()
    telemetry: list[Message] = []
    for sent in recorded.sent:
        session.stamp_us = sent["stamp_us"]
        kind = sent["kind"]
        if kind == "command":
            session.command(sent["text"], *(VIRTUAL if sent["text"] in ("calibrate", "arm") else ()))
        elif kind == "measurement":
            session.sequence = sent["sequence"] - 1
            telemetry += session.tick(sent["words"], sent["valid"])
        elif kind == "set_point":
            session.set_points = sent["sequence"] - 1
            session.set_point(sent["words"])
        elif kind == "encoder":
            session.ask_encoders(sent["words"], sent["valid"])
        elif kind == "reset":
            board.reset()
            link.connect()
        telemetry += session.ticks()
    return telemetry


REPEATABLE = ("ARMED", "RUNNING")  # states in which measurements and commands alone decide what a tick does
RESTING_COUNTS = (0, 0)  # encoders of a robot that stands


def _repeatable(recorded: RecordedRun) -> tuple[list[Row], str]:
    """The ticks that can be done again, and why there are no more of them."""
    if recorded.controller.encoders:
        return [], "the board ticked by its own clock, with its own encoders; a run in lock-step can be replayed"
    holding = dialect.value("STEPMAP_STREAM_HOLDING")
    calm = {dialect.value(f"STEPMAP_STATE_{name}") for name in REPEATABLE}
    sent = {one["sequence"] for one in recorded.sent if one["kind"] == "measurement"}
    rows: list[Row] = []
    for row in recorded.closed.rows:
        if row.state not in calm:
            state = dialect.word("STEPMAP_STATE", row.state)
            return rows, f"from {row.time:.3f} s on the board was {state}, which its clock or encoders may have decided"
        if row.running and rows and rows[-1].running and row.tick != rows[-1].tick + 1:
            return rows, f"telemetry is missing before tick {row.tick} at {row.time:.3f} s"
        if row.measured and row.sequence not in sent:
            return rows, f"the measurement of tick {row.tick} at {row.time:.3f} s is missing"
        told = recorded.closed.followed.get(row.tick) if row.running else None
        if told is not None and told.sequence > 0 and told.state == holding:
            return rows, f"from {row.time:.3f} s on set-points did not come, and the board's clock decided when"
        rows.append(row)
    return rows, ""


class _VirtualTimeReplay:
    """Replays a run in real time in virtual time, one tick per period.

    The board's own clock had decided which ticks ran without a measurement. For each of those in the recording virtual
    time passes until the board stops waiting for one. Encoder counts were not recorded. They affect neither estimates
    nor commands, so they rest here, and no motor command is checked against them.
    """

    def __init__(self, recorded: RecordedRun, link: Link) -> None:
        self.session = Session(link, SignalCodec.parse(recorded.controller.description()))
        self.period_us = round(recorded.controller.program.period * 1e6)
        self.sent = recorded.sent
        self.set_points, self.followed = recorded.closed.set_points, recorded.closed.followed
        self.measurements = {one["sequence"]: one for one in recorded.sent if one["kind"] == "measurement"}
        self._last = 0  # number of the last measurement

    def go(self, rows: Sequence[Row]) -> list[Message]:
        """Telemetry of all ticks."""
        if not rows:
            return []
        self.session.connect()
        self._calibrate()
        self.session.arm()
        self.session.ask_encoders(RESTING_COUNTS)  # time passes from the stamp of the first message on
        begin, telemetry, running = self.session.stamp_us, self.session.ticks(), False
        for k, row in enumerate(rows):
            if row.running and not running:
                self.session.run()
                running = True
            if row.running:
                self._set_point(row)
            due = begin + k * self.period_us
            if row.measured:
                telemetry += self._measure(row.sequence, due)
            else:
                telemetry += self._wait(due + self.period_us // 2 + 1, running)
        return telemetry

    def _set_point(self, row: Row) -> None:
        """Sends the last set-point that the board had for a tick; each again, so that none is missed for too long."""
        told = self.followed.get(row.tick)
        sent = None if told is None else self.set_points.get(told.sequence)
        if told is not None and sent is not None:
            self.session.set_points = told.sequence - 1
            self.session.set_point(sent)

    def _calibrate(self) -> None:
        """With the measurements before the command to arm."""
        self.session.command("calibrate", *VIRTUAL)
        asked = False
        for one in self.sent:
            if one["kind"] == "command":
                asked = asked or one["text"] == "calibrate"
                if one["text"] == "arm":
                    return
            elif asked and one["kind"] == "measurement":
                self.session.pass_time(0.02)
                self._measure(one["sequence"], self.session.stamp_us)

    def _measure(self, sequence: int, stamp_us: int) -> list[Message]:
        one = self.measurements[sequence]
        self._last = sequence
        self.session.sequence, self.session.stamp_us = sequence - 1, stamp_us & 0xFFFFFFFF
        return self.session.tick(one["words"], one["valid"])

    def _wait(self, stamp_us: int, running: bool) -> list[Message]:
        """Telemetry after time has passed. A running board gets the time from an old measurement, which it rejects:
        encoder counts at rest would make its motors fail."""
        self.session.stamp_us = stamp_us & 0xFFFFFFFF
        if not running:
            self.session.ask_encoders(RESTING_COUNTS)
            return self.session.ticks()
        self.session.sequence = self._last - 1
        old = self.measurements[self._last]
        return self.session.tick(old["words"], 0)
