"""The catalog of boards: one entry per board, and everything else about a board is read from it.

Other packages add a board with an entry point of the group ``stepmap.boards`` that loads to a `BoardSpec`
(docs/boards.md); a program adds one for itself with `register`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from stepmap.errors import ModelError
from stepmap_codegen.toolchain import TARGETS, Target

GROUP = "stepmap.boards"
KIB = 1024
NAME = re.compile(r"[a-z][a-z0-9_]*")  # also of a folder, of a PlatformIO environment and of an option of QEMU


class Runs(Enum):
    """Where a firmware for the board runs without the board."""

    PROCESS = "process"  # on this computer
    QEMU = "qemu"
    SERIAL = "serial"  # nowhere: only on the board itself, at a serial port


@dataclass(frozen=True)
class BootloaderSpec:
    """ST's serial bootloader of a chip (application notes AN2606 and AN3155)."""

    chip_id: int
    version: int
    sectors: tuple[int, ...]  # bytes of each part of the flash that is erased as one, from its start on
    ram: tuple[int, int]  # addresses that it reads and writes, from and up to
    extended_erase: bool  # erases by command 0x44, else by 0x43

    @property
    def flash_bytes(self) -> int:
        return sum(self.sectors)


@dataclass(frozen=True)
class BoardSpec:
    """What is to be known about a board. Sizes are in bytes; docs/boards.md has them in a table."""

    name: str
    flash_bytes: int  # for the image
    ram_bytes: int  # for the firmware; of an ESP32, what is left to the application
    runs: Runs
    environment: Mapping[str, str] = field(default_factory=dict)
    """Options of its PlatformIO environment. Used where platformio.ini has no section of this name."""
    target: Target | None = None  # compiler and processor; None where PlatformIO's registry alone has a compiler
    bank_bytes: int = 0  # for an uploaded schedule; 0: there is only the one in the image
    emulated_bank_bytes: int = 0  # the same in its emulator, where that has less
    fixed_ram_bytes: int = 0  # that every firmware takes, besides controller and stack: queues, messages, regions
    stack_bytes: int = 0  # that the link script keeps for the stack
    fpu: bool = False
    motors: int = 2  # PORT_MOTORS of the firmware
    encoders: int = 2  # PORT_ENCODERS of the firmware
    machine: str | None = None  # of QEMU
    bootloader: BootloaderSpec | None = None
    serial_address: int | None = None  # of the UART that the firmware speaks through
    flash_origin: int = 0x0800_0000
    ram_origin: int = 0x2000_0000

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ModelError(f"name: a board is called by small letters, digits and _, not {self.name!r}")
        if (self.runs is Runs.QEMU) != (self.machine is not None):
            raise ModelError(f"machine: {self.name} needs the name of QEMU's machine if it runs there, and only then")
        if self.runs is not Runs.SERIAL and self.target is None:
            raise ModelError(f"target: {self.name} runs on this computer, so it needs a target of the toolchain")

    @property
    def needs_registry(self) -> bool:
        """Whether only PlatformIO's own platform builds for it."""
        return self.target is None

    @property
    def platformio(self) -> dict[str, str]:
        """All options of its environment, with what follows from the rest of its entry."""
        limit = {} if self.bare_chip is None else {"board_upload.maximum_size": str(self.flash_bytes)}
        flags = {"build_flags": f"{self.environment.get('build_flags', '${env.build_flags}')} {self.axes_flags}"}
        return {
            **self.environment,
            **(flags if self.axes_flags else {}),
            **limit,
            **({} if self.machine is None else {"custom_qemu_machine": self.machine}),
        }

    @property
    def axes_flags(self) -> str:
        """What the compiler is told of motors and encoders; nothing where they are two, as in port.h."""
        if (self.motors, self.encoders) == (2, 2):
            return ""
        return f"-DPORT_MOTORS={self.motors}U -DPORT_ENCODERS={self.encoders}U"

    @property
    def bare_chip(self) -> Target | None:
        """Its target where the image is linked for a bare chip, whose flash, RAM and stack are then known."""
        return None if self.runs is Runs.PROCESS else self.target


def stm32_environment(
    board: str, port: str, link_script: str, flags: str = "", cpu: str | None = None
) -> dict[str, str]:
    """Options of a PlatformIO environment for an STM32.

    ``board`` is PlatformIO's name of the nearest board, ``port`` a folder of firmware/port, ``link_script`` a file in
    it, ``flags`` what the compiler is told besides, and ``cpu`` the processor where it is not that of ``board``.
    """
    return {
        "extends": "stm32",
        "board": board,
        **({} if cpu is None else {"board_build.cpu": cpu}),
        "board_build.ldscript": f"firmware/port/{port}/{link_script}",
        "build_flags": f"${{stm32.build_flags}} -Ifirmware/port/{port} {flags}".rstrip(),
        "build_src_filter": f"-<*> +<main.c> +<core/> +<port/stm32/> +<port/{port}/>",
    }


