"""The cache of built libraries: broken files, folders that cannot be written, processes that build at once."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap.graph import cache
from stepmap.lock import try_alone

STATE, TORQUE = [1.0, 0.2], [0.5]
BUILD = """
import stepmap as sm
print(sm.discretize(sm.systems.get("pendulum"), 0.01).step([1.0, 0.2], [0.5]).x.tolist())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for the test."""
    path = tmp_path / "cache"
    monkeypatch.setenv("STEPMAP_CACHE", str(path))
    return path


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No folder for the process yet; those made meanwhile are removed."""
    monkeypatch.setattr(cache, "_private", {})
    yield
    for made in cache._private.values():
        made.cleanup()


def pendulum() -> sm.VariationalStep:
    return sm.discretize(sm.systems.get("pendulum"), 0.01)


def only_library(folder: Path) -> Path:
    (path,) = folder.glob("*.so")
    return path


def test_libraries_are_kept_where_the_environment_says(folder: Path) -> None:
    pendulum()
    assert cache.folder() == folder
    assert cache.valid(only_library(folder))


def test_the_users_cache_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STEPMAP_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in cache.folder().parents
    assert cache.folder().name == "stepmap"


def test_a_library_is_built_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pendulum().step(STATE, TORQUE)
    monkeypatch.setenv("CC", "/nonexistent/cc")
    np.testing.assert_array_equal(pendulum().step(STATE, TORQUE).x, first.x)


def test_second_derivatives_are_built_when_first_asked_for(folder: Path) -> None:
    step = pendulum()
    step.linearize(STATE, TORQUE)
    assert len(list(folder.glob("*.so"))) == 1
    step.curvature(STATE, TORQUE, [1.0, 1.0])
    assert len(list(folder.glob("*.so"))) == 2


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda body: b"",
    "truncated": lambda body: body[: len(body) // 2],
    "last byte missing": lambda body: body[:-1],
    "one bit flipped": lambda body: body[:5000] + bytes([body[5000] ^ 1]) + body[5001:],
    "not a library": lambda body: b"once upon a time",
    "zeros": lambda body: bytes(len(body)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_built_anew(damage: str, folder: Path) -> None:
    expected = pendulum().step(STATE, TORQUE).x
    path = only_library(folder)
    whole = path.read_bytes()
    path.unlink()  # a loaded library must not change under the process
    path.write_bytes(DAMAGE[damage](whole))
    assert not cache.valid(path)
    np.testing.assert_array_equal(pendulum().step(STATE, TORQUE).x, expected)
    assert path.read_bytes() == whole


def test_a_folder_in_place_of_the_file_is_not_loaded(folder: Path) -> None:
    assert not cache.valid(folder)
    assert not cache.valid(folder / "missing.so")


def test_nothing_unfinished_is_left_behind(folder: Path) -> None:
    pendulum()
    left = sorted(path.suffix for path in folder.iterdir())
    assert left in ([".so"], [".lock", ".so"])
    assert stat.S_IMODE(only_library(folder).stat().st_mode) & stat.S_IRUSR


def test_libraries_of_several_orders_share_what_they_have_in_common(folder: Path) -> None:
    """The functions of first derivatives are compiled once."""
    step = sm.discretize(sm.systems.get("pendulum_chain", n=6), 0.01)
    _ = step.kernel
    first = {path: path.stat().st_mtime_ns for path in folder.glob("*.o")}
    assert first
    x = step.rest({})
    bend = step.curvature(x, np.zeros(step.nu), np.ones(step.ndx))
    both = {path: path.stat().st_mtime_ns for path in folder.glob("*.o")}
    assert len(both) > len(first)
    assert {path: both[path] for path in first} == first
    for path in first:
        path.write_bytes(b"cut short")  # as after a full disk: it is made again
    next(path for path in folder.glob("*.so") if path.stat().st_mtime_ns > max(first.values())).unlink()
    again = sm.discretize(sm.systems.get("pendulum_chain", n=6), 0.01)
    np.testing.assert_array_equal(again.curvature(x, np.zeros(step.nu), np.ones(step.ndx)).xx, bend.xx)


def test_a_failed_publication_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pendulum()
    path = only_library(folder)
    before = path.read_bytes()
    files = set(folder.iterdir())

    def disk_full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", disk_full)
    built = folder.parent / "built.so"
    built.write_bytes(b"new")
    with pytest.raises(OSError, match="No space"):
        cache.publish(built, path)
    assert path.read_bytes() == before
    assert set(folder.iterdir()) == files


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("kind", ["a file", "inside a file", "in /proc", "read-only"])
def test_a_folder_that_cannot_be_written_is_replaced_for_the_process(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    wanted = {
        "a file": tmp_path / "file",
        "inside a file": tmp_path / "file" / "cache",
        "in /proc": Path("/proc/stepmap"),
        "read-only": tmp_path,
    }[kind]
    if kind == "read-only":  # permissions do not stop a superuser

        def refuse(**_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(cache.tempfile, "TemporaryFile", refuse)
    monkeypatch.setenv("STEPMAP_CACHE", str(wanted))
    with pytest.warns(UserWarning, match=r"cannot write its cache folder .*STEPMAP_CACHE"):
        first = pendulum()
    second = pendulum()  # says nothing any more: a warning would fail the test
    np.testing.assert_array_equal(first.step(STATE, TORQUE).x, second.step(STATE, TORQUE).x)
    assert len(list(cache.folder().glob("*.so"))) == 1
    assert cache.folder() != wanted


def test_processes_that_build_the_same_model_at_once_build_it_once(tmp_path: Path) -> None:
    """Counted by a compiler that signs a list before it works."""
    log = tmp_path / "log"
    script = tmp_path / "cc"
    script.write_text(f'#!/bin/sh\necho run >> "{log}"\nexec cc "$@"\n')
    script.chmod(0o755)

    def build(folder: str, processes: int) -> tuple[list[str], int]:
        log.write_text("")
        environment = os.environ | {"STEPMAP_CACHE": str(tmp_path / folder), "CC": str(script)}
        running = [
            subprocess.Popen([sys.executable, "-c", BUILD], env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(processes)
        ]
        printed = [process.communicate(timeout=600)[0] for process in running]
        assert [process.returncode for process in running] == [0] * processes
        return printed, len(log.read_text().splitlines())

    (alone,), runs = build("alone", 1)
    together, runs_together = build("together", 3)
    assert together == [alone] * 3
    assert runs_together == runs > 0
    assert len(list((tmp_path / "together").glob("*.so"))) == 1


def test_waiting_for_another_process_that_builds_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was stopped in the middle: it is named, and the library is built all the same."""
    held = try_alone(tmp_path / "model.lock")
    assert held is not None
    monkeypatch.setattr("stepmap.lock.PATIENCE_S", 0.2)
    try:
        told = rf"waited 0 s for process {os.getpid()}, which builds the library model"
        with pytest.warns(UserWarning, match=told), cache.only_one(tmp_path / "model.so"):
            pass
    finally:
        os.close(held)
