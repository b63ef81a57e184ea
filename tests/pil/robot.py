"""A board in lock-step with a robot that does exactly what it is told: motors are at the end of a tick where the
command wants them, and measurements were recorded before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from stepmap_hil.boards.base import Board
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.session import Session
from tests.pil.built import KEY, job, solution

SUBSTEPS = 4
COUNTS = 20000  # a metre, as [board] of the job has it

Measured = tuple[list[int], int]  # words, valid channels


@cache
def words() -> SignalCodec:
    return SignalCodec.parse(solution()[1].description())


@cache
def recorded(ticks: int, seed: int = 3) -> tuple[Measured, ...]:
    """Noisy measurements along the trajectory; every seventh time the camera does not see the robot."""
    rng = np.random.default_rng(seed)
    trajectory, noise = solution()[0], job().noise
    assert noise is not None
    found: list[Measured] = []
    for k in range(ticks):
        x = trajectory.x[min(k, len(trajectory.x) - 1)]
        truth = np.asarray(job().step.system.readings(x[:4]))
        seen = truth + noise.measurement * rng.standard_normal(4)
        found.append((words().encode("measurement", seen), 15 if k % 7 else 3))
    return tuple(found)


def at_start() -> Measured:
    """What a perfect camera sees before the run."""
    truth = job().step.system.readings(solution()[0].x[0][:4])
    return words().encode("measurement", np.asarray(truth)), 15


@dataclass
class Robot:
    """The session with a board, and where its motors are."""

    board: Board
    session: Session = field(init=False)
    counts: list[int] = field(default_factory=lambda: [0, 0])
    efforts: list[tuple[int, ...]] = field(default_factory=list)
    enabled: bool = False

    def __post_init__(self) -> None:
        self.session = Session(Link(self.board.open(), KEY), words())
        self.session.connect(timeout=20.0)

    @property
    def link(self) -> Link:
        return self.session.link

    def state(self) -> str:
        return dialect.word("STEPMAP_STATE", self.session.state().state)

    def prepare(self) -> None:
        """Idle to armed, with one measurement taken in."""
        self.session.calibrate(at_start, self.counts)
        self.session.arm()
        self.tick(at_start())

    def tick(self, measured: Measured, *, follow: bool = True) -> Message:
        """One measurement, and a period in which the motors get where the command wants them."""
        *_, told = self.session.tick(*measured)
        start = solution()[0].x[0][2:4]
        goal = (words().decode("command", told.command) - start) * COUNTS
        self.move([round(g) for g in goal] if follow else self.counts)
        return told

    def move(self, goal: Sequence[int]) -> None:
        """A period without a measurement."""
        begin = list(self.counts)
        for part in range(1, SUBSTEPS + 1):
            self.session.pass_time(1 / 30 / SUBSTEPS)
            self.counts = [b + (g - b) * part // SUBSTEPS for b, g in zip(begin, goal, strict=True)]
            answer = self.session.encoders(self.counts)
            self.efforts.append(answer.effort)
            self.enabled = answer.enabled
