"""What `stepmap generate` says of a board's memory is what `stepmap build` then finds."""

from __future__ import annotations

import re

import pytest

from stepmap_codegen.boards import STM32F100, STM32F405, find
from stepmap_codegen.commands import key_figures
from stepmap_codegen.emit.size import needs
from tests.pil.built import firmware, solution


@pytest.mark.parametrize("board", ["stm32f405", "stm32f100"])
def test_generate_and_build_agree_about_the_memory(board: str) -> None:
    """Within 5 % of the chip: the estimate is made before anything is compiled."""
    made, memory, built = solution()[1], find(board), firmware(board).summary
    flash, ram = needs(made.estimate, memory)
    assert (built["flash_limit"], built["ram_limit"]) == (memory.flash_bytes, memory.ram_bytes)
    assert flash == pytest.approx(built["flash_bytes"], abs=0.05 * memory.flash_bytes)
    assert ram == pytest.approx(built["ram_bytes"], abs=0.05 * memory.ram_bytes)


def test_percentages_say_of_what() -> None:
    figures = dict(key_figures(solution()[1]))
    for board, memory in (("stm32f405", STM32F405), ("stm32f100", STM32F100)):
        found = re.fullmatch(
            r"whole firmware about (\d+) % of (\d+) KiB of flash, (\d+) % of (\d+) KiB of RAM", figures[board]
        )
        assert found, figures[board]
        assert [int(found[2]), int(found[4])] == [memory.flash_bytes // 1024, memory.ram_bytes // 1024]
        built = firmware(board).summary
        assert int(found[1]) == pytest.approx(100 * built["flash_bytes"] / memory.flash_bytes, abs=5)
        assert int(found[3]) == pytest.approx(100 * built["ram_bytes"] / memory.ram_bytes, abs=5)
    assert figures["controller"].endswith("of stack")


def test_iterations_of_the_map_are_not_steps_of_a_search() -> None:
    figures = dict(key_figures(solution()[1]))
    assert re.fullmatch(
        r"2 iterations per step of the map, within \S+ \(\w+\) of the converged step", figures["Newton"]
    )
