"""report.html in a headless Chromium: no error, nothing fetched, and charts that show what summary.json says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap.jobs.chapters import Subject, flight, walk
from stepmap.report.charts import onto, packed, thinned, unpacked
from stepmap.report.explore import explore
from stepmap_hil.bench.execute import closed_loop, open_loop
from stepmap_hil.bench.facts import early_facts
from stepmap_hil.commands.bench.origin import origin_of
from stepmap_hil.report import write as results
from stepmap_hil.report.page.overlay import overlay
from stepmap_hil.runs.filter_replay import replay_filter
from stepmap_hil.runs.log import Run
from stepmap_hil.wire.raw_values import SignalCodec
from tests.hil.browser import CHROMIUM, Browser
from tests.hil.rigs import quiet, rig
from tests.pil.built import job, solution
from tests.turning import free_body

TICKS = 60
LARGEST = 3_000_000  # bytes
in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open pages with")


@cache
def closed(faults: str | None = None) -> Run:
    return closed_loop(rig(faults=faults, ticks=TICKS), None, quiet)


@cache
def evaluated(faults: str | None = None) -> results.Evaluated:
    made = rig(faults=faults, ticks=TICKS)
    opened = open_loop(rig(ticks=TICKS), quiet) if faults is None else None
    return results.evaluate(made.controller, closed(faults), opened, early_facts(made), origin_of(made))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("page")
    results.save(found, evaluated(), evaluated().summary, "passed")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser(1024, 800) as made:
        yield made


def show(browser: Browser, path: Path, width: int = 1024, *, dark: bool = False) -> None:
    browser.errors.clear()
    browser.requests.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.call("Emulation.setEmulatedMedia", features=[scheme])
    browser.open(path.resolve().as_uri())
    browser.wait(f"location.href === {json.dumps(path.resolve().as_uri())} && document.readyState === 'complete'")


def line(browser: Browser, key: str, name: str) -> list[float]:
    """Values of a line as uPlot has them."""
    find = f"const c = report.charts.find(c => c.key === {json.dumps(key)})"
    at = f"c.plot.series.findIndex(s => s.label === {json.dumps(name)})"
    return [float(v) for v in browser.value(f"(() => {{ {find}; return c.plot.data[{at}]; }})()")]


@in_chromium
@pytest.mark.parametrize(("width", "dark"), [(412, True), (1024, False), (1440, True)])
def test_it_opens_without_an_error_and_fits(width: int, dark: bool, folder: Path, browser: Browser) -> None:
    page = folder / "report.html"
    assert page.stat().st_size <= LARGEST
    show(browser, page, width, dark=dark)
    assert browser.errors == []
    assert browser.hosts() <= {""}  # files alone
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("report.charts.length") >= 8
    ground = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 200) is dark
    assert len(set(browser.screenshot())) > 50  # bytes of a picture that is not blank


@in_chromium
def test_charts_show_what_the_summary_says(folder: Path, browser: Browser) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    show(browser, folder / "report.html")
    off = np.array(line(browser, "tracking-m", "from the reference"))
    assert len(off) == summary["ticks"] == TICKS
    assert np.sqrt(np.mean(off**2)) / 1e3 == pytest.approx(summary["tracking_rms_m"], rel=1e-5)
    assert off.max() / 1e3 == pytest.approx(summary["tracking_max_m"], rel=1e-5)
    without = np.array(line(browser, "tracking-m", "without feedback"))
    assert np.sqrt(np.mean(without**2)) / 1e3 == pytest.approx(summary["open_loop_rms_m"], rel=1e-5)
    for name, entry in summary["coordinates"].items():
        plant = np.array(line(browser, f"coordinate-{name}", "plant"))
        assert np.sqrt(np.mean(plant**2)) / 1e3 == pytest.approx(entry["tracking_rms"], rel=1e-5)
    assert browser.text("verdict") == "PASS"
    assert browser.text("sentence").startswith("The board followed the plan to its end; 60 ticks in 2 s,")


@in_chromium
def test_charts_zoom_and_point_together(folder: Path, browser: Browser) -> None:
    show(browser, folder / "report.html")
    browser.value("report.charts[0].plot.setScale('x', {min: 0.5, max: 1.0})")
    browser.wait("report.charts.every(c => c.plot.scales.x.min === 0.5 && c.plot.scales.x.max === 1.0)")
    browser.click("Show all")
    browser.wait("report.charts.every(c => c.plot.scales.x.min === 0)")
    browser.value("report.player.show(30)")
    assert browser.text("clock") == "1.00 s"
    assert browser.value("report.charts.map(c => c.plot.cursor.idx)") == [30] * browser.value("report.charts.length")
    before = browser.value("document.getElementById('scene').toDataURL().length")
    browser.value("report.player.show(0)")
    assert browser.value("document.getElementById('scene').toDataURL().length") != before
    browser.click("Play")
    browser.wait("report.player.index > 3")
    browser.click("Pause")
    browser.click("Coordinates as they are")
    browser.wait("report.values")
    pose = evaluated().view.series.coordinates[:, 0]
    assert line(browser, "coordinate-xm", "plant") == pytest.approx(1e3 * pose, abs=1e-3)


@in_chromium
@pytest.mark.parametrize(
    ("faults", "first"),
    [
        ("wrong_object", "The board stopped the robot after 1."),
        ("stuck", "The board went into fault and stopped the robot after 1."),
    ],
)
def test_a_run_that_ended_says_so_first(faults: str, first: str, tmp_path: Path, browser: Browser) -> None:
    made = evaluated(faults)
    results.save(tmp_path, made, made.summary, "failed")
    show(browser, tmp_path / "report.html", 412)
    assert browser.errors == []
    assert browser.text("sentence").startswith(first)
    assert browser.text("verdict") == ("FAULT" if faults == "stuck" else "STOPPED")
    ended = browser.value("[...document.querySelectorAll('#states span')].pop().textContent")
    assert ended.startswith("fault" if faults == "stuck" else "stopped")
    rejected = browser.value("report.charts.find(c => c.key === 'innovation').chart.lines.map(l => l.name)")
    assert any(name.endswith("rejected") for name in rejected)


@in_chromium
def test_two_runs_lie_over_each_other(tmp_path: Path, browser: Browser) -> None:
    one, other = evaluated(), evaluated("hold_and_back")
    page = explore(overlay(one.view, other.view, ("passed", "passed"), ("first", "second")))
    (tmp_path / "overlay.html").write_text(page)
    show(browser, tmp_path / "overlay.html")
    assert browser.errors == []
    off = line(browser, "tracking-m", "from the reference, B")
    found = browser.value("report.charts[0].plot.data[1].length")
    assert len(off) == found == TICKS
    assert np.nanmax(off) / 1e3 == pytest.approx(other.summary["tracking_max_m"], rel=1e-5)
    assert browser.text("verdict") == "PASS / PASS"


def test_the_filter_that_is_replayed_is_the_board_s() -> None:
    """Innovations that the filter takes are those of the gate: none above it, and what it rejects is above it."""
    controller, run = solution()[1], closed("wrong_object")
    found, gate = replay_filter(controller, run), controller.plant.settings.gate
    assert gate is not None
    assert np.abs(found.innovation[found.taken]).max() <= gate * (1 + 1e-3)
    seen = np.array([[row.measured and row.valid >> k & 1 for k in range(4)] for row in run.rows], dtype=bool)
    rejected = seen & ~found.taken
    assert rejected.sum() == run.rows[-1].gated > 0
    assert np.abs(found.innovation[rejected]).min() >= gate * (1 - 1e-3)


def test_sigma_and_innovations_are_those_of_the_filter_in_float64() -> None:
    """The EKF of the host package, which knows no fixed point, on the same measurements and commands."""
    made, view = rig(ticks=TICKS), evaluated().view
    codec = SignalCodec.parse(view.controller.description())
    found, ekf = replay_filter(view.controller, view.run), job().ekf()
    assert job().noise is not None
    belief = ekf.start(job().start, np.diag(job().noise.start ** 2))
    for k, row in enumerate(view.run.rows):
        valid = [bool(row.measured and row.valid >> channel & 1) for channel in range(len(row.z))]
        belief, innovation = ekf.update(belief, codec.decode("measurement", row.words or [0] * len(valid)), valid)
        sigma = np.sqrt(np.diagonal(ekf.estimate(belief).P))
        assert found.sigma[k] == pytest.approx(sigma, rel=0.02, abs=1e-5)
        normal = innovation.residual / np.sqrt(innovation.variance)
        assert found.innovation[k][valid] == pytest.approx(normal[valid], abs=0.05)
        belief = ekf.predict(belief, codec.decode("command", row.command))
    assert len(view.run.rows) > made.planned


def test_points_are_left_out_where_least_is_lost() -> None:
    time = np.arange(10_000.0)
    weight = np.zeros(10_000)
    weight[[1234, 7777]] = 1.0
    chosen = thinned(time, weight, 1000)
    assert len(chosen) == 1000
    assert {1234, 7777} <= set(chosen)
    assert list(thinned(time[:5], None, 1000)) == [0, 1, 2, 3, 4]


def test_numbers_survive_their_packing() -> None:
    values = np.array([0.1, np.nan, -3e7])
    assert unpacked(packed(values)) == pytest.approx(values, rel=1e-6, nan_ok=True)


def test_other_times_find_the_nearest_value() -> None:
    time, other = np.array([0.0, 0.1, 0.2, 0.9]), np.array([0.01, 0.11, 0.21])
    assert onto(time, other, np.array([1.0, 2.0, 3.0])) == pytest.approx([1, 2, 3, np.nan], nan_ok=True)


def test_a_flight_says_how_far_it_flew() -> None:
    """Four metres along x and one up, turned about y by up to 20°: by the quaternion's own formula."""
    system = free_body()
    t = np.linspace(0, 2, 41)
    half = np.radians(10) * np.sin(np.pi * t / 2)
    poses = np.zeros((41, 7))
    at = {name: k for k, name in enumerate(system.tangent.names)}
    poses[:, at["body.tx"]], poses[:, at["body.tz"]] = 2 * t, t / 2
    first = system.tangent.balls[0][0]
    poses[:, first], poses[:, first + 2] = np.cos(half), np.sin(half)
    told = flight.chapter(Subject(job(), system, t, poses, flown=True))
    assert told is not None
    assert told.phrase == "body flew 4 m and 1 m up, with a tilt of up to 20°"
    assert flight.chapter(Subject(job(), job().system, t, poses)) is None


