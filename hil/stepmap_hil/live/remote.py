"""A live page in another process: a run hands over ticks and goes on at once, however long drawing takes."""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stepmap.errors import LinkError
from stepmap.jobs.system import SystemSource
from stepmap_hil.live.frame import CLOUD, LiveFrame

STARTING = 30.0  # s
ENDING = 3.0  # s
POINT_RATE = 16.0  # Hz, at most, of what a depth camera sees
WAITING = 64  # ticks, at most, until the page takes them; more are not shown


class RemotePage:
    """Has what `LivePage` has; ``system`` is where the system comes from: the page makes its own."""

    def __init__(self, title: str, system: SystemSource, **given: Any) -> None:
        self._stop = threading.Event()
        self._gone = threading.Event()
        self.opened = threading.Event()  # in a browser
        self._lock = threading.Lock()
        self._asked: list[str] = []
        self._points_due = 0.0
        self._points_shown = False
        self._orders: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stepmap_hil.live.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is ours to handle
        )
        self._addresses: queue.Queue[str] = queue.Queue()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._listen)]
        for thread in self._threads:
            thread.start()
        self._orders.put(pickle.dumps((system, {"title": title, **given})))
        try:
            self.url = self._addresses.get(timeout=STARTING)
        except queue.Empty:
            self.url = ""
        if not self.url:
            self.close()
            raise LinkError("the live page did not start; its output is above")

    # From the run; nothing here waits

    def update(self, frame: LiveFrame) -> None:
        with suppress(queue.Full):
            self._orders.put_nowait(pickle.dumps(("update", (frame,))))

    @property
    def wants_points(self) -> bool:
        """Whether points of the next tick may be drawn."""
        now = time.perf_counter()
        if not self._points_shown or now < self._points_due:
            return False
        self._points_due = now + 1 / POINT_RATE
        return True

    def wait(self, text: str) -> None:
        self._order("wait", text)

    def offer(self, faults: bool) -> None:
        self._order("offer", faults)

    def offer_points(self) -> None:
        self._order("offer_points")

    def saved(self, folder: Path) -> None:
        self._order("saved", folder)

    def note(self, text: str, at: float | None = None) -> None:
        self._order("note", text, at)

    def finish(self, state: str, reason: str = "") -> None:
        self._order("finish", state, reason)

    def _order(self, name: str, *arguments: Any) -> None:
        """Orders other than ticks are few, so the queue has room unless the page has ended."""
        with suppress(queue.Full):
            self._orders.put(pickle.dumps((name, arguments)), timeout=0.0 if self._gone.is_set() else 0.1)

    # From the user

    @property
    def stop_requested(self) -> bool:
        """Whether STOP was pressed, or cannot be pressed any more."""
        return self._stop.is_set() or self._gone.is_set()

    def injected(self) -> list[str]:
        """Faults asked for since the last call, in order."""
        with self._lock:
            asked, self._asked = self._asked, []
        return asked

    # The process

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
            word, _, rest = line.decode().rstrip("\n").partition(" ")
            if word == "stop":
                self._stop.set()
            elif word == "fault":
                with self._lock:
                    self._asked.append(rest)
            elif word == "opened":
                self.opened.set()
            elif word == "layer":
                self._points_shown = rest == f"{CLOUD} on" or (self._points_shown and not rest.startswith(CLOUD))
            else:
                self._addresses.put(word)
        self._gone.set()
        self._addresses.put("")

    def close(self) -> None:
        """Ends the process when it has handled all orders; calling it again does nothing."""
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
