"""Files are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepmap.files import write_whole


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.txt"
    write_whole(path, "first")
    write_whole(path, b"second")
    assert path.read_text() == "second"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_whole(tmp_path / "ours", "")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(error)):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(temporary: str, *_: object) -> None:
        raise PermissionError(13, "Permission denied", temporary)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(PermissionError) as caught:
        write_whole(tmp_path / "file", "")
    assert caught.value.filename == str(tmp_path / "file")


def test_a_link_keeps_pointing_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_device_stays_a_device() -> None:
    write_whole(Path("/dev/null"), "gone")
    assert not Path("/dev/null").is_file()
