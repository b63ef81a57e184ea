"""Reports speak of the job at hand: a pendulum on an arm, all of whose coordinates are angles."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs, units
from stepmap.jobs import Job
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_hil.live.signals import Signals
from stepmap_hil.plant.mechanism import PlantErrors
from stepmap_hil.report import by_unit, plots, quantities, sentences, write
from stepmap_hil.report.off import Off, apart, label
from stepmap_hil.report.series import Series, series
from stepmap_hil.report.summary import summarize
from stepmap_hil.runs.log import Run
from tests import machines
from tests.hil.flights import fly

FACTS = {"seed": 1, "sensor": "gaussian", "flash_bytes": None, "ram_bytes": None, "instructions_per_tick": None}
TICKS = 60
JOB = """
[system]
file = "machines.py"
function = "furuta"
[time]
dt = 0.02
steps = 60
[reference]
kind = "expressions"
[reference.of]
phi = "sin(2*t)*min(t, 1)"
[weights.state]
q = 10
p = 1
[weights.input]
torque = 1
[noise]
gate = 6.0
[noise.process]
q = 1e-3
p = 1e-3
[noise.measurement]
phi = 0.002
theta = 0.002
[noise.start]
q = 0.02
p = 0.01
[board.axes.torque]
effort_per_unit = 2000
[bench]
angles = "deg"
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("furuta")
    (folder / "machines.py").write_text(Path(str(machines.__file__)).read_text())
    (folder / "furuta.toml").write_text(JOB)
    return jobs.load(folder / "furuta.toml")


@pytest.fixture(scope="module")
def controller(job: Job) -> Controller:
    return generation.controller(job, job.solve().require().plan, generation.choices_in(job.root))


@pytest.fixture(scope="module")
def runs(job: Job, controller: Controller) -> tuple[Run, Run]:
    wrong = PlantErrors(start={"theta": 0.1})
    closed, opened = (fly(job, controller, TICKS, wrong, feedback=feedback) for feedback in (True, False))
    return closed, opened


@pytest.fixture(scope="module")
def both(controller: Controller, runs: tuple[Run, Run]) -> tuple[Series, Series]:
    closed, opened = (series(controller, run) for run in runs)
    return closed, opened


def told(controller: Controller, runs: tuple[Run, Run], both: tuple[Series, Series], **more: Any) -> dict[str, Any]:
    known = {**FACTS, "open_loop_rms_m": None, "closed_loop_rms_m": None, "compared_ticks": TICKS, **more}
    return summarize(controller, runs[0], both[0], known, both[1])


def test_coordinates_have_metrics_of_their_own(
    controller: Controller, runs: tuple[Run, Run], both: tuple[Series, Series]
) -> None:
    """Checked against the rows of the run."""
    found = told(controller, runs, both)
    for k, name in enumerate(("phi", "theta")):
        entry = found["coordinates"][name]
        assert (entry["unit"], entry["kinematic"]) == ("rad", False)
        off = [np.array([row.coordinates[k] for row in run.rows]) - both[0].reference[:, k] for run in runs]
        assert entry["tracking_rms"] == entry["closed_loop_rms"] == pytest.approx(np.sqrt(np.mean(off[0] ** 2)))
        assert entry["tracking_max"] == pytest.approx(np.abs(off[0]).max())
        assert entry["open_loop_rms"] == pytest.approx(np.sqrt(np.mean(off[1] ** 2)))
        noise = np.array([row.z[k] - row.truth[k] for row in runs[0].rows])
        assert found["channels"][name]["raw_rms"] == pytest.approx(np.sqrt(np.mean(noise**2)))
        assert found["channels"][name]["seen"] == 1.0
    torque = found["inputs"]["torque"]
    assert (torque["unit"], torque["low"], torque["high"]) == ("N m", -0.4, 0.4)
    assert torque["roughness_filtered"] == pytest.approx(found["command_roughness_filtered"])
    assert -0.4 <= torque["least"] < torque["largest"] <= 0.4
    json.dumps(found, allow_nan=False)


def test_angles_are_told_in_milliradians_or_degrees(
    controller: Controller, runs: tuple[Run, Run], both: tuple[Series, Series]
) -> None:
    found = told(controller, runs, both)
    rows = dict(sentences.table(found))
    rms = found["coordinates"]["theta"]["tracking_rms"]
    assert f"theta {1e3 * rms:.3g} mrad" in rows["tracking"]
    assert "mm" not in rows["tracking"] + rows["with the filter"]
    assert rows["masses"].endswith(f"{1e3 * found['tracking_max_m']:.3g} mm max")
    degrees = dict(sentences.table({**found, "angles": "deg"}))
    assert f"theta {np.degrees(rms):.3g}°" in degrees["tracking"]
    assert "rad" not in degrees["tracking"] + degrees["with the filter"] + degrees["estimate"]


