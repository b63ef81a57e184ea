"""/points of a recording: what a depth camera sees, as Foxglove's PointCloud, a few times per second."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from stepmap_hil.runs.mcap import Recorder

MOST = 1000  # points of a frame: 12 kB, about half of that when packed
GRAIN = 2.0**-10  # m: digits below it are the camera's noise, and cost as much as the others
WORLD = "world"


@runtime_checkable
class SeesPoints(Protocol):
    """A sensor with a camera."""

    def points(self, most: int) -> np.ndarray: ...


class PointWriter:
    """Writes points of the sensor's last frame, ``rate`` times per second at most."""

    def __init__(self, recorder: Recorder, sensor: SeesPoints, rate: float) -> None:
        self.recorder, self.sensor, self.period = recorder, sensor, 1.0 / rate
        self.due = -np.inf

    def tick(self, time: float, frame: float) -> None:
        """Points at a time of the run, of the frame that was taken at ``frame``."""
        if time < self.due - 1e-9:
            return
        late = time > self.due + self.period  # also the first time: what was missed is not made up for
        self.due = (time if late else self.due) + self.period
        points = np.asarray(self.sensor.points(MOST), dtype=float)
        if len(points):
            self.recorder.write_proto("/points", time, self._cloud(points, frame))

    def _cloud(self, points: np.ndarray, frame: float) -> Any:
        from foxglove_schemas_protobuf.PackedElementField_pb2 import PackedElementField
        from foxglove_schemas_protobuf.PointCloud_pb2 import PointCloud

        data = (np.rint(points / GRAIN) * GRAIN).astype("<f4")
        made = PointCloud(frame_id=WORLD, point_stride=12, data=data.tobytes())
        made.timestamp.FromNanoseconds(self.recorder.stamp(frame))
        made.pose.orientation.w = 1.0
        for k, name in enumerate("xyz"):
            made.fields.add(name=name, offset=4 * k, type=PackedElementField.NumericType.Value("FLOAT32"))
        return made
