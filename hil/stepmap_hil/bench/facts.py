"""What a summary says about the firmware, and about how a job was run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepmap_hil.bench.setup import Rig
from stepmap_hil.firmware.instruction_count import instructions


def facts(rig: Rig, scratch: Path) -> dict[str, Any]:
    """What the summary says about the firmware, and about how it was run."""
    return {**early_facts(rig), "instructions_per_tick": instructions(rig.controller, rig.firmware.board, scratch)}


def early_facts(rig: Rig) -> dict[str, Any]:
    """The same without what takes time to find out."""
    built = rig.firmware.summary
    return {
        "seed": rig.seed,
        "sensor": rig.settings.sensor,
        "planned_ticks": rig.planned,
        "plant_differences": rig.settings.plant.differences(motors=bool(rig.job.system.kinematic)),
        "flashed_bytes": None if rig.flashed is None else rig.flashed.size,
        "flashed_seconds": None if rig.flashed is None else round(rig.flashed.seconds, 3),
        "flash_bytes": built.get("flash_bytes"),
        "ram_bytes": built.get("ram_bytes"),
        "instructions_per_tick": None,
    }