def test_figures_are_of_this_system(controller: Controller, both: tuple[Series, Series]) -> None:
    drawn = plots.draw(controller, *both, angles="deg")
    assert list(drawn) == ["motion", "tracking", "errors", "commands", "estimates"]  # no plane of two angles
    labels = {name: [axis.get_ylabel() for axis in figure.axes] for name, figure in drawn.items()}
    assert labels["tracking"] == ["phi [°]", "theta [°]"]
    assert labels["commands"] == ["torque [N m]"]
    assert labels["estimates"] == ["error of masses [mm]", "error of angles [°]"]
    assert labels["errors"] == labels["estimates"]
    off = both[0].coordinates - both[0].reference[:, :2]
    assert np.allclose(
        np.asarray(drawn["errors"].axes[1].lines[-1].get_ydata()), np.degrees(np.linalg.norm(off, axis=1))
    )
    curve = drawn["tracking"].axes[1].lines[-1]
    assert np.allclose(np.asarray(curve.get_ydata()), np.degrees(both[0].coordinates[:, 1]))
    assert hasattr(drawn["motion"].axes[0], "get_zlabel")  # in three dimensions, with axes
    captions = plots.captions(controller)
    assert captions.keys() >= drawn.keys()
    assert not re.search(r"string|robot|Kinect|velocit", " ".join(captions.values()))


def test_the_report_has_a_table_of_coordinates(controller: Controller, runs: tuple[Run, Run], tmp_path: Path) -> None:
    made = write.write(tmp_path, controller, *runs, {**FACTS, "angles": "deg"})
    assert made["angles"] == "deg"
    page = (tmp_path / "report.html").read_text()
    cell = f"<td>{np.degrees(made['coordinates']['phi']['tracking_rms']):.3g}°</td>"
    assert f"<td>phi</td>{cell}" in page
    assert (tmp_path / "motion.png").exists()


def test_the_terminal_and_the_live_page_tell_units_apart(controller: Controller, runs: tuple[Run, Run]) -> None:
    row = runs[0].rows[-1]
    assert re.fullmatch(r"[\d.]+ mm, [\d.e-]+°", Off(controller, "deg")(row))
    shown = {chart.title: chart.unit for chart in Signals(controller).charts()}
    assert (shown["Error of masses"], shown["Error of angles"]) == ("mm", "mrad")
    degrees = {chart.title: chart.unit for chart in Signals(controller, "deg").charts()}
    assert (degrees["Error of masses"], degrees["Error of angles"]) == ("mm", "°")


def test_mixed_units_are_apart_on_the_live_page() -> None:
    """By hand: 3-4-5 triangles, of lengths and of angles."""
    system = machines.quadrotor()
    there = np.array([0.3, 0.4, 0.06, 0.08])
    assert apart(system, there, np.zeros(4)) == {"m": pytest.approx(0.5), "rad": pytest.approx(0.1)}
    assert [label(system, unit) for unit in ("m", "rad")] == ["lengths", "angles"]
    assert label(sm.systems.get("cart_pendulum"), "rad") == "theta"


@cache
def wheel() -> sm.System:
    """A wheel on its own axis: no body goes anywhere."""
    b = sm.Builder("wheel")
    angle = b.coordinate("angle", unit="rad")
    b.mass(b.world.rz(angle, name="rim"), 1.0, inertia=(0.1, 0.1, 0.2))
    b.encoder(angle)
    return b.build()


def test_what_only_turns_has_no_distance() -> None:
    assert not quantities.bodies_travel(wheel())
    assert quantities.bodies_travel(machines.furuta())


def test_units_are_never_added() -> None:
    entries = {
        name: {"unit": unit, "tracking_rms": 0.003 * k, "tracking_max": 0.01 * k}
        for k, (name, unit) in enumerate([("a", "m"), ("b", "rad"), ("c", "rad"), ("d", "m"), ("e", "rad")], start=1)
    }
    few = {name: entries[name] for name in ("a", "b")}
    assert by_unit.told(few, "tracking_rms", "rad") == "a 3 mm, b 6 mrad"
    assert by_unit.told(few, "tracking_rms", "deg") == "a 3 mm, b 0.344°"
    # of five, by hand: √((3² + 12²)/2) and √((6² + 9² + 15²)/3)
    assert by_unit.told(entries, "tracking_rms", "rad") == "2 lengths 8.75 mm, 3 angles 10.7 mrad"
    assert by_unit.told(entries, "tracking_max", "rad") == "2 lengths 40 mm, 3 angles 50 mrad"
    assert [units.size(value, "m") for value in (0.0031, 2.4)] == ["3.1 mm", "2.4 m"]
    assert units.whole("rad/s", "deg").label("velocity of a") == "velocity of a [°/s]"
