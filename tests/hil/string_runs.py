"""Runs of the mass on a string on emulated chips, and what their filters made of jerks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from stepmap.arrays import Array
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.bench.setup import Setup
from stepmap_hil.commands.bench.prepare import prepare
from stepmap_hil.commands.bench.request import Request, read
from stepmap_hil.report.series import series
from stepmap_hil.report.summary import bit_exact
from stepmap_hil.runs.diagnosis import Diagnosis
from stepmap_hil.runs.log import Run, errors
from stepmap_hil.runs.stage_times import StageClock
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.reasons import Reason
from tests.hil.rigs import quiet
from tests.pil.built import ROOT

FOLDER = ROOT / "examples" / "strings"
JOB, BLOWS, DROP = FOLDER / "suspended_mass_string.toml", FOLDER / "blow.toml", FOLDER / "drop.csv"
BOARDS = ("stm32f405", "stm32f100")
LONG = 0.05  # s; a string that the winch shakes opens for a few milliseconds
SETTLED = 1.0  # s, after which the first estimate does not matter any more


@dataclass(frozen=True)
class Rigs:
    """Setups by board and kind; all share one controller, and boards one firmware each. Sensors are Gaussian."""

    setups: dict[tuple[str, str], Setup]

    @classmethod
    def make(
        cls,
        build: Path,
        job: Path = JOB,
        blows: Path = BLOWS,
        drop: Path = DROP,
        kinds: Sequence[str] = ("blows", "drop"),
    ) -> Rigs:
        """Of a job; ``both`` is struck and then dropped."""
        made = {}
        for board in BOARDS:
            for kind in kinds:
                request = Request(
                    file=job,
                    board=board,
                    port=None,
                    sensor="gaussian",
                    seed=1,
                    mode="lockstep",
                    seconds=None,
                    reference=None if kind == "blows" else str(drop),
                    faults=None if kind == "drop" else blows,
                    open_loop=False,
                    key=None,
                    rig=None,
                    unattended=False,
                    live=False,
                    build=build,
                    runs=None,
                )
                made[board, kind] = prepare(request, read(request), StageClock()).setup
        return cls(made)

    def run(self, board: str, kind: str, seed: int) -> Judged:
        setup = replace(self.setups[board, kind], seed=seed)
        return Judged(setup, closed_loop(setup, None, quiet))


@dataclass(frozen=True)
class Judged:
    """A run with the setup it was made with."""

    setup: Setup
    run: Run

    @property
    def slack(self) -> list[tuple[float, float]]:
        """(begin, end) of each time for which the plant's string was open, since the command to run."""
        begin = next(row.time for row in self.run.rows if row.running)
        gaps = [event._replace(time=event.time - begin) for event in self.run.gaps]
        pairs = [(a.time, b.time) for a, b in pairwise(gaps) if a.kind == "release"]
        return [(a, b) for a, b in pairs if a > 0 and b - a > LONG]

    @property
    def modes(self) -> Array:
        """Whether the filter takes the string for closed, by tick of the run."""
        codec = SignalCodec.parse(self.setup.controller.description())
        return np.array([codec.closed(row.modes)["string"] for row in self.run.rows if row.running])

    @property
    def nis(self) -> Array:
        """Of each tick of the run: the mean over its channels, which the filter has accepted all."""
        seen = Diagnosis(self.setup.controller, self.run, Reason.NONE).ticks
        return np.array([np.mean(np.square(list(t.sigmas.values()))) for t in seen if t.row.running])


@dataclass(frozen=True)
class Figures:
    """What came of runs."""

    runs: int
    jerks: int
    found: int  # of them, within the time for which the string was open
    slack_ticks: int
    bit_exact: bool
    gated: int
    saturations: int
    stopped: int
    nis: float  # mean of two seconds from each jerk on
    health: float  # largest mean that the supervisor saw: over 16 ticks
    taut_error: float  # m RMS, of the mass's estimate, before the first jerk
    error_after: float  # m RMS, half a second after the catch


def figures(judged: Sequence[Judged]) -> Figures:
    taut, after, nis, health, found, open_ticks = [], [], [], 1.0, 0, 0
    for one in judged:
        controller = one.setup.controller
        s, phases, each, modes = series(controller, one.run), one.slack, one.nis, one.modes
        error = errors(controller, s.estimate, s.coordinates)
        taut.append(error[(s.time > SETTLED) & (s.time < phases[0][0])])
        for begin, end in phases:
            now = (s.time >= begin) & (s.time < end)
            open_ticks += int(now.sum())
            found += bool((~modes[now]).any())
            nis.append(each[(s.time >= begin) & (s.time < begin + 2.0)])
            after.append(error[np.abs(s.time - end - 0.5) <= 2.5 * controller.program.period])
        mean = 1.0
        for tick in each:
            mean += (tick - mean) / 16
            health = max(health, mean)
    rows = [one.run.rows[-1] for one in judged]
    return Figures(
        runs=len(judged),
        jerks=sum(len(one.slack) for one in judged),
        found=found,
        slack_ticks=open_ticks,
        bit_exact=all(bit_exact(one.setup.controller, one.run) is True for one in judged),
        gated=sum(row.gated for row in rows),
        saturations=sum(row.saturations for row in rows),
        stopped=sum(bool(one.run.ended) for one in judged),
        nis=float(np.concatenate(nis).mean()),
        health=health,
        taut_error=_rms(taut),
        error_after=_rms(after),
    )


def _rms(parts: Sequence[Array]) -> float:
    return float(np.sqrt(np.mean(np.concatenate(parts) ** 2)))
