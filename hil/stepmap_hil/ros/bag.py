"""A recording as a bag of rosbag2: a folder that `ros2 bag` plays.

Its storage is MCAP, which `ros2 bag` writes and reads by default since ROS 2 Iron; Humble reads it with the package
ros-humble-rosbag2-storage-mcap.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from pathlib import Path
from typing import Any, Literal

from stepmap.errors import ModelError
from stepmap_hil.ros.messages import Message, Messages, Topic
from stepmap_hil.ros.points import begin_of, clouds
from stepmap_hil.ros.ticks import Event, TickReader, signals
from stepmap_hil.runs.recording import RecordedRun

VERSION: Literal[8] = 8  # of the metadata: 9 has profiles of quality of service as older readers do not know them


def require_free(folder: Path) -> None:
    """Raises where something is in the place of a bag, which is never written over."""
    if folder.is_symlink() or folder.exists():
        raise ModelError(f"--rosbag: {folder} is there already", hint="Name a folder that is not there; it is made.")


def messages_of(file: Path, recorded: RecordedRun) -> Iterator[Message]:
    """Messages of a recording's closed loop, in the order of their stamps."""
    run, begun = recorded.closed, begin_of(file)
    simulated = run.plant == "simulated"
    made = Messages(signals(recorded.controller, recorded.job.name, simulated=simulated), recorded.job.system)
    reader = TickReader(recorded.controller, simulated=simulated)
    reader.followed = run.followed

    def stamp(time: float) -> int:
        return begun + round(time * 1e9)

    def of_ticks() -> Iterator[Message]:
        for row in run.rows:
            yield from made.of(reader.tick(row, stamp(row.time)))

    events = (made.event(Event(stamp(at), text)) for at, text in sorted(run.events))
    seen = (made.points(cloud.stamp, cloud.seen, cloud.packed) for cloud in clouds(file))
    yield from merge(of_ticks(), events, seen, key=lambda message: message.stamp)


def write_bag(folder: Path, file: Path, recorded: RecordedRun) -> Counter[str]:
    """Writes a bag; the messages of each topic in it.

    It is made beside its place and takes it when it is whole.
    """
    require_free(folder)
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".stepmap-", dir=folder.absolute().parent) as beside:
        made = Path(beside) / folder.absolute().name  # a bag's file has the name of its folder
        counts = _write(made, messages_of(file, recorded))
        require_free(folder)
        os.rename(made, folder)
    return counts


def _write(folder: Path, messages: Iterable[Message]) -> Counter[str]:
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

    from stepmap_hil.ros.messages import Types

    types, counts = Types(), Counter[str]()
    writer = Writer(folder, version=VERSION, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    known: dict[Topic, Any] = {}
    with writer:
        for message in messages:
            topic = message.topic
            if topic not in known:
                known[topic] = writer.add_connection(
                    topic.name, topic.type, typestore=types.store, offered_qos_profiles=[_offered(topic)]
                )
            writer.write(known[topic], message.stamp, message.data)
            counts[topic.name] += 1
    return counts


def _offered(topic: Topic) -> Any:
    """Reliable, with the depth of the topic; time limits as `ros2 bag record` writes where there are none."""
    from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

    never = QosTime(9223372036, 854775807)
    return Qos(
        history=QosHistory.KEEP_LAST,
        depth=topic.depth,
        reliability=QosReliability.RELIABLE,
        durability=QosDurability.TRANSIENT_LOCAL if topic.lasting else QosDurability.VOLATILE,
        deadline=never,
        lifespan=never,
        liveliness=QosLiveliness.AUTOMATIC,
        liveliness_lease_duration=never,
        avoid_ros_namespace_conventions=False,
    )
