"""ROS 2 messages of ticks and events, as CDR bytes, and the topics they go to.

Types are those of `common_interfaces`, `tf2_msgs` and `rcl_interfaces`, which every installation of ROS 2 has; their
definitions, their bytes and their type hashes come from rosbags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stepmap.errors import DamagedError
from stepmap.mechanics.system import System
from stepmap_hil.ros.frames import FramePoses
from stepmap_hil.ros.ticks import Event, Signals, Tick

JOINTS, FRAMES, NUMBERS = "sensor_msgs/msg/JointState", "tf2_msgs/msg/TFMessage", "std_msgs/msg/Float64MultiArray"
HEALTH, LOG, POINTS = "diagnostic_msgs/msg/DiagnosticArray", "rcl_interfaces/msg/Log", "sensor_msgs/msg/PointCloud2"
WORLD = "world"
AGAIN = 1_000_000_000  # ns after which a state that has not changed is told again
GOOD = ("boot", "idle", "calibrating", "armed", "running")
SECONDS = 2**31  # of a stamp: ROS 2 counts them in 32 bits, until 2038
COUNTS = ("saturations", "gated", "faults", "dropped by the bridge")


@dataclass(frozen=True)
class Topic:
    """A topic: its full name, its type, how many messages late readers may want, and whether they get them."""

    name: str
    type: str
    depth: int = 10
    lasting: bool = False  # transient local, as /rosout is everywhere


@dataclass(frozen=True)
class Message:
    """A message that is ready to be sent."""

    topic: Topic
    stamp: int  # ns since 1970
    data: bytes  # CDR, little endian, with its four bytes of encapsulation


class Topics:
    """The topics of a job, by the words they are called in this package."""

    def __init__(self, signals: Signals) -> None:
        here = signals.namespace
        self.plant = Topic(f"{here}/plant", JOINTS)
        self.estimate = Topic(f"{here}/estimate", JOINTS)
        self.state = Topic(f"{here}/estimate_state", NUMBERS)
        self.reference = Topic(f"{here}/reference", JOINTS)
        self.command = Topic(f"{here}/command", JOINTS)
        self.measurement = Topic(f"{here}/measurement", JOINTS)
        self.points = Topic(f"{here}/points", POINTS)
        self.frames = Topic("/tf", FRAMES, 100)
        self.health = Topic("/diagnostics", HEALTH)
        self.log = Topic("/rosout", LOG, 1000, lasting=True)
        always = (self.estimate, self.state, self.reference, self.command, self.measurement)
        shared = (self.frames, self.health, self.log)
        self.live = (*((self.plant,) if signals.simulated else ()), *always, *shared)


class Types:
    """Definitions of messages: makes them, their bytes and their hashes."""

    def __init__(self) -> None:
        from rosbags.typesys import Stores, get_typestore  # of an extra

        self.store = get_typestore(Stores.ROS2_JAZZY)

    def make(self, type: str, **fields: Any) -> Any:
        """A message of a type."""
        return self.store.types[type](**fields)

    def bytes(self, topic: Topic, message: Any) -> bytes:
        """A message as CDR."""
        return bytes(self.store.serialize_cdr(message, topic.type))

    def hash(self, type: str) -> str:
        """The hash of a type's definition, RIHS01_…, as ROS 2 computes it."""
        return str(self.store.hash_rihs01(type))

    def time(self, stamp: int) -> Any:
        """A stamp in nanoseconds since 1970."""
        seconds, nanoseconds = divmod(stamp, 1_000_000_000)
        if not 0 <= seconds < SECONDS:
            raise DamagedError(f"a message is stamped {stamp} ns after 1970, and ROS 2 has no such time")
        return self.make("builtin_interfaces/msg/Time", sec=seconds, nanosec=nanoseconds)

    def header(self, stamp: int, frame: str = "") -> Any:
        return self.make("std_msgs/msg/Header", stamp=self.time(stamp), frame_id=frame)


