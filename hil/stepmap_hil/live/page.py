"""The page itself: a server on this machine's own address, with the scene of viser, and a page of ours around it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

import stepmap as sm
from stepmap.arrays import Array
from stepmap.errors import LinkError
from stepmap_hil.live.feed import MOST, Feed, Order, short
from stepmap_hil.live.frame import CHARTS, CLOUD, Chart, LiveFrame, configuration, step_above
from stepmap_hil.live.guarded import HOST, GuardedServer, quiet
from stepmap_hil.live.scene import LAYERS, TRAIL, TRAIL_COLORS, Scene
from stepmap_hil.live.site import Site

RATE = 30.0  # Hz, at most, of the scene
SHARE = 0.1  # of the time, at most, goes into drawing
SLOW_RATE = 8.0  # Hz, at most, of trails
LEAST_SCALE = 1.0  # of the colours of a trail, in the unit of its error
GOODBYE = 0.15  # s, for pages to hear that this one closes
TONES = {
    "running": "running",
    "done": "pass",
    "holding": "holding",
    "stopped": "stopped",
    **dict.fromkeys(("fault", "ended early"), "fault"),
}
"""Of states, which give them their colours; others are idle."""


class LivePage:
    """Shows a run in a browser. ``update`` is called by the run; ``stop_requested`` and ``injected`` ask the user.

    ``system`` is a system or its name in the catalog; ``reference`` the q̄ or x of a plan, (N, ...), whose path is
    drawn; ``around`` poses that the camera shows besides, such as the start; ``planned`` how long the run is to take
    [s]; ``port`` 0 takes a free one.
    """

    recorded = False  # whether the run was over before the page began

    def __init__(
        self,
        title: str,
        system: sm.System | str,
        port: int = 0,
        faults: Sequence[str] = (),
        *,
        reference: ArrayLike | None = None,
        charts: Sequence[Chart] = CHARTS,
        around: ArrayLike | None = None,
        planned: float | None = None,
    ) -> None:
        self.system = sm.systems.get(system) if isinstance(system, str) else system
        self.layers = {name: on for name, (_, on) in LAYERS.items()}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._asked: list[str] = []
        self._offered = tuple(faults)
        self._names = [name for chart in charts for name in chart.lines]
        self._error = next((chart.lines[0] for chart in charts if chart.error), None)
        self._full = LEAST_SCALE  # error in which a trail has its last colour
        self._pending: LiveFrame | None = None
        self._frames: deque[LiveFrame] = deque(maxlen=2 * MOST)
        self._count = 0  # of ticks that were shown
        self._moods: dict[tuple[str, str], int] = {}
        self._points: Array | None = None  # that are drawn
        self._passed: list[LiveFrame] = []  # since the last drawing
        self._due = self._slow_due = 0.0
        self._over = self._closed = False
        n = self._n = len(self.system.coordinates)
        plan = self.system.configuration({})[None] if reference is None else np.asarray(reference, float)[:, :n]
        path = self.system.positions(plan)
        besides = self.system.positions(plan[:0] if around is None else np.asarray(around, float)[:, :n])
        self.site, self.feed = Site(), Feed(self._hear, self._meet)
        with quiet():
            self._server = GuardedServer(port, title, self.site, self.feed)
        if port and self._server.get_port() != port:
            self.close()
            raise LinkError(f"live page: port {port} is taken; choose another, or 0 for a free one")
        try:
            self._server.gate.require()
        except LinkError:
            self.close()
            raise
        self.url = f"http://{HOST}:{self._server.get_port()}/{self._server.gate.token}/"
        with self._server.atomic():
            self._scene = Scene(self._server, self.system, path, besides)
        self._shown = LiveFrame(0.0, {}, state="waiting", reason="the run has not begun", charted=False)
        self._introduce(title, charts, planned)

    def _introduce(self, title: str, charts: Sequence[Chart], planned: float | None) -> None:
        """What a page has to know before all else."""
        self._server.gui.configure_theme(show_logo=False, show_share_button=False)
        self._server.on_client_connect(lambda _: self.feed.say("scene", brief=True))
        self.feed.say(
            "page",
            title=title,
            charts=[asdict(chart) for chart in charts],
            faults=self._offered,
            planned=planned,
            recorded=self.recorded,
            camera=self._scene.framing.document(),
            trail=TRAIL_COLORS.tolist(),
        )
        for name in LAYERS:
            if name != CLOUD:
                self._say_layer(name)
        self._say_mood(self._shown)

    # From the run

    def update(self, frame: LiveFrame) -> None:
        """Takes a tick; draws it unless the last was drawn a moment ago."""
        if frame.charted:
            self._keep(frame)
        elif (frame.state, frame.reason) != (self._shown.state, self._shown.reason):
            self._say_mood(frame)
        now = time.perf_counter()
        if now < self._due:
            self._pending = frame
            return
        self._draw(frame, slow=now >= self._slow_due)
        self._due = now + max(1 / RATE, (time.perf_counter() - now) / SHARE)

    def _keep(self, frame: LiveFrame) -> None:
        """A tick goes to the charts, and is kept for the replay."""
        if self._frames and frame.time < self._frames[-1].time:  # another run begins
            self._frames.clear()
            self.feed.say("again", k=self._count)
        self._frames.append(replace(frame, points=None))
        self._passed = [*self._passed[1 - TRAIL :], frame]
        row = [short(frame.time), self._mood(frame), frame.missed, short(frame.loss)]
        numbers = [short(float(frame.numbers.get(name, np.nan))) for name in self._names]
        self.feed.say("tick", brief=True, k=self._count, row=[*row, *numbers])
        self._count += 1

    def _mood(self, frame: LiveFrame) -> int:
        """The number of a state with its reason, which pages are told once."""
        key = (frame.state, frame.reason)
        if key not in self._moods:
            self._moods[key] = len(self._moods)
            self.feed.say("mood", state=frame.state, reason=frame.reason, tone=TONES.get(frame.state, "idle"))
        return self._moods[key]

    def _say_mood(self, frame: LiveFrame) -> None:
        self.feed.say("now", mood=self._mood(frame))

    @property
    def wants_points(self) -> bool:
        """Whether points of the next tick would be drawn."""
        return self.layers[CLOUD] and time.perf_counter() >= self._due

    def _draw(self, frame: LiveFrame, *, slow: bool) -> None:
        self._pending = None
        self._shown = frame
        plant = configuration(self.system, frame.coordinates)
        poses = [plant, *(configuration(self.system, p, plant) for p in (frame.estimate, frame.reference))]
        placed = iter(self.system.positions(np.array([q for q in poses if q is not None]).reshape(-1, self._n)))
        with self._server.atomic():
            self._scene.move(*(None if q is None else next(placed) for q in poses))
            if not _same(frame.points, self._points):
                self._points = frame.points
                self._scene.draw_points(frame.points)
            if slow:
                self._extend_trail()
                self._slow_due = time.perf_counter() + 1 / SLOW_RATE

    def _extend_trail(self) -> None:
        passed, self._passed = self._passed, []
        places, errors = self._places(passed)
        if len(places):
            self._scene.extend_trail(places, errors, self._full)

    def _places(self, frames: Sequence[LiveFrame]) -> tuple[Array, Array]:
        """Positions of all frames of the mechanism, and the error that colours them; the scale grows with that."""
        found = [(configuration(self.system, frame.coordinates), frame) for frame in frames]
        known = [(q, frame) for q, frame in found if q is not None]
        errors = np.array([frame.numbers.get(self._error or "", np.nan) for _, frame in known], dtype=float)
        if np.isfinite(errors).any() and (full := step_above(float(np.nanmax(errors)))) > self._full:
            self._full = full
        self.feed.say("scale", brief=True, full=self._full)
        return self.system.positions(np.array([q for q, _ in known]).reshape(-1, self._n)), errors

    def wait(self, text: str) -> None:
        """Shows what is done before the run."""
        self._shown = replace(self._shown, state="waiting", reason=text)
        self._say_mood(self._shown)

    def offer(self, faults: bool) -> None:
        """Shows or hides the buttons for faults."""
        self.feed.say("offer", faults=faults and bool(self._offered))

    def offer_points(self) -> None:
        """There is a depth camera, whose points can be shown."""
        self._say_layer(CLOUD)

    def note(self, text: str, at: float | None = None) -> None:
        """Adds a line to the events, which the page shows; ``at`` is its time in the run, None before that."""
        tone = "fault" if text.startswith("fault") else "stopped" if text.lower().startswith("stop") else "plain"
        self.feed.say("event", at=None if at is None else short(at), text=text, tone=tone)

    def finish(self, state: str, reason: str = "") -> None:
        """Shows the last tick and how the run ended; the page stays, and shows the run again."""
        last = self._pending or self._shown
        self._draw(replace(last, state=state, reason=reason), slow=True)
        self._over = True
        self.offer(False)
        self.feed.say("over", state=state, reason=reason, tone=TONES.get(state, "fault"))

    def saved(self, folder: Path | str) -> None:
        """There is a report in a folder, which the page leads to."""
        if (Path(folder) / "report.html").is_file():
            self.site.folder = Path(folder)
            self.feed.say("report")

    def close(self) -> None:
        """Ends the server; calling it again does nothing."""
        if not self._closed:
            self._closed = True
            self.feed.say("closed")
            time.sleep(GOODBYE)
            with quiet():
                self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # From the user, in the thread of the server

    @property
    def stop_requested(self) -> bool:
        """Whether STOP was pressed; stays true."""
        return self._stop.is_set()

    def injected(self) -> list[str]:
        """Faults asked for since the last call, in order."""
        with self._lock:
            asked, self._asked = self._asked, []
        return asked

    def _meet(self) -> None:
        """A browser has opened the page."""

    def _hear(self, order: Order) -> None:
        match order.get("do"), order.get("what"):
            case "stop", _ if not self._over:
                self._request_stop()
            case "fault", str(name) if name in self._offered and not self._over:
                self._inject(name)
            case "layer", str(name) if name in self.layers:
                self._switch(name, bool(order.get("on")))
            case "show", int(number) if self._over:
                self._show_again(number)

    @property
    def _now(self) -> float | None:
        """The time of the run, None before it."""
        return self._frames[-1].time if self._frames else None

    def _request_stop(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self.feed.say("stopping")
            self.note("STOP pressed", self._now)

    def _inject(self, name: str) -> None:
        with self._lock:
            self._asked.append(name)
        self.note(f"pressed: {name}", self._now)

    def _switch(self, name: str, on: bool) -> None:
        self.layers[name] = on
        self._scene.show_layer(name, on)
        self._say_layer(name)

    def _say_layer(self, name: str) -> None:
        self.feed.say("layer", name=name, color=LAYERS[name][0], on=self.layers[name])

    def _show_again(self, number: int) -> None:
        """Draws a tick of a run that is over, with the trail up to there."""
        if not self._frames:
            return
        at = min(max(number - (self._count - len(self._frames)), 0), len(self._frames) - 1)
        with self._server.atomic():
            self._draw(self._frames[at], slow=False)
            places, errors = self._places([self._frames[k] for k in range(max(at - TRAIL + 1, 0), at + 1)])
            self._scene.replace_trail(places, errors, self._full)


def _same(some: Array | None, other: Array | None) -> bool:
    return some is other or (some is not None and other is not None and np.array_equal(some, other, equal_nan=True))
