"""The live page: what it draws, what it costs, and how it behaves in a headless Chromium."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import viser
from websockets import InvalidStatus, Origin, Subprotocol
from websockets.sync.client import connect

import stepmap as sm
from stepmap.arrays import Array
from stepmap.errors import LinkError
from stepmap.jobs.system import SystemSource
from stepmap_codegen import generate as generation
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.bench.setup import Setup
from stepmap_hil.live import LiveFrame, LivePage, RemotePage
from stepmap_hil.live.again import AgainPage
from stepmap_hil.live.frame import configuration
from stepmap_hil.live.gate import Gate
from stepmap_hil.live.listener import POINTS, LiveRun
from stepmap_hil.live.scene import LAYERS, Scene, turns
from stepmap_hil.live.signals import Signals
from stepmap_hil.report.series import rms
from stepmap_hil.runs.log import Row, errors, reference
from stepmap_hil.runs.recording import RecordedRun
from stepmap_hil.sensors.gaussian import Gaussian
from tests.hil.rigs import rig
from tests.processes import PATIENCE, wait_for


@pytest.fixture
def page() -> Iterator[LivePage]:
    with LivePage("a run", "suspended_mass", faults=("link cut", "Kinect jump")) as page:
        yield page


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def said(page: LivePage, kind: str) -> list[dict[str, Any]]:
    """What pages are told, of one kind."""
    return [told for told in json.loads(page.feed.since(0)[0]) if told["kind"] == kind]


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
    assert 0 < next(drawn) <= 31


def test_the_last_tick_is_shown(page: LivePage) -> None:
    for k in range(5):
        page.update(frame(k))
    page.finish("done")
    assert page._shown.time == pytest.approx(4 / 30)


def test_only_this_machine_is_served(page: LivePage) -> None:
    port = port_of(page.url)
    socket.create_connection(("127.0.0.1", port), 5).close()
    with pytest.raises(OSError, match="refused"):  # another address of this machine, as its network's would be
        socket.create_connection(("127.0.0.2", port), 5)
    assert page._server.request_share_url() is None
    with pytest.raises(LinkError, match=f"port {port} is taken"):
        LivePage("another", "pendulum", port)


PROTOCOL = [Subprotocol(f"viser-v{viser.__version__}")]
PATIENT: dict[str, Any] = {"proxy": None, "open_timeout": PATIENCE, "ping_interval": None}


def handshake(page: LivePage, path: str, **given: Any) -> int:
    """The status that a connection to the page's server gets; 101 is that of one that is taken."""
    try:
        with connect(f"ws://127.0.0.1:{port_of(page.url)}{path}", subprotocols=PROTOCOL, **PATIENT, **given) as own:
            assert own.recv(PATIENCE)
            return 101
    except InvalidStatus as error:
        return error.response.status_code


def test_pages_of_other_sites_are_refused_in_the_handshake(page: LivePage) -> None:
    own = urlsplit(page.url + "feed")
    assert handshake(page, urlsplit(page.url + "scene").path, origin=Origin(f"http://{own.netloc}")) == 101
    assert handshake(page, own.path, origin=Origin(f"http://{own.netloc}")) == 101
    assert handshake(page, own.path, origin=Origin(f"http://localhost:{own.port}")) == 101
    assert handshake(page, own.path) == 101  # a program, which has read the address
    for origin in (
        *("http://elsewhere.example", "null", "http://127.0.0.1", f"https://127.0.0.1:{own.port}"),
        f"http://127.0.0.1:{own.port}.elsewhere.example",
    ):
        for path in (own.path, own.path.replace("feed", "scene")):
            assert handshake(page, path, origin=Origin(origin)) == 403, origin
    # A site whose name was made to lead to this computer is of one origin with itself.
    lured = {"Host": f"elsewhere.example:{own.port}"}
    assert handshake(page, own.path, origin=Origin(f"http://{own.netloc}"), additional_headers=lured) == 403


def test_a_connection_without_the_token_is_refused(page: LivePage) -> None:
    own = urlsplit(page.url)
    token = own.path.strip("/")
    assert len(token) >= 22  # 128 bits
    for path in (
        "/",
        "",
        f"/?{token}",
        f"/{token[:-1]}/",
        f"/{token}x/",
        f"/x/{token}/",
        f"/{token.swapcase()}/",
        "/ü/",
    ):
        for asked in (path, f"{path.rstrip('/')}/feed", f"{path.rstrip('/')}/scene"):
            assert handshake(page, asked, origin=Origin(f"http://{own.netloc}")) == 403, asked
    assert handshake(page, f"{own.path}elsewhere", origin=Origin(f"http://{own.netloc}")) == 404
    with LivePage("another", "pendulum") as other:
        assert urlsplit(other.url).path != own.path
        assert handshake(other, f"{own.path}feed") == 403


