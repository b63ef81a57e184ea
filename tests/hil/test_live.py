"""The live page: what it draws, what it costs, and how it behaves in a headless Chromium."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest
import viser
from websockets import ConnectionClosed, Origin, Subprotocol
from websockets.sync.client import ClientConnection, connect

import stepmap as sm
from stepmap.errors import LinkError
from stepmap_hil.live import LiveFrame, LivePage
from stepmap_hil.live.frame import configuration
from stepmap_hil.live.scene import Scene, turns

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--remote-debugging-port=0", "--hide-scrollbars", "--force-device-scale-factor=1"),
)


class Browser:
    """A headless Chromium with one page, driven through its debugging protocol.

    ``requests`` and ``sockets`` are the addresses that the page and its workers asked for.
    """

    def __init__(self, width: int = 1280, height: int = 800) -> None:
        assert CHROMIUM is not None
        self.requests: list[str] = []
        self.sockets: list[str] = []
        self.errors: list[str] = []
        self._ids = itertools.count(1)
        self._folder = tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True)
        profile = Path(self._folder.name)
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._socket = self._connect(profile / "DevToolsActivePort")
        except BaseException:
            self._end()
            raise
        for domain in ("Network", "Page", "Runtime"):
            self.call(f"{domain}.enable")
        self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def _connect(self, file: Path) -> ClientConnection:
        """The socket of the page; Chromium writes its port to a file when it listens."""
        end = time.monotonic() + 20
        while not file.exists() or file.read_text().count("\n") < 1:
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{CHROMIUM} did not start")
            time.sleep(0.05)
        port, path = file.read_text().split("\n")[:2]
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None) as browser:
            browser.send(json.dumps({"id": 0, "method": "Target.getTargets"}))
            while "id" not in (reply := json.loads(browser.recv(10))):
                pass
        target = next(t["targetId"] for t in reply["result"]["targetInfos"] if t["type"] == "page")
        return connect(f"ws://127.0.0.1:{port}/devtools/page/{target}", max_size=None, proxy=None)

    def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(20))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, method: str | None, said: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.sockets.append(said["url"])
        elif method == "Target.attachedToTarget":  # a worker, which may ask for things too
            for command in ("Network.enable", "Runtime.runIfWaitingForDebugger"):
                self._socket.send(
                    json.dumps({"id": next(self._ids), "method": command, "sessionId": said["sessionId"]})
                )
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(said["exceptionDetails"].get("exception", said["exceptionDetails"])))

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives."""
        made = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in made:
            raise RuntimeError(f"{expression}: {made['exceptionDetails']['text']}")
        return made["result"].get("value")

    def wait(self, expression: str, seconds: float = 15.0) -> Any:
        """The first value of an expression that is true."""
        end = time.monotonic() + seconds
        while not (value := self.value(expression)):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} stays {value!r}")
            time.sleep(0.05)
        return value

    def click(self, button: str) -> None:
        """Presses and lets go of the button with this text, with the mouse."""
        find = f"[...document.querySelectorAll('button')].find(b => b.innerText.trim() === {json.dumps(button)})"
        x, y = self.wait(f"(b => {{ if (!b) return null; b.scrollIntoView({{block: 'center'}}); {CENTRE} }})({find})")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, **clip: float) -> bytes:
        more = {"clip": {**clip, "scale": 1}} if clip else {}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._end()


CENTRE = "const r = b.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2];"


@pytest.fixture
def page() -> Iterator[LivePage]:
    with LivePage("a run", "suspended_mass", faults=("link cut", "Kinect jump")) as page:
        yield page


def frame(k: int, **more: Any) -> LiveFrame:
    """Tick k of a mass that swings on a string of 0.8 m."""
    angle = 0.4 * np.sin(k / 8)
    q = {"xm": 0.8 * np.sin(angle), "ym": 1 - 0.8 * np.cos(angle), "xr": 0.0, "r": 0.8}
    given = {"estimate": {**q, "p_xm": 0.1}, "reference": q, "numbers": {"tracking": 5 + k % 7}, "state": "running"}
    return LiveFrame(k / 30, q, **(given | more))


def test_every_system_can_be_shown() -> None:
    for name in sm.systems.names():
        with LivePage(name, name) as page:
            page.update(LiveFrame(0.0, {}, estimate={}, reference={}))
            drawn = page._scene.plant
            assert drawn.rods or drawn.solids
            assert all(part.visible for part in (*drawn.rods, *(solid for solid, _ in drawn.solids)))


def test_parts_are_where_they_belong(page: LivePage) -> None:
    page.update(LiveFrame(0.0, {"xm": 0.3, "ym": 0.6, "xr": 0.0, "r": 0.5}))
    plant, ghost = page._scene.plant, page._scene.ghost
    assert {tuple(np.round(solid.position, 12)) for solid, _ in plant.solids} == {(0.3, 0.6, 0.0), (0.0, 1.0, 0.0)}
    (string,) = plant.rods  # 3, 4, 5 in tenths of metres
    assert string.position == pytest.approx((0.15, 0.8, 0.0))
    assert string.scale == pytest.approx((1.0, 1.0, 0.5))
    assert not any(solid.visible for solid, _ in ghost.solids)


def test_turns() -> None:
    """Rodrigues' formula, with the vector part of the quaternion, turns z into the direction."""
    ways = np.array([[0, 0, 1], [0, 0, -2], [1, 0, 0], [0.3, -0.4, 1.2], [0, 1e-13, -1], [0, 0, 0]], dtype=float)
    for q, way in zip(turns(ways), ways, strict=True):
        w, v, z = q[0], q[1:], np.array([0.0, 0.0, 1.0])
        turned = z + 2 * np.cross(v, np.cross(v, z) + w * z)
        assert turned == pytest.approx(way / np.linalg.norm(way) if way.any() else turned, abs=1e-9)


