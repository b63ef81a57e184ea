"""Stages: folders that appear whole, are skipped when nothing changed, and are made anew when anything did."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepmap import lock
from stepmap.errors import BusyError
from stepmap.jobs import Stage
from stepmap.jobs.stage import digest, digest_data, digest_sources, read_manifest, versions


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage("make", "thing", tmp_path / "build", {"job": "1234"}, {"numpy": "2.0"})


def fill(stage: Stage, text: str = "content", *, complete: bool = True) -> None:
    with stage.replace(complete=complete) as folder:
        (folder / "a.txt").write_text(text)
        (folder / "sub").mkdir()
        (folder / "sub" / "b.bin").write_bytes(b"\x00")


def test_a_folder_with_its_manifest(stage: Stage, tmp_path: Path) -> None:
    assert not stage.unchanged()
    fill(stage)
    assert stage.folder == tmp_path / "build" / "thing" / "make"
    assert stage.unchanged()
    manifest = json.loads((stage.folder / "manifest.json").read_text())
    assert manifest["complete"] is True
    assert manifest["inputs"] == {"job": "1234"}
    assert manifest["versions"] == {"numpy": "2.0"}
    assert manifest["outputs"] == {"a.txt": digest("content"), "sub/b.bin": digest(b"\x00")}
    # sha256 of "content", from coreutils' sha256sum
    assert manifest["outputs"]["a.txt"] == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    assert [path.name for path in stage.folder.parent.iterdir()] == ["make"]


def test_other_inputs_and_versions_are_a_change(stage: Stage) -> None:
    fill(stage)
    assert not dataclasses.replace(stage, inputs={"job": "1235"}).unchanged()
    assert not dataclasses.replace(stage, inputs={"job": "1234", "file": "1"}).unchanged()
    assert not dataclasses.replace(stage, versions={"numpy": "2.1"}).unchanged()


def test_files_that_were_touched_are_a_change(stage: Stage) -> None:
    fill(stage)
    (stage.folder / "a.txt").write_text("touched")
    assert not stage.unchanged()
    fill(stage)
    (stage.folder / "sub" / "b.bin").unlink()
    assert not stage.unchanged()
    fill(stage)
    (stage.folder / "manifest.json").write_text("{")
    assert not stage.unchanged()
    assert read_manifest(stage.folder) is None


def test_an_incomplete_result_is_kept_and_never_skipped(stage: Stage) -> None:
    fill(stage, complete=False)
    assert (stage.folder / "a.txt").exists()
    assert not stage.unchanged()


def test_a_new_folder_takes_the_place_of_the_old_one(stage: Stage) -> None:
    fill(stage, "old")
    (stage.folder / "left over").write_text("from before")
    fill(stage, "new")
    assert (stage.folder / "a.txt").read_text() == "new"
    assert not (stage.folder / "left over").exists()
    assert [path.name for path in stage.folder.parent.iterdir()] == ["make"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_nothing_changes_when_the_work_fails(stage: Stage, error: type[BaseException]) -> None:
    def half() -> None:
        with stage.replace() as folder:
            (folder / "a.txt").write_text("half")
            raise error

    fill(stage, "old")
    with pytest.raises(error):
        half()
    assert (stage.folder / "a.txt").read_text() == "old"
    assert stage.unchanged()
    assert [path.name for path in stage.folder.parent.iterdir()] == ["make"]


@pytest.mark.parametrize("call", [1, 2])
def test_nothing_changes_when_a_rename_fails(stage: Stage, call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renames are: the old folder aside, the new one in its place."""
    fill(stage, "old")
    replace, calls = os.replace, 0

    def fail(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        fill(stage, "new")
    assert (stage.folder / "a.txt").read_text() == "old"
    assert [path.name for path in stage.folder.parent.iterdir()] == ["make"]


def test_a_file_in_the_way(stage: Stage) -> None:
    stage.folder.parent.mkdir(parents=True)
    stage.folder.write_text("not a folder")
    with pytest.raises(NotADirectoryError):
        stage.prepare()
    assert stage.folder.read_text() == "not a folder"


@pytest.mark.parametrize("place", ["/proc/made", "/dev/null/made"])
def test_a_place_that_cannot_be_written_is_noticed_before_the_work(stage: Stage, place: str) -> None:
    """Permissions would not tell: root has them all, and /proc takes nothing."""
    with pytest.raises(OSError, match=place.removesuffix("/made")):
        dataclasses.replace(stage, place=Path(place)).prepare()


def test_a_place_of_its_own(stage: Stage, tmp_path: Path) -> None:
    placed = dataclasses.replace(stage, place=tmp_path / "elsewhere" / "made")
    placed.prepare()
    assert list(placed.folder.parent.iterdir()) == []  # nothing is left of the trial
    fill(placed)
    assert placed.unchanged()
    assert [path.name for path in placed.folder.parent.iterdir()] == ["made"]
    assert not (tmp_path / "build").exists()


def test_digests() -> None:
    assert digest_data({"a": 1, "b": [1.5]}) == digest_data({"b": [1.5], "a": 1}) != digest_data({"a": 1, "b": [1.6]})
    parts = ("arrays.py", "graph")
    assert digest_sources("stepmap", parts) == digest_sources("stepmap", parts)
    assert digest_sources("stepmap", parts) != digest_sources("stepmap", ("arrays.py",))
    assert set(versions("numpy")) == {"numpy"}


# Several processes in one build folder

WORK = """
import sys, time
from pathlib import Path
from stepmap.jobs import Stage
from stepmap import lock
stage = Stage("make", "thing", Path(sys.argv[1]), {"job": "1234"}, {})
with stage.making() as needed:
    if needed:
        print("makes", flush=True)
        if sys.argv[2] == "waits":
            sys.stdin.readline()
        with stage.replace() as folder:
            (folder / "a.txt").write_text("content")
    else:
        print("finds", flush=True)
"""


def work(folder: Path, how: str = "") -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WORK, str(folder), how]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_one_process_makes_a_stage_and_the_other_finds_it(tmp_path: Path) -> None:
    first = work(tmp_path, "waits")
    assert first.stdout is not None
    assert first.stdout.readline() == "makes\n"
    second = work(tmp_path)
    assert second.stderr is not None
    waiting = second.stderr.readline()  # said while it waits: the first goes on only now
    assert waiting == f"note: waiting for process {first.pid}, which makes {tmp_path}/thing/make\n"
    first.communicate("\n")
    assert second.communicate()[0] == "finds\n"
    assert (first.returncode, second.returncode) == (0, 0)
    assert [path.name for path in (tmp_path / "thing").iterdir()] == ["make"]


def test_a_wait_ends(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE_S", 0.1)
    other = work(tmp_path / "build", "waits")
    assert other.stdout is not None
    assert other.stdout.readline() == "makes\n"
    with pytest.raises(BusyError, match=f"process {other.pid}, which makes .*thing/make: end it"):
        fill(stage)
    other.communicate("\n")
    fill(stage)


def test_what_a_killed_process_left_is_cleared_away(stage: Stage, tmp_path: Path) -> None:
    """And a process that was killed between the renames loses nothing."""
    fill(stage, "old")
    killed = work(tmp_path / "build", "waits")
    other = dataclasses.replace(stage, versions={})
    assert not other.unchanged()
    assert killed.stdout is not None
    assert killed.stdout.readline() == "makes\n"
    killed.kill()
    killed.communicate()
    stage.folder.rename(stage.folder.with_name(".make.1-00.old"))
    stage.folder.with_name(".make.1-00.new").mkdir()
    with stage.replace() as folder:
        assert (stage.folder / "a.txt").read_text() == "old"
        assert {path.name for path in stage.folder.parent.iterdir()} == {"make", ".make.lock", folder.name}
    assert [path.name for path in stage.folder.parent.iterdir()] == ["make"]
