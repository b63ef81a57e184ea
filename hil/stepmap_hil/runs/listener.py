"""Run listeners: follow a run while it goes on, may stop the robot and inject faults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stepmap_hil.faults.spec import Fault

if TYPE_CHECKING:
    from stepmap_hil.runs.followed import Followed
    from stepmap_hil.runs.log import Row, Run
    from stepmap_hil.wire.dialect import Message


class RunListener:
    """Ignores everything and asks for nothing. Listeners that do something override what they need."""

    injects_faults = False
    """Whether ``requested_faults`` may ever return any."""

    def on_start(self, sensor: object) -> None:
        """The sensor of the run is open; the board is started next."""

    def on_progress(self, text: str) -> None:
        """A step of the preparation begins."""

    def on_tick(self, row: Row, message: Message) -> None:
        """A tick was logged; ``message`` is its telemetry."""

    def on_followed(self, told: Followed) -> None:
        """The board has said what set-points it follows in the tick that is logged next."""

    def on_event(self, at: float, text: str) -> None:
        """An event was logged."""

    def on_end(self, run: Run) -> None:
        """The run is over; the robot stands."""

    def on_saved(self, folder: Path) -> None:
        """The report of the run is in a folder."""

    def stop_requested(self) -> bool:
        """Whether the robot shall stand still; once true it stays true."""
        return False

    def requested_faults(self) -> Sequence[Fault]:
        """Faults to inject from now on; asked once per tick."""
        return ()


class Listeners(RunListener):
    """Several listeners to one run, told in their order."""

    def __init__(self, listeners: Sequence[RunListener]) -> None:
        self.listeners = tuple(listeners)
        self.injects_faults = any(one.injects_faults for one in self.listeners)

    def on_start(self, sensor: object) -> None:
        for one in self.listeners:
            one.on_start(sensor)

    def on_progress(self, text: str) -> None:
        for one in self.listeners:
            one.on_progress(text)

    def on_tick(self, row: Row, message: Message) -> None:
        for one in self.listeners:
            one.on_tick(row, message)

    def on_followed(self, told: Followed) -> None:
        for one in self.listeners:
            one.on_followed(told)

    def on_event(self, at: float, text: str) -> None:
        for one in self.listeners:
            one.on_event(at, text)

    def on_end(self, run: Run) -> None:
        for one in self.listeners:
            one.on_end(run)

    def on_saved(self, folder: Path) -> None:
        for one in self.listeners:
            one.on_saved(folder)

    def stop_requested(self) -> bool:
        return any(one.stop_requested() for one in self.listeners)

    def requested_faults(self) -> Sequence[Fault]:
        return [fault for one in self.listeners for fault in one.requested_faults()]
