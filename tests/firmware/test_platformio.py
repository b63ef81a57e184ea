"""Firmware builds and its C tests run without PlatformIO's registry, from the same platformio.ini."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.firmware.built import ENVIRONMENTS, ROOT, Builds, builds

FIRMWARE = ROOT / "firmware"
LIMITS = {"stm32f405": (131072, 524288), "stm32f100": (8192, 129024)}  # RAM and flash that an image may have
ESP32 = FIRMWARE / "port" / "esp32"


@pytest.fixture(scope="module")
def built() -> Builds:
    return builds()


def test_every_board_of_the_issue_has_an_environment() -> None:
    ini = ConfigParser(interpolation=None)
    ini.read(ROOT / "platformio.ini")
    assert {f"env:{name}" for name in (*ENVIRONMENTS, "esp32", "esp32c3")} <= set(ini.sections())


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_builds(built: Builds, name: str) -> None:
    assert built.image(name).is_file()


def test_connects_to_nothing(built: Builds) -> None:
    assert not built.connections.exists(), built.connections.read_text()


def test_a_connection_would_be_noticed(built: Builds, tmp_path: Path) -> None:
    call = "import socket; socket.create_connection(('127.0.0.1', 9))"
    trace = tmp_path / "connections"
    environment = {"PYTHONPATH": str(built.folder / "trap"), "CONNECTIONS": str(trace)}
    run = subprocess.run([sys.executable, "-c", call], env=environment, capture_output=True)
    assert run.returncode != 0
    assert "127.0.0.1" in trace.read_text()


def test_nothing_is_left_at_home(built: Builds) -> None:
    assert not list(built.home.iterdir())


KEYS = {
    "none": (None, 0, "No such file or directory"),
    "open": ("17" * 32 + "\n", 0o644, "others can read"),
    "longer": ("17" * 32 + " and more\n", 0o600, "is not a key file"),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_is_none_is_said_in_words(name: str, tmp_path: Path) -> None:
    text, mode, words = KEYS[name]
    if text is not None:
        (tmp_path / name).touch(mode)
        (tmp_path / name).write_text(text)
    environment = os.environ | {"STEPMAP_KEY": str(tmp_path / name), "PLATFORMIO_BUILD_DIR": str(tmp_path / "build")}
    command = [str(FIRMWARE / "platforms" / "pio"), "run", "-e", "native"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode != 0
    assert f"STEPMAP_KEY={tmp_path / name}" in run.stdout + run.stderr
    assert words in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr


def test_what_is_built_with_a_key_is_its_owner_s_alone(tmp_path: Path) -> None:
    (tmp_path / "key").touch(0o600)
    (tmp_path / "key").write_text("17" * 32 + "\n")
    environment = os.environ | {"STEPMAP_KEY": str(tmp_path / "key"), "PLATFORMIO_BUILD_DIR": str(tmp_path / "build")}
    command = [str(FIRMWARE / "platforms" / "pio"), "run", "-e", "native"]
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    secret = bytes([0x17] * 32)
    holding = [path for path in (tmp_path / "build").rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert {path.name for path in holding} >= {"main.o", "program"}
    assert not [path for path in holding if path.stat().st_mode & 0o077]


@pytest.mark.parametrize("name", LIMITS)
def test_sizes_are_printed_and_fit(built: Builds, name: str) -> None:
    part = built.output.split(f"Processing {name} ")[1].split("Processing")[0]
    for what, limit in zip(("RAM", "Flash"), LIMITS[name], strict=True):
        match = re.search(rf"^{what}:.*used (\d+) bytes from (\d+) bytes", part, re.MULTILINE)
        assert match is not None
        assert 0 < int(match[1]) <= int(match[2]) == limit


def test_too_much_memory_fails(built: Builds, tmp_path: Path) -> None:
    run = built.pio(
        *("run", "-e", "stm32f100"),
        PLATFORMIO_BUILD_DIR=str(tmp_path),
        PLATFORMIO_BUILD_FLAGS="-Wl,--defsym=stack_bytes=0x2000",
    )
    assert run.returncode != 0
    assert "region `RAM' overflowed" in run.stderr


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_c_tests_pass(built: Builds, tmp_path: Path, name: str) -> None:
    run = built.pio("test", "-e", name, PLATFORMIO_BUILD_DIR=str(tmp_path))
    assert run.returncode == 0, run.stdout + run.stderr
    assert "test_takes_what_was_put_in_order" in run.stdout
    assert not built.connections.exists()


@pytest.mark.parametrize(
    ("body", "status"), [("CHECK(1 + 1 == 3);", "FAILED"), ("__builtin_trap();", "ERRORED")], ids=["check", "crash"]
)
def test_a_c_test_that_fails_is_noticed(built: Builds, tmp_path: Path, body: str, status: str) -> None:
    tests = tmp_path / "tests"
    (tests / "test_it").mkdir(parents=True)
    for file in ("check.h", "check.c", "test_custom_runner.py"):
        shutil.copy(FIRMWARE / "test" / file, tests)
    (tests / "test_it" / "test_it.c").write_text(
        f'#include "check.h"\n#include "port.h"\nstatic void test_sum(void) {{ {body} }}\n'
        "int main(void) { port_init(); CHECK_RUN(test_sum); return check_done(); }\n"
    )
    run = built.pio(
        "test", "-e", "native", PLATFORMIO_TEST_DIR=str(tests), PLATFORMIO_BUILD_DIR=str(tmp_path / "build")
    )
    assert f"native:test_it [{status}]" in run.stdout + run.stderr
    assert run.returncode != 0