def test_a_page_without_the_token_is_not_served(page: LivePage) -> None:
    def get(path: str) -> tuple[int, dict[str, str]]:
        line = http.client.HTTPConnection("127.0.0.1", port_of(page.url), timeout=PATIENCE)
        line.request("GET", path)
        answer = line.getresponse()
        assert answer.status == 200 or len(answer.read()) < 100
        line.close()
        return answer.status, dict(answer.headers)

    path = urlsplit(page.url).path
    status, headers = get(path)
    assert (status, headers["Referrer-Policy"]) == (200, "no-referrer")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert get(path.rstrip("/"))[0] == 200
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    status, headers = get(f"{path}scene/")
    assert (status, headers["Content-Security-Policy"]) == (200, "frame-ancestors 'self'")
    for missing in ("../../../__init__.py", "scene/../../__init__.py", "live.py", "report/report.html", "report/../x"):
        assert get(path + missing)[0] == 404, missing
    for other in ("/", "/index.html", f"/index.html{path}", "/favicon.ico"):
        assert get(other)[0] == 403, other


def test_a_stranger_is_not_heard(page: LivePage) -> None:
    """Whatever is sent right behind the handshake, without waiting for its answer, stops nothing."""
    own = urlsplit(page.url + "feed")
    body = json.dumps({"do": "stop"}).encode()
    frame = bytes([0x81, 0x80 | len(body)]) + bytes(4) + body  # masked with zeros

    def send(path: str, origin: str) -> str:
        head = {
            "Host": own.netloc,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
            "Sec-WebSocket-Version": "13",
            "Origin": origin,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        with socket.create_connection(("127.0.0.1", own.port or 0), 20) as line:
            line.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode() + frame)
            status = line.recv(4096).split(b" ")[1].decode()
            end = time.monotonic() + 20
            while status == "101" and not page.stop_requested and time.monotonic() < end:
                time.sleep(0.01)
        return status

    for _ in range(20):
        assert send(own.path, "http://elsewhere.example") == "403"
        assert send("/feed", f"http://{own.netloc}") == "403"
    assert not page.stop_requested
    assert send(own.path, f"http://{own.netloc}") == "101"
    assert page.stop_requested  # by the same bytes from the page itself


def test_what_strangers_send_is_not_printed(page: LivePage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for sent in (b"\x1b[2J garbage\r\n\r\n", b"GET / HTTP/1.1\r\nHost: \x1b[2J\r\n\r\n", b"", b"\x00" * 10_000):
        with socket.create_connection(("127.0.0.1", port_of(page.url)), 20) as line:
            line.sendall(sent)
            line.shutdown(socket.SHUT_WR)
            while line.recv(4096):
                pass
    assert handshake(page, urlsplit(page.url).path + "feed") == 101
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR", "CRITICAL")]


def test_a_server_without_its_gate_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gate, "stand_before", lambda *given: None)  # as if another viser started itself otherwise
    with pytest.raises(LinkError, match="cannot be guarded with this version of viser"):
        LivePage("a run", "pendulum")


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    page = LivePage("a run", "pendulum")
    page.close()
    page.close()
    assert capfd.readouterr() == ("", "")


