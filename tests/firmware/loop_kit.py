"""The main job on a board of tests/firmware/loop_board.py: what a host says to it, and motors around it."""

from __future__ import annotations

import functools
import math

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen.emit.schedule import unpack
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from tests.firmware.loop_board import VIRTUAL, LoopBoard, generated

START = (0.0, 0.25, 0.0, 0.75)  # m: mass, robot and string of the main job before its run
COUNTS = 20000  # a metre
PERIOD = 33333  # µs
CALIBRATIONS = 64
RESULT = {name: dialect.value(f"STEPMAP_RESULT_{name}") for name in ("OK", "ARGUMENT", "BUSY", "STATE")}


def said(answer: Message) -> tuple[str, str, str]:
    """(result, state, reason) of an answer."""
    pairs = (("RESULT", answer.result), ("STATE", answer.state), ("REASON", answer.reason))
    result, state, reason = (dialect.word(f"STEPMAP_{enum}", number) for enum, number in pairs)
    return result, state, reason


def calibrate(board: LoopBoard, *options: str, z: tuple[float, ...] = START, counts: tuple[int, int] = (0, 0)) -> None:
    assert said(board.command("calibrate", *options))[0] == "ok"
    for _ in range(CALIBRATIONS):
        if "virtual_io" in options:
            board.encoders(*counts)
        board.measure(z)
        board.pass_time(0.02)
    assert board.reason == "calibrated"


def beat(board: LoopBoard) -> Message:
    """A heartbeat of now."""
    board.link.send("PING", sequence=1)  # so that the host believes what comes
    board.heard("HEARTBEAT")
    board.run(0.25)
    return board.heard("HEARTBEAT")[-1]


def arm(board: LoopBoard, *options: str) -> None:
    assert said(board.command("arm", *options)) == ("ok", "armed", "arm command")


def virtually_running(board: LoopBoard) -> None:
    calibrate(board, *VIRTUAL)
    arm(board, *VIRTUAL)
    tick(board)
    assert said(board.command("run")) == ("ok", "running", "run command")


@functools.cache
def reference(name: str) -> Array:
    """Reference states of a job, a row a tick."""
    return unpack((generated(name) / "schedule.bin").read_bytes()).values()


def view(board: LoopBoard, **off: float) -> tuple[float, ...]:
    """What a camera would see if all were as planned, plus something: mass, robot, string."""
    rows = reference("suspended_mass")
    planned = rows[min(board.facts.tick, len(rows) - 1), :4]
    return tuple(planned + np.array([off.get(name, off.get("all", 0.0)) for name in ("x", "y", "robot", "string")]))


def tick(board: LoopBoard, z: tuple[float, ...] | None = None, valid: int | None = None) -> list[Message]:
    """A measurement, and a period in which the motors get where they should."""
    board.measure(view(board) if z is None else z, valid)
    told = board.ticks()
    turn(board, PERIOD * 1e-6)
    return told


def turn(board: LoopBoard, seconds: float) -> Message | None:
    """Motors that get to their commands, in four parts."""
    goal, begin, answer = commanded(board), board.counts, None
    for part in range(1, 5):
        board.pass_time(seconds / 4)
        board.counts = [b + (g - b) * part // 4 for b, g in zip(begin, goal, strict=True)]
        answer = board.encoders(*board.counts)
    return answer


def commanded(board: LoopBoard) -> list[int]:
    """Commands as encoder counts; those of the start are 0."""
    u = board.words.decode("command", list(board.facts.applied))
    return [round(COUNTS * (v - s)) for v, s in zip(u, START[2:], strict=True)]


class Axis:
    """A motor that gets its speed at once: 60 000 counts/s at full effort."""

    def __init__(self) -> None:
        self.position = 0.0
        self.stuck = False

    def turn(self, effort: int, seconds: float) -> int:
        self.position += 0.0 if self.stuck else 60.0 * effort * seconds
        return math.floor(self.position)


class Rig:
    """The board with real motors in its own time; the camera sees the robot where it is, and the mass as planned."""

    def __init__(self, board: LoopBoard) -> None:
        self.board = board
        self.axes = [Axis(), Axis()]
        self.seen = True
        self.frame_us = 0
        self.told: list[Message] = []
        calibrate(board)
        arm(board)
        self.run(0.2)

    def run(self, seconds: float) -> None:
        board = self.board
        for _ in range(round(seconds * 1000)):
            board.run(0.001)
            facts = board.facts
            for k, axis in enumerate(self.axes):
                effort = facts.drives[k] if facts.enabled else 0
                board.core.board_encoder(k, axis.turn(effort, 0.001))
            self.frame_us += 1000
            if self.frame_us >= PERIOD:
                self.frame_us -= PERIOD
                if self.seen:
                    board.measure(self.view())
            self.told += board.ticks()

    def view(self) -> tuple[float, ...]:
        xr, r = (s + axis.position / COUNTS for s, axis in zip(START[2:], self.axes, strict=True))
        return *view(self.board)[:2], xr, r
