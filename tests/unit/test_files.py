"""Files are whole or not there."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stepmap.files import open_file, overwrite, read_file, write_whole
from stepmap.lock import alone, try_alone


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


def test_a_link_may_be_replaced_itself(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", "new", links=False)
    assert not (tmp_path / "link").is_symlink()
    assert ((tmp_path / "link").read_text(), (tmp_path / "target").read_text()) == ("new", "old")


def other(kind: str, path: Path) -> Path:
    """Something that is not a file, under a name that one would take for a file's."""
    victim = path.with_name("victim")
    victim.write_text("precious")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"link": victim, "device": "/dev/zero"}[kind])
    return victim


KINDS = ["pipe", "folder", "link", "device"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_neither_read_nor_written(kind: str, tmp_path: Path) -> None:
    """A pipe would be waited for, and a device may have no end."""
    victim = other(kind, tmp_path / "file")
    for take in (open_file, lambda path: read_file(path, 100), lambda path: overwrite(path, b"new")):
        with pytest.raises(OSError, match=r"symbolic|regular|directory|No such device"):
            take(tmp_path / "file")
    if kind != "link":
        with pytest.raises(OSError, match=r"regular|directory"):
            open_file(tmp_path / "file", links=True)
    assert victim.read_text() == "precious"


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert read_file(tmp_path / "file", 100) == b"x" * 100
    with pytest.raises(OSError, match="too large"):
        read_file(tmp_path / "file", 99)
    overwrite(tmp_path / "file", b"shorter")
    assert read_file(tmp_path / "file", 100) == b"shorter"


@pytest.mark.parametrize("kind", [*KINDS, "second name"])
def test_a_lock_is_a_file_of_its_own(kind: str, tmp_path: Path) -> None:
    """The number of the process that is written there ends up nowhere else."""
    path = tmp_path / "lock"
    if kind == "second name":
        victim = tmp_path / "victim"
        victim.write_text("precious")
        os.link(victim, path)
    else:
        victim = other(kind, path)
    with pytest.raises(OSError, match="not used as a lock: remove it"):
        try_alone(path)
    with pytest.raises(OSError, match="not used as a lock"), alone(path, "does something"):
        pass
    assert victim.read_text() == "precious"


def test_threads_of_one_process_hold_each_other_back(tmp_path: Path) -> None:
    """Only the thread that holds a lock enters it again; another one waits, as another process does."""
    inside, most, entered = 0, 0, threading.Event()

    def work() -> None:
        nonlocal inside, most
        with alone(tmp_path / "lock", "builds"), alone(tmp_path / "lock", "builds"):
            inside += 1
            most = max(most, inside)
            entered.wait(0.1)
            inside -= 1

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(work) for _ in range(3)]:
            done.result()
    assert most == 1
    assert not list(tmp_path.iterdir())
