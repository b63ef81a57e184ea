"""Writes stm32.json from the descriptions that the vendors publish; README.md says where they come from.

python extract.py SVD_FOLDER MODM_FOLDER: `cmsis_svd/data` of cmsis-svd 0.4, `modm_devices/resources/devices/stm32` of
modm-devices. Nothing here comes from the firmware: this file only names what to look up.
"""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path

# Registers and fields in use.
BOTH = """
    RCC.CR HSION HSIRDY HSEON HSERDY CSSON PLLON PLLRDY
    RCC.APB1ENR TIM2EN TIM3EN TIM4EN PWREN
    PWR.CR PVDE PLS; PWR.CSR PVDO
    EXTI.IMR MR0 MR16; EXTI.RTSR TR0 TR16; EXTI.FTSR TR0 TR16; EXTI.PR PR0 PR16
    USART1.SR ORE RXNE TXE; USART1.DR DR; USART1.BRR DIV_Mantissa DIV_Fraction
    USART1.CR1 UE M PCE RE TE RXNEIE TXEIE; USART1.CR2 STOP; USART1.CR3 EIE
    TIM2.CR1 CEN; TIM2.SMCR SMS; TIM2.CCMR1_Input CC1S CC2S IC1F IC2F; TIM2.CNT; TIM2.ARR
    TIM3.CR1 CEN; TIM3.EGR UG; TIM3.CCMR1_Output OC1M OC2M; TIM3.CCMR2_Output OC3M OC4M
    TIM3.CCER CC1E CC2E CC3E CC4E; TIM3.PSC PSC; TIM3.ARR; TIM3.CCR1; TIM3.CCR2; TIM3.CCR3; TIM3.CCR4
    TIM4.CR1 CEN; TIM4.SMCR SMS; TIM4.CCMR1_Input CC1S CC2S IC1F IC2F; TIM4.CNT; TIM4.ARR
    IWDG.KR KEY; IWDG.PR PR; IWDG.RLR RL; IWDG.SR PVU RVU
    NVIC.ISER0 SETENA; NVIC.ISER1 SETENA
"""
WANTED = {
    "stm32f405": """
        RCC.PLLCFGR PLLM PLLN PLLP PLLQ PLLSRC
        RCC.CFGR SW SWS HPRE PPRE1 PPRE2
        RCC.AHB1ENR GPIOAEN GPIOBEN GPIOCEN; RCC.APB2ENR USART1EN TIM8EN SYSCFGEN
        RCC.APB1ENR TIM2EN TIM3EN TIM4EN TIM5EN TIM12EN PWREN
        TIM5.CR1 CEN; TIM5.SMCR SMS; TIM5.CCMR1_Input CC1S CC2S IC1F IC2F; TIM5.CNT; TIM5.ARR
        TIM8.CR1 CEN; TIM8.SMCR SMS; TIM8.CCMR1_Input CC1S CC2S IC1F IC2F; TIM8.CNT; TIM8.ARR
        TIM12.CR1 CEN; TIM12.EGR UG; TIM12.CCMR1_Output OC1M OC2M; TIM12.CCER CC1E CC2E; TIM12.PSC PSC; TIM12.ARR
        TIM12.CCR1; TIM12.CCR2
        SYSCFG.EXTICR1 EXTI0; SYSCFG.EXTICR2 EXTI4; SYSCFG.EXTICR3 EXTI10
        RCC.CSR RMVF BORRSTF PADRSTF PORRSTF SFTRSTF WDGRSTF WWDGRSTF
        FLASH.ACR LATENCY PRFTEN ICEN DCEN DCRST; FLASH.KEYR KEY
        FLASH.SR OPERR WRPERR PGAERR PGPERR PGSERR BSY; FLASH.CR PG SER SNB PSIZE STRT LOCK
        FLASH.OPTKEYR OPTKEY; FLASH.OPTCR OPTLOCK OPTSTRT BOR_LEV
        GPIOA.MODER MODER0 MODER1 MODER6 MODER7 MODER9 MODER10 MODER15
        GPIOA.PUPDR PUPDR0 PUPDR1 PUPDR6 PUPDR7 PUPDR9 PUPDR10 PUPDR15
        GPIOA.BSRR; GPIOA.AFRL AFRL0 AFRL1 AFRL6 AFRL7; GPIOA.AFRH AFRH9 AFRH10 AFRH15
        GPIOB.MODER MODER0 MODER1 MODER3 MODER5 MODER6 MODER7 MODER8 MODER10 MODER11 MODER12 MODER13 MODER14 MODER15
        GPIOB.PUPDR PUPDR3 PUPDR6 PUPDR7 PUPDR8 PUPDR14 PUPDR15
        GPIOB.IDR; GPIOB.BSRR BS0 BS1 BS5 BR0 BR1 BR5; GPIOB.AFRL AFRL3 AFRL6 AFRL7; GPIOB.AFRH AFRH14 AFRH15
        GPIOC.MODER MODER0 MODER1 MODER2 MODER3 MODER4 MODER5 MODER6 MODER7 MODER8 MODER9 MODER10 MODER11
        GPIOC.PUPDR PUPDR0 PUPDR1 PUPDR2 PUPDR3 PUPDR4 PUPDR5 PUPDR6 PUPDR7 PUPDR8 PUPDR9 PUPDR10 PUPDR11
        GPIOC.IDR; GPIOC.BSRR; GPIOC.AFRL AFRL6 AFRL7; GPIOC.AFRH AFRH8 AFRH9
    """,
    "stm32f100": """
        RCC.CFGR SW SWS HPRE PPRE1 PPRE2 PLLSRC PLLXTPRE PLLMUL
        RCC.APB2ENR IOPAEN IOPBEN USART1EN
        RCC.CSR RMVF PINRSTF PORRSTF SFTRSTF IWDGRSTF WWDGRSTF
        FLASH.ACR; FLASH.KEYR KEY; FLASH.SR BSY PGERR WRPRTERR; FLASH.CR PG PER STRT LOCK; FLASH.AR FAR
        GPIOA.CRL MODE0 CNF0 MODE1 CNF1 MODE6 CNF6 MODE7 CNF7; GPIOA.CRH MODE9 CNF9 MODE10 CNF10; GPIOA.BSRR
        GPIOB.CRL MODE0 CNF0 MODE1 CNF1 MODE5 CNF5 MODE6 CNF6 MODE7 CNF7; GPIOB.CRH MODE8 CNF8
        GPIOB.IDR; GPIOB.BSRR BS0 BS1 BS5 BR0 BR1 BR5
    """,
}
PROCESSORS = {  # registers of ARM's, which ST's files leave out, from those of others with the same processor
    "stm32f405": (
        "Freescale/MK64F12.svd",
        """
        SystemControl.ICSR PENDSTSET; SystemControl.VTOR TBLOFF; SystemControl.AIRCR SYSRESETREQ VECTKEY
        SystemControl.CPACR CP10 CP11
        SysTick.CSR ENABLE TICKINT CLKSOURCE COUNTFLAG; SysTick.RVR RELOAD; SysTick.CVR CURRENT
        """,
    ),
    "stm32f100": (
        "Holtek/ht32f175x.svd",
        """
        NVIC.ICSR PENDSTSET; NVIC.VTOR TBLOFF; NVIC.AIRCR SYSRESETREQ VECTKEY
        SysTick.CTRL ENABLE TICKINT CLKSOURCE COUNTFLAG; SysTick.LOAD RELOAD; SysTick.VAL CURRENT
        """,
    ),
}
FILES = {
    "stm32f405": ("STMicro/STM32F40x.svd", "stm32f4-05_07_15_17.xml", "g"),
    "stm32f100": ("STMicro/STM32F100xx.svd", "stm32f1-00-4_6_8_b.xml", "b"),
}
SIGNALS = ("tim2", "tim3", "tim4", "tim5", "tim8", "tim12", "usart1")


