"""Murphey & Johnson, section V: a marionette imitates a dancer; they cut the puppet down, here it is the whole one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepmap import jobs
from stepmap.figures.published import Progress, Published
from stepmap.figures.theatre import _dancer
from stepmap.jobs.imitate.job import ImitationJob
from stepmap.optimal import Solution

SECONDS = 7.0
TITLE = "A marionette imitates a dancer"
JOB = """\
[job]
kind = "imitate"
[system]
name = "marionette"
[imitate]
motion = "dancer.bvh"
"""
ASSUMPTIONS = (
    f"the dancer: a skeleton of 16 joints turned by formulas for {SECONDS:g} s, written as BVH at {_dancer.RATE:g} Hz "
    "and read like any recording",
    "the marionette: six wires on robots that move and wind, 22 dynamic and 18 kinematic coordinates",
    "tempo, steps, scale and weights are those that a job of kind imitate chooses",
)


def make(progress: Progress) -> Published:
    """The figure, with the same as an animation."""
    from stepmap.jobs.imitate import pictures

    job, solution = solved(progress)
    progress(0.8, "drawing")
    pair = job.pair(solution)
    rows, told = _rows(job, solution), job.told(solution)["imitation"]
    pulls = told["tensions"].values()
    return Published(
        title=TITLE,
        source="Murphey & Johnson, section V",
        caption="Moments from left to right: the dancer with the mechanism's lengths, and below it the marionette.",
        figure=pictures.strip(pair),
        rows=rows,
        key_figures=[
            ("motion", f"{solution.trajectory.t[-1]:.3g} s in {solution.trajectory.steps} steps"),
            ("iterations", str(sum(entry.length > 0 for entry in solution.history))),
            ("tempo", f"{told['tempo']:.2f} of the dancer's"),
            ("markers off", f"{1e3 * told['marker_rms']:.0f} mm RMS"),
            ("strings pull", f"{min(p['low'] for p in pulls):.2f} N to {max(p['high'] for p in pulls):.1f} N"),
        ],
        assumptions=ASSUMPTIONS,
        animation=pictures.animation(pair),
    )


def solved(progress: Progress) -> tuple[ImitationJob, Solution]:
    """The job of a file that names the dancer's, and its solution."""
    progress(0.0, "reading the dancer")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "dancer.bvh").write_text(_dancer.bvh(SECONDS), encoding="utf-8")
        file = Path(folder) / "imitation.toml"
        file.write_text(JOB, encoding="utf-8")
        job = jobs.load(file)
    assert isinstance(job, ImitationJob)
    progress(0.2, "building marionette")
    job.build()

    def told(number: int, iteration: Any, trajectory: Any) -> None:
        progress(min(0.75, 0.3 + 0.04 * number), f"iteration {number}")

    return job, job.solve(told).require()


def _rows(job: ImitationJob, solution: Solution) -> Sequence[dict[str, Any]]:
    """Of every time: how far each marker is from where the dancer wants it [m], and the least tension [N]."""
    made, path = job.rehearsal, solution.trajectory
    assert made is not None  # a job that was read
    assert path.multipliers is not None  # a puppet on wires
    found = job.system.positions(job.step.layout.pose(path.x))
    picked = [job.system.frame_names.index(name) for name in made.names]
    off = np.linalg.norm(found[:, picked] - made.dancer, axis=2)
    pulls = path.multipliers.min(axis=1)
    return [
        {"t": float(t), **dict(zip(made.names, map(float, row), strict=True)), "tension": float(pull)}
        for t, row, pull in zip(path.t[:-1], off[:-1], pulls, strict=True)
    ]
