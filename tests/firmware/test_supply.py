"""What hardware tells the STM32 ports by itself, against a model of the registers: supply, drivers, lost edges."""

from __future__ import annotations

import subprocess

import pytest

from tests.firmware.stm32_model import FAMILIES, Chip

DRIVER, SUPPLY, BROWNOUT, ENCODER = 1, 2, 4, 256
JOURNAL_A = 2
ENABLE, FAULT_LINE = 5, 8  # pins of GPIOB
BSRR = {"stm32f405": 0x40020418, "stm32f100": 0x40010C10}
TIM3_CCR1 = 0x40000434
GPIOC_IDR = 0x40020810
BOR_LEV = 3 << 2
LOWEST = 3.3 * 0.95  # V, of a supply of 3.3 V ± 5 %
# Just below what the detector tells of in every chip, and well within what the chip still works at.
SAG = {"stm32f405": 2.84, "stm32f100": 2.65}


@pytest.fixture(params=sorted(FAMILIES))
def chip(request: pytest.FixtureRequest) -> Chip:
    it = Chip(request.param, volts=LOWEST)
    it.start()
    return it


def alarms(chip: Chip) -> int:
    """Without the brown-out level, which a chip of ST's has off."""
    return chip.call("port_alarms") & ~BROWNOUT


def powered(chip: Chip) -> bool:
    """Whether the pin of the power stages was set high last."""
    bits = [value for address, value in chip.writes if address == BSRR[chip.name] and value & (1 << 5 | 1 << 21)]
    return bits[-1] == 1 << ENABLE


def test_a_supply_within_its_range_is_no_alarm(chip: Chip) -> None:
    assert alarms(chip) == 0
    assert chip.call("port_region_erase", JOURNAL_A) == 0


def test_a_supply_that_sags_switches_the_motors_off_at_once(chip: Chip) -> None:
    """By interrupt, before the main loop hears of it; and a sag that is over is still told, once."""
    chip.call("port_enable", 1)
    chip.call("port_drive", 0, 500)
    assert chip.supply(SAG[chip.name])
    chip.call("supply_handler")
    assert not powered(chip)
    assert chip.registers[TIM3_CCR1] == 0
    assert not chip.registers[chip.family.exti + 0x14]  # else the interrupt would never end
    assert alarms(chip) == SUPPLY
    chip.supply(3.3)
    assert alarms(chip) == 0
    assert chip.supply(SAG[chip.name])
    chip.call("supply_handler")
    chip.supply(3.3)
    assert [alarms(chip), alarms(chip)] == [SUPPLY, 0]


def test_motors_stay_off_until_they_are_enabled_anew(chip: Chip) -> None:
    chip.call("port_enable", 1)
    chip.supply(SAG[chip.name])
    chip.call("supply_handler")
    chip.call("port_enable", 1)  # a loop that has not heard yet
    assert not powered(chip)
    chip.call("port_enable", 0)
    chip.call("port_enable", 1)
    assert powered(chip)


def test_nothing_is_erased_or_written_while_the_supply_is_low(chip: Chip) -> None:
    """The model has a problem with every write below what flash needs."""
    assert chip.call("port_region_erase", JOURNAL_A) == 0
    before = chip.memory(chip.call("port_region_read", JOURNAL_A), 64)
    for volts in (SAG[chip.name], 2.1):
        chip.supply(volts)
        assert chip.call("port_region_erase", JOURNAL_A) < 0
        assert chip.call("port_region_write", JOURNAL_A, 0, chip.put(bytes(64)), 64) < 0
        assert chip.memory(chip.call("port_region_read", JOURNAL_A), 64) == before
        assert chip.registers[chip.family.flash_registers + 0x10] & chip.family.lock
    chip.supply(3.3)
    assert chip.call("port_region_write", JOURNAL_A, 0, chip.put(bytes(64)), 64) == 0


def test_the_detector_tells_before_flash_is_out_of_its_range(chip: Chip) -> None:
    level = chip.registers[0x40007000] >> 5 & 7
    assert chip.family.falls[level] > chip.family.flash_volts + 0.1
    assert chip.family.rises[level] < LOWEST
    assert chip.registers[0x40007000] & 1 << 14 or chip.name == "stm32f100"  # the scale of the core's voltage stays


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_chip_that_starts_with_a_low_supply_stays_slow(name: str) -> None:
    """Flash is read with the waits of 2.7 V: at full speed and below that it would be read wrong."""
    chip = Chip(name, volts=SAG[name])
    chip.start()
    assert alarms(chip) == SUPPLY
    internal = {"stm32f405": 16e6, "stm32f100": 8e6}[name]
    assert chip.registers[0xE000E014] == internal / 1000 - 1
    assert not chip.registers[chip.family.cfgr] & 3
    again = Chip(name, volts=SAG[name])
    again.leave_bootloader()  # with its PLL
    again.start()
    assert not again.registers[again.family.cfgr] & 3


