"""The bridge to ROS 2 in a process of its own: ``RemoteBridge`` starts it and speaks to it through pipes.

Ticks and events come in as pickles on its input; where it listens goes out as a line, and what it has published at the
end. It ends when its input ends, so also when the process that started it dies.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import sys
from dataclasses import dataclass
from typing import IO, Any

from stepmap.jobs.system import SystemSource
from stepmap_hil.ros.keys import Keys, attachment, publisher_id
from stepmap_hil.ros.messages import Message, Messages, Topic
from stepmap_hil.ros.ticks import Event, Signals, Tick

NICE = 5  # a run in real time comes first
ROUTER = "tcp/localhost:7447"  # where that of rmw_zenoh listens
ANSWERING_MS = 3000  # for a router that was named
TRIES = 3  # for a free port


@dataclass(frozen=True)
class Asked:
    """What a bridge is to publish, and where."""

    system: SystemSource
    signals: Signals
    domain: int
    router: str | None  # an endpoint that has to answer; None: the local one, now or later


class Bridge:
    """Publishers of a run's topics in a Zenoh session that listens on this computer only."""

    def __init__(self, asked: Asked) -> None:
        import zenoh

        self.messages = Messages(asked.signals, asked.system.make())
        self.session, self.endpoint = _opened(zenoh, asked.router)
        self.published = 0
        keys = Keys(asked.domain, str(self.session.zid()), asked.signals.namespace)
        liveliness = self.session.liveliness()
        self._tokens = [liveliness.declare_token(keys.node())]
        self._publishers: dict[Topic, _Publisher] = {}
        for number, topic in enumerate(self.messages.topics.live, start=1):
            digest = self.messages.types.hash(topic.type)
            token = keys.publisher(number, topic, digest)
            # Where the network is slower than the run, messages are dropped.
            way = self.session.declare_publisher(
                keys.topic(topic, digest), congestion_control=zenoh.CongestionControl.DROP
            )
            self._publishers[topic] = _Publisher(way, publisher_id(token))
            self._tokens.append(liveliness.declare_token(token))

    def take(self, told: Tick | Event) -> None:
        """Publishes what a tick or an event says."""
        for message in self.messages.of(told) if isinstance(told, Tick) else [self.messages.event(told)]:
            self._publishers[message.topic].put(message)
            self.published += 1

    def close(self) -> None:
        self.session.close()


class _Publisher:
    """Counts its messages, as readers of ROS 2 expect."""

    def __init__(self, way: Any, own: bytes) -> None:
        self.way, self.own, self.sequence = way, own, 0

    def put(self, message: Message) -> None:
        self.sequence += 1
        self.way.put(message.data, attachment=attachment(self.sequence, message.stamp, self.own))


def _opened(zenoh: Any, router: str | None) -> tuple[Any, str]:
    """A session of its own that listens on a free port of this computer, and the endpoint of that."""
    zenoh.init_log_from_env_or("off")  # what it says of retries is nothing to users of a bench
    for left in reversed(range(TRIES)):
        endpoint = f"tcp/127.0.0.1:{_free_port()}"
        try:
            return zenoh.open(_config(zenoh, endpoint, router)), endpoint
        except zenoh.ZError:
            if router is not None or not left:
                raise
    raise AssertionError("the last try returns or raises")


def _config(zenoh: Any, endpoint: str, router: str | None) -> Any:
    made = zenoh.Config()
    settings = {
        "mode": "peer",
        "listen/endpoints": [endpoint],
        "connect/endpoints": [router or ROUTER],
        "connect/timeout_ms": -1 if router is None else ANSWERING_MS,  # -1: goes on trying, and waits for nobody
        "connect/exit_on_failure": router is not None,
        "scouting/multicast/enabled": False,  # robots of others are none of ours, as rmw_zenoh has it
        "scouting/gossip/enabled": True,
    }
    for name, value in settings.items():
        made.insert_json5(name, json.dumps(value))
    return made


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(orders: IO[bytes], output: IO[str]) -> None:
    """Publishes what comes until the input ends."""
    asked = pickle.load(orders)
    try:
        bridge = Bridge(asked)
    except Exception as error:  # whatever it was: the run has not begun, and its user is told
        print(f"failed {error}", file=output, flush=True)
        return
    print(f"listens {bridge.endpoint}", file=output, flush=True)
    try:
        while True:
            try:
                bridge.take(pickle.load(orders))
            except EOFError:
                break
    finally:
        bridge.close()
    print(f"published {bridge.published}", file=output, flush=True)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this
    os.nice(NICE)
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no message
    serve(sys.stdin.buffer, output)


if __name__ == "__main__":
    main()