def test_a_walk_says_how_many_steps_it_took() -> None:
    system = sm.systems.get("biped_planar", stride=0.5)
    t, poses = np.zeros(1), np.zeros((1, 6))
    each = [{"length": 0.9}, {"length": 1.0}]
    summary = {"walk": {"steps": 2, "low": -0.0012, "each": each}}
    told = walk.chapter(Subject(job(), system, t, poses, flown=True, told=summary))
    assert told is not None
    assert told.phrase == "walked 2 steps, 1 m, 0.95 s each"
    assert told.tiles[0].note == "0.95 s each; swing foot 1.2 mm into the ground"
    assert walk.chapter(Subject(job(), system, t, poses, told=summary)) is None  # a plan
    assert walk.chapter(Subject(job(), system, t, poses, flown=True)) is None


def test_pictures_of_a_long_run_leave_the_page_small() -> None:
    """The smaller form of a large one; what still does not fit stays a file beside the page."""
    sizes = {"a": (200_000, 90_000), "b": (50_000, 90_000), "c": (900_000, 700_000), "d": (160_000, 200_000)}
    pictures = {name: {"svg": b"s" * svg, "png": b"p" * png} for name, (svg, png) in sizes.items()}
    made = results.embedded(pictures, {name: name for name in pictures})
    assert [(one.caption, one.form) for one in made] == [("a", "png"), ("b", "svg+xml"), ("d", "svg+xml")]
    assert sum(len(one.svg) for one in made) <= results.BUDGET


