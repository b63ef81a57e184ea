"""What several commands do: stages of a job, a link to its board."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepmap import jobs
from stepmap.cli.output import Screen, complain, console, figures, plain, working
from stepmap.jobs import Job, Stage
from stepmap.jobs import optimize as optimum
from stepmap_codegen import generate as generation
from stepmap_codegen.commands import write_controller
from stepmap_hil.boards import SerialBoard
from stepmap_hil.firmware import build as building
from stepmap_hil.firmware.build import Choices, Firmware
from stepmap_hil.firmware.tools import require_tools
from stepmap_hil.wire import key as keys
from stepmap_hil.wire.key import Key
from stepmap_hil.wire.link import Link


def generated_code(file: Path, out: Path, board: str | None = None) -> tuple[Job, Stage]:
    """The job and its generated code, which is made now where it is not there."""
    with working("reading the job"):
        job = jobs.for_board(jobs.load(file))
        generation.require_board(job, board)
        choices = generation.choices_in(job.root)
        solved = optimum.stage(job, out)
        made = generation.stage(job, solved, choices, out)
        ready = made.unchanged()
    if not ready:
        write_controller(job, solved, made, choices)
    return job, made


def built_firmware(file: Path, choices: Choices, out: Path, *, force: bool = False) -> tuple[Stage, Stage]:
    """Stages of the generated code and of the firmware, both made now where they are not there."""
    require_tools(choices.board, registry=choices.registry)  # before anything takes time
    secret = None if choices.key is None else keys.read(choices.key)
    if secret is None:
        complain("no key: this board will take no messages; make one with stepmap key", kind="warning")
    job, generated = generated_code(file, out, choices.board)
    made = building.stage(job, generated, choices, secret, out)
    begin = time.monotonic()
    with made.making(force=force) as needed:
        if not needed:
            console().print(f"unchanged, skipped: {made.folder}", soft_wrap=True)
            return generated, made
        with doing(f"building {job.name} for {choices.board}") as progress:
            firmware = building.build(made, generated.folder, choices, progress)
    rows = [*_sizes(firmware), ("time", f"{time.monotonic() - begin:.1f} s"), ("written", str(made.folder))]
    console().print(figures(rows, title=f"{job.name}, {choices.board}"))
    return generated, made


def _sizes(firmware: Firmware) -> Iterator[tuple[str, str]]:
    summary = firmware.summary
    for name in ("flash", "ram"):
        used, limit = summary[f"{name}_bytes"], summary[f"{name}_limit"]
        share = "" if limit is None else f", {100 * used / limit:.0f} % of {limit}"
        yield {"flash": "flash", "ram": "RAM"}[name], f"{used} bytes{share}"
    if summary["stack_bytes"] is not None:
        yield "stack", f"{summary['stack_bytes']} bytes at most"
    if summary.get("tick_instructions") is not None:
        yield "tick", f"{summary['tick_instructions']} instructions at most for filter, feedback and prediction"


@contextmanager
def doing(text: str) -> Iterator[building.Progress]:
    """A spinner whose text goes on; nothing where stderr is not a terminal."""
    with Screen(stderr=True).status(plain(text)) as status:
        yield lambda doing: status.update(plain(f"{text}: {doing}"))


@contextmanager
def linked(port: str, secret: Key | None, system: int) -> Iterator[Link]:
    with SerialBoard(port) as board:
        yield Link(board.open(), secret, target=system)


def key_file(given: Path | None) -> Path | None:
    """The key file: the given one, or the usual one where it is there."""
    if given is not None:
        return given
    usual = keys.default_path()
    return usual if usual.exists() else None


def need_key(given: Path | None) -> Key:
    return keys.read(keys.default_path() if given is None else given)
