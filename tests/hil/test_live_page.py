"""The live page in a headless Chromium: what it shows in which window, and that its buttons reach a run."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from stepmap_codegen import generate as generation
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.live import LivePage
from stepmap_hil.live.again import AgainPage
from stepmap_hil.report import write as results
from stepmap_hil.runs.recording import RecordedRun
from tests.hil.browser import CHROMIUM, Browser
from tests.hil.rigs import quiet, rig
from tests.hil.test_live import frame
from tests.processes import PATIENCE, wait_for
from tests.undrawn import DRAWING

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]

FACTS = {"seed": 1, "sensor": "gaussian", "flash_bytes": None, "ram_bytes": None, "instructions_per_tick": None}
GAP = (20, 26)  # ticks that are missing
WIDTHS = {412: 900, 1024: 768, 1440: 900}
SHOWN = "parseFloat(document.getElementById('time').innerText)"
READY = "!document.getElementById('player').hidden && document.getElementById('veil').hidden"
CANVAS = "!!document.getElementById('scene').contentDocument?.querySelector('canvas')"
WIDE = "document.documentElement.scrollWidth - innerWidth"
INK = "[...document.querySelectorAll('.uplot canvas')].map(c => c.getContext('2d'))"
INK += ".map(g => new Set(g.getImageData(0, 0, g.canvas.width, g.canvas.height).data).size)"
STAGE = "(r => ({x: r.x, y: r.y, width: r.width, height: r.height}))"
STAGE += "(document.getElementById('scene').getBoundingClientRect())"
ASK_AS_REPORT = """(() => {
  const feed = location.href.replace('http', 'ws').replace('report/report.html', 'feed');
  try {
    return new Promise(done => {
      const socket = new WebSocket(feed);
      socket.onopen = () => done('open');
      socket.onerror = () => done('refused');
    });
  } catch { return 'refused'; }
})()"""
BACK = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
LAYERS = "[...document.querySelectorAll('#layers button')].map(b => b.innerText)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser(800, 600) as browser:  # small, as graphics come from the processor
        yield browser


@pytest.fixture
def page() -> Iterator[LivePage]:
    with LivePage("a run", "suspended_mass", faults=("link cut", "Kinect jump"), planned=5.0) as page:
        page.offer(True)
        yield page


def test_a_run_is_watched_and_stopped(page: LivePage, browser: Browser) -> None:
    """The page loads without any outside request, moves, and its buttons reach the run, which then stops the robot."""
    commands: list[str] = []
    given_up, begin = threading.Event(), threading.Event()

    def run() -> None:
        begin.wait(PATIENCE)
        for k in itertools.count():
            cloud = np.random.default_rng(k).normal(size=(500, 3))
            if not GAP[0] <= k < GAP[1]:
                page.update(frame(k, points=cloud, reason="a < b"))
            if k == GAP[1] + 5:  # a tick in between, as of a board without a measurement
                page.update(replace(frame(k, reason="a < b"), time=(k + 0.1) / 30))
            commands.extend(page.injected())
            if page.stop_requested or given_up.wait(1 / 30):
                break
        commands.append("stop" if page.stop_requested else "nobody stopped it")
        page.finish("stopped", "by the user")

    running = threading.Thread(target=run)
    running.start()
    browser.requests.clear()
    browser.sockets.clear()
    try:
        browser.open(page.url)
        page.wait("uploading the schedule")
        browser.wait("document.getElementById('veil-title')?.innerText.startsWith('uploading the schedule')")
        begin.set()
        browser.wait("document.getElementById('state')?.innerText === 'running'")
        assert browser.text("reason") == "a < b"
        browser.wait("document.getElementById('veil').hidden")  # viser shows its scene
        scene = browser.value(STAGE)
        at, picture = browser.value(SHOWN), browser.screenshot(**scene)
        wait_for(lambda: browser.value(SHOWN) > at, "the time on the page goes on")
        wait_for(lambda: browser.screenshot(**scene) != picture, "the scene moves")
        browser.wait(f"ticks.time.length > {GAP[1] + 20}")
        holes = browser.value("ticks.lines.tracking.flatMap((v, i) => (v === null ? [ticks.time[i]] : []))")
        assert holes == [pytest.approx((GAP[0] + GAP[1] - 1) / 60, abs=1e-3)]  # one gap, and it stays one

        browser.click("Inject fault")
        browser.click("Kinect jump")
        browser.wait("document.getElementById('events').innerText.includes('Kinect jump')")
        assert not page.stop_requested
        stop = browser.value("document.getElementById('stop').getBoundingClientRect().height")
        assert stop >= 48
        browser.click("STOP")
        browser.wait(
            "document.getElementById('state').innerText === 'stopped' && document.getElementById('stop').hidden"
        )
        running.join(PATIENCE)
        assert commands == ["Kinect jump", "stop"]
        browser.wait(READY)  # as a replay

        assert browser.hosts() == {urlsplit(page.url).netloc}
        assert {url.split(":")[0] for url in browser.requests} <= {"http", "data", "blob"}
        # Workers are heard, too: one of them holds the connection of the scene.
        assert set(browser.sockets) == {f"{page.url.replace('http', 'ws')}{name}" for name in ("feed", "scene")}
        assert browser.errors == []
    finally:
        given_up.set()
        begin.set()
        running.join(PATIENCE)


def test_a_page_that_lost_its_program_says_so(browser: Browser) -> None:
    with LivePage("a run", "suspended_mass") as page:
        browser.open(page.url)
        browser.wait("document.getElementById('state')?.innerText === 'waiting'")
        page._server.stop()  # as if its process had died
        browser.wait(
            "document.getElementById('banner').innerText.startsWith('Connection lost: STOP cannot be pressed')"
        )
        assert browser.value("document.getElementById('stop').disabled")
    browser.open("about:blank")
    browser.wait("location.href === 'about:blank'")
    browser.errors.clear()  # of connections that were refused


def test_a_recording_in_all_windows(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Light and dark, narrow and wide: nothing sticks out, charts are drawn and tell what summary.json has."""
    for name in DRAWING:
        monkeypatch.setattr(name, lambda *_: {})
    made = rig(ticks=40)
    run = closed_loop(made, None, quiet)
    summary = results.write(tmp_path, made.controller, run, None, FACTS)
    recorded = RecordedRun(made.job, generation.choices_in(made.job.root), made.controller, run, None, {}, [])
    with AgainPage(recorded) as page:
        page.saved(tmp_path)
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            browser.resize(1440, 900)
            browser.open(page.url)
            browser.wait(f"document.readyState === 'complete' && {READY} && {CANVAS}")
            for width, height in WIDTHS.items():
                browser.resize(width, height)
                browser.wait(f"innerWidth === {width}")
                assert browser.value(WIDE) <= 0, (scheme, width)
                assert all(tones > 20 for tones in browser.value(INK)), (scheme, width)
            assert (sum(browser.value(BACK)) < 200) == (scheme == "dark")
        assert browser.value(LAYERS) == ["plant", "estimate", "reference", "trail"]
        told = browser.value("document.querySelector('.chart h3 b').innerText")
        rms, most = map(float, re.findall(r"\d+\.\d+", told))
        assert rms == pytest.approx(1e3 * summary["tracking_rms_m"], abs=0.05)
        assert most == pytest.approx(1e3 * summary["tracking_max_m"], abs=0.05)
        assert browser.value("ticks.time.length") >= summary["ticks"]
        assert browser.text("missed") == "0"
        assert browser.value("document.getElementById('stop').hidden && !document.getElementById('report').hidden")
        seek = "(s => { s.value = 12; s.dispatchEvent(new Event('input')); })(document.getElementById('scrub'))"
        browser.value(seek)
        wait_for(lambda: page._shown.time == pytest.approx(12 / 30, abs=0.01), "the scene is where the slider is")
        assert browser.text("time") == "0.40 s"
        assert browser.errors == []
        check_report(browser, page.url)
    browser.prefer("light")


def check_report(browser: Browser, url: str) -> None:
    """It opens from the page, and cannot speak to it: a report may be another person's."""
    browser.open(f"{url}report/report.html")
    browser.wait("!!document.getElementById('sentence')")
    assert browser.value("origin") == "null"
    assert browser.errors == []
    told = browser.call("Runtime.evaluate", expression=ASK_AS_REPORT, awaitPromise=True)
    assert told["result"]["value"] == "refused"
    browser.errors.clear()
