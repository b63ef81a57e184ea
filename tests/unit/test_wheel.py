"""The wheel has all that an installed stepmap needs; ``make wheel`` walks the whole chain with it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepmap import extras
from stepmap.cli import app
from stepmap.descriptions import from_mjcf, from_urdf
from stepmap.errors import ModelError
from stepmap.mocap import read_bvh
from stepmap_hil.firmware import sources
from tests.pages import ROOT


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel's content lies; nobody can write to it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    place = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    for path in (place, *place.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    return place


def tracked(*places: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", *places], cwd=ROOT, check=True, capture_output=True, text=True)
    return listed.stdout.split()


def test_the_wheel_has_firmware_examples_and_dialect(installed: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no list of the files that belong to it")
    wanted = tracked("firmware", "examples", "platformio.ini", "tools/mavgen.py")
    left_out = ("firmware/generated/", "firmware/test/")
    for name in (name for name in wanted if not name.startswith(left_out)):
        assert (installed / "stepmap_hil" / "data" / name).read_bytes() == (ROOT / name).read_bytes(), name


def test_the_wheel_has_what_libraries_are_made_of(installed: Path) -> None:
    """All that generated code may need, in every form; C compilers read nothing of the wheel itself."""
    package = installed / "stepmap_codegen"
    wanted = {
        f"firmware/core/{name}{end}"
        for name in ("sm_fixed", "sm_follow", "sm_rows", "sm_schedule", "sm_walk")
        for end in (".c", ".h")
    }
    for name in {*wanted, "LICENSE"}:
        assert (package / "data" / name).read_bytes() == (ROOT / name).read_bytes(), name
    own = ROOT / "codegen" / "stepmap_codegen" / "library" / "templates"
    templates = {path.name for path in (package / "library" / "templates").iterdir()}
    assert templates == {path.name for path in own.iterdir()}


def test_an_installed_package_is_not_written_to(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PlatformIO wants a folder that it can write to: the sources are copied into the user's cache, once."""
    monkeypatch.setattr(sources, "CHECKOUT", tmp_path)
    monkeypatch.setattr(sources, "INSTALLED", installed / "stepmap_hil" / "data")
    monkeypatch.setenv("STEPMAP_CACHE", str(tmp_path / "cache"))
    copy = sources.project()
    assert copy.parent == (tmp_path / "cache").resolve()
    assert sources.project() == copy
    assert {path.name for path in copy.iterdir()} == {"platformio.ini", "firmware", "tools"}
    own = {p.relative_to(copy).as_posix() for p in copy.rglob("*") if p.is_file()}
    there = {p.relative_to(sources.INSTALLED).as_posix() for p in sources.INSTALLED.rglob("*") if p.is_file()}
    assert own == {name for name in there if not name.startswith("examples/") and name != "firmware/echo.c"}
    assert all(os.access(path, os.W_OK) for path in copy.rglob("*"))
    assert not list((tmp_path / "cache").glob(".firmware-*"))


def test_the_wheel_alone_runs(installed: Path, tmp_path: Path) -> None:
    """In another folder, with the wheel before everything else on the path."""
    command = [sys.executable, "-m", "stepmap.cli", "examples", "--copy", "jobs"]
    seen = os.environ | {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=seen, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "jobs" / "mechanisms" / "arm.toml").read_bytes() == (
        ROOT / "examples/mechanisms/arm.toml"
    ).read_bytes()
    again = subprocess.run(command, cwd=tmp_path, env=seen, capture_output=True, text=True)
    assert again.returncode == 2
    assert "jobs is there already, and nothing in it is replaced" in again.stderr


def test_examples_are_listed_with_what_they_are_about() -> None:
    said = CliRunner().invoke(app, ["examples"], env={"COLUMNS": "200"})
    assert said.exit_code == 0
    assert "mechanisms/acrobot.toml" in said.output
    assert "A gymnast swings up by the hip alone" in said.output
    assert "The helicopter of Kobilarov et al. flies through a canyon" in said.output
    assert "faults/cut.toml" not in said.output


@pytest.mark.parametrize(
    ("extra", "call"),
    [
        ("urdf", lambda: from_urdf("gone.urdf")),
        ("mjcf", lambda: from_mjcf("gone.xml")),
        ("mocap", lambda: read_bvh("gone.bvh", b"")),
    ],
)
def test_what_lacks_an_extra_says_so(extra: str, call: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert callable(call)
    with pytest.raises(ModelError, match="not installed") as error:
        call()
    assert error.value.hint == f"pip install 'stepmap[{extra}]'"


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("live", ["live", "gone"]),
        ("live", ["bench", "examples/suspended_mass.toml", "--live"]),
        ("ros", ["report", "gone", "--rosbag", "bag"]),
        ("ros", ["bench", "examples/suspended_mass.toml", "--ros"]),
    ],
)
def test_commands_that_lack_an_extra_say_so_before_any_work(
    extra: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = [str(ROOT / word) if word.endswith(".toml") else word for word in command]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    said = CliRunner().invoke(app, job)
    assert said.exit_code == 2
    assert f"pip install 'stepmap[{extra}]'" in said.output
    assert not list(tmp_path.iterdir())
