"""The STM32 ports against a model of the registers: what emulators leave out, and what must work when things fail."""

from __future__ import annotations

import pytest

from stepmap_codegen import boards
from tests.firmware.stm32_model import FAMILIES, FLASH, PERIPHERALS, VTOR, Chip

BANK_A, JOURNAL_A, JOURNAL_B = 0, 2, 3
POWER, PIN, SOFTWARE, WATCHDOG, BROWNOUT, UNKNOWN = range(6)
BOR, PINRST, POR, SFT, IWDG = (1 << bit for bit in (25, 26, 27, 28, 29))
TIM2, TIM3, TIM4, TIM5, TIM8, TIM12 = (PERIPHERALS + offset for offset in (0, 0x400, 0x800, 0xC00, 0x10400, 0x1800))
ENCODERS = {"stm32f405": (TIM5, TIM4, TIM8, TIM2), "stm32f100": (TIM2, TIM4)}
PWM = {  # timers and channels
    "stm32f405": (*((TIM3, k) for k in range(4)), (TIM12, 0), (TIM12, 1)),
    "stm32f100": ((TIM3, 0), (TIM3, 1)),
}
EDGES = ((0, 1), (2, 3), (4, 5), (10, 11))  # A and B of encoders that no timer counts, pins of GPIOC
EXTI, SYSCFG, GPIOC_IDR = 0x40013C00, 0x40013800, 0x40020810
DIRECTIONS = (0, 1, 10, 11, 12, 13)  # pins of GPIOB
GPIOB_BSRR = {"stm32f405": 0x40020418, "stm32f100": 0x40010C10}
ENABLE = 5  # pin of GPIOB


@pytest.fixture(params=sorted(FAMILIES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def chip(name: str) -> Chip:
    it = Chip(name)
    it.start()
    return it


def test_the_id_of_a_board_is_that_of_its_chip(chip: Chip) -> None:
    assert chip.call("port_board_id") & 0xFFFFFFFF == chip.family.unique_id


# Clocks: (crystal, PLL) and what SysTick and the baud rate of 460800 have to be then


@pytest.mark.parametrize(
    ("crystal", "pll", "name", "core", "serial"),
    [
        (True, True, "stm32f405", 168e6, 84e6),
        (False, True, "stm32f405", 168e6, 84e6),
        (False, False, "stm32f405", 16e6, 16e6),
        (True, True, "stm32f100", 24e6, 24e6),
        (False, True, "stm32f100", 24e6, 24e6),
        (False, False, "stm32f100", 8e6, 8e6),
    ],
)
def test_clocks_start_with_what_there_is(crystal: bool, pll: bool, name: str, core: float, serial: float) -> None:
    it = Chip(name, crystal=crystal, pll=pll)
    it.start()
    assert it.registers[0xE000E014] == core / 1000 - 1
    assert it.registers[it.family.usart + 8] == round(serial / 460800)
    assert it.registers[it.family.cfgr] >> 2 & 3 == (2 if pll else 0)


@pytest.mark.parametrize("crystal", [True, False])
def test_the_pll_of_the_f405_multiplies_to_168_mhz(crystal: bool) -> None:
    it = Chip("stm32f405", crystal=crystal)
    it.start()
    pll = it.registers[it.family.rcc + 4]
    m, n, p = pll & 63, pll >> 6 & 511, 2 * (pll >> 16 & 3) + 2
    assert (8e6 if pll >> 22 & 1 else 16e6) / m * n / p == 168e6
    assert pll >> 22 & 1 == crystal
    assert it.registers[it.family.flash_registers] & 7 == 5  # wait states for 168 MHz at 3.3 V, table 10 of RM0090


def test_a_bootloader_leaves_nothing_behind(name: str) -> None:
    """`stm32flash -g` starts the program from ST's bootloader: no reset has cleaned up."""
    it = Chip(name)
    it.leave_bootloader()
    it.start()
    assert it.registers[VTOR] == FLASH
    assert it.registers[0xE000E014] == {"stm32f405": 168e6, "stm32f100": 24e6}[name] / 1000 - 1
    assert it.registers[it.family.cfgr] >> 2 & 3 == 2
    if name == "stm32f405":
        assert it.registers[it.family.rcc + 4] & 63 == 8  # PLLM is ours, for a crystal of 8 MHz
    assert it.call("port_region_lasting") == 1
    assert it.call("port_region_erase", JOURNAL_A) == 0


# Resets


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (POR | PINRST, POWER),
        (POR | PINRST | BOR, POWER),
        (PINRST, PIN),
        (BOR | PINRST, BROWNOUT),
        (IWDG | PINRST, WATCHDOG),
        (SFT | PINRST, UNKNOWN),
        (0, UNKNOWN),
    ],
)
def test_reset_reasons(name: str, flags: int, reason: int) -> None:
    it = Chip(name, flags=flags)
    it.start()
    assert it.call("port_reset_reason") == reason
    assert it.registers[it.family.csr] == 0  # the next reset is not taken for this one


