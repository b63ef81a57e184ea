"""A program that listens for ROS 2 messages in Zenoh, in a session of its own; it knows nothing of stepmap.

It prints where it listens, waits until a publisher of ROS 2 has come and gone, and prints what it was told as JSON.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import zenoh
from mcap.records import Schema
from mcap_ros2.decoder import DecoderFactory

LIMIT = 600.0  # s
JOINT_STATE = """\
std_msgs/Header header
string[] name
float64[] position
float64[] velocity
float64[] effort
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""  # as sensor_msgs/msg/JointState.msg has it
LOG = """\
builtin_interfaces/Time stamp
uint8 level
string name
string msg
string file
string function
uint32 line
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""  # as rcl_interfaces/msg/Log.msg has it


def decoder(name: str, definition: str) -> Callable[[bytes], Any]:
    schema = Schema(id=len(name), name=name, encoding="ros2msg", data=definition.encode())
    made = DecoderFactory().decoder_for("cdr", schema)
    assert made is not None
    return made


def main() -> None:
    joints = decoder("sensor_msgs/msg/JointState", JOINT_STATE)
    log = decoder("rcl_interfaces/msg/Log", LOG)
    came, gone = [], []
    messages: list[dict[str, Any]] = []
    over = threading.Event()

    def announced(sample: zenoh.Sample) -> None:
        (came if sample.kind == zenoh.SampleKind.PUT else gone).append(str(sample.key_expr))
        if came and set(came) == set(gone):
            over.set()

    def told(sample: zenoh.Sample) -> None:
        key, data = str(sample.key_expr), bytes(sample.payload)
        made: dict[str, Any] = {"key": key, "attachment": bytes(sample.attachment).hex() if sample.attachment else ""}
        if "JointState_" in key:
            one = joints(data)
            stamp = one.header.stamp.sec * 10**9 + one.header.stamp.nanosec
            made |= {"stamp": stamp, "name": one.name, "position": list(one.position), "effort": list(one.effort)}
        elif "Log_" in key:
            made["text"] = log(data).msg
        messages.append(made)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    config = zenoh.Config()
    for name, value in {
        "mode": "router",
        "listen/endpoints": [endpoint],
        "scouting/multicast/enabled": False,
    }.items():
        config.insert_json5(name, json.dumps(value))
    with zenoh.open(config) as session:
        session.liveliness().declare_subscriber("@ros2_lv/**", announced)
        session.declare_subscriber("**", told)
        print(endpoint, flush=True)
        assert over.wait(LIMIT)
    print(json.dumps({"tokens": came, "messages": messages}), flush=True)


if __name__ == "__main__":
    main()
