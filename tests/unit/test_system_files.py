"""Systems in Python files of the user: found, blamed with their line, digested, and never run from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import stepmap as sm
from stepmap import jobs
from stepmap.cli import app
from stepmap.errors import JobError, TrustError
from stepmap.jobs import optimize
from stepmap.jobs.system import read_source, source_of
from stepmap.toml.tables import parse_text, read

SYSTEM = '''"""A trolley with a spring."""
import stepmap as sm

EXAMPLE = {"x": 0.1}


def rest_length(): return 0.2


def trolley(mass: float = 1.0, stiffness: float = 3.0) -> sm.System:
    b = sm.Builder("trolley")
    x = b.coordinate("x", unit="m", low=-1.0, high=1.0)
    force = b.input("force", unit="N", low=-5.0, high=5.0)
    b.mass(b.world.tx(x, name="cart"), b.parameter("mass", mass, unit="kg"))
    b.coordinate_spring(x, stiffness=stiffness, rest=rest_length())
    b.drive(x, force)
    return b.build()
'''
JOB = """[system]
file = "trolley.py"
mass = 2.0

[time]
dt = 0.1
steps = 5

[reference]
kind = "expressions"
of = { x = "0.1*t" }

[weights]
state = { q = 1 }
input = { forces = 1 }
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a job and its system, and a cache that knows nothing yet."""
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "trolley.py").write_text(SYSTEM, encoding="utf-8")
    (folder / "trolley.toml").write_text(JOB, encoding="utf-8")
    return folder


def said(folder: Path, code: str = SYSTEM, job: str = JOB) -> JobError:
    """What a job says whose system or file is another."""
    (folder / "trolley.py").write_text(code, encoding="utf-8")
    (folder / "trolley.toml").write_text(job, encoding="utf-8")
    with pytest.raises(JobError) as caught:
        jobs.load(folder / "trolley.toml")
    return caught.value


def test_a_job_has_the_system_of_a_file_beside_it(project: Path) -> None:
    job = jobs.load(project / "trolley.toml")
    assert job.system.mass_matrix([0.0])[0, 0] == 2.0
    x = job.step.rest({"x": 0.0}, np.zeros(1))
    assert job.step.step(x, [0.0]).x[0] > 0.0  # the spring pulls towards 0.2 m
    assert source_of(job).make(mass=3.0).mass_matrix([0.0])[0, 0] == 3.0


def test_its_content_is_part_of_the_digest_and_of_a_recording(project: Path) -> None:
    job = jobs.load(project / "trolley.toml")
    assert job.files == {"trolley.py": SYSTEM.encode()}
    before = optimize.stage(job, project)
    (project / "trolley.py").write_text(SYSTEM.replace("0.2", "0.3"), encoding="utf-8")
    assert optimize.stage(job, project).digest == before.digest  # of the job as it was read
    changed = optimize.stage(jobs.load(project / "trolley.toml"), project)
    assert changed.inputs["system"] != before.inputs["system"]
    assert changed.digest != before.digest


def test_commands_take_it(project: Path) -> None:
    out = project / "run.json"
    done = CliRunner().invoke(
        app, ["simulate", str(project / "trolley.py"), "--set", "mass=4", "--steps", "3", "--json", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(out.read_text(encoding="utf-8"))["arguments"] == {"mass": 4.0}


TWO = SYSTEM + "\n\ndef other() -> sm.System:\n    return trolley(5.0)\n"


@pytest.mark.parametrize(
    ("code", "line", "text", "hint"),
    [
        (SYSTEM.replace('b.parameter("mass", mass, unit="kg")', "-1.0"), 14, "mass", ""),
        (SYSTEM.replace("    b.drive(x, force)", "    b.drive(y, force)"), 16, "NameError: name 'y' is not", ""),
        (SYSTEM.replace("return 0.2", "raise SystemExit(3)"), 7, "SystemExit: 3", ""),
        (SYSTEM.replace("def trolley(", "def trolley(("), 10, "is not valid Python", ""),
        (SYSTEM.replace("return b.build()", "return b"), 10, "trolley() returns Builder", "return b.build()"),
        (SYSTEM.replace("import stepmap", "import parts\nimport stepmap"), 2, "No module named 'parts'", "Install"),
        (
            SYSTEM.replace("def trolley", "def cart") + "\n\ndef other() -> sm.System: ...\n",
            None,
            "has 2",
            "function =",
        ),
        ("import stepmap", None, "has no function that returns a System", "def trolley() -> sm.System"),
    ],
)
def test_mistakes_have_the_line_of_the_python_file(
    code: str, line: int | None, text: str, hint: str, project: Path
) -> None:
    error = said(project, code)
    assert (error.file, error.line) == (str(project / "trolley.py"), line)
    assert text in str(error)
    assert hint in error.hint


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ('"trolley.py"', '"troley.py"', 2, "there is no file"),
        ('"trolley.py"', '"trolley.txt"', 2, "expected the name of a Python file"),
        ("mass =", "mas =", 3, "no argument is called 'mas'"),
        ("mass = 2.0", 'name = "pendulum"', 3, "either name"),
        ("mass = 2.0", 'function = "trolly"', None, "no function 'trolly'"),
        ('file = "trolley.py"', 'name = "trolley"', 2, "no system is called 'trolley'"),
    ],
)
def test_mistakes_of_the_table_have_the_line_of_the_job(
    old: str, new: str, line: int | None, text: str, project: Path
) -> None:
    error = said(project, job=JOB.replace(old, new))
    assert error.line == line
    assert text in str(error)
    assert "trolley" in error.hint or "mass" in error.hint or not error.hint


def test_a_neighbour_cannot_be_imported_and_that_is_told(project: Path) -> None:
    (project / "parts.py").write_text("LENGTH = 1.0\n", encoding="utf-8")
    code = SYSTEM.replace("import stepmap", "import parts\nimport stepmap")
    assert "a system is one file" in said(project, code).hint


def test_a_function_is_found_by_its_annotation_or_by_name(project: Path) -> None:
    place = project / "plants.py"
    place.write_text(SYSTEM, encoding="utf-8")
    assert sm.systems.from_file(place)().name == "trolley"
    place.write_text(TWO, encoding="utf-8")
    assert sm.systems.from_file(place, "other")().mass_matrix([0.0])[0, 0] == 5.0


# From elsewhere


def from_elsewhere(code: str, job: str = JOB) -> sm.System:
    root = parse_text(job.encode(), "job.toml", {"trolley.py": code.encode()})
    return jobs.parse(root, "trolley").system


def test_code_that_came_with_a_recording_is_not_run(project: Path) -> None:
    evil = SYSTEM + f"\n\nopen({str(project / 'owned')!r}, 'w').close()\n"
    with pytest.raises(TrustError, match=r"the system is code, trolley\.py, which came with it") as caught:
        from_elsewhere(evil)
    assert "--system-file" in caught.value.hint
    jobs.load(project / "trolley.toml")  # another file of that name
    with pytest.raises(TrustError):
        from_elsewhere(evil)
    with pytest.raises(JobError, match=r"no file '/.*trolley\.py' came with it"):
        from_elsewhere(SYSTEM, JOB.replace('"trolley.py"', f'"{project / "trolley.py"}"'))
    assert not (project / "owned").exists()


def test_the_same_bytes_are_run_once_the_user_has_run_them(project: Path) -> None:
    with pytest.raises(TrustError):
        from_elsewhere(SYSTEM)
    jobs.load(project / "trolley.toml")
    assert from_elsewhere(SYSTEM).name == "trolley"


def test_nobody_else_chooses_among_the_other_functions_of_a_file(project: Path) -> None:
    jobs.load(project / "trolley.toml")
    with pytest.raises(TrustError, match=r"rest_length\(\) is not run"):
        from_elsewhere(SYSTEM, JOB.replace("mass = 2.0", 'function = "rest_length"'))
    renamed = parse_text(JOB.replace("trolley.py", "rest_length.py").encode(), "job.toml", {})
    renamed = parse_text(renamed.source, "job.toml", {"rest_length.py": SYSTEM.encode()})
    with pytest.raises(TrustError, match=r"rest_length\(\) is not run"):
        read_source(renamed.table("system"))


def test_code_in_a_folder_of_everybody_is_not_run(project: Path) -> None:
    project.chmod(0o777)
    with pytest.raises(TrustError, match="others can write"):
        read_source(read(project / "trolley.toml").table("system"))
