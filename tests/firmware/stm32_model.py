"""An STM32 whose registers answer as the reference manuals say, for code that QEMU never reaches.

The processor is Unicorn's; clocks, flash interface, serial port and SysTick are modelled here, from RM0090 and RM0041,
not from the port they test. Everything else is memory. Functions of the port are called one at a time, and interrupts
when a test says so.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import unicorn as uc
from unicorn import arm_const as arm

from stepmap_codegen import boards

ROOT = Path(__file__).parents[2]
PORT = ROOT / "firmware" / "port"
FLASH, RAM, PERIPHERALS, PROCESSOR = 0x08000000, 0x20000000, 0x40000000, 0xE000E000
SYST_CSR, SYST_CVR, ICSR, VTOR, AIRCR = 0xE000E010, 0xE000E018, 0xE000ED04, 0xE000ED08, 0xE000ED0C
SYSTEM_MEMORY = 0x1FFF0000  # where the bootloader is
PWR_CR, PWR_CSR = 0x40007000, 0x40007004
RETURN = 0x20000  # where a called function returns to: nothing is there


@dataclass(frozen=True)
class Family:
    """What differs, straight from the manuals."""

    folder: str
    script: str
    flags: tuple[str, ...]
    cpu: int
    flash_bytes: int
    ram_bytes: int
    sectors: tuple[int, ...]
    usart: int
    rcc: int
    cfgr: int
    csr: int
    flash_registers: int
    lock: int
    busy: int
    errors: int
    width: int
    """Bytes that are programmed at once."""
    unique_id: int
    """Address of its 96 bits (device electronic signature)."""
    apb1enr: int
    exti: int
    gpiob_idr: int
    falls: tuple[float, ...]
    """Volts at which the voltage detector tells of a falling supply, by its level: data sheets, least."""
    rises: tuple[float, ...]
    """The same of a rising one, largest."""
    flash_volts: float
    """The least supply at which flash is written so many bytes at once."""


KIB = 1024
FAMILIES = {
    "stm32f405": Family(
        folder="stm32f4",
        script="stm32f405.ld",
        flags=("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
        cpu=arm.UC_CPU_ARM_CORTEX_M4,
        flash_bytes=1024 * KIB,
        ram_bytes=128 * KIB,
        sectors=(16 * KIB,) * 4 + (64 * KIB,) + (128 * KIB,) * 7,
        usart=0x40011000,
        rcc=0x40023800,
        cfgr=0x40023808,
        csr=0x40023874,
        flash_registers=0x40023C00,
        lock=1 << 31,
        busy=1 << 16,
        errors=0xF2,
        width=4,
        unique_id=0x1FFF7A10,
        apb1enr=0x40023840,
        exti=0x40013C00,
        gpiob_idr=0x40020410,
        falls=(1.98, 2.13, 2.29, 2.44, 2.59, 2.65, 2.85, 2.95),
        rises=(2.19, 2.37, 2.51, 2.65, 2.82, 2.99, 3.10, 3.21),
        flash_volts=2.7,
    ),
    "stm32f100": Family(
        folder="stm32f1",
        script="stm32f100.ld",
        flags=("-mcpu=cortex-m3",),
        cpu=arm.UC_CPU_ARM_CORTEX_M3,
        flash_bytes=128 * KIB,
        ram_bytes=8 * KIB,
        sectors=(KIB,) * 128,
        usart=0x40013800,
        rcc=0x40021000,
        cfgr=0x40021004,
        csr=0x40021024,
        flash_registers=0x40022000,
        lock=1 << 7,
        busy=1 << 0,
        errors=0x14,
        width=2,
        unique_id=0x1FFFF7E8,
        apb1enr=0x4002101C,
        exti=0x40010400,
        gpiob_idr=0x40010C08,
        falls=(2.0, 2.09, 2.18, 2.28, 2.37, 2.47, 2.56, 2.66),
        rises=(2.26, 2.37, 2.48, 2.58, 2.69, 2.79, 2.9, 3.0),
        flash_volts=2.0,
    ),
}

_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


@cache
def image(name: str, *defines: str) -> tuple[bytes, dict[str, int]]:
    """The port with nothing left out, and where its functions are."""
    family = FAMILIES[name]
    _folders.append(tempfile.TemporaryDirectory(prefix="stepmap-model-"))
    elf = Path(_folders[-1].name) / "port.elf"
    folders = (PORT / "stm32", PORT / family.folder)
    subprocess.run(
        [
            *("arm-none-eabi-gcc", "-std=c11", "-Os", "-mthumb", *family.flags, "-nostartfiles", "--specs=nano.specs"),
            *("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", f'-DSTEPMAP_BOARD="{name}"'),
            *boards.find(name).axes_flags.split(),
            *(f"-D{define}" for define in defines),
            *(f"-I{folder}" for folder in (ROOT / "firmware" / "core", PORT, *folders)),
            *(file for folder in folders for file in sorted(folder.glob("*.c"))),
            *(ROOT / "firmware" / "test" / "test_restart" / "test_restart.c", ROOT / "firmware" / "test" / "check.c"),
            *(f"-I{ROOT / 'firmware' / 'test'}", f"-L{PORT / 'stm32'}", "-T", PORT / family.folder / family.script),
            *("-o", elf),
        ],
        check=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", elf, elf.with_suffix(".bin")], check=True)
    symbols = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, text=True, check=True).stdout
    return elf.with_suffix(".bin").read_bytes(), {
        line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines() if len(line.split()) == 3
    }


class Chip:
    """A chip after power came: crystal and PLL start or not, reset flags as given."""

    def __init__(
        self,
        name: str,
        *,
        crystal: bool = True,
        pll: bool = True,
        flags: int = 0,
        volts: float = 3.3,
        defines: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.family = FAMILIES[name]
        self.crystal, self.pll = crystal, pll
        self.volts = volts
        self.options = 0x0FFFAAEC  # of the F405, as ST delivers it: brown-out level off, no protection
        content, self.symbols = image(name, *defines)
        self.cpu = uc.Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB | uc.UC_MODE_MCLASS)
        self.cpu.ctl_set_cpu_model(self.family.cpu)
        self.cpu.mem_map(FLASH, self.family.flash_bytes)
        self.cpu.mem_write(FLASH, content.ljust(self.family.flash_bytes, b"\xff"))
        self.cpu.mem_map(RAM, self.family.ram_bytes)
        self.cpu.mem_write(RAM, b"\xa5" * self.family.ram_bytes)  # as good as random
        self.cpu.mem_map(RETURN, 4 * KIB)
        for base, size in ((PERIPHERALS, 0x30000), (PROCESSOR, 0x1000)):
            self.cpu.mmio_map(base, size, self._read, base, self._write, base)
        end = FLASH + self.family.flash_bytes
        self.cpu.hook_add(uc.UC_HOOK_MEM_WRITE, self._program, begin=FLASH, end=end)
        self.cpu.hook_add(uc.UC_HOOK_CODE, self._fetch, begin=FLASH, end=end)
        self.reset(flags)

    def reset(self, flags: int) -> None:
        """All registers as after a reset; RAM and flash keep their content."""
        self._told = False
        self.registers: dict[int, int] = {
            self.family.rcc: 0x83,
            self.family.csr: flags,
            self.family.flash_registers + 0x10: self.family.lock,
            self.family.usart: 0xC0,
            self.family.gpiob_idr: 0xFFFF,
        }
        if self.name == "stm32f405":
            self.registers |= {PWR_CR: 1 << 14, self._options: self.options}
        self.option_keys: list[int] = []
        self.writes: list[tuple[int, int]] = []
        self.busy_reads = 0
        self.busy_for = 10  # reads of the status that a flash operation takes
        self.waits = False  # at an instruction in flash that is busy; else that is a problem
        self.protected = False
        self.keys: list[int] = []
        self.heard: list[int] = []  # bytes on their way to the serial port
        self.sent: list[int] = []
        self.line_ready = True
        self.clock = 0  # counts of SysTick
        self.pace = 1000  # counts that pass with each look at SysTick
        self.count_flag = False
        self.problems: list[str] = []

    def supply(self, volts: float) -> bool:
        """Sets the supply; whether an interrupt of the voltage detector follows."""
        before, self.volts = self._low(), volts
        line = 1 << 16
        rose = self._low() and not before and self.registers.get(self.family.exti + 8, 0) & line
        if rose:
            self.registers[self.family.exti + 0x14] = line
        return bool(rose and self.registers.get(self.family.exti, 0) & line)

    def _low(self) -> bool:
        """The detector's output, where it has clock and is on. Between its thresholds it keeps what it told."""
        control = self.registers.get(PWR_CR, 0)
        if not control & 1 << 4:
            return False
        level = control >> 5 & 7
        told = self._told and self.volts < self.family.rises[level]
        self._told = told or self.volts < self.family.falls[level]
        return self._told

    @property
    def _options(self) -> int:
        return self.family.flash_registers + 0x14

    def leave_bootloader(self) -> None:
        """What differs where ST's bootloader starts the program, not a reset: its vectors, its PLL, flash left open."""
        self.registers[VTOR] = SYSTEM_MEMORY
        self.registers[self.family.rcc] |= 1 << 24 | 1 << 25
        self.registers[self.family.cfgr] = 0b1010
        self.registers[self.family.flash_registers + 0x10] = 0

    def start(self) -> None:
        """What happens between reset and main."""
        self.cpu.reg_write(arm.UC_ARM_REG_SP, self.symbols["link_stack_top"])
        self.cpu.emu_start(self.symbols["start_handler"] | 1, self.symbols["main"], count=10_000_000)
        self.call("port_init")

    def call(self, function: str, *arguments: int) -> int:
        """What a function returns; it has to return, and must not do what a chip forbids."""
        for register, value in zip((arm.UC_ARM_REG_R0, arm.UC_ARM_REG_R1, arm.UC_ARM_REG_R2), arguments, strict=False):
            self.cpu.reg_write(register, value & 0xFFFFFFFF)
        if len(arguments) == 4:
            self.cpu.reg_write(arm.UC_ARM_REG_R3, arguments[3] & 0xFFFFFFFF)
        self.cpu.reg_write(arm.UC_ARM_REG_SP, self.symbols["link_stack_top"])
        self.cpu.reg_write(arm.UC_ARM_REG_LR, RETURN | 1)
        self.cpu.emu_start(self.symbols[function] | 1, RETURN, count=20_000_000)
        if self.cpu.reg_read(arm.UC_ARM_REG_PC) & ~1 != RETURN:
            self.problems.append(f"{function} does not return")
        assert not self.problems, self.problems
        result: int = self.cpu.reg_read(arm.UC_ARM_REG_R0)
        return result - (1 << 32) if result >> 31 else result

    def run_until_reset(self, function: str) -> None:
        """Runs a function that ends in a reset."""
        self.cpu.reg_write(arm.UC_ARM_REG_SP, self.symbols["link_stack_top"])
        self.cpu.emu_start(self.symbols[function] | 1, 0, count=10_000)
        assert self.registers.get(AIRCR) == 0x05FA0004

    def put(self, data: bytes) -> int:
        """An address in RAM with these bytes: far below what the port uses of it, in the stack."""
        address = RAM + 256
        self.cpu.mem_write(address, data)
        return address

    def memory(self, address: int, size: int) -> bytes:
        return bytes(self.cpu.mem_read(address, size))

    # Registers

    @property
    def _flash(self) -> dict[str, int]:
        base = self.family.flash_registers
        return {"KEYR": base + 4, "SR": base + 0x0C, "CR": base + 0x10, "AR": base + 0x14}

    def _read(self, cpu: Any, offset: int, size: int, base: int) -> int:
        address = base + offset
        value = self.registers.get(address, 0)
        if address == self._flash["SR"]:
            self.busy_reads = max(0, self.busy_reads - 1)
            return value | (self.family.busy if self.busy_reads else 0)
        if address == PWR_CSR:
            return self._low() << 2
        if address == self.family.usart:
            return (value & ~0xA0) | (0x80 if self.line_ready else 0) | (0x20 if self.heard else 0)
        if address == self.family.usart + 4:
            self.registers[self.family.usart] = value = self.registers[self.family.usart] & ~0x08
            return self.heard.pop(0) if self.heard else 0
        if address in (SYST_CSR, SYST_CVR):
            return self._systick(address)
        return value

    def _systick(self, address: int) -> int:
        period = self.registers.get(0xE000E014, 0) + 1
        before, self.clock = self.clock, self.clock + self.pace
        if self.clock // period != before // period:
            self.count_flag = True
        if address == SYST_CVR:
            return (period - self.clock % period) % period
        flag, self.count_flag = self.count_flag, False
        return self.registers.get(SYST_CSR, 0) | (flag << 16)

    def _write(self, cpu: Any, offset: int, size: int, value: int, base: int) -> None:
        address = base + offset
        self.writes.append((address, value))
        self._check_pll(address, value)
        if address == self.family.rcc:
            value &= ~(1 << 17 | 1 << 25)
            value |= (1 << 17 if value >> 16 & 1 and self.crystal else 0) | (
                1 << 25 if value >> 24 & 1 and self.pll else 0
            )
        elif address == self.family.cfgr:
            value = (value & ~0xC) | (value & 3) << 2
        elif address == self.family.csr and value >> 24 & 1:
            value = 0
        elif address == self.family.usart + 4:
            self.sent.append(value & 0xFF)
            return
        elif address == self._flash["KEYR"]:
            self._unlock(value)
            return
        elif address == self._flash["SR"]:
            value = self.registers.get(address, 0) & ~value
        elif address == self._flash["CR"]:
            self._control(value)
            return
        elif address == PWR_CR and not self.registers.get(self.family.apb1enr, 0) >> 28 & 1:
            return  # without a clock it takes nothing
        elif self.name == "stm32f405" and address in (self._options, self.family.flash_registers + 8):
            self._set_options(address, value)
            return
        elif address == self.family.exti + 0x14:
            value = self.registers.get(address, 0) & ~value
        self.registers[address] = value
        if address == AIRCR:
            cpu.emu_stop()

    _told = False

    def _check_pll(self, address: int, value: int) -> None:
        """A PLL that runs cannot be set up, and one that drives the processor cannot be switched off."""
        runs = self.registers[self.family.rcc] >> 24 & 1
        drives = self.registers.get(self.family.cfgr, 0) >> 2 & 3 == 2
        setup, mask = (self.family.rcc + 4, {"stm32f405": 0x0F437FFF, "stm32f100": 0x3F0000}[self.name])
        if runs and address == setup and (self.registers.get(setup, 0) ^ value) & mask:
            self.problems.append(f"the PLL runs and is set up with {value:#x}")
        if drives and address == self.family.rcc and not value >> 24 & 1:
            self.problems.append("the PLL that drives the processor is switched off")

    def _unlock(self, key: int) -> None:
        self.keys.append(key)
        if self.keys[-2:] == [0x45670123, 0xCDEF89AB]:
            self.registers[self._flash["CR"]] &= ~self.family.lock

    def _control(self, value: int) -> None:
        if self.registers[self._flash["CR"]] & self.family.lock:
            return  # a locked register takes nothing
        self.registers[self._flash["CR"]] = value
        if self.name == "stm32f405" and value & (1 << 16):
            self._erase(value >> 3 & 15, value & 2)
        if self.name == "stm32f100" and value & (1 << 6):
            self._erase((self.registers[self._flash["AR"]] - FLASH) // KIB, value & 2)

    def _set_options(self, address: int, value: int) -> None:
        """The option bytes of an F405: two keys, the new value, then its start bit."""
        now = self.registers[self._options]
        if address != self._options:
            self.option_keys.append(value)
            if self.option_keys[-2:] == [0x08192A3B, 0x4C5D6E7F]:
                self.registers[self._options] = now & ~1
            return
        if now & 1:
            return  # locked
        self.registers[self._options] = value & ~2
        if value & 2:
            self._needs_supply()
            self.options = (value & ~2) | 1
            self.busy_reads = self.busy_for

    def _needs_supply(self) -> None:
        if self.volts < self.family.flash_volts:
            self.problems.append(f"flash is written at {self.volts} V")

    def _erase(self, sector: int, asked: int) -> None:
        if not asked or self.protected:
            self.registers[self._flash["SR"]] = 1 << 4
            return
        self._needs_supply()
        start, size = sum(self.family.sectors[:sector]), self.family.sectors[sector]
        self.cpu.mem_write(FLASH + start, b"\xff" * size)
        self.busy_reads = self.busy_for

    def _program(self, cpu: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        control = self.registers[self._flash["CR"]]
        self._needs_supply()
        words = self.name == "stm32f100" or control >> 8 & 3 == 2
        if control & self.family.lock or not control & 1 or size != self.family.width or not words:
            self.problems.append(f"a write of {size} bytes to flash at {address:#x}, CR {control:#x}")
        if self.busy_reads:
            self.problems.append("a write to flash that is busy")
        if self.memory(address, size) != b"\xff" * size:
            self.problems.append(f"a write to flash that is not erased, at {address:#x}")
        self.busy_reads = self.busy_for

    def _fetch(self, cpu: Any, address: int, size: int, data: Any) -> None:
        if self.busy_reads and self.waits:
            self.busy_reads = 0
        elif self.busy_reads:
            self.problems.append(f"code at {address:#x} runs in flash that is busy")
            cpu.emu_stop()
