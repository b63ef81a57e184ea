"""A recorded run as identification takes it: commands and readings in SI units, from tick to tick without a gap."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from stepmap.errors import ModelError
from stepmap.identification import Observed
from stepmap_hil.runs.fault_verdict import MOVING
from stepmap_hil.runs.log import Row, Run
from stepmap_hil.runs.recording import RecordedRun
from stepmap_hil.wire.raw_values import SignalCodec

BLOW = re.compile(r"fault(?: by the operator)?: blow")  # the event that tells of one
FEWEST = 10  # ticks of a stretch that are worth a first state of their own


def observed(recorded: RecordedRun, name: str, *, open_loop: bool = False) -> list[Observed]:
    """The run's stretches of consecutive ticks while the motors moved; with ``open_loop`` those of feedforward alone.

    Raises ModelError where there are none.
    """
    run = recorded.opened if open_loop else recorded.closed
    codec = SignalCodec.parse(recorded.controller.description())
    layout, dt = recorded.job.step.layout, recorded.job.dt
    found: list[Observed] = []
    for rows in _stretches(run, dt):
        U = np.array([codec.decode("command", row.command) for row in rows[:-1]])
        Z = np.array([row.z for row in rows])
        bits = np.array([row.valid if row.measured else 0 for row in rows])
        valid = (bits[:, None] >> np.arange(Z.shape[1])) & 1 > 0
        guess = np.array([codec.decode("estimate", row.estimate) for row in rows])
        before = layout.hold(guess[0], U[0][: U.shape[1] - len(recorded.job.system.kinematic)])
        label = name if not found else f"{name}, from tick {rows[0].tick}"
        found.append(Observed(dt, U, Z, valid, before, guess, label))
    if not found:
        what = "open-loop ticks" if open_loop else "ticks"
        raise ModelError(f"{name}: has fewer than {FEWEST} {what} in a row in which the motors moved")
    return found


def _stretches(run: Run | None, dt: float) -> Iterator[list[Row]]:
    """Rows without a gap: where telemetry was lost, nobody knows the command; and nobody commanded a blow."""
    rows: list[Row] = []
    blows = [] if run is None else [time for time, text in run.events if BLOW.fullmatch(text)]
    for row in run.rows if run is not None else ():
        struck = any(abs(row.time - time) < 1.01 * dt for time in blows)
        moving = row.running and row.state in MOVING and not struck
        if rows and not (moving and row.tick == rows[-1].tick + 1):
            if len(rows) >= FEWEST:
                yield rows
            rows = []
        if moving:
            rows.append(row)
    if len(rows) >= FEWEST:
        yield rows