def test_a_driver_that_pulls_its_line_is_told(chip: Chip) -> None:
    assert alarms(chip) == 0
    chip.registers[chip.family.gpiob_idr] &= ~(1 << FAULT_LINE)
    assert alarms(chip) == DRIVER
    chip.registers[chip.family.gpiob_idr] |= 1 << FAULT_LINE
    assert alarms(chip) == 0


def test_a_line_that_nobody_drives_is_pulled_up(chip: Chip) -> None:
    if chip.name == "stm32f405":
        assert chip.registers[0x40020400] >> 2 * FAULT_LINE & 3 == 0
        assert chip.registers[0x4002040C] >> 2 * FAULT_LINE & 3 == 1
    else:  # input with a pull; BSRR says which way
        assert chip.registers[0x40010C04] & 15 == 8
        assert (BSRR[chip.name], 1 << FAULT_LINE) in chip.writes


def test_pins_that_are_not_there_tell_nothing(chip: Chip) -> None:
    """As in QEMU, which reads zeros wherever it has no peripheral."""
    modes = {"stm32f405": 0x40020400, "stm32f100": 0x40010C00}[chip.name]
    chip.registers[modes] = chip.registers[chip.family.gpiob_idr] = 0
    assert alarms(chip) == 0


def test_both_lines_of_an_encoder_at_once_are_told_once() -> None:
    """Of encoders that interrupts count; and their position then stays, as nobody knows which way it went."""
    chip = Chip("stm32f405")
    chip.start()
    for encoder, (a, b) in enumerate(((0, 1), (2, 3), (4, 5), (10, 11)), start=4):
        chip.registers[GPIOC_IDR] = chip.registers.get(GPIOC_IDR, 0) ^ (1 << a)
        chip.call("edges_handler")
        assert alarms(chip) == 0
        before = chip.call("port_encoder", encoder)
        chip.registers[GPIOC_IDR] ^= 1 << a | 1 << b
        chip.call("edges_handler")
        assert [alarms(chip), alarms(chip)] == [ENCODER << encoder, 0]
        assert chip.call("port_encoder", encoder) == before


# Brown-out level, F405 alone


def test_a_brown_out_level_below_what_flash_needs_is_told_and_left_alone() -> None:
    chip = Chip("stm32f405")
    chip.start()
    assert chip.call("port_alarms") == BROWNOUT
    assert chip.option_keys == []
    assert chip.options == 0x0FFFAAEC
    other = Chip("stm32f100")  # has one level
    other.start()
    assert other.call("port_alarms") == 0


@pytest.mark.parametrize("options", [0x0FFFAAEC, 0x0FFF55E8, 0x0FF0AAE4])
def test_setting_the_level_leaves_every_other_option(options: int) -> None:
    """Protection, write protection and watchdog stay, whatever they are; so does the lock."""
    chip = Chip("stm32f405")
    chip.options = options | 1
    chip.reset(0)
    chip.start()
    assert chip.call("chip_brownout_set") == 0
    assert chip.options & ~1 == options & ~BOR_LEV & ~1
    assert chip.registers[0x40023C14] & 1
    assert chip.call("port_alarms") == 0
    chip.reset(0)
    chip.start()
    assert chip.call("port_alarms") == 0


def test_options_are_not_written_while_the_supply_is_low() -> None:
    chip = Chip("stm32f405")
    chip.start()
    chip.supply(2.8)
    assert chip.call("chip_brownout_set") < 0
    assert chip.options == 0x0FFFAAEC
    chip.supply(3.3)
    assert chip.call("port_alarms") & BROWNOUT


SETS = ("STEPMAP_SET_BROWNOUT",)


def test_a_firmware_that_was_built_for_it_sets_the_level_once() -> None:
    chip = Chip("stm32f405", defines=SETS)
    chip.start()
    assert chip.options & ~1 == 0x0FFFAAEC & ~BOR_LEV & ~1
    assert chip.call("port_alarms") == 0
    chip.reset(0)
    chip.start()
    assert chip.option_keys == []
    weak = Chip("stm32f405", volts=2.8, defines=SETS)
    weak.start()
    assert weak.options == 0x0FFFAAEC
    assert weak.call("port_alarms") == SUPPLY | BROWNOUT


def test_no_firmware_is_built_to_set_a_level_that_a_chip_has_not() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        Chip("stm32f100", defines=SETS)
    assert "no brown-out level to set: build without STEPMAP_SET_BROWNOUT" in caught.value.stderr
