"""Figs. 2 to 5 of Kobilarov et al. made anew: what they draw is one flight, which the laws of the page allow."""

from __future__ import annotations

import numpy as np
import pytest

from stepmap import figures, jobs
from stepmap.figures.canyon import _canyon
from stepmap.jobs.direct.job import DirectJob
from tests.pages import ROOT

NAMES = ("canyon_flight", "canyon_views", "canyon_states", "canyon_inputs")


def columns(made: figures.Published, *names: str) -> np.ndarray:
    return np.array([[row[name] for name in names] for row in made.rows])


@pytest.mark.parametrize("name", NAMES)
def test_figures_have_axes_with_names_and_say_what_they_assume(name: str) -> None:
    made = figures.make(name)
    assert made.source.startswith("Kobilarov et al., Fig. ")
    assert made.assumptions
    assert len(made.rows) in (64, 65)
    assert all(axes.get_ylabel() for axes in made.figure.axes)
    room = dict(made.key_figures)["least room from the rock"]
    assert float(room.split()[0]) > 0.35


def test_forces_and_attitude_give_the_acceleration_that_is_drawn() -> None:
    """m p̈ = R F_V u + f_g at the middle of every step, from numbers of Figs. 3 to 5 alone; both are of second order."""
    turned, pushed = (figures.make(name) for name in ("canyon_states", "canyon_inputs"))
    t, place = columns(turned, "t")[:, 0], columns(turned, "x", "y", "z")
    roll, pitch, yaw = columns(turned, "roll", "pitch", "yaw").T
    lift, tail, forward, sideways = columns(pushed, "lift", "yaw", "pitch", "roll").T
    cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (np.cos, np.sin))
    R = np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    force = np.array(
        [
            lift * np.sin(forward) * np.cos(sideways),
            -lift * np.sin(sideways) - tail,
            lift * np.cos(forward) * np.cos(sideways),
        ]
    )
    h = t[1] - t[0]
    middle = (R[:, :, 1:] + R[:, :, :-1]) / 2
    push = np.einsum("ijk,jk->ki", middle, force) / 5.0 - (0.0, 0.0, 9.8)
    over = (push[1:] + push[:-1]) / 2  # a node's acceleration is the mean of both steps'
    np.testing.assert_allclose(np.diff(place, 2, axis=0) / h**2, over, atol=0.1)


def test_the_canyon_is_that_of_the_job() -> None:
    job = jobs.load(ROOT / "examples" / "flight" / "canyon.toml")
    assert isinstance(job, DirectJob)
    (clearance,) = job.task.clear
    rock, flight = clearance.world[0], _canyon.flight(lambda part, text: None)
    for axis in "xyz":
        np.testing.assert_allclose(getattr(rock, axis), getattr(_canyon.ground(), axis), atol=1e-12)
    assert flight.solution.cost == pytest.approx(job.search().cost, rel=1e-9)
