"""/tf, /scene and /log of a recording, as protobuf in Foxglove's schemas, and signals by name in SI units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.system import System
from stepmap_codegen import Controller
from stepmap_hil.runs.foxglove.points import WORLD, PointWriter, SeesPoints
from stepmap_hil.runs.mcap import Recorder
from stepmap_hil.wire import dialect

if TYPE_CHECKING:
    from stepmap.wireframe.skeleton import Skeleton
    from stepmap_hil.runs.log import Row

COLORS = {"plant": (0.0, 0.45, 0.70, 1.0), "estimate": (0.84, 0.37, 0.0, 0.6), "reference": (0.0, 0.62, 0.45, 0.5)}
BALL, STRING, LINK = 0.03, 0.004, 0.012  # of the size of the scene
BAD = ("fault", "stopped", "error")  # words in events that are warnings


class SceneWriter:
    """Writes what a viewer draws of each tick; importing the schemas takes a moment, so it is done here."""

    def __init__(self, recorder: Recorder, controller: Controller, *, simulated: bool) -> None:
        from stepmap.wireframe.skeleton import skeleton

        self.recorder, self.controller, self.simulated = recorder, controller, simulated
        step = controller.plant.step
        self.system: System = step.system
        self.pose, self.shape = step.layout.pose, skeleton(step.system)
        self.plan = controller.schedule.values()[:, : step.nx + step.nu]
        path = self.system.positions(self.pose(self.plan[:, : step.nx]))[:, self.shape.visible]
        self._points: PointWriter | None = None
        self.size = max(float(np.linalg.norm(np.ptp(path.reshape(-1, 3), axis=0))), 1e-3)

    def watch(self, sensor: object, rate: float) -> None:
        """From now on also what a depth camera sees, ``rate`` times per second; 0 for never."""
        if rate > 0 and isinstance(sensor, SeesPoints):
            self._points = PointWriter(self.recorder, sensor, rate)

    def tick(self, row: Row, estimate: Array, command: Array, frame: float) -> None:
        """One tick: frames, the mechanism in three colours, and signals by name; its ``frame`` was taken then [s]."""
        step = self.controller.plant.step
        planned = self.plan[min(row.tick, len(self.plan) - 1)]
        poses = {"estimate": self.pose(estimate), "reference": self.pose(planned[: step.nx])}
        if self.simulated:
            poses = {"plant": np.array(row.coordinates[: len(self.system.coordinates)]), **poses}
        places = dict(zip(poses, self.system.positions(np.array(list(poses.values()))), strict=True))
        first = next(iter(places.values()))
        self.recorder.write_proto("/tf", row.time, self._transforms(row.time, first))
        self.recorder.write_proto("/scene", row.time, self._scene(row.time, places))
        self._signals(row, planned, command, frame)
        if self._points is not None and row.measured:
            self._points.tick(row.time, frame)

    def _signals(self, row: Row, planned: Array, command: Array, frame: float) -> None:
        step = self.controller.plant.step
        write = self.recorder.write
        names = step.input_names
        write("/command", row.time, **_named(names, command))
        write("/reference", row.time, **_named(step.state_names, planned[: step.nx]))
        channels = [name for name, _ in self.system.sensor_channels]
        seen = {name: row.measured and bool(row.valid >> k & 1) for k, name in enumerate(channels)}
        if all(seen.values()):  # JSON has no number for what was not seen
            write("/measurement", row.time, **_named(channels, np.array(row.z)), frame_time=float(frame))
        write("/state", row.time, state=dialect.word("STEPMAP_STATE", row.state), tick=row.tick)

    def log(self, time: float, text: str) -> None:
        """An event, in words."""
        from foxglove_schemas_protobuf.Log_pb2 import Log

        made = Log(message=text, name="stepmap")
        made.level = Log.Level.Value("WARNING" if any(word in text for word in BAD) else "INFO")
        self._stamp(made.timestamp, time)
        self.recorder.write_proto("/log", time, made)

    def _transforms(self, time: float, places: Array) -> Any:
        """Where frames are; their axes are those of the world."""
        from foxglove_schemas_protobuf.FrameTransforms_pb2 import FrameTransforms

        made = FrameTransforms()
        for index in self.shape.visible:
            one = made.transforms.add(parent_frame_id=WORLD, child_frame_id=self.system.frames[index].name)
            self._stamp(one.timestamp, time)
            _point(one.translation, places[index])
            one.rotation.w = 1.0
        return made

    def _scene(self, time: float, places: dict[str, Array]) -> Any:
        from foxglove_schemas_protobuf.SceneUpdate_pb2 import SceneUpdate

        made = SceneUpdate()
        for name, at in places.items():
            entity = made.entities.add(frame_id=WORLD, id=name)
            self._stamp(entity.timestamp, time)
            _draw(entity, self.shape, at, COLORS[name], self.size)
        return made

    def _stamp(self, field: Any, time: float) -> None:
        field.FromNanoseconds(self.recorder.stamp(time))


def _draw(entity: Any, shape: Skeleton, at: Array, color: tuple[float, ...], size: float) -> None:
    """Masses as spheres, carts as cubes, links and strings as thick lines."""
    heaviest = max((mass for _, mass in shape.masses), default=1.0)
    for index, mass in shape.masses:
        if index in shape.carts:
            continue
        ball = entity.spheres.add()
        wide = BALL * size * max(float(np.cbrt(mass / heaviest)), 0.3)
        _place(ball, at[index], (wide, wide, wide), color)
    for index in shape.carts:
        _place(entity.cubes.add(), at[index], (BALL * size,) * 3, color)
    for pairs, wide in ((shape.links, LINK), ((*shape.strings, *shape.springs), STRING)):
        if not pairs:
            continue
        line = entity.lines.add(thickness=wide * size)
        line.type = line.Type.Value("LINE_LIST")
        line.pose.orientation.w = 1.0
        _color(line.color, color)
        for pair in pairs:
            for index in pair:
                _point(line.points.add(), at[index])


def _place(solid: Any, at: Array, size: tuple[float, ...], color: tuple[float, ...]) -> None:
    _point(solid.pose.position, at)
    solid.pose.orientation.w = 1.0
    _point(solid.size, np.array(size))
    _color(solid.color, color)


def _point(field: Any, at: Array) -> None:
    field.x, field.y, field.z = (float(v) for v in at)


def _color(field: Any, color: tuple[float, ...]) -> None:
    field.r, field.g, field.b, field.a = color


def _named(names: Any, values: Array) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}
