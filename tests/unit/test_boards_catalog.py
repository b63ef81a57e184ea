"""The catalog of boards: what an entry says agrees with platformio.ini, link scripts and ports; others can add one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path

import pytest

from stepmap.errors import ModelError
from stepmap_codegen import boards
from stepmap_codegen.boards import BUILT_IN, NATIVE, STM32F100, STM32F405, BoardSpec, Runs
from stepmap_hil.firmware import environment
from stepmap_hil.firmware.image import made_for

ROOT = Path(__file__).parents[2]
CHIPS = [spec for spec in BUILT_IN.values() if spec.bare_chip is not None]


def sections() -> ConfigParser:
    ini = ConfigParser(interpolation=None)
    ini.read(ROOT / "platformio.ini")
    return ini


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "REGISTERED", {})


@pytest.mark.parametrize("spec", BUILT_IN.values(), ids=BUILT_IN)
def test_platformio_ini_says_the_same(spec: BoardSpec) -> None:
    """So a board that is only in the catalog is built as one in platformio.ini would be."""
    section = sections()[f"env:{spec.name}"]
    assert {name: section[name] for name in spec.platformio} == spec.platformio
    assert spec.platformio.keys() >= section.keys() & {"extends", "board", "platform", "custom_qemu_machine"}


def test_platformio_ini_has_no_other_board() -> None:
    assert {name.removeprefix("env:") for name in sections().sections() if name.startswith("env:")} == set(BUILT_IN)


@pytest.mark.parametrize("spec", CHIPS, ids=lambda spec: spec.name)
def test_link_scripts_say_the_same(spec: BoardSpec) -> None:
    script = (ROOT / spec.environment["board_build.ldscript"]).read_text()
    sizes = {name: int(size) * boards.KIB for name, size in re.findall(r"(FLASH|RAM) \(.*LENGTH = (\d+)K", script)}
    stack = re.search(r"stack_bytes = (\d+)K", script)
    assert stack is not None
    assert sizes == {"FLASH": spec.flash_bytes, "RAM": spec.ram_bytes}
    assert int(stack[1]) * boards.KIB == spec.stack_bytes
    assert [int(at, 16) for at in re.findall(r"ORIGIN = (0x\w+)", script)] == [spec.flash_origin, spec.ram_origin]


@pytest.mark.parametrize("spec", CHIPS, ids=lambda spec: spec.name)
def test_ports_say_the_same(spec: BoardSpec) -> None:
    chip = (ROOT / spec.environment["board_build.ldscript"]).with_name("chip.h").read_text()
    values = dict(re.findall(r"#define (CHIP_\w+) (\w+)", chip))
    assert int(values["CHIP_FPU"]) == spec.fpu
    assert int(values["CHIP_USART1"].removesuffix("U"), 16) == spec.serial_address


def test_a_program_adds_a_board() -> None:
    spec = boards.register(replace(STM32F405, name="my_board"))
    assert boards.find("my_board") is spec
    assert list(boards.catalog()) == [*BUILT_IN, "my_board"]
    with pytest.raises(ModelError, match="there is a board 'my_board' already"):
        boards.register(spec)
    # Its serial port is where that of the stm32f405 is: the address in an image does not tell them apart.
    assert made_for(spec.serial_address.to_bytes(4, "little") if spec.serial_address else b"") is None


def test_an_unknown_board() -> None:
    with pytest.raises(ModelError, match="there is no board 'uno'") as caught:
        boards.find("uno")
    assert caught.value.hint.startswith("There are stm32f100, stm32f405, esp32")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "My Board"}, "name: a board is called by small letters"),
        ({"name": "../up"}, "name: a board is called by small letters"),
        ({"machine": None}, "machine: stm32f100 needs the name of QEMU's machine if it runs there"),
        ({"runs": Runs.SERIAL}, "machine: stm32f100 needs .* only then"),
        ({"target": None}, "target: stm32f100 runs on this computer"),
    ],
)
def test_an_entry_that_cannot_be(changed: dict[str, str | None], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        replace(STM32F100, **changed)  # type: ignore[arg-type]


def test_a_project_file_is_written_for_boards_that_platformio_ini_lacks(tmp_path: Path) -> None:
    file, other = tmp_path / "other.ini", replace(STM32F405, name="other")
    assert environment.project_conf(NATIVE, ROOT, file) == ()
    assert environment.project_conf(other, ROOT, file) == ("--project-conf", str(file))
    ini = ConfigParser(interpolation=None)
    ini.read(file)
    assert Path(ini["platformio"]["extra_configs"]) == ROOT / "platformio.ini"
    assert ini["env:other"]["board_build.ldscript"] == "firmware/port/stm32f4/stm32f405.ld"
    assert ini["env:other"]["custom_qemu_machine"] == "netduinoplus2"


PLUGIN = """
from dataclasses import replace
from stepmap_codegen.boards import STM32F405
good = replace(STM32F405, name="good")
taken = STM32F405
number = 3
"""
ENTRIES = """[stepmap.boards]
good = boards_of_test:good
taken = boards_of_test:taken
number = boards_of_test:number
absent = module_that_is_not_there:board
"""


def test_other_packages_add_boards_and_broken_ones_cost_a_warning(tmp_path: Path) -> None:
    (tmp_path / "boards_of_test.py").write_text(PLUGIN)
    info = tmp_path / "boards_of_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boards_of_test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    code = (
        "from stepmap_codegen import boards\nprint(*boards.catalog())\n"
        "try:\n    boards.find('absent')\nexcept boards.ModelError as error:\n    print(error, error.hint, sep='\\n')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    listed, error, hint = run.stdout.splitlines()
    assert listed.split() == [*BUILT_IN, "good"]
    assert error.startswith("board 'absent' of boards_of_test")
    assert hint == "Reinstall that package, or remove it."
    for name in ("taken", "number", "absent"):
        assert f"board '{name}' of boards_of_test" in run.stderr
    assert run.stderr.count("cannot be used") == 3
