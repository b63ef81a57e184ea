"""The page itself: a viser server on this machine's own address, with the scene, charts, state and buttons."""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np
import rich
import viser
from numpy.typing import ArrayLike
from viser.infra import WebsockServer

import stepmap as sm
from stepmap.arrays import Array
from stepmap.errors import LinkError
from stepmap_hil.live.charts import Strips
from stepmap_hil.live.frame import CHARTS, Chart, LiveFrame, Pose, configuration
from stepmap_hil.live.gate import Gate
from stepmap_hil.live.scene import TRAIL, Scene, legend

HOST = "127.0.0.1"  # never another: the page can stop the robot
RATE = 30.0  # Hz, at most, of the scene
SHARE = 0.1  # of the time, at most, goes into drawing
SLOW_RATE = 8.0  # Hz, at most, of charts, text and trails
WIDTH = 400  # pixels of the panel
EVENTS = 5  # shown
FEW = 2  # lines of a chart whose last numbers are written, too
BAD = "#D02020"
COLORS = {"running": "#009E73", "holding": "#B57B00", **dict.fromkeys(("fault", "stopped", "ended"), BAD)}
"""Of states, by their first word."""
STYLE = """<style>button.mantine-Button-root { min-height: 48px; }</style>"""
TEXT = """<div style="padding: 0.2em 0.8em; line-height: 1.45; font-size: 0.9em">
<div style="display: flex; justify-content: space-between; align-items: baseline">
<b id="state" style="font-size: 1.5em; color: {color}">{state}</b><span id="time">{time:.2f} s</span></div>
<div id="reason">{reason}</div><div id="numbers" style="font-size: 0.85em">{numbers}</div>
<div style="font-size: 0.85em">{colors}</div></div>"""
EVENT_TEXT = """<div id="events" style="padding: 0 0.8em; font-size: 0.85em; opacity: 0.7">{events}</div>"""


