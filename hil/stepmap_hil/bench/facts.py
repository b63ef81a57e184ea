"""Facts of a summary: the firmware, and how the job was run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepmap_codegen import boards
from stepmap_hil.bench.setup import Setup
from stepmap_hil.firmware.instruction_count import instructions


def facts(setup: Setup, scratch: Path) -> dict[str, Any]:
    """Entries of the summary about the firmware, and about how it was run."""
    board, walks = setup.firmware.board, setup.controller.plant.gait is not None
    landing = {"instructions_of_landing": instructions(setup.controller, board, scratch, landing=True)} if walks else {}
    return {**early_facts(setup), "instructions_per_tick": instructions(setup.controller, board, scratch), **landing}


def early_facts(setup: Setup) -> dict[str, Any]:
    """The same without what takes time to find out."""
    built, board = setup.firmware.summary, boards.find(setup.firmware.board)
    return {
        "seed": setup.seed,
        "sensor": setup.sensor_name,
        "angles": setup.settings.angles,
        "planned_ticks": setup.planned if setup.controller.plant.gait is None else None,  # steps end that run
        "plan_verdict": setup.verdict,
        "plant_differences": setup.settings.plant.differences([c.unit for c in setup.job.system.kinematic]),
        "flashed_bytes": None if setup.flashed is None else setup.flashed.size,
        "flashed_seconds": None if setup.flashed is None else round(setup.flashed.seconds, 3),
        "flash_bytes": built.get("flash_bytes"),
        "flash_limit_bytes": built.get("flash_limit"),
        "ram_bytes": built.get("ram_bytes"),
        "ram_limit_bytes": built.get("ram_limit"),
        "stack_bytes": built.get("stack_bytes"),
        "stack_limit_bytes": board.stack_bytes if board.bare_chip else None,
        "instructions_per_tick": None,
    }