STM32F100 = BoardSpec(
    name="stm32f100",
    flash_bytes=126 * KIB,
    ram_bytes=8 * KIB,
    runs=Runs.QEMU,
    environment=stm32_environment("disco_f100rb", "stm32f1", "stm32f100.ld"),
    target=TARGETS["cortex-m3"],
    fixed_ram_bytes=3152,
    stack_bytes=2 * KIB,
    machine="stm32vldiscovery",
    bootloader=BootloaderSpec(0x420, 0x22, (KIB,) * 128, (0x2000_0200, 0x2000_2000), extended_erase=False),
    serial_address=0x4001_3800,
)
STM32F405 = BoardSpec(
    name="stm32f405",
    flash_bytes=512 * KIB,
    ram_bytes=128 * KIB,
    runs=Runs.QEMU,
    environment=stm32_environment(
        "genericSTM32F405RG", "stm32f4", "stm32f405.ld", "-mfloat-abi=hard -mfpu=fpv4-sp-d16"
    ),
    target=TARGETS["cortex-m4f"],
    bank_bytes=128 * KIB,
    emulated_bank_bytes=40 * KIB,
    fixed_ram_bytes=82 * KIB + 3672,  # 82 KiB: banks and journals for chips whose flash does not answer, as QEMU's
    stack_bytes=8 * KIB,
    fpu=True,
    motors=6,
    encoders=8,
    machine="netduinoplus2",
    bootloader=BootloaderSpec(
        0x413,
        0x31,
        (16 * KIB,) * 4 + (64 * KIB,) + (128 * KIB,) * 7,
        (0x2000_3000, 0x2002_0000),
        extended_erase=True,
    ),
    serial_address=0x4001_1000,
)
ESP32 = BoardSpec(
    name="esp32",
    flash_bytes=1536 * KIB,
    ram_bytes=320 * KIB,
    runs=Runs.SERIAL,
    environment={"extends": "esp32", "board": "esp32dev"},
    bank_bytes=64 * KIB,
    fixed_ram_bytes=4 * KIB,
    stack_bytes=8 * KIB,
    fpu=True,
)
ESP32C3 = BoardSpec(
    name="esp32c3",
    flash_bytes=1536 * KIB,
    ram_bytes=320 * KIB,
    runs=Runs.SERIAL,
    environment={"extends": "esp32", "board": "esp32-c3-devkitm-1"},
    bank_bytes=64 * KIB,
    fixed_ram_bytes=4 * KIB,
    stack_bytes=8 * KIB,
)
NATIVE = BoardSpec(
    name="native",
    flash_bytes=1 << 30,
    ram_bytes=1 << 30,
    runs=Runs.PROCESS,
    environment={
        "platform": "native",
        "build_flags": "${env.build_flags} -O1 -Ifirmware/port/native -DSTEPMAP_MOTOR_LATE_US=50000U",
    },
    target=TARGETS["host"],
    bank_bytes=2048 * KIB,  # a whole marionette that dances for 10 s takes 1430 with all gains
    fpu=True,
    motors=18,  # of a marionette on six strings
    encoders=18,
)
BUILT_IN = {spec.name: spec for spec in (STM32F100, STM32F405, ESP32, ESP32C3, NATIVE)}
REGISTERED: dict[str, BoardSpec] = {}
BROKEN: dict[str, str] = {}  # boards of other packages that cannot be used, and why


def catalog() -> dict[str, BoardSpec]:
    """All boards by name: those of this package, of others, and of this program."""
    return {**BUILT_IN, **_installed(), **REGISTERED}


def find(name: str) -> BoardSpec:
    """The board of that name; raises ModelError where there is none."""
    known = catalog()
    if name in BROKEN:
        raise ModelError(BROKEN[name], hint="Reinstall that package, or remove it.")
    if name not in known:
        raise ModelError(f"there is no board {name!r}", hint=f"There are {', '.join(known)}.")
    return known[name]


def register(spec: BoardSpec) -> BoardSpec:
    """Adds a board to the catalog of this program, and returns it; raises ModelError where its name is taken."""
    if spec.name in catalog():
        raise ModelError(f"there is a board {spec.name!r} already; give the new one another name")
    REGISTERED[spec.name] = spec
    return spec


@cache
def _installed() -> dict[str, BoardSpec]:
    """Boards of other packages. One that cannot be used costs a warning and nothing else."""
    return {spec.name: spec for entry in entry_points(group=GROUP) for spec in _loaded(entry)}


def _loaded(entry: EntryPoint) -> Iterator[BoardSpec]:
    try:
        spec = entry.load()
        if not isinstance(spec, BoardSpec):
            raise TypeError(f"expected a BoardSpec, got {type(spec).__name__}")
        if spec.name in BUILT_IN:
            raise ModelError(f"there is a board {spec.name!r} already")
    except (Exception, SystemExit) as error:  # whatever another package does while it is imported
        owner = f" of {entry.dist.name}" if entry.dist is not None else ""
        what = f"board {entry.name!r}{owner} ({entry.value}) cannot be used: {type(error).__name__}: {error}"
        BROKEN[entry.name] = what
        warnings.warn(f"{what}; reinstall that package or remove it", RuntimeWarning, stacklevel=2)
    else:
        yield spec