class LivePage:
    """Shows a run in a browser. ``update`` is called by the run; ``stop_requested`` and ``injected`` ask the user.

    ``system`` is a system or its name in the catalog; ``reference`` the q̄ or x of a plan, (N, ...), whose path is
    drawn; ``around`` poses that the camera shows besides, such as the start; ``port`` 0 takes a free one.
    """

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
    ) -> None:
        self.system = sm.systems.get(system) if isinstance(system, str) else system
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._asked: list[str] = []
        self._events: tuple[str, ...] = ()
        self._units = {name: chart.unit for chart in charts if len(chart.lines) <= FEW for name in chart.lines}
        self._pending: LiveFrame | None = None
        self._points: Array | None = None  # that are drawn
        self._has_camera = False  # points were drawn once
        self._passed: list[Pose] = []  # by the plant since the last drawing
        self._due = self._slow_due = 0.0
        self._closed = False
        n = self._n = len(self.system.coordinates)
        plan = self.system.configuration({})[None] if reference is None else np.asarray(reference, float)[:, :n]
        path = self.system.positions(plan)
        besides = self.system.positions(plan[:0] if around is None else np.asarray(around, float)[:, :n])
        with _quiet():
            self._server = _Server(port, title)
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
            self._panel(faults, charts)

    def _panel(self, faults: Sequence[str], charts: Sequence[Chart]) -> None:
        gui = self._server.gui
        gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(0, 114, 178))
        gui.main_panel.dock_right()
        gui.main_panel.set_width(WIDTH)
        # Buttons come first, so that nothing that grows can move one under the mouse.
        self._button = gui.add_button(
            "STOP", color="red", icon=viser.Icon.PLAYER_STOP, hint="ends the run with a stop command"
        )
        self._button.on_click(lambda _: self._request_stop())
        gui.add_html(STYLE)
        gui.add_command("STOP", description="stops the run", hotkey="space").on_trigger(lambda _: self._request_stop())
        self._faults = gui.add_button_group("inject", tuple(faults)) if faults else None
        if self._faults is not None:
            self._faults.on_click(lambda event: self._inject(str(event.target.value)))
        self._text = gui.add_html("")
        self._strips = Strips(gui, charts)
        self._event_text = gui.add_html("")
        self._shown = LiveFrame(0.0, {}, state="waiting", reason="the run has not begun")
        self._write()

    def update(self, frame: LiveFrame) -> None:
        """Takes a tick; draws it unless the last was drawn a moment ago."""
        self._strips.add(frame.time, frame.numbers)
        self._passed = [*self._passed[1 - TRAIL :], frame.coordinates]
        now = time.perf_counter()
        if now < self._due:
            self._pending = frame
            return
        self._draw(frame, slow=now >= self._slow_due)
        self._due = now + max(1 / RATE, (time.perf_counter() - now) / SHARE)

    @property
    def wants_points(self) -> bool:
        """Whether points of the next tick would be drawn."""
        return time.perf_counter() >= self._due

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
                self._has_camera = True
                self._scene.draw_points(frame.points)
            if slow:
                self._extend_trail()
                self._slow_due = time.perf_counter() + 1 / SLOW_RATE
                self._strips.draw()
                self._write()

    def _extend_trail(self) -> None:
        found = [configuration(self.system, pose) for pose in self._passed]
        self._passed = []
        passed = np.array([q for q in found if q is not None]).reshape(-1, self._n)
        if len(passed):
            self._scene.extend_trail(self.system.positions(passed))

    def _write(self) -> None:
        frame = self._shown
        numbers = " · ".join(
            f"{html.escape(name)} {frame.numbers[name]:.1f} {html.escape(unit)}"
            for name, unit in self._units.items()
            if np.isfinite(frame.numbers.get(name, np.nan))
        )
        self._text.content = TEXT.format(
            state=html.escape(frame.state),
            color=COLORS.get(frame.state.split(" ")[0].lower(), "inherit"),
            time=frame.time,
            reason=html.escape(frame.reason),
            numbers=numbers,
            colors=legend(self._has_camera),
        )

    def wait(self, text: str) -> None:
        """Shows what is done before the run."""
        self._shown = replace(self._shown, state="waiting", reason=text)
        self._write()

    def offer(self, faults: bool) -> None:
        """Shows or hides the buttons for faults."""
        if self._faults is not None:
            self._faults.visible = faults

    def note(self, text: str, at: float | None = None) -> None:
        """Adds a line to the last events, which the page shows."""
        with self._lock:
            self._events = (*self._events, f"{self._shown.time if at is None else at:.2f} s  {text}")[-EVENTS:]
            lines = "".join(f"<div>{html.escape(event)}</div>" for event in self._events)
            self._event_text.content = EVENT_TEXT.format(events=lines)

    def finish(self, state: str, reason: str = "") -> None:
        """Shows the last tick and how the run ended; the page stays, its buttons do nothing more."""
        last = self._pending or self._shown
        self._draw(replace(last, state=state, reason=reason), slow=True)
        self._button.disabled = True
        self.offer(False)  # viser cannot disable a group

    def close(self) -> None:
        """Ends the server; calling it again does nothing."""
        if not self._closed:
            self._closed = True
            with _quiet():
                self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # what the user asks for; the buttons' callbacks run in threads of the server ---------------------------------

    @property
    def stop_requested(self) -> bool:
        """Whether STOP was pressed; stays true."""
        return self._stop.is_set()

    def injected(self) -> list[str]:
        """Faults asked for since the last call, in order."""
        with self._lock:
            asked, self._asked = self._asked, []
        return asked

    def _request_stop(self) -> None:
        self._stop.set()
        self._button.disabled = True
        self.note("STOP pressed")

    def _inject(self, name: str) -> None:
        with self._lock:
            self._asked.append(name)
        self.note(f"fault: {name}")


class _Server(viser.ViserServer):
    """Serves this machine's own pages only, with a gate before all connections."""

    def __init__(self, port: int, label: str) -> None:
        self.gate = Gate()
        super().__init__(host=HOST, port=port, label=label, verbose=False)

    @property
    def _websock_server(self) -> WebsockServer:
        return self._guarded

    @_websock_server.setter
    def _websock_server(self, server: WebsockServer) -> None:
        """viser sets this before it starts the server, which then has its gate from the first connection on."""
        self.gate.stand_before(server)
        self._guarded = server

    def request_share_url(self, verbose: bool = True) -> str | None:
        """No tunnel: viser would open one to the internet whenever a client asks."""
        return None


def _same(some: Array | None, other: Array | None) -> bool:
    return some is other or (some is not None and other is not None and np.array_equal(some, other, equal_nan=True))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without viser's messages on the terminal, which it prints through rich's own console."""
    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before
