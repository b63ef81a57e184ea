"""The ESP32 port, compiled for both instruction sets against declarations of the vendor's functions: no warning, every
promise of port.h kept, and what runs while flash cannot be read is in RAM, with all that it calls and reads.

Xtensa is compiled by the compiler of an LX106, the older processor of the same family: an ESP32's own is not in Debian.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

FIRMWARE = Path(__file__).parents[2] / "firmware"
ESP32 = FIRMWARE / "port" / "esp32"
CHIPS = {
    "ESP32": ("xtensa-lx106-elf-", (), "encoders_gpio.c"),
    "ESP32C3": (
        "riscv64-unknown-elf-",
        ("--specs=picolibc.specs", "-march=rv32imc", "-mabi=ilp32"),
        "encoders_pcnt.c",
    ),
}
# What may run with the cache of flash off, and what of ESP-IDF it may call then: in RAM by these lines of
# sdkconfig.defaults.
CALLED_IN_RAM = {
    "gpio_set_level": "CONFIG_GPIO_CTRL_FUNC_IN_IRAM",
    "gpio_get_level": "CONFIG_GPIO_CTRL_FUNC_IN_IRAM",
    "__real_esp_panic_handler": "CONFIG_ESP_PANIC_HANDLER_IRAM",
}
IN_RAM = {
    "ESP32": {"motors_off", "__wrap_esp_panic_handler"},
    "ESP32C3": {"motors_off", "__wrap_esp_panic_handler", "edge"},
}
RAM = (".iram1", ".dram1", ".data", ".sdata", ".bss", ".sbss")  # sections that ESP-IDF's link scripts put into RAM


@pytest.fixture(scope="module", params=sorted(CHIPS))
def chip(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def objects(chip: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file of the port as an object, without a warning."""
    prefix, machine, left_out = CHIPS[chip]
    folder = tmp_path_factory.mktemp(chip)
    sources = [FIRMWARE / "echo.c", *(file for file in sorted(ESP32.glob("*.c")) if file.name != left_out)]
    run = subprocess.run(
        [
            *(f"{prefix}gcc", *machine, "-std=gnu11", "-Os", "-ffunction-sections", "-fdata-sections", "-c"),
            *("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"),
            *(f"-DCONFIG_IDF_TARGET_{chip}=1", '-DSTEPMAP_BOARD="esp32"'),
            *("-I", FIRMWARE / "core", "-I", FIRMWARE / "port", "-I", ESP32, "-isystem", ESP32 / "declarations"),
            *sources,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return folder


def dump(chip: str, *arguments: str | Path) -> str:
    command = [f"{CHIPS[chip][0]}objdump", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def named(symbol: str, file: Path) -> str:
    """Labels of the compiler are known in their own file alone."""
    return f"{file.name} {symbol}" if symbol.startswith(".L") else symbol


def sections(chip: str, objects: Path) -> dict[str, str]:
    """The section of everything that is defined."""
    found = {}
    for file in sorted(objects.glob("*.o")):
        for line in dump(chip, "--special-syms", "-t", file).splitlines():
            if row := re.match(r"[0-9a-f]{8} .{7} (\.\S+)\s+[0-9a-f]+ (?:\.hidden )?(\S+)$", line):
                found[named(row[2], file)] = row[1]
    return found


def referred(chip: str, objects: Path) -> dict[str, set[str]]:
    """What the code and constants of each section of code in RAM refer to, without places in that section itself."""
    found: dict[str, set[str]] = {}
    for file in sorted(objects.glob("*.o")):
        section = ""
        for line in dump(chip, "-r", file).splitlines():
            if head := re.match(r"RELOCATION RECORDS FOR \[(\S+)\]", line):
                section = head[1]
            row = re.match(r"[0-9a-f]{8} (R_\S+)\s+(\S+?)(?:[+-]0x[0-9a-f]+)?$", line)
            if row and section.startswith(".iram1") and row[1] not in ("R_RISCV_RELAX", "R_RISCV_ALIGN"):
                found.setdefault(f"{file.name}{section}", set()).add(named(row[2], file))
    return found


def in_ram(name: str, places: dict[str, str]) -> bool:
    place = name if name.startswith(".") and name not in places else places.get(name, "")
    return place.startswith(RAM)


def test_every_promise_of_the_contract_is_kept(chip: str, objects: Path) -> None:
    promised = re.findall(r"^(?!typedef).*?\b(port_\w+)\(", (FIRMWARE / "core" / "port.h").read_text(), re.MULTILINE)
    assert len(promised) > 20
    assert set(promised) <= sections(chip, objects).keys()


def test_what_runs_without_flash_is_in_ram(chip: str, objects: Path) -> None:
    places = sections(chip, objects)
    assert {name: places[name].startswith(".iram1") for name in IN_RAM[chip]} == dict.fromkeys(IN_RAM[chip], True)


def test_what_runs_without_flash_calls_and_reads_nothing_there(chip: str, objects: Path) -> None:
    """Nothing of the port but what is in RAM, of ESP-IDF what its options put there, of the compiler's nothing."""
    places = sections(chip, objects)
    names = referred(chip, objects)
    assert names  # they refer to something: else nothing was looked at
    elsewhere = {
        (section, name)
        for section, all_names in names.items()
        for name in all_names
        if not in_ram(name, places) and name not in CALLED_IN_RAM
    }
    assert elsewhere == set()
    called = {name for all_names in names.values() for name in all_names if name in CALLED_IN_RAM}
    assert {"gpio_set_level", "__real_esp_panic_handler"} <= called


def test_the_options_that_put_esp_idf_into_ram_are_set() -> None:
    lines = (ESP32 / "sdkconfig.defaults").read_text().splitlines()
    assert {f"{option}=y" for option in CALLED_IN_RAM.values()} <= set(lines)


ALARMS = r"""
#include <stdio.h>
#include "driver/gpio.h"
#include "esp32.h"
#include "pins.h"
#include "port.h"
static int levels[64];
static gpio_isr_t handlers[64];
static void *arguments[64];
void declared_error_check(esp_err_t code) { (void)code; }
esp_err_t gpio_config(const gpio_config_t *config) {
  for (int pin = 0; pin < 64; ++pin) {
    if (config->pin_bit_mask >> pin & 1 && config->pull_up_en) levels[pin] = 1;
  }
  return ESP_OK;
}
esp_err_t gpio_set_level(gpio_num_t pin, uint32_t level) { return levels[pin] = (int)level, ESP_OK; }
int gpio_get_level(gpio_num_t pin) { return levels[pin]; }
esp_err_t gpio_install_isr_service(int flags) { return flags != 1 << 10; }
esp_err_t gpio_isr_handler_add(gpio_num_t pin, gpio_isr_t handler, void *argument) {
  return handlers[pin] = handler, arguments[pin] = argument, ESP_OK;
}
esp_err_t ledc_timer_config(const void *config) { return !config; }
esp_err_t ledc_channel_config(const void *config) { return !config; }
esp_err_t ledc_set_duty(int mode, int channel, uint32_t duty) { return mode + channel + (int)duty < 0; }
esp_err_t ledc_update_duty(int mode, int channel) { return mode + channel < 0; }
int main(void) {
  motors_init();
  encoders_init();
  printf("%u ", (unsigned)port_alarms());
  levels[PINS.fault] = 0;
  printf("%u ", (unsigned)port_alarms());
  levels[PINS.fault] = 1;
  for (unsigned axis = 0; axis < PORT_ENCODERS; ++axis) {
    const int a = PINS.encoder[axis][0], b = PINS.encoder[axis][1];
    levels[a] = !levels[a], handlers[a](arguments[a]);
    printf("%u ", (unsigned)port_alarms());
    levels[a] = !levels[a], levels[b] = !levels[b], handlers[a](arguments[a]), handlers[b](arguments[b]);
    printf("%u ", (unsigned)port_alarms());
    printf("%u ", (unsigned)port_alarms());
  }
}
"""


def test_an_edge_that_was_missed_is_told_once(tmp_path: Path) -> None:
    """And so is the line of the drivers, while it is low, and not while nobody pulls it."""
    folders = (FIRMWARE / "core", ESP32, ESP32 / "declarations")
    subprocess.run(
        [
            *("gcc", "-std=c11", "-w", "-DCONFIG_IDF_TARGET_ESP32C3=1", *(f"-I{folder}" for folder in folders)),
            *("-x", "c", "-", ESP32 / "encoders_gpio.c", ESP32 / "motors.c", "-o", tmp_path / "alarms"),
        ],
        input=ALARMS,
        text=True,
        check=True,
    )
    printed = subprocess.run([tmp_path / "alarms"], capture_output=True, text=True, check=True).stdout
    assert list(map(int, printed.split())) == [0, 1, 0, 256, 0, 0, 512, 0]


@pytest.mark.parametrize("what", ["code", "constants"])
def test_a_handler_in_flash_would_be_found(what: str, tmp_path: Path) -> None:
    """The check is tried: without the attribute of a function it calls, or of a table it reads."""
    text = (ESP32 / "encoders_gpio.c").read_text()
    old, new = {
        "code": ("static unsigned IRAM_ATTR read_levels", "static unsigned __attribute__((noinline)) read_levels"),
        "constants": ("static const DRAM_ATTR int8_t STEPS", "static const int8_t STEPS"),
    }[what]
    assert text.count(old) == 1
    changed = tmp_path / "encoders_gpio.c"
    changed.write_text(text.replace(old, new))
    prefix, machine, _ = CHIPS["ESP32C3"]
    command = [f"{prefix}gcc", *machine, "-std=gnu11", "-Os", "-ffunction-sections", "-fdata-sections", "-c"]
    command += ["-DCONFIG_IDF_TARGET_ESP32C3=1", f"-I{FIRMWARE / 'core'}", f"-I{ESP32}", f"-I{ESP32 / 'declarations'}"]
    subprocess.run([*command, str(changed), "-o", str(tmp_path / "changed.o")], check=True)
    places, names = sections("ESP32C3", tmp_path), referred("ESP32C3", tmp_path)
    found = {n for all_names in names.values() for n in all_names if not in_ram(n, places) and n not in CALLED_IN_RAM}
    assert any(("read_levels" if what == "code" else "STEPS") in name for name in found), names
