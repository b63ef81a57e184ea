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


def test_a_key_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    environment = os.environ | {"STEPMAP_KEY": str(tmp_path / "none"), "PLATFORMIO_BUILD_DIR": str(tmp_path / "build")}
    command = [str(FIRMWARE / "platforms" / "pio"), "run", "-e", "native"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode != 0
    assert f"STEPMAP_KEY={tmp_path / 'none'}: No such file or directory" in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr


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


@pytest.mark.parametrize("chip", ["ESP32", "ESP32C3"])
def test_the_esp32_port_compiles_against_declarations(chip: str, tmp_path: Path) -> None:
    left_out = {"ESP32": "encoders_gpio.c", "ESP32C3": "encoders_pcnt.c"}[chip]
    sources = [FIRMWARE / "echo.c", *(file for file in sorted(ESP32.glob("*.c")) if file.name != left_out)]
    run = subprocess.run(
        [
            *("riscv64-unknown-elf-gcc", "--specs=picolibc.specs", "-march=rv32imc", "-mabi=ilp32", "-std=c11", "-Os"),
            *("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-c"),
            *(f"-DCONFIG_IDF_TARGET_{chip}=1", '-DSTEPMAP_BOARD="esp32"'),
            *("-I", FIRMWARE / "core", "-I", FIRMWARE / "port", "-I", ESP32, "-isystem", ESP32 / "declarations"),
            *sources,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    defined = subprocess.run(
        ["riscv64-unknown-elf-nm", "--defined-only", *tmp_path.glob("*.o")], capture_output=True, text=True, check=True
    )
    promised = re.findall(r"^(?!typedef).*?\b(port_\w+)\(", (FIRMWARE / "core" / "port.h").read_text(), re.MULTILINE)
    assert set(promised) <= set(re.findall(r" T (\w+)", defined.stdout))
