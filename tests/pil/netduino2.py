"""A board that is not in stepmap: QEMU's Netduino 2, an STM32F205 (Cortex-M3 without FPU), in one file.

It has the peripherals of the STM32F405 at the same addresses, so the port and the link script are those. Its clocks are
not: the port would run it at 168 MHz, and it stands 120. QEMU emulates no clock control and runs the core at 120 MHz,
so the firmware's clock is slow there by 168/120. That is of no account in lock-step; a real chip needs a ``clock.c`` of
its own.
"""

from stepmap_codegen.boards import KIB, BoardSpec, BootloaderSpec, Runs, stm32_environment
from stepmap_codegen.toolchain.targets import Memory, cortex_m

BOARD = BoardSpec(
    name="netduino2",
    flash_bytes=512 * KIB,
    ram_bytes=128 * KIB,
    runs=Runs.QEMU,
    environment=stm32_environment("genericSTM32F405RG", "stm32f4", "stm32f405.ld", cpu="cortex-m3"),
    target=cortex_m(
        "cortex-m3-f205",
        "STM32F205: 120 MHz, no FPU",
        ("-mcpu=cortex-m3",),
        "netduino2",
        mhz=120,
        shift=5,
        memory=Memory(0x0800_0000, 1024 * KIB, 0x2000_0000, 128 * KIB, stack_bytes=64 * KIB),
    ),
    bank_bytes=128 * KIB,
    fixed_ram_bytes=82 * KIB + 3672,
    stack_bytes=8 * KIB,
    machine="netduino2",
    bootloader=BootloaderSpec(
        chip_id=0x411,
        version=0x20,
        sectors=(16 * KIB,) * 4 + (64 * KIB,) + (128 * KIB,) * 7,
        ram=(0x2000_2000, 0x2002_0000),
        extended_erase=True,
    ),
    serial_address=0x4001_1000,
)
