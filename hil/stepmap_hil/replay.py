"""Recordings looked at again: ``stepmap replay`` and ``stepmap report``."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stepmap import jobs
from stepmap.archives import read_arrays
from stepmap.arrays import Array
from stepmap.errors import DamagedError, JobError, ModelError, StepmapError
from stepmap.jobs import Job
from stepmap.jobs.tables import parse_text
from stepmap.steps.protocol import Trajectory
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_hil import dialect, recorded
from stepmap_hil.board import Board
from stepmap_hil.dialect import Message
from stepmap_hil.key import Key
from stepmap_hil.link import Link
from stepmap_hil.logbook import Row, Run
from stepmap_hil.record import Recording, read
from stepmap_hil.session import VIRTUAL, Session
from stepmap_hil.summary import bit_exact
from stepmap_hil.upload import upload
from stepmap_hil.words import Words


@dataclass(frozen=True)
class Story:
    """A recording as the run it is of."""

    job: Job
    choices: generation.Choices
    controller: Controller
    closed: Run
    opened: Run | None
    facts: dict[str, Any]
    sent: list[dict[str, Any]]


DAMAGED = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RuntimeError, AssertionError)
"""What comes of something else in place of a run's content."""
ATTACHED = "files/"  # before the names of files that the job names
ARRAYS = ("t", "x", "u", "gains")


def story(path: Path) -> Story:
    """What a recording tells; raises where it is none, or where this version makes another controller.

    It comes from elsewhere: nothing in it names a file of this computer, and what it says is checked before it is used.
    """
    recording = read(path)
    with blaming(path):
        return _told(recording, path)


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Makes whatever a damaged recording causes in the block a DamagedError that names it."""
    try:
        yield
    except (JobError, DamagedError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from None
    except StepmapError:
        raise
    except DAMAGED as error:
        raise DamagedError(f"{path} is damaged: {error}") from error


def _told(recording: Recording, path: Path) -> Story:
    about = recorded.About.read(recording.about["run"])
    if "job.toml" not in recording.attachments or "solution.npz" not in recording.attachments:
        raise ModelError(f"{path} holds no job: it was made by another program, or ends before its first entry")
    job, choices, controller = _designed(about.job, tuple(sorted(recording.attachments.items())))
    if controller.digest != about.model:
        raise ModelError(
            f"{path} was recorded with model {about.model}, and this version makes {controller.digest} of its job: "
            f"use stepmap {about.stepmap} as it was then"
        )
    words = Words.parse(controller.description())
    sizes = (words, len(job.system.coordinates))
    closed = Run(about.job, about.board, about.mode, about.plant, recorded.rows(recording.of("/tick"), *sizes))
    closed.board_id = recorded.board_id(recording.about.get("board", {}).get("id", ""))
    closed.events = [recorded.event(entry) for entry in recording.of("/event")]
    end = recording.about.get("end")
    closed.ended = (
        recorded.reason(recording.about.get("aborted", {}).get("why", "the recording ends here"))
        if end is None
        else recorded.reason(end["ended"])
    )
    facts: dict[str, Any] = dict.fromkeys(("flash_bytes", "ram_bytes", "instructions_per_tick"))
    facts = {"seed": about.seed, "sensor": about.sensor, **facts}
    if end is not None:
        closed.results = recorded.results(end["results"])
        closed.misses = recorded.misses(end["misses"])
        closed.suspects = recorded.suspects(end.get("suspects", "[]"))
        closed.stop = recorded.stop(end.get("stop", "null"))
        facts = recorded.facts(recording.about.get("facts", end)["facts"])  # at first without what takes time
    rows = recorded.rows(recording.of("/open_loop"), *sizes)
    opened = Run(about.job, about.board, "lockstep", rows=rows) if rows else None
    sent = [recorded.sent(entry, words) for entry in recording.of("/sent")]
    return Story(job, choices, controller, closed, opened, facts, sent)


@lru_cache(maxsize=4)
def _designed(name: str, attachments: tuple[tuple[str, bytes], ...]) -> tuple[Job, generation.Choices, Controller]:
    """The controller of a recorded job. To design it takes seconds, and recordings of one job are read in a row."""
    content = dict(attachments)
    root = parse_text(content["job.toml"], "job.toml", _files(content))
    job = jobs.parse(root, name)
    choices = generation.choices_in(root)
    packed = read_arrays(content["solution.npz"], ARRAYS)
    return job, choices, generation.controller(job, _trajectory(job, packed), packed["gains"], choices)


def _files(attachments: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that the job names, as it names them."""
    return {name.removeprefix(ATTACHED): data for name, data in attachments.items() if name.startswith(ATTACHED)}


