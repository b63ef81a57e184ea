"""The same measurements give the same bits: in the integer model, in the process, and in both emulated chips."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from stepmap_codegen.reference_loop import ReferenceLoop
from stepmap_hil.wire.dialect import value
from tests.pil.built import board, firmware, solution
from tests.pil.robot import Robot, at_start, recorded

TICKS = 300


@dataclass(frozen=True)
class Said:
    """What a board said of a run."""

    estimates: list[tuple[int, ...]]
    commands: list[tuple[int, ...]]
    taken: list[int]
    states: list[int]
    efforts: list[tuple[int, ...]]
    saturations: int


def run(name: str) -> Said:
    with board(name) as it:
        robot = Robot(it)
        robot.prepare()
        robot.session.run()
        told = [robot.tick(measured) for measured in recorded(TICKS)]
    return Said(
        [tuple(t.estimate[:8]) for t in told],
        [tuple(t.command[:2]) for t in told],
        [t.taken for t in told],
        [t.state for t in told],
        robot.efforts,
        told[-1].saturations,
    )


def expected() -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], list[int]]:
    """The same in the integer model."""
    reference = ReferenceLoop(solution()[1])
    z, valid = at_start()
    reference.step(valid, z, follow=False, running=False)
    rows = [reference.step(valid, z, follow=True, running=True) for z, valid in recorded(TICKS)]
    return [tuple(r[0]) for r in rows], [tuple(r[1]) for r in rows], [r[2] for r in rows]


@pytest.mark.parametrize("chip", ["stm32f405", "stm32f100"])
def test_300_ticks_are_the_same_in_the_model_the_process_and_the_chip(chip: str) -> None:
    for name in ("native", chip):
        firmware(name)  # built one after the other
    with ThreadPoolExecutor(2) as pool:
        process, emulated = pool.map(run, ("native", chip))
    estimates, commands, taken = expected()
    assert emulated.estimates == estimates
    assert emulated.commands == commands
    assert emulated.taken == taken
    assert emulated == process  # the motors' efforts too, which the model does not have
    assert set(emulated.states) == {value("STEPMAP_STATE_RUNNING")}
    assert len(set(commands)) > TICKS / 2  # they did something
    assert emulated.saturations == 0
