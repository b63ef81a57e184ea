"""What can go wrong with a camera."""

from __future__ import annotations

from stepmap.errors import StepmapError


class CameraError(StepmapError, OSError):
    """A camera that cannot be opened, sends nothing, or is gone; the text says what to do."""


class RecordingEnd(CameraError):  # noqa: N818  (an end, not a failure)
    """There are no more frames in a recording, or its feeder is gone."""


class CalibrationError(StepmapError, ValueError):
    """Observations that do not give a pose; the text says why."""
