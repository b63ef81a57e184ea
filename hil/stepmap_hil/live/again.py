"""A recording on the live page: a slider moves the mechanism, its estimate and its reference through the run."""

from __future__ import annotations

import numpy as np

from stepmap_hil.live.listener import given, outcome
from stepmap_hil.live.page import LivePage
from stepmap_hil.live.signals import Signals, frames
from stepmap_hil.runs.recording import RecordedRun


class AgainPage(LivePage):
    """The page of a run that is over: a browser that opens it plays it once."""

    recorded = True

    def __init__(self, recorded: RecordedRun, *, port: int = 0) -> None:
        controller, run = recorded.controller, recorded.closed
        signals = Signals(controller, recorded.facts.get("angles") or "rad", clock=not run.lockstep)
        signals.followed = run.followed
        shown = frames(signals, run.rows)
        around = np.array([row.coordinates for row in run.rows]).reshape(len(run.rows), -1)
        span = shown[-1].time if shown else 0.0
        super().__init__(
            f"{run.job} on {run.board}", controller.plant.step.system, port, **given(controller, signals, around, span)
        )
        for frame in shown:
            self._keep(frame)
        for at, text in run.events:
            self.note(text, signals.since_begin(at))
        if shown:
            self._draw(shown[0], slow=False)
        self.finish(*outcome(run))