class Messages:
    """Messages of the ticks and events of one run, in their order."""

    def __init__(self, signals: Signals, system: System) -> None:
        self.signals, self.topics, self.types = signals, Topics(signals), Types()
        self._poses = FramePoses(system)
        self._told: tuple[str, str, tuple[int, ...]] | None = None
        self._again = 0

    def of(self, tick: Tick) -> Iterator[Message]:
        """All that a tick says."""
        names, count = self.signals, len(self.signals.coordinates)
        if tick.plant:
            yield self._joints(self.topics.plant, tick.stamp, names.coordinates, position=tick.plant)
        yield self._joints(self.topics.estimate, tick.stamp, names.coordinates, position=tick.estimate[:count])
        yield self._state(tick)
        yield self._joints(self.topics.reference, tick.stamp, names.coordinates, position=tick.reference[:count])
        yield self._command(tick)
        if tick.measured:
            yield self._joints(self.topics.measurement, tick.stamp, names.channels, position=tick.measured)
        yield self._frames(tick)
        told = (tick.state, tick.reason, tick.counts)
        if told != self._told or tick.stamp >= self._again:
            self._told, self._again = told, tick.stamp + AGAIN
            yield self._health(tick)

    def event(self, event: Event) -> Message:
        """An event as an entry of the log."""
        topic, types = self.topics.log, self.types
        message = types.make(
            LOG,
            stamp=types.time(event.stamp),
            level=30 if event.bad else 20,  # WARN, INFO
            name=self.signals.namespace.strip("/"),
            msg=event.text,
            file="",
            function="",
            line=0,
        )
        return Message(topic, event.stamp, types.bytes(topic, message))

    def points(self, stamp: int, seen: int, packed: bytes) -> Message:
        """What a depth camera saw: a cloud of x, y, z as 32-bit floats, taken at ``seen``, told at ``stamp``."""
        topic, types, count = self.topics.points, self.types, len(packed) // 12
        fields = [
            types.make("sensor_msgs/msg/PointField", name=name, offset=4 * k, datatype=7, count=1)
            for k, name in enumerate("xyz")
        ]
        message = types.make(
            POINTS,
            header=types.header(seen, WORLD),
            height=1,
            width=count,
            fields=fields,
            is_bigendian=False,
            point_step=12,
            row_step=12 * count,
            data=np.frombuffer(packed, dtype=np.uint8),
            is_dense=True,
        )
        return Message(topic, stamp, types.bytes(topic, message))

    # inside -----------------------------------------------------------------------------------------------------

    @cached_property
    def _layout(self) -> Any:
        """Names of the state in the label of its only dimension."""
        names = self.signals.states
        dimension = self.types.make(
            "std_msgs/msg/MultiArrayDimension", label=",".join(names), size=len(names), stride=len(names)
        )
        return self.types.make("std_msgs/msg/MultiArrayLayout", dim=[dimension], data_offset=0)

    def _joints(
        self, topic: Topic, stamp: int, names: Sequence[str], *, position: Sequence[float], effort: Sequence[float] = ()
    ) -> Message:
        """Values by name; a part without values is empty."""
        message = self.types.make(
            JOINTS,
            header=self.types.header(stamp),
            name=list(names),
            position=np.array(position, dtype=float),
            velocity=np.zeros(0),
            effort=np.array(effort, dtype=float),
        )
        return Message(topic, stamp, self.types.bytes(topic, message))

    def _state(self, tick: Tick) -> Message:
        message = self.types.make(NUMBERS, layout=self._layout, data=np.array(tick.estimate, dtype=float))
        return Message(self.topics.state, tick.stamp, self.types.bytes(self.topics.state, message))

    def _command(self, tick: Tick) -> Message:
        """Forces as effort and positions as position; NaN where an input is not of that kind."""
        forces, moved = self.signals.forces, self.signals.moved
        away = float("nan")
        position = [*[away] * len(forces), *tick.command[len(forces) :]] if moved else []
        effort = [*tick.command[: len(forces)], *[away] * len(moved)] if forces else []
        names = (*forces, *moved)
        return self._joints(self.topics.command, tick.stamp, names, position=position, effort=effort)

    def _frames(self, tick: Tick) -> Message:
        """Where frames are: those of the plant, or of the estimate where no plant is known."""
        make = self.types.make
        header = self.types.header(tick.stamp, WORLD)
        found = []
        for name, (x, y, z), (qx, qy, qz, qw) in self._poses.at(tick.plant or tick.estimate):
            turned = make("geometry_msgs/msg/Quaternion", x=qx, y=qy, z=qz, w=qw)
            moved = make("geometry_msgs/msg/Vector3", x=x, y=y, z=z)
            placed = make("geometry_msgs/msg/Transform", translation=moved, rotation=turned)
            found.append(
                make("geometry_msgs/msg/TransformStamped", header=header, child_frame_id=name, transform=placed)
            )
        message = make(FRAMES, transforms=found)
        return Message(self.topics.frames, tick.stamp, self.types.bytes(self.topics.frames, message))

    def _health(self, tick: Tick) -> Message:
        """The state of the supervisor: OK, a warning where the robot was stopped or holds, an error at a fault."""
        make, topic = self.types.make, self.topics.health
        told = {"state": tick.state, "tick": tick.tick, **dict(zip(COUNTS, tick.counts, strict=True))}
        status = make(
            "diagnostic_msgs/msg/DiagnosticStatus",
            level=0 if tick.state in GOOD else 2 if tick.state == "fault" else 1,
            name=f"{self.signals.namespace.strip('/')}: supervisor",
            message=f"{tick.state}: {tick.reason}" if tick.reason else tick.state,
            hardware_id="",
            values=[make("diagnostic_msgs/msg/KeyValue", key=key, value=str(value)) for key, value in told.items()],
        )
        message = make(HEALTH, header=self.types.header(tick.stamp), status=[status])
        return Message(topic, tick.stamp, self.types.bytes(topic, message))