@in_chromium
def test_limits_are_named_and_those_beyond_the_scale_are_told(folder: Path, browser: Browser) -> None:
    """Of drawn text the page leaves nothing to read, so the pen is watched."""
    show(browser, folder / "report.html")
    browser.value(
        "(() => { window.told = []; const draw = CanvasRenderingContext2D.prototype.fillText;"
        " CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {"
        " told.push([text, this.textAlign, x, this.canvas.width]); return draw.call(this, text, x, y); };"
        " report.charts.forEach(c => c.plot.redraw()); return true; })()"
    )
    browser.wait("told.some(one => one[0] === 'fastest 2 ↑')")  # a chart is drawn after the call
    told = {text: (align, x, width) for text, align, x, width in browser.value("told")}
    align, x, width = told["fastest 2 ↑"]
    assert (align, x <= width) == ("right", True)
    assert "gate, 5 σ ↑" in told  # in two seconds nothing comes near
    assert "limit -5 ↓" not in told  # its other side, which has no name
    wider = "report.charts.find(c => c.key === 'innovation').plot.setScale('y', {min: -6, max: 6})"
    browser.value(f"(() => {{ told.length = 0; {wider}; return true; }})()")
    browser.wait("told.some(one => one[0] === 'gate, 5 σ' && one[1] === 'left')")
