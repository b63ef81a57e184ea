"""How large a job's controller will about be, before its trajectory is known."""

from __future__ import annotations

import numpy as np

from stepmap.errors import RangeError
from stepmap.jobs import Job
from stepmap_codegen.boards import BoardSpec
from stepmap_codegen.emit import size
from stepmap_codegen.generate import Choices, plant
from stepmap_codegen.lower.controller import lower
from stepmap_codegen.model.formats import BlockFormats, Formats
from stepmap_codegen.model.program import Program
from stepmap_codegen.model.scalar import Scalar


def forecast(job: Job, choices: Choices, board: str) -> size.Estimate:
    """Sizes within about 15 %, mostly above; raises RangeError with advice where no form fits the board.

    The program is that of the job with gains that are nowhere zero, but for velocities of kinematic coordinates, on
    which the next state does not depend. Its formats follow from simulated runs, which are
    left out here: all have as many fraction bits.
    """
    step, o = job.step, choices.options
    gains = np.ones((job.steps, step.nu, step.ndx))
    gains[:, :, step.layout["v"]] = 0.0
    program = lower(plant(job, gains, choices.newton))
    formats = _alike(program, o.word) if o.scalar is Scalar.FIXED32 else None
    streams = len(job.root.table("stream").table("of").entries)
    _, found = size.choose(program, formats, o.scalar, o.form, job.steps + 1 + 2 * streams, board)
    return found


def require_room(job: Job, choices: Choices, board: BoardSpec, *, emulated: bool) -> None:
    """Raises RangeError where a controller will not fit a board, or its schedule not the bank of an emulated one."""
    found = forecast(job, choices, board.name)
    if emulated and 0 < board.emulated_bank_bytes < found.schedule:
        raise RangeError(
            f"the schedule of {job.name} does not fit the emulated {board.name}",
            cause=f"It has about {found.schedule} bytes, {job.steps + 1} rows. The emulated chip keeps it in RAM, with "
            f"room for {board.emulated_bank_bytes}; the chip itself has {board.bank_bytes}.",
            hint="Use a shorter horizon, a longer time step (fewer rows), or a real board (--port).",
        )


def shares(found: size.Estimate, board: BoardSpec) -> list[tuple[str, int, int]]:
    """(memory, bytes used, bytes there) of a whole firmware on a chip."""
    flash, ram = size.needs(found, board)
    return [("flash", flash, board.flash_bytes), ("RAM", ram, board.ram_bytes)]


def _alike(program: Program, word: int) -> Formats:
    bits = 2 * word // 3
    blocks = tuple(BlockFormats((bits,) * len(block.operations)) for block in program.blocks)
    return Formats(word, (bits,) * len(program.fields), blocks)
