"""What a source of set-points is, and which one ``--reference`` names."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap_codegen.stream.settings import Stream
from stepmap_hil.setpoints.joystick import DEVICES, JoystickReference, is_device
from stepmap_hil.setpoints.table import read_table

JOYSTICK = "joystick"


class Source(Protocol):
    """Set-points of one run."""

    def at(self, t: float) -> Array | None:
        """Set-points [SI] for the time t [s] after the end of the plan; None where there is none."""

    def close(self) -> None: ...


class Reference(Protocol):
    """What set-points are made from; a run opens it."""

    @property
    def seconds(self) -> float:
        """How long it takes, after the end of the plan [s]."""

    @property
    def repeatable(self) -> bool:
        """Whether another run can follow the same set-points."""

    def open(self, start: Array) -> Source:
        """For a run whose plan ends at ``start``."""


def read_reference(given: str, stream: Stream | None, job: str) -> Reference:
    """What ``--reference`` names; raises before anything is solved where it is not what the job streams."""
    if stream is None:
        raise ModelError(
            f"--reference: job {job!r} streams no set-points",
            hint="Add the table [stream] to it, with the coordinates, their limits and rates (docs/streams.md).",
        )
    if given == JOYSTICK:
        found = sorted(path for pattern in DEVICES for path in Path("/dev/input").glob(pattern))
        if not found:
            raise ModelError(
                "--reference joystick: this computer has none (no /dev/input/js*)",
                hint="Plug one in, or name its device: --reference /dev/input/js0.",
            )
        return JoystickReference(found[0], stream)
    path = Path(given)
    if is_device(path):
        return JoystickReference(path, stream)
    return read_table(path, stream)