def _trajectory(job: Job, packed: Mapping[str, Array]) -> Trajectory:
    steps, nx, nu = job.steps, job.step.nx, job.step.nu
    shapes = {"t": (steps + 1,), "x": (steps + 1, nx), "u": (steps, nu), "gains": (steps, nu, nx)}
    for name, shape in shapes.items():
        if packed[name].shape != shape or packed[name].dtype != float or not np.isfinite(packed[name]).all():
            raise DamagedError(f"its {name} are not {shape} finite numbers")
    return Trajectory(packed["t"], packed["x"], packed["u"])


@dataclass(frozen=True)
class Comparison:
    """How a recording and its replay compare."""

    ticks: int  # recorded
    equal: int  # those the replay gave again
    first: str  # the first difference, in words; empty where there is none
    twin: bool | None  # whether the integer model on this computer says the same as the recording
    left_out: int = 0  # ticks that cannot be done again
    why: str = ""  # they cannot, in words

    @property
    def compared(self) -> int:
        return self.ticks - self.left_out


def replay(told: Story, board: Board, key: Key) -> Comparison:
    """Sends a fresh board what was sent then, and compares what it says, bit for bit."""
    lockstep = told.closed.mode == "lockstep"
    rows, why = (told.closed.rows, "") if lockstep else _repeatable(told)
    with board:
        link = Link(board.open(), key)
        link.connect()
        upload(link, told.controller.schedule.pack(), key)
        heard = _heard(told, link, board, rows)
    by_tick: dict[tuple[int, ...], list[Message]] = {}
    for message in heard:
        by_tick.setdefault(_key(told, message), []).append(message)
    pairs = [(row, _next(by_tick.get(_key(told, row), []))) for row in rows]
    different = [(row, message) for row, message in pairs if message is None or not _same(row, message)]
    first = "" if not different else _difference(*different[0])
    recorded = len(told.closed.rows)
    twin = bit_exact(told.controller, told.closed)
    return Comparison(recorded, len(rows) - len(different), first, twin, recorded - len(rows), why)


def _heard(told: Story, link: Link, board: Board, rows: Sequence[Row]) -> list[Message]:
    """All telemetry in answer to what was sent then, as far as messages can carry it."""
    try:
        if told.closed.mode == "lockstep":
            return _send_again(told, link, board)
        return _Repetition(told, link).go(rows)
    except StepmapError:
        raise
    except (ValueError, LookupError, struct.error) as error:
        raise DamagedError(f"what was recorded cannot have been sent: {error}") from error


def _key(told: Story, tick: Row | Message) -> tuple[int, ...]:
    """What names a tick: when it was and, by the board's own clock, the measurement it followed."""
    return (tick.stamp_us if told.closed.mode == "lockstep" else tick.sequence, tick.tick)


def _next(messages: list[Message]) -> Message | None:
    return messages.pop(0) if messages else None


def _same(row: Row, message: Message) -> bool:
    return (
        list(message.estimate[: len(row.estimate)]) == row.estimate
        and list(message.command[: len(row.command)]) == row.command
        and (message.tick, message.taken, message.state) == (row.tick, row.taken, row.state)
    )


