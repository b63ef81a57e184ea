"""A job with a file of found values: what goes over what, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepmap import jobs
from stepmap.errors import JobError
from stepmap.jobs import identified
from stepmap.jobs import optimize as optimum
from tests.pages import ROOT

JOB = (ROOT / "examples" / "suspended_mass.toml").read_text()
FOUND = """
[system]
damping = 0.0168
[board]
sensor_delay = 0.012
[noise.process]
xm = 0.00004
[noise.measurement]
"mass.x" = 0.001
[identified]
runs = ["one"]
"""


def written(folder: Path, found: str, job: str = JOB) -> Path:
    (folder / "identified.toml").write_text(found)
    file = folder / "better.toml"
    file.write_text('identified = "identified.toml"\n' + job)
    return file


def test_found_values_go_over_those_of_the_job(tmp_path: Path) -> None:
    plain = jobs.load(ROOT / "examples" / "suspended_mass.toml")
    job = jobs.load(written(tmp_path, FOUND))
    assert dict(zip([p.name for p in job.system.parameters], job.system.parameter_values, strict=True)) == {
        "mass": 0.1, "gravity": 9.81, "damping": 0.0168, "height": 1.0,
    }  # fmt: skip
    assert job.root.table("board").number("sensor_delay") == 0.012
    assert "axes" in job.root.table("board")
    assert job.noise is not None
    assert plain.noise is not None
    np.testing.assert_array_equal(job.noise.process, np.array([4e-5, *plain.noise.process[1:]]))
    np.testing.assert_array_equal(job.noise.measurement, np.array([0.001, *plain.noise.measurement[1:]]))
    np.testing.assert_array_equal(job.noise.start, plain.noise.start)
    assert job.files == {"identified.toml": FOUND.encode()}
    assert identified.values_in(job.root)["system"] == {"damping": 0.0168}
    assert identified.values_in(plain.root) == {}


def test_stages_are_made_again_where_the_values_have_changed(tmp_path: Path) -> None:
    first = optimum.stage(jobs.load(written(tmp_path, FOUND)), tmp_path).digest
    again = optimum.stage(jobs.load(written(tmp_path, FOUND)), tmp_path).digest
    other = optimum.stage(jobs.load(written(tmp_path, FOUND.replace("0.0168", "0.017"))), tmp_path).digest
    assert first == again
    assert first != other


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    values = {"system": {"damping": 0.0168}, "noise": {"measurement": {"mass.x": 0.001}}, "identified": {"runs": ["a"]}}
    text = identified.write(values, {("system", "damping"): "± 0.0003 N s/m"}, "two\nlines")
    assert text.startswith("# two\n# lines\n")
    assert "damping = 0.0168  # ± 0.0003 N s/m" in text
    job = jobs.load(written(tmp_path, text))
    assert job.noise is not None
    assert job.noise.measurement[0] == 0.001


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("[sistem]\nmass = 1\n", "no table is called 'sistem'"),
        ("[board]\naxes = 1\n", "no key is called 'axes'"),
        ('[system]\nmass = "heavy"\n', "expected a number"),
        ("[system]\nweight = 1\n", "no argument is called 'weight'"),
        ("[noise.process]\nxn = 1\n", "no state is called 'xn'"),
        ("[system]\nmass = -1\n", "mass"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, found: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        jobs.load(written(tmp_path, found))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('identified = "nothing.toml"\n' + JOB)
    with pytest.raises(JobError, match=r"nothing.toml cannot be read"):
        jobs.load(file)
