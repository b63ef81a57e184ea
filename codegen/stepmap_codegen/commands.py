"""``stepmap generate`` and ``stepmap ranges``."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.text import Text

from stepmap import jobs
from stepmap.cli.output import console, figures, grid, working
from stepmap.cli.progress import iterations
from stepmap.files import write_whole
from stepmap.jobs import Job, Stage
from stepmap.jobs import optimize as optimum
from stepmap.optimal import Plan
from stepmap_codegen import boards
from stepmap_codegen import generate as generation
from stepmap_codegen.boards import KIB, BoardSpec
from stepmap_codegen.controller import Controller, Design, Options
from stepmap_codegen.emit.size import Estimate, needs
from stepmap_codegen.generate import Choices, StaleError
from stepmap_codegen.library.request import requested
from stepmap_codegen.lower.controller import Settings
from stepmap_codegen.model.scalar import Form, Scalar
from stepmap_codegen.precision.assign import WORDS
from stepmap_codegen.stream.tangent import require_inside, tangent

JobFile = Annotated[Path, typer.Argument(metavar="JOB", help="A job file (TOML); docs/jobs.md describes it.")]
Build = Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")]
JOB_SAYS = "unless [codegen] of the job says otherwise]"
Word = Annotated[
    int | None,
    typer.Option(
        metavar="BITS",
        min=WORDS[0],
        max=WORDS[-1],
        help=f"Length of a fixed-point number. [default: {Options().word}, {JOB_SAYS}",
    ),
]
Newton = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=10,
        help=f"Newton iterations per step of the map. [default: {Settings().newton}, {JOB_SAYS}",
    ),
]
ScalarOption = Annotated[
    Scalar | None, typer.Option(help=f"Type of numbers. [default: {Options().scalar.value}, {JOB_SAYS}")
]
BoardName = Enum("BoardName", {name: name for name in boards.catalog()}, type=str)  # type: ignore[misc]
BoardOption = Annotated[BoardName | None, typer.Option(help="Refuse what does not fit this board's memory.")]
LibraryFolder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write a library here, too: for PlatformIO, Arduino, CMake, ESP-IDF, Zephyr."),
]
Prefix = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What the library's names in C begin with. [default: the name of the job]"),
]


def generate(
    file: JobFile,
    scalar: ScalarOption = None,
    word: Word = None,
    newton: Newton = None,
    form: Annotated[
        Form | None, typer.Option(help=f"Straight-line code or tables. [default: what fits the board, {JOB_SAYS}")
    ] = None,
    board: BoardOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to write. [default: generate in FOLDER/<job>]")
    ] = None,
    library: LibraryFolder = None,
    prefix: Prefix = None,
    build: Build = Path("build"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the folder is not what would be written.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Do it again even if nothing has changed.")] = False,
) -> None:
    """Generate the controller of a job as C: map, filter and state feedback, and the schedule of references and gains.

    The trajectory is optimized first if that has not been done. Nothing is done if nothing has changed. With --library
    the controller is also written as a library for firmware of your own.
    """
    with working("reading the job"):
        job, solved = _load(file, build)
        asked = requested(job, library, prefix, check)
        choices = _choices(job, scalar, word, newton, form, board)
        generation.require_board(job, choices.options.board)
        generation.require(job, choices)
        stage = generation.stage(job, solved, choices, build, _place(out))
        skip = not (force or check) and stage.unchanged()
    made: Controller | None
    if check:
        made = _require_fresh(job, solved, stage, choices)
    elif skip:
        console().print(f"unchanged, skipped: {stage.folder}", soft_wrap=True)
        made = None if asked is None else generation.load(stage, job, choices)
    else:
        if out is not None:
            generation.require_own(stage.folder)
        made = write_controller(job, solved, stage, choices)
    if asked is not None and made is not None:
        asked.finish(made)


def write_controller(job: Job, solved: Stage, stage: Stage, choices: Choices) -> Controller:
    """Makes the stage ``generate`` of a job, and what comes before it; prints and returns what was made."""
    generation.require_board(job, choices.options.board)
    generation.require(job, choices)
    stage.prepare()
    plan = solution(job, solved)
    begin = time.monotonic()
    with working("measuring ranges, choosing formats"):
        made = generation.controller(job, plan, choices)
    generation.write(stage, made)
    rows = [*key_figures(made), ("time", f"{time.monotonic() - begin:.1f} s"), ("written", str(stage.folder))]
    console().print(figures(rows, title=job.name))
    return made


def _require_fresh(job: Job, solved: Stage, stage: Stage, choices: Choices) -> Controller:
    """What would be written now; raises where the stage's folder is not that."""
    plan = solution(job, solved)
    with working("measuring ranges, choosing formats"):
        made = generation.controller(job, plan, choices)
    wrong = generation.stale(stage.folder, made) + generation.stale_manifest(stage)
    if wrong:
        raise StaleError(stage.folder, wrong)
    console().print(f"up to date: {stage.folder}", soft_wrap=True)
    return made