def _difference(row: Row, message: Message | None) -> str:
    if message is None:
        return f"tick {row.tick} at {row.time:.3f} s: the board says nothing about it"
    for name in ("estimate", "command"):
        then = getattr(row, name)
        now = list(getattr(message, name)[: len(then)])
        if then != now:
            return f"tick {row.tick} at {row.time:.3f} s: {name} was {then}, is {now}"
    then, now = [row.taken, row.state], [message.taken, message.state]
    return f"tick {row.tick} at {row.time:.3f} s: channels taken and state were {then}, are {now}"


def _send_again(told: Story, link: Link, board: Board) -> list[Message]:
    """All telemetry in answer to what was sent."""
    session = Session(link, Words.parse(told.controller.description()))
    session.connect()
    heard: list[Message] = []
    for sent in told.sent:
        session.stamp_us = sent["stamp_us"]
        kind = sent["kind"]
        if kind == "command":
            session.command(sent["text"], *(VIRTUAL if sent["text"] in ("calibrate", "arm") else ()))
        elif kind == "measurement":
            session.sequence = sent["sequence"] - 1
            heard += session.tick(sent["words"], sent["valid"])
        elif kind == "encoder":
            session.ask_encoders(sent["words"])
        elif kind == "reset":
            board.reset()
            link.connect()
        heard += session.ticks()
    return heard


# Runs by the board's own clock

CALM = ("ARMED", "RUNNING")  # states in which measurements and commands alone decide what a tick does
STILL = (0, 0)  # encoders of a robot that stands


def _repeatable(told: Story) -> tuple[list[Row], str]:
    """The ticks that can be done again, and why there are no more of them."""
    calm = {dialect.value(f"STEPMAP_STATE_{name}") for name in CALM}
    sent = {one["sequence"] for one in told.sent if one["kind"] == "measurement"}
    rows: list[Row] = []
    for row in told.closed.rows:
        if row.state not in calm:
            state = dialect.word("STEPMAP_STATE", row.state)
            return rows, f"from {row.time:.3f} s on the board was {state}, which its clock or encoders may have decided"
        if row.running and rows and rows[-1].running and row.tick != rows[-1].tick + 1:
            return rows, f"telemetry is missing before tick {row.tick} at {row.time:.3f} s"
        if row.measured and row.sequence not in sent:
            return rows, f"the measurement of tick {row.tick} at {row.time:.3f} s is missing"
        rows.append(row)
    return rows, ""


class _Repetition:
    """Ticks that a board did by its own clock, done again in virtual time, one a period.

    When a tick is done without a measurement the board's clock had decided; here the recorded ticks say it: for such a
    one time passes until the board does not wait any longer. Encoders were not recorded. They decide no estimate and
    no command, so they stand still here, and the motors are not asked to follow.
    """

    def __init__(self, told: Story, link: Link) -> None:
        self.session = Session(link, Words.parse(told.controller.description()))
        self.period_us = round(told.controller.program.period * 1e6)
        self.sent = told.sent
        self.measurements = {one["sequence"]: one for one in told.sent if one["kind"] == "measurement"}
        self._last = 0  # number of the last measurement

    def go(self, rows: Sequence[Row]) -> list[Message]:
        """Telemetry of all ticks."""
        if not rows:
            return []
        self.session.connect()
        self._calibrate()
        self.session.arm()
        self.session.ask_encoders(STILL)  # time passes from the stamp of the first message on
        begin, heard, running = self.session.stamp_us, self.session.ticks(), False
        for k, row in enumerate(rows):
            if row.running and not running:
                self.session.run()
                running = True
            due = begin + k * self.period_us
            if row.measured:
                heard += self._measure(row.sequence, due)
            else:
                heard += self._wait(due + self.period_us // 2 + 1, running)
        return heard

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
        """What the board says when time has passed. A running one hears it from an old measurement: it takes no notice
        of that, and its motors do not wonder why their encoders stand still."""
        self.session.stamp_us = stamp_us & 0xFFFFFFFF
        if not running:
            self.session.ask_encoders(STILL)
            return self.session.ticks()
        self.session.sequence = self._last - 1
        old = self.measurements[self._last]
        return self.session.tick(old["words"], 0)
