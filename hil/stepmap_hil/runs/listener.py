"""Who looks on while a board runs, and may take a hand in it: stops the robot, or makes something go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepmap_hil.faults.spec import Fault

if TYPE_CHECKING:
    from stepmap_hil.runs.log import Row, Run
    from stepmap_hil.wire.dialect import Message


class Onlooker:
    """Nobody: sees everything, does nothing. Those who do something override what they need."""

    injects = False
    """Whether ``faults`` may ever return any."""

    def meet(self, sensor: object) -> None:
        """What watches the plant, before the run."""

    def say(self, text: str) -> None:
        """What is being done before the run."""

    def hear(self, row: Row, message: Message) -> None:
        """A tick, and the telemetry it comes from."""

    def event(self, at: float, text: str) -> None:
        """Something that happened."""

    def over(self, run: Run) -> None:
        """How it ended; the robot stands."""

    def stops(self) -> bool:
        """Whether the robot shall stand still; once true it stays so."""
        return False

    def faults(self) -> Sequence[Fault]:
        """What shall go wrong from now on; asked once a tick."""
        return ()
