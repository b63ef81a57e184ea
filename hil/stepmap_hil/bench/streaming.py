"""Set-points of a run: sent once per tick from the end of the plan on, and what the board said of them."""

from __future__ import annotations

from stepmap_codegen import Controller
from stepmap_hil.runs.log import RunLog
from stepmap_hil.setpoints.base import Reference
from stepmap_hil.wire.session import Session


class Streaming:
    """Sends what a source says, where there is one, and logs what came of it."""

    def __init__(self, controller: Controller, reference: Reference | None, session: Session, log: RunLog) -> None:
        stream, self.session, self.log = controller.plant.stream, session, log
        self.period = controller.program.period
        self.plan = (len(controller.schedule.rows) - 1) * self.period
        self.streams = stream is not None
        ends = controller.schedule.values()[-1]
        self.source = None if reference is None or stream is None else reference.open(ends[stream.states])

    def send(self, run_time: float) -> None:
        """Sends the set-point for a tick that is ``run_time`` [s] after the run began.

        The board moves there until the next tick, so it is that of the next tick.
        """
        after = run_time - self.plan + self.period
        if self.source is None or after < 1e-9:
            return
        values = self.source.at(after)
        if values is not None:
            self.session.set_point(self.session.codec.encode("set_point", values))

    def collect(self, time: float) -> None:
        """Logs what the board has said since the last call."""
        if self.streams:
            for message in self.session.followed():
                self.log.followed(time, message)

    def close(self) -> None:
        if self.source is not None:
            self.source.close()
