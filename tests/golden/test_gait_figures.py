"""Pekarek, Figs. 4.2, 4.4, 5.2 and 5.3: what they are made of, from a gait of least effort, soon found."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from stepmap import figures, jobs
from stepmap.figures import _gaits, gait_spatial
from stepmap.optimal.direct import DirectSolution
from stepmap.optimal.direct.task import Task
from tests.gaits import Biped
from tests.pages import ROOT


@pytest.fixture(scope="module")
def found() -> DirectSolution:
    return sm.direct(_gaits.biped(), **_gaits.options(running="effort")).require()


def test_energy_changes_by_what_the_motors_do(found: DirectSolution) -> None:
    """Work by the torques and angles alone; the map of 11 ms keeps the balance to half a percent of it."""
    t, total = _gaits.energy(found)
    q, u = found.trajectory.x[:, 2:6], found.trajectory.u
    done = (u * np.diff(q, axis=0)).sum(axis=1)
    np.testing.assert_allclose(t, 0.9 / 80 * (np.arange(80) + 0.5))
    balance = total - np.cumsum(done) + done / 2
    assert np.ptp(balance) < 5e-3 * np.abs(u * np.diff(q, axis=0)).sum()
    assert np.ptp(total) > 5.0


def test_legs_are_where_the_thesis_has_them(found: DirectSolution) -> None:
    biped = Biped()
    for k in (0, 33, 80):
        stands, swings = _gaits.legs(found, k)
        np.testing.assert_allclose(swings[-1], biped.swing(found.trajectory.x[k, :6]), atol=1e-12)
        np.testing.assert_allclose(stands[0], found.trajectory.x[k, :2], atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(np.diff(stands, axis=0), axis=1), 0.5)


def test_key_figures_tell_what_the_search_left(found: DirectSolution) -> None:
    told = dict(_gaits.told(found))
    assert float(told["cost of transport"]) == pytest.approx(0.366, abs=2e-3)  # docs/gaits.md
    assert "map's own error" in told["of which not by motors"]
    assert float(told["least force of the ground"].split()[0]) > 0
    assert len(_gaits.draw(found, "effort").axes) == 2


def test_what_the_figure_in_space_asks_for_is_the_example() -> None:
    job = jobs.load(ROOT / "examples" / "gaits" / "biped_spatial.toml")
    asked = Task(system=job.system, **gait_spatial.options(job.system, running="effort"))
    wanted = job.wanted  # type: ignore[attr-defined]
    for bounds in ("q", "u", "rate"):
        np.testing.assert_array_equal(getattr(asked.bounds, bounds), getattr(wanted.bounds, bounds))
    assert (asked.gaps, asked.largest_change) == (wanted.gaps, wanted.largest_change)
    assert dict(asked.path).keys() == dict(wanted.path).keys()
    q = asked.first.q
    np.testing.assert_allclose(asked.renaming.pose(q), wanted.renaming.pose(q))


def test_the_figures_have_their_names() -> None:
    assert {"gait_planar", "gait_spatial", "gait_designed", "design_search"} <= set(figures.names())
