"""What a depth camera sees of a system: a ball at each of its markers, the box of the robot it hangs from, and how
measurement channels follow from where these are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Distance
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.gaps import String
from stepmap.mechanics.gravity import gravity, upward
from stepmap.mechanics.quantity import Ball, Coordinate
from stepmap.mechanics.sensors import CoordinateSensor, Marker
from stepmap.mechanics.system import System
from stepmap_hil.depth import Sight

Reader = Callable[[Array, Array], float]  # of balls (n, 3) and robot (3,), in the system's axes
MANY = 8  # balls that a tracker tells apart


@dataclass(frozen=True, eq=False)
class Targets:
    """Frames with something a camera can see, and a reader per channel; None where a channel is an encoder's alone."""

    system: System
    balls: tuple[int, ...]  # frames
    box: int | None  # frame that the robot's box is at
    strings: tuple[tuple[int, int], ...]  # between targets: balls in their order, then the box
    readers: tuple[Reader | None, ...]
    turn: Array  # from the system's axes to those of the scene: x right, y up, z toward the camera

    @property
    def frames(self) -> list[int]:
        """Balls, then the box."""
        return [*self.balls, *([] if self.box is None else [self.box])]

    @property
    def encoders(self) -> list[int]:
        """Channels that no camera can read."""
        return [k for k, reader in enumerate(self.readers) if reader is None]

    def places(self, coordinates: Array) -> Array:
        """Where targets are at q̄ (..., n), in the axes of the scene: (..., target, 3)."""
        at: Array = self.system.positions(coordinates)[..., self.frames, :]
        return at if np.array_equal(self.turn, np.eye(3)) else at @ self.turn.T

    def read(self, sight: Sight) -> tuple[Array, Array]:
        """Values of all channels, and which of them were seen."""
        same = np.array_equal(self.turn, np.eye(3))
        balls, robot = (at if same else at @ self.turn for at in (sight.balls, sight.robot))
        z = np.array([np.nan if reader is None else reader(balls, robot) for reader in self.readers])
        valid = np.isfinite(z)
        return np.where(valid, z, 0.0), valid


def targets(system: System) -> Targets:
    """What a camera can see of a system; raises ModelError where that is nothing, or more than can be told apart."""
    balls = [sensor.frame.index for sensor in system.sensors if isinstance(sensor, Marker)]
    if not balls:
        channels = ", ".join(name for name, _ in system.sensor_channels)
        raise ModelError(
            f"a camera sees markers, and {system.name!r} has none: it measures {channels}",
            hint='Add b.marker(frame) to the system, or use the sensor "gaussian".',
        )
    balls = list(dict.fromkeys(balls))
    if len(balls) > MANY:
        raise ModelError(f"a camera tells {MANY} balls apart, and {system.name!r} has {len(balls)} markers")
    box = _box(system)
    seen = [*balls, *([] if box is None else [box])]
    tied = [(c.a.index, c.b.index) for c in system.constraints if isinstance(c, Distance)]
    strings = tuple((seen.index(a), seen.index(b)) for a, b in tied if a in seen and b in seen)
    readers: list[Reader | None] = []
    for sensor in system.sensors:
        if isinstance(sensor, Marker):
            k = balls.index(sensor.frame.index)
            readers += [_along(k, "xyz".index(axis)) for axis in sensor.axes]
        elif isinstance(sensor, CoordinateSensor):
            readers.append(_coordinate(system, sensor.coordinate, balls, box))
        else:
            readers += [None] * len(sensor.channels)
    return Targets(system, tuple(balls), box, strings, tuple(readers), axes_of_scene(system))


def all_seen(system: System) -> Targets:
    """The same of a real robot, whose channels are all read by the camera; raises ModelError where some are not."""
    found = targets(system)
    if found.encoders:
        names = ", ".join(system.sensor_channels[k][0] for k in found.encoders)
        raise ModelError(
            f"no camera can read {names} of {system.name!r}",
            hint='A real robot measures all channels with its camera, or all with the board: measure = "encoders" in '
            "[board] of the job.",
        )
    return found


def axes_of_scene(system: System) -> Array:
    """Rotation to x right, y up, z toward the camera: none where gravity is along −y or is none, else up becomes y."""
    if not gravity(system).any():
        return np.eye(3)
    up = upward(system)
    axis = int(np.argmax(np.abs(up)))
    right = np.eye(3)[0 if axis != 0 else 1]
    right = right - up * (right @ up)
    right /= np.linalg.norm(right)
    return np.array([right, up, np.cross(right, up)])


def _box(system: System) -> int | None:
    """The frame that strings are held at and that motors slide along the world's axes, where there is just one."""
    ends = {f.index: f for c in system.constraints if isinstance(c, Distance) for f in (c.a, c.b)}
    driven = [index for index, frame in ends.items() if _slides(frame) and all(c.kinematic for c in _slides(frame))]
    return driven[0] if len(driven) == 1 else None


def _slides(frame: Frame) -> list[Coordinate]:
    """Coordinates that displace a frame; none where something turns it or fixed transforms may."""
    found: list[Coordinate] = []
    at: Frame | None = frame
    while at is not None and at.motion is not None:
        if isinstance(at.motion.coordinate, Ball) or (at.motion.coordinate is not None and at.motion.turns):
            return []
        if at.motion.coordinate is not None:
            found.append(at.motion.coordinate)
        elif at.motion.kind not in ("tx", "ty", "tz"):
            return []
        at = at.parent
    return found


def _coordinate(system: System, coordinate: Coordinate, balls: Sequence[int], box: int | None) -> Reader | None:
    """A coordinate that displaces the box, or is the length of a string between a ball and the box that is always taut:
    of one that goes slack only the winch knows it."""
    if box is None:
        return None
    if coordinate in _slides(system.frames[box]):
        poses = np.array([system.configuration({coordinate.name: value}) for value in (0.0, 1.0)])
        zero, one = system.positions(poses)[:, box]
        axis = int(np.argmax(np.abs(one - zero)))
        return lambda _, robot: float(robot[axis] - zero[axis])
    for c in system.constraints:
        if isinstance(c, Distance) and not isinstance(c, String) and c.length is coordinate and box in _ends(c):
            other = c.a.index if c.b.index == box else c.b.index
            if other in balls:
                k = balls.index(other)
                return lambda at, robot: float(np.linalg.norm(robot - at[k]))
    return None


def _ends(c: Distance) -> tuple[int, int]:
    return c.a.index, c.b.index


def _along(ball: int, axis: int) -> Reader:
    return lambda balls, _: float(balls[ball, axis])
