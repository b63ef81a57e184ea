"""Recordings looked at again: ``stepmap replay`` and ``stepmap report``."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from stepmap import jobs
from stepmap.errors import ModelError
from stepmap.jobs import Job
from stepmap.steps.protocol import Trajectory
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_hil.board import Board
from stepmap_hil.dialect import Message
from stepmap_hil.faults import Result
from stepmap_hil.key import Key
from stepmap_hil.link import Link
from stepmap_hil.logbook import Row, Run
from stepmap_hil.record import Entry, Recording, read
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


@contextmanager
def job_file(recording: Recording, path: Path) -> Iterator[Path]:
    """The job of a recording as a file, while the block runs; `path` is for messages."""
    if "job.toml" not in recording.attachments or "solution.npz" not in recording.attachments:
        raise ModelError(f"{path} holds no job: it was made by another program, or ends before its first entry")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{recording.about['run']['job']}.toml"
        file.write_bytes(recording.attachments["job.toml"])
        for name, content in recording.attachments.items():
            if name.startswith("files/"):
                other = Path(folder) / Path(name.removeprefix("files/")).name
                other.write_bytes(content)
        yield file


def story(path: Path) -> Story:
    """What a recording tells; raises ModelError where it is none, or where this version makes another controller."""
    recording = read(path)
    about = recording.about["run"]
    with job_file(recording, path) as file:
        job = jobs.load(file)
        choices = generation.read_choices(file)
        packed = np.load(io.BytesIO(recording.attachments["solution.npz"]))
        trajectory = Trajectory(packed["t"], packed["x"], packed["u"])
        controller = generation.controller(job, trajectory, packed["gains"], choices)
    if controller.digest != about["model"]:
        raise ModelError(
            f"{path} was recorded with model {about['model']}, and this version makes {controller.digest} of its job: "
            f"use stepmap {about.get('stepmap', '')} as it was then"
        )
    closed = Run(
        about["job"], about["board"], about["mode"], about.get("plant", "simulated"), _rows(recording.of("/tick"))
    )
    closed.events = [(entry.content["at"], entry.content["text"]) for entry in recording.of("/event")]
    end = recording.about.get("end")
    closed.ended = "the recording ends here" if end is None else end["ended"]
    facts: dict[str, Any] = dict.fromkeys(("flash_bytes", "ram_bytes", "instructions_per_tick"))
    facts = {"seed": int(about["seed"]), "sensor": about["sensor"], **facts}
    if end is not None:
        closed.results = [Result(**result) for result in json.loads(end["results"])]
        closed.misses = int(end["misses"])
        facts = json.loads(end["facts"])
    rows = _rows(recording.of("/open_loop"))
    opened = Run(about["job"], about["board"], "lockstep", rows=rows) if rows else None
    sent = [entry.content for entry in recording.of("/sent")]
    return Story(job, choices, controller, closed, opened, facts, sent)


def _rows(entries: Sequence[Entry]) -> list[Row]:
    known = {f.name for f in fields(Row)}
    return [Row(**{name: value for name, value in entry.content.items() if name in known}) for entry in entries]


@dataclass(frozen=True)
class Comparison:
    """How a recording and its replay compare."""

    ticks: int  # recorded
    equal: int  # those the replay gave again
    first: str  # the first difference, in words; empty where there is none
    twin: bool | None  # whether the integer model on this computer says the same as the recording


def replay(told: Story, board: Board, key: Key) -> Comparison:
    """Sends a fresh board what was sent then, and compares what it says, bit for bit."""
    with board:
        link = Link(board.open(), key)
        link.connect()
        upload(link, told.controller.schedule.pack(), key)
        heard = _send_again(told, link, board)
    rows = told.closed.rows
    if told.closed.mode == "lockstep":
        by_time: dict[tuple[int, int], list[Message]] = {}
        for message in heard:
            by_time.setdefault((message.stamp_us, message.tick), []).append(message)
        pairs = [(row, _next(by_time.get((row.stamp_us, row.tick), []))) for row in rows]
    else:  # the board's own clock was recorded: ticks correspond by their order
        pairs = [(row, heard[k] if k < len(heard) else None) for k, row in enumerate(rows)]
    different = [(row, message) for row, message in pairs if message is None or not _same(row, message)]
    first = "" if not different else _difference(*different[0])
    return Comparison(len(rows), len(rows) - len(different), first, bit_exact(told.controller, told.closed))


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
