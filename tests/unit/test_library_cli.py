"""``stepmap generate --library``: what it writes, what it leaves alone, and what it refuses before any work."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stepmap.cli import app
from stepmap.errors import ModelError
from stepmap_codegen.library import folder as library_folder
from stepmap_codegen.library.prefix import default_prefix, renamed, require_prefix
from tests.unit.test_generate_cli import JOB

ALWAYS = {
    *("README.md", "LICENSE", "CMakeLists.txt", "library.json", "library.properties", "stepmap.json"),
    *("zephyr/module.yml", "zephyr/CMakeLists.txt", "zephyr/Kconfig"),
}


def generate(*words: object) -> Result:
    return CliRunner().invoke(app, ["generate", *map(str, words)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job, its build folder and its library, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "try.toml").write_text(JOB)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stepmap.jobs.optimize.draw", lambda *_: {})
        patch.chdir(folder)
        result = generate("try.toml", "--library", "parts/crane", "--prefix", "crane")
    assert result.exit_code == 0, result.output
    assert "library written: parts/crane, names begin with crane_" in result.output
    return folder


@pytest.fixture
def there(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, and the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "parts" / "crane"


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_files_and_metadata(there: Path) -> None:
    found = contents(there)
    assert set(found) >= ALWAYS | {"src/crane.h", "src/crane.c", "examples/c/main.c", "examples/cpp/main.cpp"}
    assert "examples/crane_ticks/crane_ticks.ino" in found
    assert list(there.parent.iterdir()) == [there]  # nothing half-written beside it
    manifest = json.loads(found["stepmap.json"])
    assert set(manifest["files"]) == set(found) - {"stepmap.json"}
    assert [s["name"] for s in manifest["signals"]["commands"]] == ["u_xr_next", "u_r_next"]
    about = json.loads(found["library.json"])
    assert about["name"] == "crane"
    assert about["version"].endswith(f"+{manifest['model']}")
    properties = dict(line.split("=", 1) for line in found["library.properties"].decode().splitlines())
    assert properties["includes"] == "crane.h"
    assert properties["sentence"].startswith("State estimation")
    assert b"@" not in found["src/crane.h"] + found["README.md"] + found["CMakeLists.txt"]


def test_the_same_again_is_left_alone(there: Path) -> None:
    before, stamp = contents(there), (there / "README.md").stat().st_mtime_ns
    again = generate("try.toml", "--library", "parts/crane", "--prefix", "crane")
    assert "library up to date" in again.output
    assert "unchanged, skipped" in again.output
    assert (there / "README.md").stat().st_mtime_ns == stamp
    checked = generate("try.toml", "--library", "parts/crane", "--prefix", "crane", "--check")
    assert checked.exit_code == 0, checked.output
    assert contents(there) == before


def test_another_prefix_takes_its_place_and_a_second_one_a_place_of_its_own(there: Path) -> None:
    assert generate("try.toml", "--library", "parts/crane", "--prefix", "arm").exit_code == 0
    assert (there / "src" / "arm.h").exists()
    assert not (there / "src" / "crane.h").exists()
    assert generate("try.toml", "--library", "parts/second").exit_code == 0
    assert (there.parent / "second" / "src" / "try.h").exists()  # of the name of the job


@pytest.mark.parametrize(
    ("path", "content"), [("mine.c", "int mine;"), ("src/crane.c", "/* improved */"), ("build/x", "")]
)
def test_what_others_made_is_never_replaced(path: str, content: str, there: Path) -> None:
    (there / path).parent.mkdir(exist_ok=True)
    (there / path).write_text(content)
    before = contents(there)
    refused = generate("try.toml", "--library", "parts/crane", "--prefix", "other")
    assert refused.exit_code == 2
    assert path in refused.output
    assert contents(there) == before
    checked = generate("try.toml", "--library", "parts/crane", "--prefix", "crane", "--check")
    assert checked.exit_code == 1
    assert path in checked.output.replace("\n", "")


def test_a_folder_of_somebody_s_is_refused_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "try.toml").write_text(JOB)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "main.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "file").write_text("")
    for where, code in (("project", 2), (".", 2), ("..", 2), ("file", 1), ("file/below", 1)):
        refused = generate("try.toml", "--library", where)
        assert refused.exit_code == code, (where, refused.output)
    (tmp_path / "link").symlink_to(tmp_path / "project")
    assert generate("try.toml", "--library", "link").exit_code == 2
    assert not (tmp_path / "build").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "link", "project", "try.toml"]


def test_a_write_that_fails_leaves_the_old_one(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, replace = contents(there), os.replace

    def failing(source: Path, target: Path) -> None:
        if Path(source).name.endswith(".new"):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(library_folder.os, "replace", failing)
    failed = generate("try.toml", "--library", "parts/crane", "--prefix", "other")
    assert failed.exit_code == 1
    assert "No space left" in failed.output
    assert contents(there) == before
    assert list(there.parent.iterdir()) == [there]


@pytest.mark.parametrize(
    "prefix",
    ["Crane", "2nd", "a-b", "a__b", "sm", "crane_sm", "string", "math", "main", "test", "m", "_a", "a_", "ä", ""],
)
def test_prefixes_that_c_or_a_build_would_trip_over(prefix: str) -> None:
    with pytest.raises(ModelError, match="--prefix"):
        require_prefix(prefix)


def test_prefixes_without_a_library_or_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "try.toml").write_text(JOB)
    alone = generate("try.toml", "--prefix", "crane")
    assert alone.exit_code == 2
    assert "give --library DIR" in alone.output
    wrong = generate("try.toml", "--library", "x", "--prefix", "Crane")
    assert wrong.exit_code == 2
    assert not (tmp_path / "build").exists()
    assert default_prefix("Suspended-Mass 2") == "suspended_mass_2"
    with pytest.raises(ModelError, match="--prefix crane"):
        default_prefix("2 masses")


def test_names_are_whole_words() -> None:
    text = '#include "sm_fixed.h"\n#include <string.h>\nlib_x(sm_y, SM_Z, LIB_W, mysm_a, "bl sm_over_%0", SMS1);'
    made = renamed(text, "arm", frozenset({"sm_fixed.h"}))
    assert made == (
        '#include "arm_sm_fixed.h"\n#include <string.h>\n'
        'arm_x(arm_sm_y, ARM_SM_Z, ARM_W, mysm_a, "bl arm_sm_over_%0", SMS1);'
    )