def test_the_demo_runs() -> None:
    command = [sys.executable, "-m", "stepmap_hil.live", "--seconds", "0.2"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert made.stdout.startswith("open http://127.0.0.1:")
    assert made.stderr == ""


# In a process of its own


SYSTEM = SystemSource("suspended_mass")


def served(url: str) -> bool:
    """Whether anybody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port_of(url)), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_page_in_its_own_process_takes_no_time_from_a_run() -> None:
    with RemotePage("a run", SYSTEM, faults=("link cut",)) as page:
        assert served(page.url)
        points = np.zeros((2000, 3), dtype=np.float32)
        spent = []
        for k in range(200):  # far more than it can draw
            at = time.thread_time()
            page.update(frame(k, points=points))
            spent.append(time.thread_time() - at)
        assert np.median(spent) < 0.0005  # s
        page.note("a note")
        assert not page.opened.is_set()
        assert not page.wants_points  # before they are asked for
        with connect(f"{page.url.replace('http', 'ws')}feed", **PATIENT) as feed:
            wait_for(page.opened.is_set, "the run knows that the page is open")
            for order in ({"do": "layer", "what": "depth points", "on": True}, {"do": "fault", "what": "link cut"}):
                feed.send(json.dumps(order))
            for nonsense in (
                "",
                "[",
                "null",
                '{"do": "fault", "what": "another"}',
                '{"do": "show", "what": 1}',
                "x" * 2000,
            ):
                feed.send(nonsense)
            feed.send(json.dumps({"do": "layer", "what": "plant", "on": False}))
            wait_for(lambda: page.wants_points, "points are wanted")
        assert page.injected() == ["link cut"]
        assert not page.stop_requested
        page.finish("done")
    assert not served(page.url)
    page.close()


def test_a_run_whose_page_is_gone_is_stopped() -> None:
    with RemotePage("a run", SYSTEM) as page:
        page._process.kill()
        wait_for(lambda: page.stop_requested, "the run is stopped: nobody could press STOP any more")
        page.update(frame(0))
        page.finish("stopped")


def test_a_page_does_not_outlive_its_run() -> None:
    """Even if that dies without a word."""
    script = (
        "import os; from stepmap.jobs.system import SystemSource; from stepmap_hil.live import RemotePage; "
        f"print(RemotePage('a run', {SYSTEM}).url, flush=True); os.kill(os.getpid(), 9)"
    )
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    url = made.stdout.strip()
    wait_for(lambda: not served(url), "the page has ended")


def test_a_page_that_cannot_start_is_told() -> None:
    with pytest.raises(LinkError, match="did not start"):
        RemotePage("a run", SYSTEM, nonsense=1)


# With a board


class Cloud(Gaussian):
    """A sensor that sees points."""

    def points(self, most: int) -> Array:
        return np.ones((most, 3))


def test_what_is_shown_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made, shown = rig(ticks=30), list[LiveFrame]()
    monkeypatch.setattr("stepmap_hil.sensors.gaussian.Gaussian", Cloud)
    signals = Signals(made.controller)
    with LivePage("a run", made.job.system, faults=["sensor jump"], charts=signals.charts()) as page:
        page._hear({"do": "layer", "what": "depth points", "on": True})
        update = page.update

        def see(frame: LiveFrame) -> None:
            shown.append(frame)
            update(frame)

        monkeypatch.setattr(page, "update", see)
        run = closed_loop(made, None, page.wait, None, LiveRun(page, signals))
        (over,) = said(page, "over")
        assert (over["state"], over["reason"], over["tone"]) == ("done", "ran to its end", "pass")
        assert [event["text"] for event in said(page, "event")] == ["armed", "running", "stopped"]
        names = {told["name"] for told in said(page, "layer")}
    assert names == set(LAYERS)
    assert {frame.state for frame in shown} == {"armed", "running"}
    assert len(shown) == len(run.rows)
    assert any(frame.points is not None and frame.points.shape == (POINTS, 3) for frame in shown)
    told = shown[-1].numbers
    channels, axes = [n for n, _ in made.job.system.sensor_channels], [c.name for c in made.job.system.kinematic]
    by_axis = {f"{kind}: {name}" for kind in ("following", "command") for name in axes}
    assert set(told) == {"tracking", "estimate", *(f"innovation: {name}" for name in channels), *by_axis}
    assert (shown[-1].missed, shown[-1].loss) == (0, 0.0)
    # Innovations in standard deviations: of some hundred of them none is beyond 6 where the noise is the filter's own.
    assert all(abs(frame.numbers[f"innovation: {name}"]) < 6 for frame in shown for name in channels)


def test_stop_before_the_run_prevents_motion() -> None:
    made, heard = rig(ticks=30), list[str]()
    with LivePage("a run", made.job.system) as page:

        def say(text: str) -> None:
            page.wait(text)
            heard.append(f"{page._shown.state}: {page._shown.reason}")
            if text == "uploading the schedule":
                page._request_stop()

        with pytest.raises(LinkError, match="stopped by the user before the run began"):
            closed_loop(made, None, say, None, LiveRun(page, Signals(made.controller)))
        assert "waiting: uploading the schedule" in heard
        assert "running" not in {event["text"] for event in said(page, "event")}


def test_a_recording_is_shown_tick_by_tick() -> None:
    """Where the slider is, the plant is; playing ends at the last tick."""
    made = rig(ticks=20)
    run = closed_loop(made, None, lambda text: None)
    recorded = RecordedRun(made.job, generation.choices_in(made.job.root), made.controller, run, None, {}, [])
    with AgainPage(recorded) as shown:
        ticks = said(shown, "tick")
        moving = [row for row in run.rows if row.running]
        assert len(ticks) == len(moving)
        page, rows = said(shown, "page")[0], np.array([tick["row"] for tick in ticks[:20]], dtype=float)
        error = rms(errors(made.controller, *_poses(made, moving[:20]))[:, None])
        assert page["charts"][0]["lines"][0] == "tracking"
        assert rms(rows[:, 4:5]) == pytest.approx(1e3 * error, rel=1e-4)
        shown._hear({"do": "show", "what": 7})
        assert any(np.allclose(solid.position[:2], moving[7].coordinates[:2]) for solid, _ in shown._scene.plant.solids)
        assert shown._shown.time == pytest.approx(7 / 30, abs=0.01)
        for nonsense in (-3, 10**9):
            shown._hear({"do": "show", "what": nonsense})
        shown._hear({"do": "stop"})
        assert not shown.stop_requested  # nothing moves any more


def _poses(made: Setup, rows: list[Row]) -> tuple[Array, Array]:
    return np.array([row.coordinates for row in rows]), reference(made.controller, rows)
