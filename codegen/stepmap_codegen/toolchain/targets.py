"""What C can be built for and run on here: chips in QEMU, and this machine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

KIB = 1024
ARM_PACKAGES = ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm")
RISCV_PACKAGES = ("gcc-riscv64-unknown-elf", "picolibc-riscv64-unknown-elf", "qemu-system-misc")
XTENSA_PACKAGES = ("gcc-xtensa-lx106", "picolibc-xtensa-lx106-elf", "qemu-system-misc")


@dataclass(frozen=True)
class Memory:
    """Where code and data of a chip are; the stack is the lowest part of the RAM."""

    flash_origin: int
    flash_bytes: int
    ram_origin: int
    ram_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class Target:
    """A processor: how to compile for it, and how to run what was compiled."""

    name: str
    summary: str
    prefix: str  # of the names of its tools: arm-none-eabi- gives arm-none-eabi-gcc
    flags: tuple[str, ...]  # for compiler and linker
    runtime: tuple[str, ...]  # files of runtime/
    runtime_flags: tuple[str, ...]  # for these alone
    emulator: tuple[str, ...]  # QEMU with its options; none on this machine
    memory: Memory | None  # none on this machine
    packages: tuple[str, ...]  # Debian packages that hold all of it
    load: tuple[str, str] = ("-kernel", "{}")  # how QEMU is told the program
    floats: bool = True  # whether its libraries compute with floating-point numbers

    def tool(self, name: str) -> str:
        return self.prefix + name

    @property
    def compilers(self) -> tuple[str, ...]:
        """Programs that build for it."""
        return tuple(self.tool(name) for name in ("gcc", "objdump", "readelf", "size"))

    def missing(self) -> list[str]:
        """Programs it needs that are not installed."""
        needed = [*self.compilers, *self.emulator[:1]]
        return [name for name in needed if shutil.which(name) is None]

    def command(self, program: Path) -> list[str]:
        """What runs a program."""
        if not self.emulator:
            return [str(program)]
        option, value = self.load
        name = str(program).replace(",", ",,") if option == "-device" else str(program)  # commas end a device's values
        return [*self.emulator, option, value.format(name)]

    @property
    def install(self) -> str:
        """The command that installs everything it needs."""
        return f"apt-get install --no-install-recommends {' '.join(self.packages)}"

    @property
    def counts(self) -> bool:
        """Whether count_end() counts instructions."""
        return bool(self.emulator)


# Semihosting gives the guest the files of QEMU's working folder. The devices that are off would listen on the terminal.
QUIET = ("-display", "none", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native")


def cortex_m(
    name: str, summary: str, cpu: tuple[str, ...], machine: str, mhz: int, shift: int, memory: Memory
) -> Target:
    """An STM32. Under -icount one instruction takes 2^shift ns, which must be more than two ticks of SysTick."""
    ticks, rest = divmod(mhz << shift, 8)  # in 1000/8 instructions
    if rest or ticks < 2 * 125:
        raise ValueError(f"{name}: no exact count of instructions with {mhz} MHz and shift={shift}")
    return Target(
        name,
        summary,
        prefix="arm-none-eabi-",
        flags=(*cpu, "-mthumb", "-masm-syntax-unified", "--specs=nano.specs"),
        runtime=("guest.c", "cortex_m.c"),
        runtime_flags=(f"-DTICKS_PER_125={ticks}U",),
        emulator=("qemu-system-arm", "-M", machine, "-icount", f"shift={shift}", *QUIET),
        memory=memory,
        packages=ARM_PACKAGES,
    )


LX106_SPECS = "/usr/lib/xtensa-lx106-elf/picolibc.specs"  # where Debian has it, which this gcc does not search
LX106_TICKS_PER_25 = 64  # CCOUNT has 40 MHz there, and with shift=6 an instruction takes 64 ns

TARGETS = {
    target.name: target
    for target in (
        Target(
            "host",
            "this machine, natively",
            prefix="",
            flags=(),
            runtime=("host.c",),
            runtime_flags=(),
            emulator=(),
            memory=None,
            packages=("gcc", "libc6-dev"),
        ),
        cortex_m(
            "cortex-m0plus",
            "the instructions of a Cortex-M0+, on a micro:bit: 16 MHz, no long products, no division, 16 KiB RAM",
            ("-mcpu=cortex-m0plus",),
            "microbit",
            mhz=16,
            shift=7,
            memory=Memory(0, 256 * KIB, 0x2000_0000, 16 * KIB, stack_bytes=6 * KIB),
        ),
        cortex_m(
            "cortex-m3",
            "STM32F100: 24 MHz, no FPU, 8 KiB RAM",
            ("-mcpu=cortex-m3",),
            "stm32vldiscovery",
            mhz=24,
            shift=8,
            memory=Memory(0x0800_0000, 128 * KIB, 0x2000_0000, 8 * KIB, stack_bytes=5 * KIB),
        ),
        cortex_m(
            "cortex-m4f",
            "STM32F405: 168 MHz, single precision FPU",
            ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
            "netduinoplus2",
            mhz=168,
            shift=4,
            memory=Memory(0x0800_0000, 1024 * KIB, 0x2000_0000, 128 * KIB, stack_bytes=64 * KIB),
        ),
        Target(
            "rv32imc",
            "the instructions of an ESP32-C3, on a board of QEMU's",
            prefix="riscv64-unknown-elf-",
            flags=("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs"),
            runtime=("guest.c", "riscv.c"),
            # For control registers alone. Given to the linker too, gcc 12 would take the libraries for 64 bits.
            runtime_flags=("-march=rv32imc_zicsr",),
            emulator=("qemu-system-riscv32", "-M", "virt", "-bios", "none", "-icount", "shift=0", *QUIET),
            memory=Memory(0x8010_0000, 1024 * KIB, 0x8000_0000, 384 * KIB, stack_bytes=64 * KIB),
            packages=RISCV_PACKAGES,
        ),
        Target(
            "xtensa-lx106",
            "the instruction set of an ESP32 on its smallest core, on a machine of QEMU's",
            prefix="xtensa-lx106-elf-",
            # Literals beside the code that loads them, and calls of any distance, as the ESP-IDF compiles.
            flags=("-mlongcalls", "-mtext-section-literals", f"--specs={LX106_SPECS}", "-Wl,--entry=start"),
            runtime=("guest.c", "xtensa.c", "xtensa_arithmetic.c"),
            runtime_flags=(f"-DTICKS_PER_25={LX106_TICKS_PER_25}U",),
            emulator=("qemu-system-xtensa", "-M", "sim", "-cpu", "lx106", "-icount", "shift=6", *QUIET),
            memory=Memory(0x6010_0000, 1024 * KIB, 0x6000_0000, 384 * KIB, stack_bytes=64 * KIB),
            packages=XTENSA_PACKAGES,
            load=("-device", "loader,file={},cpu-num=0"),  # -kernel does not set the program counter
            floats=False,  # the ESP8266 has software floats in its ROM, and Debian's libgcc has none
        ),
    )
}


def available() -> list[Target]:
    """Targets whose tools are installed."""
    return [target for target in TARGETS.values() if not target.missing()]
