"""Pictures of optimizations: what they show, and that nothing ordinary breaks them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.jobs import optimize as optimum

CAPTIONS = {name: optimum.CAPTIONS[name] for name in ("path", "tracking", "inputs", "convergence", "tension")}
MASS = """\
[system]
name = "suspended_mass"
[time]
dt = 0.05
steps = {steps}
[reference]
kind = "expressions"
of = {{ {of} }}
[weights]
state = {{ q = 100, v = 1 }}
input = {{ rho_next = 1 }}
[solver]
max_iterations = {iterations}
"""


def solved(
    folder: Path, steps: int = 40, of: str = 'xm = "0.2*sin(t)", xr = "t/10"', iterations: int = 50
) -> tuple[jobs.Job, sm.Solution]:
    path = folder / "try.toml"
    path.write_text(MASS.format(steps=steps, of=of, iterations=iterations))
    job = jobs.load(path)
    return job, job.solve()


def test_what_is_drawn(tmp_path: Path) -> None:
    job, solution = solved(tmp_path)
    drawn = optimum.draw(job, solution)
    assert set(drawn) == set(CAPTIONS)
    for figure in drawn.values():
        for axes in figure.axes:
            assert axes.lines
            assert axes.get_ylabel()
    lines = {line.get_label(): line for line in drawn["tracking"].axes[0].lines}
    np.testing.assert_array_equal(lines["xm"].get_ydata(), solution.trajectory.x[:, 0])
    dashed = [line for line in drawn["tracking"].axes[0].lines if line.get_linestyle() == "--"]
    np.testing.assert_array_equal(dashed[0].get_ydata(), job.reference.poses[:, 0])
    commands = {line.get_label(): line for line in drawn["inputs"].axes[0].lines}
    np.testing.assert_allclose(commands["xr"].get_ydata(), solution.trajectory.x[1:, 6], atol=1e-12)
    slopes = drawn["convergence"].axes[0]
    assert slopes.get_yscale() == "log"
    np.testing.assert_array_equal(slopes.lines[0].get_ydata(), [-entry.slope for entry in solution.history])


def test_the_path_shows_where_the_mass_should_have_been(tmp_path: Path) -> None:
    job, solution = solved(tmp_path)
    wanted = job.reference.poses[:, :2]
    lines = [np.array(line.get_xydata()) for line in optimum.draw(job, solution)["path"].axes[0].lines]
    assert any(line.shape == wanted.shape and np.allclose(line, wanted) for line in lines)
    assert any(line.shape == wanted.shape and np.allclose(line, solution.trajectory.x[:, :2]) for line in lines)


@pytest.mark.parametrize(
    "case",
    [
        {"steps": 1},
        {"iterations": 0},  # no history
        {"of": ""},  # already optimal: slope and cost are zero, or nearly
    ],
    ids=str,
)
def test_poor_results_can_be_drawn(tmp_path: Path, case: dict[str, object]) -> None:
    job, solution = solved(tmp_path, **case)  # type: ignore[arg-type]
    files = optimum.render(optimum.draw(job, solution), ["svg"])
    assert len(files) == len(CAPTIONS)
    rows = optimum.key_figures(job, solution, 0.1)
    assert rows[1][0] == "search"


def test_a_report_section(tmp_path: Path) -> None:
    job, solution = solved(tmp_path)
    rows = optimum.key_figures(job, solution, 0.1)
    part = optimum.section("Heading", "text", rows, optimum.draw(job, solution))
    assert [picture.caption for picture in part.pictures] == list(CAPTIONS.values())
    assert part.figures == rows