def test_a_restart_is_known_and_only_once(chip: Chip) -> None:
    chip.run_until_reset("port_restart")
    for reason in (SOFTWARE, UNKNOWN):
        chip.reset(SFT | PINRST)
        chip.start()
        assert chip.call("port_reset_reason") == reason


def test_a_fault_stops_the_motors_and_is_no_restart_that_was_asked_for(chip: Chip) -> None:
    chip.call("port_enable", 1)
    chip.call("port_drive", 0, 500)
    chip.run_until_reset("fault_handler")
    assert level(chip, ENABLE) is False
    assert chip.registers[TIM3 + 0x34] == 0
    chip.reset(SFT | PINRST)
    chip.start()
    assert chip.call("port_reset_reason") == UNKNOWN


@pytest.mark.parametrize(("timeout_ms", "expected_ms"), [(20, 20), (250, 250), (1000, 1000), (10_000_000, None)])
def test_the_watchdog_gets_its_time(chip: Chip, timeout_ms: int, expected_ms: int | None) -> None:
    chip.call("port_watchdog_start", timeout_ms)
    divider, reload = 4 << chip.registers[0x40003004], chip.registers[0x40003008]
    hz = {"stm32f405": 32000, "stm32f100": 40000}[chip.name]
    assert 0 < reload <= 4095
    longest = 4095 * 256 / hz * 1000
    assert reload * divider / hz * 1000 == pytest.approx(expected_ms or longest, rel=0.02)
    keys = [value for address, value in chip.writes if address == 0x40003000]
    assert keys == [0xCCCC, 0x5555, 0xAAAA]


# Flash


def content(chip: Chip, region: int) -> bytes:
    return chip.memory(chip.call("port_region_read", region), chip.call("port_region_size", region))


def write(chip: Chip, region: int, offset: int, data: bytes) -> int:
    return chip.call("port_region_write", region, offset, chip.put(data), len(data))


def test_regions_are_in_flash_where_it_can_be_written(chip: Chip) -> None:
    assert chip.call("port_region_lasting") == 1
    assert FLASH < chip.call("port_region_read", JOURNAL_A) < FLASH + chip.family.flash_bytes
    assert chip.call("port_region_size", BANK_A) == {"stm32f405": 131072, "stm32f100": 0}[chip.name]


def test_what_is_written_is_there_and_what_is_erased_is_gone(chip: Chip) -> None:
    before = chip.memory(FLASH, chip.family.flash_bytes)
    for region in range(4):
        if not chip.call("port_region_size", region):
            assert chip.call("port_region_erase", region) < 0
            continue
        assert chip.call("port_region_erase", region) == 0
        assert write(chip, region, 16, bytes(range(64))) == 0
        assert content(chip, region)[:96] == b"\xff" * 16 + bytes(range(64)) + b"\xff" * 16
    for region in range(4):  # none has touched another
        if chip.call("port_region_size", region):
            assert content(chip, region)[16:80] == bytes(range(64))
            assert chip.call("port_region_erase", region) == 0
            assert set(content(chip, region)) == {0xFF}
    assert chip.memory(FLASH, chip.family.flash_bytes) == before  # nor anything else
    assert chip.registers[chip.family.flash_registers + 0x10] & chip.family.lock


