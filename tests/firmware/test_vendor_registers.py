"""Constants of the ports against what the vendors publish: addresses, bits, interrupts, pins, prototypes.

The vendors' numbers are in tests/data/registers, ours come from the compiler. Values that descriptions of registers
leave out, as keys and codes of modes, are those of the reference manuals RM0090 and RM0041 and stand here.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.firmware.stm32_model import FAMILIES, FLASH, RAM, Chip, image

ROOT = Path(__file__).parents[2]
FIRMWARE = ROOT / "firmware"
PORT = FIRMWARE / "port"
DATA = ROOT / "tests" / "data" / "registers"
VENDOR: dict[str, Any] = json.loads((DATA / "stm32.json").read_text())
ESP_IDF: dict[str, Any] = json.loads((DATA / "esp_idf.json").read_text())

# The vendors' names of one and the same register or bit
ALIASES = {
    "stm32f405": {
        **{f"SCB.{name}": f"SystemControl.{name}" for name in ("ICSR", "VTOR", "AIRCR", "CPACR")},
        **{f"SYST.{name}": f"SysTick.{name}" for name in ("CSR", "RVR", "CVR")},
        **{"RCC.CSR.PINRSTF": "RCC.CSR.PADRSTF", "RCC.CSR.IWDGRSTF": "RCC.CSR.WDGRSTF"},
    },
    "stm32f100": {
        **{f"SCB.{name}": f"NVIC.{name}" for name in ("ICSR", "VTOR", "AIRCR")},
        **{"SYST.CSR": "SysTick.CTRL", "SYST.RVR": "SysTick.LOAD", "SYST.CVR": "SysTick.VAL"},
    },
}

# Lvalues of the port and registers of the vendor
REGISTERS = {
    **{f"SYST_{name}": f"SYST.{name}" for name in ("CSR", "RVR", "CVR")},
    **{f"SCB_{name}": f"SCB.{name}" for name in ("ICSR", "VTOR", "AIRCR")},
    **{f"NVIC_ISER[{i}]": f"NVIC.ISER{i}" for i in (0, 1)},
    **{f"USART1->{name}": f"USART1.{name}" for name in ("SR", "DR", "BRR", "CR1", "CR2", "CR3")},
    **{f"TIM3->{name}": f"TIM3.{name}" for name in ("CR1", "EGR", "CCER", "PSC", "ARR")},
    **{f"TIM3->CCMR[{i}]": f"TIM3.CCMR{i + 1}_Output" for i in (0, 1)},
    **{f"TIM3->CCR[{i}]": f"TIM3.CCR{i + 1}" for i in range(4)},
    **{f"TIM{i}->{name}": f"TIM{i}.{name}" for i in (2, 4) for name in ("CR1", "SMCR", "CNT", "ARR")},
    **{f"TIM{i}->CCMR[0]": f"TIM{i}.CCMR1_Input" for i in (2, 4)},
    **{f"IWDG_{name}": f"IWDG.{name}" for name in ("KR", "PR", "RLR", "SR")},
    **{f"FLASH_{name}": f"FLASH.{name}" for name in ("ACR", "KEYR", "SR", "CR")},
    **{f"RCC_{name}": f"RCC.{name}" for name in ("CR", "CFGR", "CSR", "APB1ENR", "APB2ENR")},
    **{f"GPIO{port}->BSRR": f"GPIO{port}.BSRR" for port in "AB"},
    **{"GPIOB->IDR": "GPIOB.IDR", "PWR_CR": "PWR.CR", "PWR_CSR": "PWR.CSR"},
    **{f"EXTI->{name}": f"EXTI.{name}" for name in ("IMR", "RTSR", "FTSR", "PR")},
}
REGISTERS_OF = {
    "stm32f405": {
        **{"SCB_CPACR": "SCB.CPACR", "RCC_PLLCFGR": "RCC.PLLCFGR", "RCC_AHB1ENR": "RCC.AHB1ENR"},
        **{f"GPIO{port}->{name}": f"GPIO{port}.{name}" for port in "ABC" for name in ("MODER", "PUPDR")},
        **{f"GPIO{port}->AFR[{i}]": f"GPIO{port}.AFR{'LH'[i]}" for port in "ABC" for i in (0, 1)},
        **{"GPIOC->IDR": "GPIOC.IDR", "GPIOC->BSRR": "GPIOC.BSRR"},
        **{f"TIM{i}->{name}": f"TIM{i}.{name}" for i in (5, 8) for name in ("CR1", "SMCR", "CNT", "ARR")},
        **{f"TIM{i}->CCMR[0]": f"TIM{i}.CCMR1_Input" for i in (5, 8)},
        **{f"TIM12->{name}": f"TIM12.{name}" for name in ("CR1", "EGR", "CCER", "PSC", "ARR")},
        **{"TIM12->CCMR[0]": "TIM12.CCMR1_Output", "TIM12->CCR[0]": "TIM12.CCR1", "TIM12->CCR[1]": "TIM12.CCR2"},
        **{"FLASH_OPTKEYR": "FLASH.OPTKEYR", "FLASH_OPTCR": "FLASH.OPTCR"},
        **{f"SYSCFG_EXTICR[{i}]": f"SYSCFG.EXTICR{i + 1}" for i in range(3)},
    },
    "stm32f100": {
        **{"FLASH_AR": "FLASH.AR"},
        **{f"GPIO{port}->CR[{i}]": f"GPIO{port}.CR{'LH'[i]}" for port in "AB" for i in (0, 1)},
    },
}

# Constants of the port and fields of the vendor with the values that the constant gives them
VALUES: dict[str, dict[str, int]] = {
    **{f"SYST_CSR_{name}": {f"SYST.CSR.{name}": 1} for name in ("ENABLE", "TICKINT", "CLKSOURCE", "COUNTFLAG")},
    "SCB_ICSR_PENDSTSET": {"SCB.ICSR.PENDSTSET": 1},
    "SCB_AIRCR_SYSRESETREQ": {"SCB.AIRCR.SYSRESETREQ": 1, "SCB.AIRCR.VECTKEY": 0x05FA},
    **{f"USART_SR_{name}": {f"USART1.SR.{name}": 1} for name in ("ORE", "RXNE", "TXE")},
    **{f"USART_CR1_{name}": {f"USART1.CR1.{name}": 1} for name in ("RE", "TE", "RXNEIE", "TXEIE", "UE")},
    "TIM_CR1_CEN": {"TIM3.CR1.CEN": 1},
    "TIM_EGR_UG": {"TIM3.EGR.UG": 1},
    "TIM_SMCR_ENCODER": {"TIM2.SMCR.SMS": 3},
    "TIM_CCMR_PWM": {"TIM3.CCMR1_Output.OC1M": 6},
    "TIM_CCMR_PWM << 8": {"TIM3.CCMR1_Output.OC2M": 6},
    "(TIM_CCMR_PWM | TIM_CCMR_PWM << 8)": {"TIM3.CCMR2_Output.OC3M": 6, "TIM3.CCMR2_Output.OC4M": 6},
    "TIM_CCMR1_INPUTS": {f"TIM2.CCMR1_Input.{n}": v for n, v in (("CC1S", 1), ("CC2S", 1), ("IC1F", 3), ("IC2F", 3))},
    **{f"BIT({4 * i})": {f"TIM3.CCER.CC{i + 1}E": 1} for i in range(4)},
    "IWDG_FEED": {"IWDG.KR.KEY": 0xAAAA},
    "IWDG_UNLOCK": {"IWDG.KR.KEY": 0x5555},
    "IWDG_START": {"IWDG.KR.KEY": 0xCCCC},
    "FLASH_KEY1": {"FLASH.KEYR.KEY": 0x45670123},
    "FLASH_KEY2": {"FLASH.KEYR.KEY": 0xCDEF89AB},
    **{
        f"RCC_CSR_{name}": {f"RCC.CSR.{name}": 1}
        for name in ("RMVF", "PINRSTF", "PORRSTF", "SFTRSTF", "IWDGRSTF", "WWDGRSTF")
    },
    **{f"CR_{name}": {f"RCC.CR.{name}": 1} for name in ("HSIRDY", "HSEON", "HSERDY", "CSSON", "PLLON", "PLLRDY")},
    "CFGR_SW_MASK": {"RCC.CFGR.SW": 3},
    "CFGR_SW_PLL": {"RCC.CFGR.SW": 2},
    "CFGR_SWS_MASK": {"RCC.CFGR.SWS": 3},
    "CFGR_SWS_PLL": {"RCC.CFGR.SWS": 2},
    "CR_PG": {"FLASH.CR.PG": 1},
    "CR_STRT": {"FLASH.CR.STRT": 1},
    "CHIP_FLASH_BUSY": {"FLASH.SR.BSY": 1},
    "CHIP_FLASH_LOCK": {"FLASH.CR.LOCK": 1},
    "PWR_CR_PVDE": {"PWR.CR.PVDE": 1},
    "PWR_CSR_PVDO": {"PWR.CSR.PVDO": 1},
    "RCC_APB1ENR_PWREN": {"RCC.APB1ENR.PWREN": 1},
    "EXTI_SUPPLY": {"EXTI.IMR.MR16": 1},
    "WATCHDOG_RELOAD_MAX": {"IWDG.RLR.RL": 0xFFF},
    "WATCHDOG_DIVIDER_MAX": {"IWDG.PR.PR": 6},
}
VALUES_OF: dict[str, dict[str, dict[str, int]]] = {
    "stm32f405": {
        "SCB_CPACR_FPU": {"SCB.CPACR.CP10": 3, "SCB.CPACR.CP11": 3},
        "RCC_CSR_BORRSTF": {"RCC.CSR.BORRSTF": 1},
        "PLLCFGR_N_336_P_2_Q_7": {"RCC.PLLCFGR.PLLN": 336, "RCC.PLLCFGR.PLLP": 0, "RCC.PLLCFGR.PLLQ": 7},
        "PLLCFGR_HSE": {"RCC.PLLCFGR.PLLSRC": 1},
        "CFGR_BUSES": {"RCC.CFGR.PPRE1": 5, "RCC.CFGR.PPRE2": 4},
        "ACR_CACHES_5_WAITS": {
            f"FLASH.ACR.{n}": v for n, v in (("PRFTEN", 1), ("ICEN", 1), ("DCEN", 1), ("LATENCY", 5))
        },
        "CHIP_FLASH_ERRORS": {f"FLASH.SR.{name}": 1 for name in ("OPERR", "WRPERR", "PGAERR", "PGPERR", "PGSERR")},
        "CR_SER": {"FLASH.CR.SER": 1},
        "CR_SECTOR(11U)": {"FLASH.CR.SNB": 11},
        "CR_WORDS": {"FLASH.CR.PSIZE": 2},
        "CHIP_SUPPLY_LEVEL": {"PWR.CR.PLS": 6},  # data sheet: falls at 2.85 to 2.99 V
        "FLASH_OPTKEY1": {"FLASH.OPTKEYR.OPTKEY": 0x08192A3B},
        "FLASH_OPTKEY2": {"FLASH.OPTKEYR.OPTKEY": 0x4C5D6E7F},
        **{f"OPTCR_{name}": {f"FLASH.OPTCR.{name}": 1} for name in ("OPTLOCK", "OPTSTRT")},
        "OPTCR_BOR_LEV": {"FLASH.OPTCR.BOR_LEV": 3},
        "ACR_DCEN": {"FLASH.ACR.DCEN": 1},
        "ACR_DCRST": {"FLASH.ACR.DCRST": 1},
        "EXTICR_GPIOC": {"SYSCFG.EXTICR1.EXTI0": 2},  # RM0090: port C
        "EXTICR_GPIOC << 8": {"SYSCFG.EXTICR3.EXTI10": 2},
    },
    "stm32f100": {
        "CFGR_CRYSTAL_TIMES_3": {"RCC.CFGR.PLLSRC": 1, "RCC.CFGR.PLLMUL": 3 - 2},
        "CFGR_INTERNAL_HALF_TIMES_6": {"RCC.CFGR.PLLSRC": 0, "RCC.CFGR.PLLMUL": 6 - 2},
        "CHIP_FLASH_ERRORS": {"FLASH.SR.PGERR": 1, "FLASH.SR.WRPRTERR": 1},
        "CR_PER": {"FLASH.CR.PER": 1},
        "CHIP_SUPPLY_LEVEL": {"PWR.CR.PLS": 7},  # data sheet: falls at 2.66 to 2.90 V
    },
}

# Not of the vendor: choices of the port, and what is compared through the constants made of it
OURS = {
    *("BIT", "KEPT", "CHIP_FPU", "CHIP_WATCHDOG_HZ", "CHIP_USART1", "CHIP_RCC", "CHIP_RCC_CFGR", "CHIP_RCC_CSR"),
    *("CHIP_FLASH", "CHIP_RECEIVE_BYTES", "CHIP_SEND_BYTES", "CHIP_RAM_SLOT_BYTES", "CHIP_RAM_LOG_BYTES"),
    *("STEPMAP_BAUD", "STEPMAP_CRYSTAL_HZ", "TRIES", "BUSY_US", "PWM_HZ", "ERASE_MS", "WRITE_MS", "ENABLE_PIN"),
    *("FAULT_PIN", "CHIP_BROWNOUT", "CHIP_RCC_APB1ENR", "CHIP_EXTI"),
    *("ASKED", "FRESH", "FAULT_4", "FAULT_12", "EDGES_4", "LAST_IRQ", "EDGES", "TIMED", "EDGE_ENCODERS", "EDGE_PINS"),
    *("CHIP_MOTORS", "CHIP_ENCODERS", "CHIP_TIMER_ENCODERS"),
}

COMMON_SIGNALS = {  # docs/boards.md
    **{"USART1.TX": "PA9", "USART1.RX": "PA10", "TIM3.CH1": "PA6", "TIM3.CH2": "PA7"},
    **{"TIM4.CH1": "PB6", "TIM4.CH2": "PB7"},
}
SIGNALS = {
    "stm32f405": {
        **COMMON_SIGNALS,
        **{"TIM3.CH3": "PC8", "TIM3.CH4": "PC9", "TIM12.CH1": "PB14", "TIM12.CH2": "PB15"},
        **{"TIM5.CH1": "PA0", "TIM5.CH2": "PA1", "TIM8.CH1": "PC6", "TIM8.CH2": "PC7"},
        **{"TIM2.CH1": "PA15", "TIM2.CH2": "PB3"},
    },
    "stm32f100": {**COMMON_SIGNALS, "TIM2.CH1": "PA0", "TIM2.CH2": "PA1"},
}
OUTPUTS = {
    "stm32f405": ("PB0", "PB1", "PB5", "PB10", "PB11", "PB12", "PB13"),
    "stm32f100": ("PB0", "PB1", "PB5"),
}
VECTORS = ("PVD", "USART1", "EXTI0", "EXTI9_5", "EXTI15_10")  # with a number of their own
EDGE_INPUTS = (0, 1, 2, 3, 4, 5, 10, 11)  # of GPIOC, F405: encoders that no timer counts


@pytest.fixture(params=sorted(FAMILIES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def address(name: str, register: str) -> int:
    return int(VENDOR[name]["registers"][ALIASES[name].get(register, register)]["address"], 16)


def bits(name: str, values: dict[str, int]) -> int:
    """A register with these values in its fields, each of which has to fit."""
    total = 0
    for key, value in values.items():
        register, field = key.rsplit(".", 1)
        register = ALIASES[name].get(register, register)
        field = ALIASES[name].get(key, key).rsplit(".", 1)[1]
        position, width = VENDOR[name]["registers"][register]["fields"][field]
        assert value < 1 << width, key
        total |= value << position
    return total


def sources(name: str) -> list[Path]:
    folders = (PORT / "stm32", PORT / FAMILIES[name].folder)
    return [file for folder in folders for file in sorted(folder.glob("*.[ch]"))]


@cache
def ours(name: str, expressions: tuple[str, ...]) -> dict[str, int]:
    """What the compiler makes of expressions in the port's constants, registers and tables."""
    family = PORT / FAMILIES[name].folder
    included = [PORT / "stm32" / "clock.c", family / "clock.c", family / "flash.c", family / "pins.c"]
    included += [file for file in [family / "edges.c"] if file.exists()]
    watchdog = re.findall(r"^#define WATCHDOG\w+ .*", (PORT / "stm32" / "reset.c").read_text(), re.MULTILINE)
    program = [
        "#include <stdio.h>",
        *(f'#include "{file}"' for file in included),
        *watchdog,  # the rest of reset.c is for ARM only
        "int main(void) {",
        *(f'  printf("%llu\\n", (unsigned long long)({expression}));' for expression in expressions),
        "}",
    ]
    folders = (FIRMWARE / "core", PORT, PORT / "stm32", family)
    with tempfile.TemporaryDirectory() as made:
        binary = Path(made, "constants")
        subprocess.run(
            [
                *("gcc", "-std=c11", "-w", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"),
                *(*(f"-I{folder}" for folder in folders), "-x", "c", "-", "-o", binary),
            ],
            input="\n".join(program),
            text=True,
            check=True,
        )
        printed = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
    return dict(zip(expressions, map(int, printed.split()), strict=True))


# STM32


def test_registers_are_where_the_vendor_has_them(name: str) -> None:
    registers = REGISTERS | REGISTERS_OF[name]
    found = ours(name, tuple(f"(uintptr_t)&{lvalue}" for lvalue in registers))
    expected = {f"(uintptr_t)&{lvalue}": address(name, register) for lvalue, register in registers.items()}
    assert {k: hex(v) for k, v in found.items()} == {k: hex(v) for k, v in expected.items()}


def test_constants_have_the_bits_of_the_vendors_fields(name: str) -> None:
    values = VALUES | VALUES_OF[name]
    found = ours(name, tuple(values))
    assert {k: hex(v) for k, v in found.items()} == {k: hex(bits(name, v)) for k, v in values.items()}


def test_no_constant_is_left_out(name: str) -> None:
    defined = {
        found[1]
        for file in sources(name)
        for found in re.finditer(r"^#define (\w+)[ (].", file.read_text(), re.MULTILINE)
    }
    pointers = {re.split(r"->|\[", lvalue)[0] for lvalue in (*REGISTERS, *REGISTERS_OF[name])}
    compared = pointers | {re.split(r"[( ]", constant)[0] for constant in (*VALUES, *VALUES_OF[name])}
    elsewhere = {f"{one}_IRQ" for one in VECTORS}
    elsewhere |= {"CHIP_UNIQUE_ID"}  # in no file of the vendor; test_registers.py has it from the manuals
    if name == "stm32f100":
        elsewhere |= {"SCB_CPACR", "SCB_CPACR_FPU", "RCC_CSR_BORRSTF"}  # this chip has none; the F405's are compared
    assert defined - compared - OURS - elsewhere == set()


def test_vectors_are_at_the_vendors_positions(name: str) -> None:
    content, symbols = image(name)
    numbers = VENDOR[name]["interrupts"]
    assert ours(name, tuple(f"{one}_IRQ" for one in VECTORS)) == {f"{one}_IRQ": numbers[one] for one in VECTORS}
    own = {0: symbols["link_stack_top"], 1: symbols["start_handler"] | 1, 15: symbols["tick_handler"] | 1}
    own[16 + numbers["USART1"]] = symbols["serial_handler"] | 1
    own[16 + numbers["PVD"]] = symbols["supply_handler"] | 1
    if name == "stm32f405":
        edges = [*range(numbers["EXTI0"], numbers["EXTI4"] + 1), numbers["EXTI9_5"], numbers["EXTI15_10"]]
        own |= {16 + number: symbols["edges_handler"] | 1 for number in edges}
    vectors = [int.from_bytes(content[4 * i : 4 * i + 4], "little") for i in range(max(own) + 1)]
    assert vectors == [own.get(i, symbols["fault_handler"] | 1) for i in range(len(vectors))]


def test_memory_is_that_of_the_chip(name: str) -> None:
    family, memory = FAMILIES[name], VENDOR[name]["memory"]
    script = (PORT / family.folder / family.script).read_text()
    areas = {
        found[1]: (int(found[2], 16), 1024 * int(found[3]))
        for found in re.finditer(r"(\w+) \(\w+\) : ORIGIN = (\w+), LENGTH = (\d+)K", script)
    }
    ram_end = max(start + size for area, (start, size) in memory.items() if area.startswith("sram"))
    assert areas["RAM"] == (memory["sram1"][0], ram_end - memory["sram1"][0])
    assert areas["FLASH"][0] == memory["flash"][0]
    end = areas["FLASH"][0] + areas["FLASH"][1]
    for i in range(4):  # what is kept lies behind the image, in order
        start, size = ours(name, (f"chip_regions[{i}].start", f"chip_regions[{i}].bytes")).values()
        if size:
            assert start >= end
            end = start + size
    assert end <= sum(memory["flash"])


def test_flash_gets_the_wait_states_its_clock_needs(name: str) -> None:
    core = ours(name, ("chip_full.core",))["chip_full.core"]
    needed = min(int(waits) for waits, limit in VENDOR[name]["wait_states"].items() if core <= limit)
    if name == "stm32f405":
        assert (
            ours(name, ("ACR_CACHES_5_WAITS",))["ACR_CACHES_5_WAITS"] & bits(name, {"FLASH.ACR.LATENCY": 7}) == needed
        )
    else:
        assert needed == 0  # this chip cannot wait


def test_pins_get_the_vendors_functions(name: str) -> None:
    chip = Chip(name)
    chip.start()

    def has(values: dict[str, int]) -> None:
        for key, value in values.items():
            register = key.rsplit(".", 1)[0]
            mask = bits(name, {key: (1 << VENDOR[name]["registers"][register]["fields"][key.rsplit(".", 1)[1]][1]) - 1})
            assert chip.registers.get(address(name, register), 0) & mask == bits(name, {key: value}), key

    has({"RCC.APB1ENR.PWREN": 1})
    has({f"RCC.APB1ENR.TIM{i}EN": 1 for i in (2, 3, 4)} | {"RCC.APB2ENR.USART1EN": 1})
    if name == "stm32f405":
        has({"RCC.APB1ENR.TIM5EN": 1, "RCC.APB1ENR.TIM12EN": 1, "RCC.APB2ENR.TIM8EN": 1, "RCC.APB2ENR.SYSCFGEN": 1})
        has({"RCC.AHB1ENR.GPIOCEN": 1})
        has({f"GPIOC.MODER.MODER{pin}": 0 for pin in EDGE_INPUTS} | {f"GPIOC.PUPDR.PUPDR{p}": 1 for p in EDGE_INPUTS})
    ports = {"stm32f405": "RCC.AHB1ENR.GPIO{}EN", "stm32f100": "RCC.APB2ENR.IOP{}EN"}[name]
    has({ports.format(port): 1 for port in "AB"})
    for pin in OUTPUTS[name]:
        port, number = f"GPIO{pin[1]}", int(pin[2:])
        if name == "stm32f405":
            has({f"{port}.MODER.MODER{number}": 1})
        else:
            has({f"{port}.CRL.MODE{number}": 2, f"{port}.CRL.CNF{number}": 0})
    for signal, pin in SIGNALS[name].items():
        port, number, half = f"GPIO{pin[1]}", int(pin[2:]), "LH"[int(pin[2:]) // 8]
        function = VENDOR[name]["signals"][signal][pin]
        output = signal.endswith("TX") or signal.startswith(("TIM3", "TIM12"))
        if name == "stm32f405":
            has({f"{port}.MODER.MODER{number}": 2, f"{port}.AFR{half}.AFR{half}{number}": function})
            has({f"{port}.PUPDR.PUPDR{number}": 0 if output else 1})
        else:  # push-pull of the peripheral, or an input with a pull
            has({f"{port}.CR{half}.CNF{number}": 2, f"{port}.CR{half}.MODE{number}": 2 if output else 0})


def test_the_model_of_the_chip_is_that_of_the_vendor(name: str) -> None:
    family = FAMILIES[name]
    assert family.usart == address(name, "USART1.SR")
    assert (family.rcc, family.cfgr, family.csr) == tuple(address(name, f"RCC.{r}") for r in ("CR", "CFGR", "CSR"))
    assert family.flash_registers == address(name, "FLASH.ACR")
    assert family.lock == bits(name, {"FLASH.CR.LOCK": 1})
    assert family.busy == bits(name, {"FLASH.SR.BSY": 1})
    assert family.errors == bits(name, VALUES_OF[name]["CHIP_FLASH_ERRORS"])
    assert (FLASH, family.flash_bytes) == tuple(VENDOR[name]["memory"]["flash"])
    assert sum(family.sectors) == family.flash_bytes
    assert VENDOR[name]["memory"]["sram1"][0] == RAM
    after_reset = Chip(name).registers
    for register in ("RCC.CR", "FLASH.CR"):
        assert after_reset[address(name, register)] == int(VENDOR[name]["registers"][register]["reset"], 16)


# ESP32


def checks() -> list[str]:
    """C that compiles where the declarations agree with ESP-IDF's: functions again, assertions about the rest."""
    same = "_Static_assert(__builtin_types_compatible_p({}, {}), {});"
    lines = []
    for functions in ESP_IDF["functions"].values():
        for function, (result, *arguments) in functions.items():
            lines.append(f"{result} {function}({', '.join(arguments) or 'void'});")
    for structs in ESP_IDF["fields"].values():
        for struct, fields in structs.items():
            for field, kind in fields.items():
                member = f"(({struct} *)0)->{field}"
                if kind is None:  # a bit field has no type of its own
                    lines.append(f"_Static_assert(sizeof(+{member}) > 0, {json.dumps(field)});")
                else:
                    lines.append(same.format(f"__typeof__({member})", kind, json.dumps(f"{struct}.{field}")))
    for constants in ESP_IDF["constants"].values():
        lines += [f"_Static_assert({c} == {value}, {json.dumps(c)});" for c, value in constants.items()]
    return lines


@pytest.mark.parametrize("header", sorted(ESP_IDF["functions"]))
def test_declarations_are_in_the_header_of_esp_idf(header: str) -> None:
    text = (PORT / "esp32" / "declarations" / header).read_text()
    assert set(re.findall(r"\b(\w+)\([\w ]+[\w *,\n]*\)(?: __attribute__.*)?;", text)) == set(
        ESP_IDF["functions"][header]
    )


def test_declarations_agree_with_esp_idf() -> None:
    declarations = PORT / "esp32" / "declarations"
    headers = sorted(ESP_IDF["functions"].keys() | ESP_IDF["fields"].keys() | ESP_IDF["constants"].keys())
    program = ["#include <stdbool.h>", *(f'#include "{header}"' for header in headers), *checks()]
    run = subprocess.run(
        ["gcc", "-std=gnu11", "-fsyntax-only", f"-I{declarations}", "-x", "c", "-"],
        input="\n".join(program),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


def test_the_port_uses_no_constant_that_was_not_compared() -> None:
    text = "".join(file.read_text() for file in sorted((PORT / "esp32").glob("*.c")))
    used = set(re.findall(r"\b(?:UART|GPIO|LEDC|PCNT|ESP)_[A-Z0-9_]+\b", text))
    compared = {name for constants in ESP_IDF["constants"].values() for name in constants}
    by_name = {"ESP_OK", "ESP_ERROR_CHECK"}
    by_chip = {"UART_SCLK_DEFAULT", "LEDC_LOW_SPEED_MODE"}  # other values on other chips
    assert used - compared - by_name - by_chip == set()


# Encoders

WHEEL = r"""
#include <stdio.h>
#include "port.h"
#include "driver/gpio.h"
#include "driver/pulse_cnt.h"
static int levels[64], counts[8], channels;
static gpio_isr_t handlers[64];
static void *arguments[64];
static struct { int unit, edge, level; int rising, falling, high, low; } channel[8];
void declared_error_check(esp_err_t code) { (void)code; }
esp_err_t gpio_config(const gpio_config_t *config) { return !config; }
esp_err_t gpio_install_isr_service(int flags) { return flags; }
int gpio_get_level(gpio_num_t pin) { return levels[pin]; }
esp_err_t gpio_isr_handler_add(gpio_num_t pin, gpio_isr_t handler, void *argument) {
  handlers[pin] = handler, arguments[pin] = argument;
  return ESP_OK;
}
#define NUMBER(handle) ((int)(uintptr_t)(handle) - 1)
static int units;
esp_err_t pcnt_new_unit(const pcnt_unit_config_t *config, pcnt_unit_handle_t *unit) {
  *unit = (pcnt_unit_handle_t)(uintptr_t)++units;
  return !config;
}
esp_err_t pcnt_unit_set_glitch_filter(pcnt_unit_handle_t u, const pcnt_glitch_filter_config_t *c) { return !u || !c; }
esp_err_t pcnt_new_channel(pcnt_unit_handle_t unit, const pcnt_chan_config_t *config, pcnt_channel_handle_t *made) {
  channel[channels].unit = NUMBER(unit);
  channel[channels].edge = config->edge_gpio_num;
  channel[channels].level = config->level_gpio_num;
  *made = (pcnt_channel_handle_t)(uintptr_t)++channels;
  return ESP_OK;
}
esp_err_t pcnt_channel_set_edge_action(pcnt_channel_handle_t c, pcnt_channel_edge_action_t rising,
                                       pcnt_channel_edge_action_t falling) {
  channel[NUMBER(c)].rising = rising, channel[NUMBER(c)].falling = falling;
  return ESP_OK;
}
esp_err_t pcnt_channel_set_level_action(pcnt_channel_handle_t c, pcnt_channel_level_action_t high,
                                        pcnt_channel_level_action_t low) {
  channel[NUMBER(c)].high = high, channel[NUMBER(c)].low = low;
  return ESP_OK;
}
esp_err_t pcnt_unit_add_watch_point(pcnt_unit_handle_t u, int value) { return !u || !value; }
esp_err_t pcnt_unit_enable(pcnt_unit_handle_t u) { return !u; }
esp_err_t pcnt_unit_clear_count(pcnt_unit_handle_t u) { return !u; }
esp_err_t pcnt_unit_start(pcnt_unit_handle_t u) { return !u; }
esp_err_t pcnt_unit_get_count(pcnt_unit_handle_t u, int *value) { return *value = counts[NUMBER(u)], ESP_OK; }
static void set(int pin, int level) {
  levels[pin] = level;
  if (handlers[pin]) handlers[pin](arguments[pin]);
  for (int i = 0; i < channels; ++i) {
    if (channel[i].edge != pin) continue;
    const int action = level ? channel[i].rising : channel[i].falling;
    const int how = levels[channel[i].level] ? channel[i].high : channel[i].low;
    int step = action == PCNT_CHANNEL_EDGE_ACTION_INCREASE ? 1 : action == PCNT_CHANNEL_EDGE_ACTION_DECREASE ? -1 : 0;
    counts[channel[i].unit] += how == PCNT_CHANNEL_LEVEL_ACTION_INVERSE ? -step
                               : how == PCNT_CHANNEL_LEVEL_ACTION_KEEP ? step : 0;
  }
}
#include "esp32.h"
#include "pins.h"
int main(void) {
  encoders_init();
  for (unsigned axis = 0; axis < PORT_ENCODERS; ++axis) {
    const int a = PINS.encoder[axis][0], b = PINS.encoder[axis][1];
    for (unsigned turn = 0; turn < 3U; ++turn) set(a, 1), set(b, 1), set(a, 0), set(b, 0);
    printf("%d ", (int)port_encoder(axis));
    for (unsigned turn = 0; turn < 5U; ++turn) set(b, 1), set(a, 1), set(b, 0), set(a, 0);
    printf("%d ", (int)port_encoder(axis));
  }
}
"""


@pytest.mark.parametrize(("chip", "encoders"), [("ESP32", "encoders_pcnt.c"), ("ESP32C3", "encoders_gpio.c")])
def test_encoders_count_as_those_of_the_stm32(chip: str, encoders: str, tmp_path: Path) -> None:
    """Up where A leads, four counts a turn: the encoder mode of timers, table "Counting direction" of RM0090."""
    esp32 = PORT / "esp32"
    folders = (FIRMWARE / "core", esp32, esp32 / "declarations")
    subprocess.run(
        [
            *("gcc", "-std=c11", "-w", f"-DCONFIG_IDF_TARGET_{chip}=1", *(f"-I{folder}" for folder in folders)),
            *("-x", "c", "-", esp32 / encoders, "-o", tmp_path / "wheel"),
        ],
        input=WHEEL,
        text=True,
        check=True,
    )
    printed = subprocess.run([tmp_path / "wheel"], capture_output=True, text=True, check=True).stdout
    assert list(map(int, printed.split())) == [12, 12 - 20] * 2