def ranges(
    file: JobFile,
    word: Word = None,
    newton: Newton = None,
    block: Annotated[
        str | None, typer.Option(metavar="BLOCK", help="Show every operation of this block instead.")
    ] = None,
    save: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the table to a file, too.")] = None,
    build: Build = Path("build"),
) -> None:
    """Show the signals of a job's controller, those with the least headroom first: unit, range, format, rounding error.

    Fails, after showing them, where rounding would be noticed.
    """
    with working("reading the job"):
        job, solved = _load(file, build)
        asked = _choices(job, Scalar.FIXED32, word, newton, None, None)
        generation.require(job, asked)
        choices = replace(asked, options=replace(asked.options, form=None, board=None, study=True))
        if save is not None:
            save.parent.mkdir(parents=True, exist_ok=True)  # fails now rather than after the work
    plan = solution(job, solved)
    with working("measuring ranges, choosing formats"):
        made = generation.controller(job, plan, choices)
    if save is not None:
        text = json.dumps(made.description(), indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(save, f"{text}\n".encode())
    if block is not None:
        console().print(grid(OPERATION_HEADINGS, operation_rows(made, block)))
    else:
        console().print(grid(HEADINGS, signal_rows(made)))
        console().print()
        console().print(figures(key_figures(made), title=job.name))
    made.require_budget(asked.options.precision)


HEADINGS = ("signal", "is", "unit", "low", "high", "range", "bits", "headroom", "error")
OPERATION_HEADINGS = ("number", "operation", "of", "largest", "bound", "bits", "headroom")


TIGHT, CLOSE = 1.1, 1.5  # headroom below which a signal is red or yellow


def _headroom(value: float) -> Text:
    return Text(f"{value:.3g}", "red" if value < TIGHT else "yellow" if value < CLOSE else "")


def signal_rows(made: Design) -> list[tuple[str | Text, ...]]:
    """Signals with what their formats hold, the one nearest to its limit first."""
    return [
        (
            s.name,
            s.label,
            s.unit,
            f"{s.low:.4g}",
            f"{s.high:.4g}",
            s.source,
            str(s.fraction),
            _headroom(s.headroom),
            f"{s.error:.1e}",
        )
        for s in sorted(made.signals, key=lambda s: s.headroom)
    ]


def operation_rows(made: Design, name: str) -> list[tuple[str, ...]]:
    """Every operation of a block: what it computes, how large it was seen and can become, its format."""
    names = [block.name for block in made.program.blocks]
    if name not in names:
        raise typer.BadParameter(f"no block is called {name!r}; there are {', '.join(names)}", param_hint="--block")
    number = names.index(name)
    block, formats = made.program.blocks[number], made.formats
    assert formats is not None  # ranges are of fixed-point code
    rows: list[tuple[str, ...]] = []
    for i, operation in enumerate(block.operations):
        seen, bits = float(made.ranges.seen[number][i]), formats.blocks[number].operations[i]
        what = operation.describe(made.program)
        headroom = 2.0 ** (formats.word - 1 - bits) / seen if seen > 0 else float("inf")
        bound = float(made.ranges.bounds[number][i])
        rows.append((f"{i}", *what, f"{seen:.4g}", f"{bound:.4g}", str(bits), f"{headroom:.3g}"))
    return rows


def key_figures(made: Controller) -> list[tuple[str, str]]:
    """What tells one controller from another."""
    counts, estimate = made.program.counts(), made.estimate
    worst = max(made.map_error.items(), key=lambda pair: pair[1])
    word = "" if made.formats is None else f", words of {made.formats.word} bits"
    rows = [
        ("model", f"{made.digest} ({made.output.scalar.value}{word}, {made.output.form.value})"),
        ("operations", f"{sum(counts.values())} per tick: {', '.join(f'{n} {k}' for k, n in sorted(counts.items()))}"),
        (
            "Newton",
            f"{_iterations(made.plant.settings.newton)}, within {worst[1]:.1e} ({worst[0]}) of the converged step",
        ),
        (
            "controller",
            f"about {estimate.code} bytes of code on a Cortex-M, {estimate.ram} of RAM, {estimate.stack} of stack",
        ),
        ("schedule", f"{len(made.schedule.rows)} rows, {len(made.schedule.pack())} bytes"),
    ]
    if made.plant.stream is not None:
        rows.append(("stream", _streams(made)))
    if made.pinned is not None:
        rows.insert(1, ("formats", f"pinned, those of {made.pinned.source}"))
    chips = [spec for spec in boards.catalog().values() if spec.bare_chip is not None]
    return [*rows, *((spec.name, _share(estimate, spec)) for spec in chips)]


def _iterations(newton: int) -> str:
    """Of the map in the controller; the search for the trajectory has steps of its own."""
    return f"{newton} iteration{'s' if newton > 1 else ''} per step of the map"


def _streams(made: Controller) -> str:
    stream = made.plant.stream
    assert stream is not None
    step = made.plant.step
    x, u, _ = np.split(made.schedule.values()[-1], [step.nx, step.nx + step.nu])
    off = require_inside(stream, step, tangent(stream, step, x, u), made.plant.gains[-1])
    units = {c.name: c.unit for c in step.system.coordinates}
    name, worst = max(off.items(), key=lambda pair: pair[1])
    limits = [f"{q.name} {q.low:g} … {q.high:g} {q.unit}, {q.rate:g} {q.unit}/s" for q in stream.quantities]
    return f"{'; '.join(limits)}; at rest within {worst:.2g} {units[name]} ({name}) of set-points at their limits"


def _share(estimate: Estimate, board: BoardSpec) -> str:
    """What a whole firmware takes of a chip."""
    flash, ram = needs(estimate, board)
    fits = flash <= board.flash_bytes and ram <= board.ram_bytes
    parts = [
        f"{100 * used / there:.0f} % of {there // KIB} KiB of {what}"
        for used, there, what in ((flash, board.flash_bytes, "flash"), (ram, board.ram_bytes, "RAM"))
    ]
    return f"whole firmware about {', '.join(parts)}{'' if fits else ': does not fit'}"


def _load(file: Path, build: Path) -> tuple[Job, Stage]:
    job = jobs.for_board(jobs.load(file))
    return job, optimum.stage(job, build)


def _place(out: Path | None) -> Path | None:
    """The folder itself: a new one is renamed to its name, which must not be a link's, nor "." or ".."."""
    return out.resolve() if out is not None and (out.is_symlink() or out.name in ("", "..")) else out


def _choices(
    job: Job,
    scalar: Scalar | None,
    word: int | None,
    newton: int | None,
    form: Form | None,
    board: BoardName | None,
) -> Choices:
    name = None if board is None else board.value
    read = generation.choices_in(job.root)
    return generation.with_options(read, scalar=scalar, word=word, newton=newton, form=form, board=name)


def solution(job: Job, stage: Stage) -> Plan:
    """The plan of the stage ``optimize``, which is done now if it has not been."""
    whole = jobs.solved(job)
    with stage.making() as needed:
        if not needed:
            return jobs.planned(job, optimum.result(stage, whole))
        with working(f"building {whole.system.name}"):
            whole.build()
        begin = time.process_time()
        with iterations() as monitor:
            solution = whole.solve(monitor)
        with working("drawing"):
            optimum.write(stage, whole, solution, time.process_time() - begin)
    return jobs.planned(job, solution.require().plan)