def test_poses_by_name_or_in_order() -> None:
    system = sm.systems.get("suspended_mass")
    x = np.arange(8.0)
    assert configuration(system, x) == pytest.approx(x[:4])
    assert configuration(system, {"ym": 7.0, "p_ym": 1.0}, x[:4]) == pytest.approx([0, 7, 2, 3])
    assert configuration(system, [1.0, np.nan, 0.0, 0.0]) is None
    assert configuration(system, [1.0]) is None


def test_a_run_that_goes_wrong_is_still_shown(page: LivePage) -> None:
    bad = frame(0, estimate=[np.nan] * 8, reference=None, numbers={"tracking": np.nan, "other": np.inf})
    page.update(bad)
    page.update(LiveFrame(0.1, [np.inf] * 4, points=np.zeros((0, 3)), state="<b>fault</b>"))
    page.finish("fault")
    assert not any(solid.visible for solid, _ in page._scene.plant.solids)


def test_depth_points_come_and_go(page: LivePage) -> None:
    points = np.ones((10_000, 3))
    points[::2] = np.nan  # nothing seen there
    page.update(frame(0, points=points))
    cloud = page._scene._cloud
    assert cloud is not None
    assert 0 < len(cloud.points) <= 4000
    assert np.isfinite(cloud.points).all()
    page.update(frame(1))
    page.finish("done")
    assert not cloud.visible


def test_updates_are_cheap_and_few_are_drawn(page: LivePage, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = itertools.count()
    move = Scene.move
    monkeypatch.setattr(Scene, "move", lambda self, *poses: (next(drawn), move(self, *poses)))
    points = np.zeros((640 * 480, 3), dtype=np.float32)
    spent, begun, k = 0.0, time.perf_counter(), 0  # CPU time of this thread: others may be busy
    while time.perf_counter() < begun + 1.0:
        tick = frame(k, points=points)
        at = time.thread_time()
        page.update(tick)
        spent, k = spent + time.thread_time() - at, k + 1
        time.sleep(0.002)
    assert spent / k < 0.002  # s
    assert 2 < next(drawn) <= 31


def test_the_last_tick_is_shown(page: LivePage) -> None:
    for k in range(5):
        page.update(frame(k))
    page.finish("done")
    assert page._shown.time == pytest.approx(4 / 30)


def test_only_this_machine_is_served(page: LivePage) -> None:
    port = int(page.url.rsplit(":", 1)[1])
    socket.create_connection(("127.0.0.1", port), 5).close()
    with pytest.raises(OSError, match="refused"):  # another address of this machine, as its network's would be
        socket.create_connection(("127.0.0.2", port), 5)
    assert page._server.request_share_url() is None
    with pytest.raises(LinkError, match=f"port {port} is taken"):
        LivePage("another", "pendulum", port)


def test_pages_of_other_sites_are_refused(page: LivePage) -> None:
    address, protocol = page.url.replace("http", "ws"), [Subprotocol(f"viser-v{viser.__version__}")]
    with connect(address, origin=Origin(page.url), subprotocols=protocol, proxy=None) as own:
        assert own.recv(5)
    with (
        connect(address, origin=Origin("http://elsewhere.example"), subprotocols=protocol, proxy=None) as other,
        pytest.raises(ConnectionClosed, match="not this page"),
    ):
        other.recv(5)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    page = LivePage("a run", "pendulum")
    page.close()
    page.close()
    assert capfd.readouterr() == ("", "")


def test_the_demo_runs() -> None:
    command = [sys.executable, "-m", "stepmap_hil.live", "--seconds", "0.2"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert made.stdout.startswith("open http://127.0.0.1:")
    assert made.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_in_a_browser(page: LivePage) -> None:
    """The page loads without any outside request, moves, and its buttons reach the run, which then stops the robot."""
    commands: list[str] = []

    def run() -> None:
        for k in itertools.count():
            page.update(frame(k, points=np.random.default_rng(k).normal(size=(500, 3)), reason="a < b"))
            commands.extend(page.injected())
            if page.stop_requested or k > 900:
                break
            time.sleep(1 / 30)
        commands.append("stop" if page.stop_requested else "nobody stopped it")
        page.finish("stopped")

    running = threading.Thread(target=run)
    running.start()
    try:
        with Browser(800, 600) as browser:  # small, as graphics come from the processor
            browser.open(page.url)
            browser.wait("document.getElementById('state')?.innerText === 'running'")
            browser.wait("document.querySelectorAll('.uplot').length === 1")  # of the only number that came
            assert browser.value("document.getElementById('reason').innerText") == "a < b"

            scene = {"x": 0, "y": 0, "width": 390, "height": 600}
            times, pictures = [], []
            for _ in range(2):
                times.append(browser.value("parseFloat(document.getElementById('time').innerText)"))
                pictures.append(browser.screenshot(**scene))
                time.sleep(0.5)
            assert times[1] > times[0]
            assert pictures[0] != pictures[1]

            browser.click("Kinect jump")
            browser.wait("document.getElementById('events')?.innerText.includes('Kinect jump')")
            assert not page.stop_requested
            browser.click("STOP")
            browser.wait("document.getElementById('state').innerText === 'stopped'")
            running.join(5)
            assert commands == ["Kinect jump", "stop"]

            hosts = {url.split("/")[2] for url in (*browser.requests, *browser.sockets) if "://" in url[:10]}
            assert hosts == {page.url.split("/")[2]}
            assert {url.split(":")[0] for url in browser.requests} <= {"http", "data", "blob"}
            assert browser.sockets == [page.url.replace("http", "ws") + "/"]  # so workers are heard, too
            assert browser.errors == []
    finally:
        page._stop.set()
        running.join(5)