def number(element: ElementTree.Element, name: str) -> int:
    return int(element.findtext(name, ""), 0)


def field(element: ElementTree.Element) -> tuple[int, int]:
    """Position and width."""
    if found := re.match(r"\[(\d+):(\d+)\]", element.findtext("bitRange", "")):
        return int(found[2]), int(found[1]) - int(found[2]) + 1
    return number(element, "bitOffset"), number(element, "bitWidth")


def fields(register: ElementTree.Element) -> dict[str, tuple[int, int]]:
    """By name. Bits that are listed one by one, as PLLN0 to PLLN8, are also there as one field, PLLN."""
    found = {element.findtext("name", ""): field(element) for element in register.iter("field")}
    for name in [name[:-1] for name in found if re.fullmatch(r"(PLL[MNPQ]|SWS?)0", name)]:
        bits = [found[f"{name}{i}"][0] for i in range(9) if f"{name}{i}" in found]
        found[name] = (bits[0], len(bits))
    return found


def registers(path: Path, wanted: str) -> dict[str, dict[str, object]]:
    device = ElementTree.parse(path).getroot()
    peripherals = {p.findtext("name", ""): p for p in device.iter("peripheral")}
    found: dict[str, dict[str, object]] = {}
    for line in re.split(r"[;\n]", wanted):
        if not line.strip():
            continue
        name, *names = line.split()
        peripheral = peripherals[name.split(".")[0]]
        described = peripherals[peripheral.get("derivedFrom", name.split(".")[0])]
        register = next(r for r in described.iter("register") if r.findtext("name") == name.split(".")[1])
        places = fields(register)
        found[name] = {
            "address": hex(number(peripheral, "baseAddress") + number(register, "addressOffset")),
            "reset": hex(int(register.findtext("resetValue", "0"), 0)),
            "fields": {field: places[field] for field in names},
        }
    return found