def test_errors_of_the_interface_are_reported_and_do_not_stick(chip: Chip) -> None:
    chip.protected = True
    assert chip.call("port_region_erase", JOURNAL_A) < 0
    chip.protected = False
    assert chip.call("port_region_erase", JOURNAL_A) == 0


def test_flash_that_stays_busy_ends_in_an_error(chip: Chip) -> None:
    chip.busy_for = 100_000
    chip.pace = chip.registers[0xE000E014] + 1  # each look at SysTick is a millisecond later
    chip.waits = True
    assert chip.call("port_region_erase", JOURNAL_A) < 0
    chip.busy_for, chip.waits = 10, False
    assert chip.call("port_region_erase", JOURNAL_A) == 0


def test_bytes_that_come_while_flash_is_busy_are_kept(chip: Chip) -> None:
    chip.busy_for = 1000
    chip.heard = list(b"received in the meantime")
    assert chip.call("port_region_erase", JOURNAL_B) == 0
    buffer = chip.put(bytes(64))
    assert chip.call("port_receive", buffer, 64) == 24
    assert chip.memory(buffer, 24) == b"received in the meantime"


def test_the_watchdog_is_fed_and_time_goes_on_while_flash_is_busy(chip: Chip) -> None:
    period = chip.registers[0xE000E014] + 1
    before = chip.call("port_micros")
    chip.busy_for, chip.pace = 200, period // 4
    assert chip.call("port_region_erase", JOURNAL_A) == 0
    feeds = [value for address, value in chip.writes if address == 0x40003000]
    assert len(feeds) >= 190
    assert set(feeds) == {0xAAAA}
    chip.pace = 0
    passed = (chip.call("port_micros") - before) / 1000
    assert passed == pytest.approx(200 / 4, abs=2.5)  # one tick is left to its interrupt


# Serial port


def test_bytes_nobody_takes_are_counted(chip: Chip) -> None:
    room = {"stm32f405": 1024, "stm32f100": 512}[chip.name]
    for i in range(room + 7):
        chip.heard = [i & 0xFF]
        chip.call("serial_handler")
    assert chip.call("port_overruns") == 7
    buffer = chip.put(bytes(256))
    assert chip.call("port_receive", buffer, 256) == 256
    assert chip.memory(buffer, 256) == bytes(range(256))


def test_overruns_of_the_port_itself_are_counted(chip: Chip) -> None:
    chip.heard = [0x41]
    chip.registers[chip.family.usart] |= 1 << 3
    chip.call("serial_handler")
    assert chip.call("port_overruns") == 1
    assert not chip.registers[chip.family.usart] & 1 << 3  # else the interrupt would never end
    assert chip.call("port_receive", chip.put(bytes(8)), 8) == 1


def test_sending_goes_on_by_interrupt(chip: Chip) -> None:
    chip.line_ready = False
    assert chip.call("port_send", chip.put(b"later"), 5) == 5
    assert chip.sent == []
    assert chip.registers[chip.family.usart + 12] & 1 << 7
    chip.line_ready = True
    chip.call("serial_handler")
    assert bytes(chip.sent) == b"later"
    assert not chip.registers[chip.family.usart + 12] & 1 << 7  # else the interrupt would never end


