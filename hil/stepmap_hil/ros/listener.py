"""The run listener of the bridge to ROS 2: hands over each tick and goes on at once, however long publishing takes."""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from stepmap.errors import LinkError
from stepmap.jobs.system import source_of
from stepmap_hil.bench.setup import Setup
from stepmap_hil.ros import keys
from stepmap_hil.ros.server import Asked
from stepmap_hil.ros.ticks import Event, Tick, TickReader, signals
from stepmap_hil.runs.followed import Followed
from stepmap_hil.runs.listener import RunListener
from stepmap_hil.runs.log import Row
from stepmap_hil.runs.pace import Pace
from stepmap_hil.wire.dialect import Message

STARTING = 120.0  # s; on a busy machine importing takes most of it
ENDING = 30.0  # s, at most; publishing never blocks, so only a starved process takes as long
WAITING = 256  # ticks, at most, until the bridge takes them; more are dropped


class RemoteBridge:
    """A bridge in another process; ticks that it has no time for are dropped and counted."""

    def __init__(self, asked: Asked) -> None:
        self.dropped = 0
        self.published: int | None = None  # messages, known at the end
        self._orders: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._answers: queue.Queue[tuple[str, str]] = queue.Queue()
        self._gone = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stepmap_hil.ros.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is ours to handle
        )
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._listen)]
        for thread in self._threads:
            thread.start()
        self._orders.put(pickle.dumps(asked))
        self.endpoint = self._started(asked)

    def _started(self, asked: Asked) -> str:
        """Where it listens."""
        try:
            word, text = self._answers.get(timeout=STARTING)
        except queue.Empty:
            word, text = "late", f"it did not start within {STARTING:g} s"
        if word == "listens":
            return text
        self.close()
        if asked.router is not None and word == "failed":
            raise LinkError(
                f"--ros-connect: no router of Zenoh answers at {asked.router}: {text}",
                hint="Start one (ros2 run rmw_zenoh_cpp rmw_zenohd), or leave the option out.",
            )
        raise LinkError(f"the bridge to ROS 2 did not start: {text or 'its output is above'}")

    def tell(self, told: Tick | Event) -> None:
        """Hands over; nothing waits here."""
        if self._gone.is_set():
            self.dropped += 1
            return
        try:
            self._orders.put_nowait(pickle.dumps(told))
        except queue.Full:
            self.dropped += 1

    def _send(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(OSError):
            while (order := self._orders.get()) is not None:
                pipe.write(order)
                pipe.flush()
        with suppress(OSError):
            pipe.close()

    def _listen(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        for line in pipe:
            word, _, text = line.decode(errors="replace").rstrip("\n").partition(" ")
            if word == "published":
                self.published = int(text)
            else:
                self._answers.put((word, text))
        self._gone.set()
        self._answers.put(("ended", ""))

    def close(self) -> None:
        """Ends the process when it has published what it was handed; calling it again does nothing."""
        with suppress(queue.Full):
            self._orders.put(None, timeout=ENDING)
        try:
            self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(ENDING)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RosRun(RunListener):
    """Tells a bridge of a run. Stamps are those of the computer's clock from the first tick on.

    ``paced``: a run in lock-step, which would be over before a tool of ROS has drawn it, goes no faster than its time.
    """

    def __init__(self, bridge: RemoteBridge, reader: TickReader, *, paced: bool) -> None:
        self.bridge, self.reader = bridge, reader
        self._pace = Pace(reader.controller.program.period) if paced else None
        self._begun: int | None = None  # ns since 1970 at time 0 of the run

    def _stamp(self, at: float) -> int:
        if self._begun is None:
            self._begun = time.time_ns() - round(at * 1e9)
        return self._begun + round(at * 1e9)

    def on_tick(self, row: Row, message: Message) -> None:
        self.bridge.tell(self.reader.tick(row, self._stamp(row.time), self.bridge.dropped))
        if self._pace is not None:
            self._pace.keep()

    def on_followed(self, told: Followed) -> None:
        self.reader.followed = {told.tick: told}

    def on_event(self, at: float, text: str) -> None:
        self.bridge.tell(Event(self._stamp(at), text))


@contextmanager
def bridged(setup: Setup, router: str | None) -> Iterator[RosRun]:
    """A bridge while the block runs; says where it is, and at the end what became of its messages."""
    known = signals(setup.controller, setup.job.name, simulated=not setup.rig.real)
    asked = Asked(source_of(setup.job), known, keys.domain(), router)
    with RemoteBridge(asked) as bridge:
        where = f"ROS 2: {known.namespace}/… in domain {asked.domain}; Zenoh at {bridge.endpoint}"
        print(where, file=sys.stderr, flush=True)
        reader = TickReader(setup.controller, simulated=known.simulated)
        yield RosRun(bridge, reader, paced=setup.mode != "realtime")
    if bridge.published is None:
        told = "ROS 2: the bridge ended before it could say what it published"
    else:
        told = f"ROS 2: {bridge.published} messages published"
    dropped = f", {bridge.dropped} ticks and events dropped" if bridge.dropped else ""
    print(told + dropped, file=sys.stderr, flush=True)