def interrupts(path: Path) -> dict[str, int]:
    """Those of the peripherals in use."""
    all_of_them = ElementTree.parse(path).getroot().iter("interrupt")
    numbers = {i.findtext("name", "").removesuffix("_IRQ"): number(i, "value") for i in all_of_them}
    return {name: numbers[name] for name in ("PVD", "USART1", "EXTI0", "EXTI4", "EXTI9_5", "EXTI15_10")}


def chip(path: Path, size: str) -> dict[str, dict[str, object]]:
    """Memory, wait states at 2.7 V and more, and the pins of each signal, with alternate functions where it has any."""
    device = ElementTree.parse(path).getroot()
    memory: dict[str, object] = {}
    for element in device.iter("memory"):
        if size in element.get("device-size", size).split("|"):
            memory[element.get("name", "")] = [int(element.get("start", ""), 0), int(element.get("size", ""))]
    latency = list(device.iter("latency"))[-1]
    waits = [(w.get("ws", ""), int(w.get("hclk-max", ""))) for w in latency.iter("wait-state")]
    signals: dict[str, dict[str, int | None]] = {}

    def add(name: str, pin: ElementTree.Element, function: str | None) -> None:
        place = f"P{pin.get('port', '').upper()}{pin.get('pin')}"
        signals.setdefault(name.upper(), {})[place] = None if function is None else int(function)

    for pin in device.iter("gpio"):
        for signal in pin.iter("signal"):
            owner = f"{signal.get('driver')}{signal.get('instance', '')}"
            if owner in SIGNALS and signal.get("af"):
                add(f"{owner}.{signal.get('name')}", pin, signal.get("af"))
    for remap in device.iter("remap"):
        owner = f"{remap.get('driver')}{remap.get('instance', '')}"
        for group in remap.iter("group"):
            if owner in SIGNALS and group.get("id") == "0":  # as after a reset
                for signal in group.iter("signal"):
                    add(f"{owner}.{signal.get('name')}", signal, None)
    return {"memory": memory, "wait_states": dict(waits), "signals": dict(sorted(signals.items()))}


def rows(part: Mapping[str, object]) -> str:
    """One entry a line."""
    return ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in part.items())


def main(svd: Path, modm: Path) -> None:
    chips: dict[str, dict[str, Mapping[str, object]]] = {}
    for name, (description, pins, size) in FILES.items():
        processor, core = PROCESSORS[name]
        chips[name] = {
            "registers": registers(svd / description, BOTH + WANTED[name]) | registers(svd / processor, core),
            "interrupts": interrupts(svd / description),
            **chip(modm / pins, size),
        }
    lines = []
    for name, content in chips.items():
        entries = (f'  "{part}": {{\n{rows(content[part])}\n  }}' for part in content)
        lines.append(f' "{name}": {{\n' + ",\n".join(entries) + "\n }")
    text = "{\n" + ",\n".join(lines) + "\n}"
    Path(__file__).with_name("stm32.json").write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