def test_a_line_that_stays_busy_takes_what_there_is_room_for(chip: Chip) -> None:
    room = {"stm32f405": 1024, "stm32f100": 512}[chip.name]
    chip.line_ready = False
    sent = sum(chip.call("port_send", chip.put(bytes(200)), 200) for _ in range(room // 200))
    started = chip.call("port_micros")
    sent += chip.call("port_send", chip.put(bytes(200)), 200)
    assert sent == room
    assert chip.clock / (chip.registers[0xE000E014] + 1) < 100  # ms: it has not waited for ever
    assert chip.call("port_micros") != started


# Motors


def level(chip: Chip, pin: int) -> bool | None:
    """What a pin of GPIOB was set to last."""
    state = None
    for address, value in chip.writes:
        if address == GPIOB_BSRR[chip.name] and value & (1 << pin | 1 << (pin + 16)):
            state = bool(value & 1 << pin)
    return state


def test_motors_start_off_and_need_to_be_enabled(chip: Chip) -> None:
    assert level(chip, ENABLE) is False
    chip.call("port_drive", 0, 500)
    assert chip.registers.get(TIM3 + 0x34, 0) == 0
    chip.call("port_enable", 1)
    assert level(chip, ENABLE) is True
    assert chip.registers[TIM3 + 0x34] == 0


@pytest.mark.parametrize(
    ("effort", "share", "backwards"), [(250, 0.25, False), (-1000, 1, True), (9999, 1, False), (-(2**31), 1, True)]
)
def test_efforts_become_pulses(chip: Chip, effort: int, share: float, backwards: bool) -> None:
    """On every motor of the board, and on no other."""
    assert len(PWM[chip.name]) == boards.find(chip.name).motors
    for motor, (timer, channel) in enumerate(PWM[chip.name]):
        chip.call("port_enable", 1)
        chip.call("port_drive", motor, effort)
        period = chip.registers[timer + 0x2C] + 1
        pulses = {at: chip.registers.get(at[0] + 0x34 + 4 * at[1], 0) for at in PWM[chip.name]}
        assert pulses == dict.fromkeys(PWM[chip.name], 0) | {(timer, channel): share * period}
        mode = chip.registers[timer + 0x18 + 4 * (channel // 2)] >> 8 * (channel % 2) & 0xFF
        assert mode == 6 << 4  # an output, active below the compare value
        assert chip.registers[timer + 0x20] >> 4 * channel & 1
        assert level(chip, DIRECTIONS[motor]) is backwards
        hz = {"stm32f405": 84e6, "stm32f100": 24e6}[chip.name]
        assert hz / period == 20e3
        chip.call("port_enable", 0)
        assert level(chip, ENABLE) is False
        assert chip.registers[timer + 0x34 + 4 * channel] == 0


def test_encoders_count_on_beyond_16_bits(chip: Chip) -> None:
    for encoder, timer in enumerate(ENCODERS[chip.name]):
        assert chip.registers[timer + 8] & 7 == 3  # encoder mode on both inputs
        assert chip.registers[timer] & 1
        position = 0
        for step in [30000] * 5 + [-30000] * 12 + [1, -2]:
            position += step
            chip.registers[timer + 0x24] = position & 0xFFFF
            chip.call("tick_handler")
        assert chip.call("port_encoder", encoder) == position
        assert chip.call("port_encoder", encoder + 1) == 0


def test_encoders_without_a_timer_count_by_their_edges() -> None:
    """Up where A leads, four counts per period, as timers do; every line is one of its own, and is cleared."""
    chip = Chip("stm32f405")
    chip.start()
    lines = sum(1 << pin for pair in EDGES for pin in pair)
    assert [chip.registers[EXTI + offset] & 0xFFFF for offset in (0x00, 0x08, 0x0C)] == [lines] * 3
    assert len(ENCODERS["stm32f405"]) + len(EDGES) == boards.find("stm32f405").encoders
    for encoder, (a, b) in enumerate(EDGES, start=len(ENCODERS["stm32f405"])):
        assert all(chip.registers[SYSCFG + 8 + 4 * (pin // 4)] >> 4 * (pin % 4) & 15 == 2 for pin in (a, b))  # GPIOC
        for pins, counts in (((a, b) * 6, 12), ((b, a) * 10, 12 - 20)):
            for pin in pins:
                chip.registers[GPIOC_IDR] = chip.registers.get(GPIOC_IDR, 0) ^ 1 << pin
                chip.registers[EXTI + 0x14], chip.writes = 1 << pin, []
                chip.call("edges_handler")
                assert (EXTI + 0x14, 1 << pin) in chip.writes  # a one clears the line
            assert chip.call("port_encoder", encoder) == counts
