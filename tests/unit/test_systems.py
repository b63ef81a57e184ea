"""The catalog: found by name, built with arguments, errors that list what there is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stepmap as sm


def test_names_are_the_files() -> None:
    folder = Path(sm.systems.__file__).parent
    assert sm.systems.names() == sorted(path.stem for path in folder.rglob("[!_]*.py"))
    assert {"cart_pendulum", "double_pendulum", "suspended_mass", "planar_arm", "marionette"} <= set(sm.systems.names())


@pytest.mark.parametrize("name", sm.systems.names())
def test_every_system_says_what_it_is_and_has_a_pose_to_start_from(name: str) -> None:
    assert sm.systems.maker(name).__doc__
    system = sm.systems.get(name)
    known = {c.name for c in system.coordinates} | {ball.name for ball in system.balls}
    assert set(sm.systems.example(name)) <= known
    system.require_on_constraints(system.configuration({}))


@pytest.mark.parametrize("name", ["pendulums", "", "_registry", "../setup", None])
def test_unknown_systems_are_refused_with_the_list(name: str) -> None:
    with pytest.raises(sm.ModelError, match=r"no system is called.*\nhint: .*cart_pendulum"):
        sm.systems.get(name)


def test_unknown_arguments_are_refused_with_the_list() -> None:
    with pytest.raises(sm.ModelError, match="takes no 'weight'; it takes mass, length"):
        sm.systems.get("pendulum", weight=2.0)


def test_arguments_reach_the_system() -> None:
    assert len(sm.systems.get("pendulum_chain", n=3).dynamic) == 3
    assert len(sm.systems.get("double_pendulum", actuated=False).inputs) == 0
    with pytest.raises(sm.ModelError, match="n must be a whole number"):
        sm.systems.get("pendulum_chain", n=0)


PACKAGE = """
import stepmap as sm

EXAMPLE = {"theta": 2.0}
unbuilt = 3

def seesaw(mass: float = 1.0) -> sm.System:
    "A point on an arm."
    b = sm.Builder("seesaw")
    torque, theta = b.input("torque"), b.coordinate("theta", unit="rad")
    b.mass(b.world.rz(theta).tx(1.0), mass)
    b.drive(theta, torque)
    return b.build()
"""
ENTRIES = """[stepmap.systems]
seesaw = systems_of_test:seesaw
pendulum = systems_of_test:seesaw
number = systems_of_test:unbuilt
absent = systems_of_test:nothing
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that Python takes for an installed package with systems."""
    (tmp_path / "systems_of_test.py").write_text(PACKAGE)
    (info := tmp_path / "systems_of_test-1.0.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: systems-of-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    return tmp_path


def ask(folder: Path, code: str) -> str:
    told = subprocess.run(
        [sys.executable, "-c", f"import stepmap as sm\n{code}"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return told.stdout.strip()


def test_other_packages_add_systems(installed: Path) -> None:
    told = ask(
        installed,
        'print("seesaw" in sm.systems.names(), sm.systems.get("seesaw", mass=2.0).mass_matrix([0.0])[0, 0],'
        ' sm.systems.example("seesaw"), sm.systems.source("seesaw").decode().count("theta"))',
    )
    assert told == f"True 2.0 {{'theta': 2.0}} {PACKAGE.count('theta')}"


def test_no_package_replaces_a_system_of_the_catalog(installed: Path) -> None:
    assert ask(installed, 'print(sm.systems.get("pendulum").name, sm.systems.source("pendulum"))') == "pendulum None"


@pytest.mark.parametrize(("name", "text"), [("absent", "AttributeError"), ("number", "expected a class or a function")])
def test_a_system_that_cannot_be_loaded_says_where_it_comes_from(installed: Path, name: str, text: str) -> None:
    code = f"try:\n    sm.systems.get({name!r})\nexcept sm.ModelError as error:\n    print(error, error.cause)"
    told = ask(installed, code)
    assert text in told
    assert "systems_of_test:" in told


def test_broken_systems_are_noted_and_the_others_listed(installed: Path) -> None:
    for options in ([], ["--json"]):
        listed = subprocess.run(
            [sys.executable, "-m", "stepmap.cli", "systems", *options],
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        assert "seesaw" in listed.stdout
        assert "marionette" in listed.stdout
        assert "absent" not in listed.stdout
        notes = listed.stderr.splitlines()
        assert [note.split("'")[1] for note in notes] == ["absent", "number"]
        assert notes[0].startswith("note: system 'absent' is not listed: system 'absent'")
        assert "AttributeError" in notes[0]


def test_a_changed_package_makes_a_job_run_again(installed: Path) -> None:
    (installed / "job.toml").write_text(
        '[system]\nname = "seesaw"\n[time]\ndt = 0.01\nsteps = 5\n[reference]\nkind = "expressions"\n'
        "[reference.of]\ntheta = 1\n[weights.state]\nq = 1\n[weights.input]\nforces = 1\n"
    )
    code = (
        "from pathlib import Path\nfrom stepmap import jobs\nfrom stepmap.jobs.optimize import stage\n"
        f"folder = Path({str(installed)!r})\nprint(stage(jobs.load(folder / 'job.toml'), folder).digest)"
    )
    before = ask(installed, code)
    assert ask(installed, code) == before
    with (installed / "systems_of_test.py").open("a") as file:
        file.write("# another version\n")
    assert ask(installed, code) != before
