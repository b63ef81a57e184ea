"""Generated libraries in projects of others: CMake, PlatformIO, Arduino; what ESP-IDF and Zephyr read of them."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from stepmap_codegen import Controller
from tests.pages import ROOT
from tests.sil.controllers import holding
from tests.sil.libraries import write

MAIN = """\
#include "arm.h"
#include "cart.h"
int main() {
  static arm_controller arm;
  static cart_controller cart;
  const bool same = arm_self_test(&arm) == 0 && cart_self_test(&cart) == 0;
  return same && arm_start(&arm) == 0 && cart_start(&cart) == 0 ? 0 : 1;
}
"""


@cache
def cart() -> Controller:
    return holding("cart_pendulum")[0]


def call(*words: object, folder: Path | None = None, more: dict[str, str] | None = None) -> str:
    command, env = [str(word) for word in words], os.environ | (more or {})
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_cmake_builds_and_tests_a_library_alone(tmp_path: Path) -> None:
    folder, build = write(cart(), tmp_path / "cart", "cart"), tmp_path / "build"
    call("cmake", "-S", folder, "-B", build, "-DCMAKE_C_FLAGS=-Werror", "-DCMAKE_CXX_FLAGS=-Werror")
    call("cmake", "--build", build)
    said = call("ctest", "--test-dir", build, "--output-on-failure")
    assert "100% tests passed, 0 tests failed out of 2" in said


def test_a_cmake_project_takes_two_of_them(tmp_path: Path) -> None:
    for prefix in ("arm", "cart"):
        write(cart(), tmp_path / prefix, prefix)
    (tmp_path / "main.cpp").write_text(MAIN)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(both LANGUAGES C CXX)\n"
        "add_subdirectory(arm)\nadd_subdirectory(cart)\n"
        "add_executable(both main.cpp)\ntarget_link_libraries(both PRIVATE arm cart)\n"
    )
    call("cmake", "-S", tmp_path, "-B", tmp_path / "build")
    call("cmake", "--build", tmp_path / "build")
    call(tmp_path / "build" / "both")


INI = """\
[env]
lib_deps = symlink://../libraries/cart
[env:native]
platform = native
[env:stm32]
platform = ststm32
board = genericSTM32F405RG
build_flags = -mfloat-abi=hard -mfpu=fpv4-sp-d16
extra_scripts = link.py
"""
LINK = 'Import("env")\nenv.Append(LINKFLAGS=["-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "--specs=nosys.specs"])\n'


def test_a_platformio_project_finds_it(tmp_path: Path) -> None:
    """With the platforms of firmware/platforms in place of PlatformIO's: it runs here, and links for an STM32F405."""
    library = write(cart(), tmp_path / "libraries" / "cart", "cart")
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "platformio.ini").write_text(INI)
    (project / "link.py").write_text(LINK)
    (project / "src" / "main.c").write_bytes((library / "examples" / "c" / "main.c").read_bytes())
    more = {
        "PLATFORMIO_CORE_DIR": str(tmp_path / "core"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    call("sh", ROOT / "firmware" / "platforms" / "pio", "run", folder=project, more=more)
    built = project / ".pio" / "build"
    assert len(call(built / "native" / "program").splitlines()) == 5
    symbols = call("arm-none-eabi-nm", built / "stm32" / "firmware.elf")
    assert " T cart_sm_predict" in symbols


ARDUINO = """\
#include <cstdint>
#include <cstdio>
static uint32_t now_us;
static uint32_t micros() { return now_us; }
static void delay(uint32_t) {}
struct {
  void begin(long) {}
  void print(double value, int digits) { std::printf("%.*f", digits, value); }
  void print(char c) { std::putchar(c); }
  void println(const char *text = "") { std::puts(text); }
} Serial;
"""
RUN = (
    "\nint main() {\n  setup();\n  for (int k = 0; k < 3; k++) {\n    loop();\n    now_us += CART_PERIOD_US;\n  }\n}\n"
)


def test_the_sketch_runs_with_a_stand_in_of_arduino(tmp_path: Path) -> None:
    folder = write(cart(), tmp_path / "cart", "cart")
    sketch = (folder / "examples" / "cart_ticks" / "cart_ticks.ino").read_text()
    (tmp_path / "sketch.cpp").write_text(ARDUINO + sketch + RUN)
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    objects = []
    for source in sorted((folder / "src").glob("*.c")):
        objects.append(tmp_path / f"{source.stem}.o")
        call("gcc", "-std=c11", f"-I{folder / 'src'}", "-c", source, "-o", objects[-1])
    call("g++", *strict, f"-I{folder / 'src'}", tmp_path / "sketch.cpp", *objects, "-o", tmp_path / "sketch")
    shown, plain = call(tmp_path / "sketch").splitlines(), tmp_path / "plain"
    call("gcc", f"-I{folder / 'src'}", folder / "examples" / "c" / "main.c", *objects, "-o", plain)
    commands = [float(line.split()[1]) for line in call(plain).splitlines()]
    assert [float(line) for line in shown] == pytest.approx(commands[:3], abs=1e-6)


READERS = {
    "ESP-IDF": ("CMakeLists.txt", "set(ESP_PLATFORM 1)", "idf_component_register"),
    "Zephyr": ("zephyr/CMakeLists.txt", "set(CONFIG_CART y)", "zephyr_library_sources"),
}


@pytest.mark.parametrize("reader", READERS)
def test_component_files_name_all_sources(reader: str, tmp_path: Path) -> None:
    """As CMake reads them where functions of ESP-IDF and Zephyr only say what they are told: neither is here."""
    folder = write(cart(), tmp_path / "cart", "cart")
    name, setting, function = READERS[reader]
    stands = "".join(
        f'function({known})\n  message("{known};${{ARGN}}")\nendfunction()\n'
        for known in (
            "idf_component_register",
            "zephyr_library",
            "zephyr_include_directories",
            "zephyr_library_sources",
        )
    )
    script = tmp_path / "read.cmake"
    script.write_text(f"{setting}\n{stands}include({folder / name})\n")
    done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = next(line.split(";") for line in done.stderr.splitlines() if line.startswith(function))
    listed = {((folder / name).parent / word).resolve() for word in told if word.endswith(".c")}
    assert listed == {path.resolve() for path in (folder / "src").glob("*.c")}
