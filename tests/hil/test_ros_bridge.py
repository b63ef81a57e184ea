"""``stepmap bench --ros``: a second session of Zenoh, in a process of its own, hears the run as ROS 2 messages.

ROS 2 itself is not run here. Names, announcements and attachments are compared with those that the design document of
rmw_zenoh shows; bytes are decoded by mcap-ros2-support.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zenoh
from zenoh.ext import Int64, z_serialize

from stepmap.errors import ModelError
from stepmap.jobs.system import source_of
from stepmap_hil.faults.spec import operator_fault
from stepmap_hil.ros import keys, listener
from stepmap_hil.ros.keys import Keys, attachment, publisher_id
from stepmap_hil.ros.listener import RemoteBridge, RosRun
from stepmap_hil.ros.messages import Topic
from stepmap_hil.ros.server import Asked
from stepmap_hil.ros.ticks import Event, TickReader, signals
from stepmap_hil.runs.listener import Listeners, RunListener
from stepmap_hil.runs.mcap import read
from tests.hil.commands import build_folder, call, command
from tests.hil.rigs import rig
from tests.pil.built import ROOT
from tests.processes import TIED, wait_for

STRING = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
TALKER = (  # of docs/design.md of ros2/rmw_zenoh
    "@ros2_lv/2/8b20917502ee955ac4476e0266340d5c/0/10/MP/%/%/talker/%chatter/std_msgs::msg::dds_::String_/"
    f"{STRING}/::,7:,:,:,,"
)
LISTENER = "@ros2_lv/2/aac3178e146ba6f1fc6e6a4085e77f21/0/0/NN/%/%/listener"


@dataclass(frozen=True)
class Heard:
    """What another session heard of a run, and the run's own recording."""

    tokens: list[str]
    messages: list[dict[str, Any]]
    recording: Path
    said: str

    def of(self, topic: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["key"].split("/")[1:-2] == topic.split("/")]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def heard(build: Path) -> Heard:
    reader = [*TIED, sys.executable, "-m", "tests.hil.ros_reader"]
    with subprocess.Popen(reader, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            endpoint = process.stdout.readline().strip()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("ROS_DOMAIN_ID", "7")
                words = command(build, "--seconds", "1", "--no-open-loop", "--ros", "--ros-connect", endpoint)
                code, _, said = call(words)
            assert code == 0, said
            found = json.loads(process.stdout.readline())
        finally:
            process.kill()
    (run,) = (build / "suspended_mass" / "runs").glob("*-*/run.mcap")
    return Heard(found["tokens"], found["messages"], run, said)


def test_it_says_where_it_is_and_what_it_did(heard: Heard) -> None:
    first, last = heard.said.splitlines()
    assert re.fullmatch(r"ROS 2: /suspended_mass/… in domain 7; Zenoh at tcp/127\.0\.0\.1:\d+", first)
    found = re.fullmatch(r"ROS 2: (\d+) messages published", last)  # none dropped
    assert found
    assert int(found[1]) >= len(heard.messages) > 100


@pytest.mark.parametrize("topic", ["plant", "estimate", "reference"])
def test_another_session_reads_what_is_recorded(heard: Heard, topic: str) -> None:
    entries, told = read(heard.recording).of(f"/{topic}"), heard.of(f"suspended_mass/{topic}")
    assert len(told) > len(entries) / 2  # a network that is slower than the run drops some
    begins = set()
    for message in told:
        sequence, stamp, count = struct.unpack_from("<qqB", bytes.fromhex(message["attachment"]))
        entry = entries[sequence - 1]
        assert dict(zip(message["name"], message["position"], strict=True)) == {
            name: entry.content[name] for name in ("xm", "ym", "xr", "r")
        }
        assert (stamp, count) == (message["stamp"], 16)
        begins.add(stamp - round(entry.time * 1e9))
    assert len(begins) == 1  # one clock, that of the wall
    assert abs(begins.pop() - entries[0].stamp_ns) < 3600e9


def test_commands_and_events_are_told(heard: Heard) -> None:
    recorded = read(heard.recording)
    for message in heard.of("suspended_mass/command"):
        (sequence,) = struct.unpack_from("<q", bytes.fromhex(message["attachment"]))
        told = {f"{name}_next": value for name, value in zip(message["name"], message["position"], strict=True)}
        assert told == recorded.of("/command")[sequence - 1].content
        assert message["effort"] == []
    texts = {entry.content["text"] for entry in recorded.of("/event")}
    assert {message["text"] for message in heard.of("rosout")} <= texts
    assert heard.of("tf")
    assert heard.of("diagnostics")


def test_publishers_are_announced_as_rmw_zenoh_does(heard: Heard) -> None:
    node, *publishers = sorted(heard.tokens, key=lambda token: int(token.split("/")[4]))
    assert re.fullmatch(r"@ros2_lv/7/[0-9a-f]+/0/0/NN/%/%suspended_mass/stepmap", node)
    announced = {}
    for number, token in enumerate(publishers, start=1):
        _, domain, session, of_node, own, kind, enclave, place, name, topic, kind_of, digest, quality = token.split("/")
        assert (domain, session, of_node, own) == ("7", node.split("/")[2], "0", str(number))
        assert (kind, enclave, place, name) == ("MP", "%", "%suspended_mass", "stepmap")
        assert re.fullmatch(r"::,\d+:,:,:,,", quality)
        announced[f"7{topic.replace('%', '/')}/{kind_of}/{digest}"] = publisher_id(token).hex()
    assert {(m["key"], m["attachment"][-32:]) for m in heard.messages} == set(announced.items())


def test_names_are_those_of_the_design_document() -> None:
    chatter = Topic("/chatter", "std_msgs/msg/String", depth=7)
    made = Keys(2, "8b20917502ee955ac4476e0266340d5c", "/")
    assert made.publisher(10, chatter, STRING).replace("/stepmap/", "/talker/") == TALKER
    node = Keys(2, "aac3178e146ba6f1fc6e6a4085e77f21", "/").node()
    assert node.replace("/stepmap", "/listener") == LISTENER
    assert Keys(0, "1", "/").topic(chatter, STRING) == f"0/chatter/std_msgs::msg::dds_::String_/{STRING}"
    robot = Topic("/robot1/chatter", "std_msgs/msg/String")
    assert Keys(0, "1", "/").topic(robot, STRING) == f"0/robot1/chatter/std_msgs::msg::dds_::String_/{STRING}"


def test_attachments_are_serialized_as_zenoh_does() -> None:
    own = bytes(range(16))
    theirs = bytes(z_serialize((Int64(5), Int64(1_700_000_000_123_456_789), own)))
    assert attachment(5, 1_700_000_000_123_456_789, own) == theirs
    assert len(theirs) == 33
    # XXH3's own test: 128 bits of nothing are 99aa06d3014798d8 6001c324468d497f
    assert publisher_id("") == bytes.fromhex("6001c324468d497f")[::-1] + bytes.fromhex("99aa06d3014798d8")[::-1]


def asked() -> Asked:
    made = rig()
    return Asked(source_of(made.job), signals(made.controller, made.job.name, simulated=True), 0, None)


def test_a_bridge_that_is_held_up_holds_up_nothing() -> None:
    """Its process stands still: what it does not take is dropped, counted, and nothing waits for it."""
    count = 5 * listener.WAITING
    with RemoteBridge(asked()) as bridge:
        bridge._process.send_signal(signal.SIGSTOP)
        for number in range(count):
            bridge.tell(Event(number, "x" * 1000))
        assert bridge.dropped > count / 2
        bridge._process.send_signal(signal.SIGCONT)
        bridge.close()
    assert bridge.published == count - bridge.dropped


def test_a_bridge_that_died_ends_no_run() -> None:
    made = rig()
    with RemoteBridge(asked()) as bridge:
        run = RosRun(bridge, TickReader(made.controller, simulated=True), paced=False)
        bridge._process.kill()
        wait_for(bridge._gone.is_set, "its end")
        run.on_event(0.0, "running")
        assert not run.stop_requested()
        assert bridge.dropped == 1
    assert bridge.published is None


def test_without_a_router_it_listens_for_others() -> None:
    """Any session may connect to it; it listens on this computer only."""
    with RemoteBridge(asked()) as bridge:
        config = zenoh.Config()
        for name, value in {
            "mode": "client",
            "connect/endpoints": [bridge.endpoint],
            "scouting/multicast/enabled": False,
        }.items():
            config.insert_json5(name, json.dumps(value))
        with zenoh.open(config) as session:
            heard = session.declare_subscriber("0/rosout/**")
            found: list[Any] = []

            def told() -> bool:
                bridge.tell(Event(1, "hello"))
                while (sample := heard.try_recv()) is not None:
                    found.append(sample)
                return bool(found)

            wait_for(told, "an event of the bridge")
    assert b"hello" in bytes(found[0].payload)
    assert bridge.endpoint.startswith("tcp/127.0.0.1:")


def test_a_router_that_does_not_answer(build: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens
        endpoint = f"tcp/127.0.0.1:{closed.getsockname()[1]}"
        before = sorted((build / "suspended_mass" / "runs").glob("*"))
        code, _, said = call(command(build, "--ros", "--ros-connect", endpoint))
    assert code == 1
    assert f"error: --ros-connect: no router of Zenoh answers at {endpoint}" in said
    assert "rmw_zenohd" in said
    assert sorted((build / "suspended_mass" / "runs").glob("*")) == before


@pytest.mark.parametrize(
    ("options", "domain", "complaint"),
    [
        (["--ros-connect", "tcp/localhost:7447"], "", "--ros-connect: nothing is published"),
        (["--ros", "--ros-connect", "localhost"], "", "--ros-connect: 'localhost' is no endpoint of Zenoh"),
        (["--ros", "--ros-connect", "tcp/localhost:70000"], "", "--ros-connect: 'tcp/localhost:70000' is no endpoint"),
        (["--ros"], "300", "ROS_DOMAIN_ID is '300', and domains are 0 to 232"),
        (["--ros"], "one", "ROS_DOMAIN_ID is 'one', and domains are 0 to 232"),
    ],
)
def test_what_cannot_be_published_is_refused_before_any_work(
    options: list[str], domain: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    code, told, said = call(command(tmp_path / "build", *options))
    assert (code, told) == (2, "")
    assert said.startswith(f"error: {complaint}")
    assert list(tmp_path.iterdir()) == []


def test_domains_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    assert keys.domain() == 0
    monkeypatch.setenv("ROS_DOMAIN_ID", "42")
    assert keys.domain() == 42
    with pytest.raises(ModelError):
        keys.require_endpoint("tcp/:7447")
    keys.require_endpoint("tcp/[::1]:7447")


def test_several_listen_to_one_run() -> None:
    heard: list[tuple[str, Any]] = []

    class Noted(RunListener):
        injects_faults = True

        def on_event(self, at: float, text: str) -> None:
            heard.append((text, at))

        def stop_requested(self) -> bool:
            return bool(heard)

        def requested_faults(self) -> list[Any]:
            return [operator_fault("motor stuck")]

    both = Listeners([RunListener(), Noted()])
    assert both.injects_faults
    assert not both.stop_requested()
    both.on_event(1.5, "running")
    assert heard == [("running", 1.5)]
    assert both.stop_requested()
    assert both.requested_faults() == [operator_fault("motor stuck")]
    assert not Listeners([]).stop_requested()
