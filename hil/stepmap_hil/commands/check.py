"""``stepmap check``: everything that can be wrong with a job, before anything is solved or compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.text import Text

from stepmap import jobs
from stepmap.cli.output import console, grid, working
from stepmap.errors import StepmapError
from stepmap.jobs import Job, TrackingJob
from stepmap.mechanics import System
from stepmap_codegen import boards
from stepmap_codegen import generate as generation
from stepmap_codegen.boards import KIB, NATIVE
from stepmap_codegen.emit.wire_limits import commands
from stepmap_codegen.forecast import forecast, shares
from stepmap_codegen.model.scalar import Scalar
from stepmap_codegen.precision.ranges import require_declared, require_start
from stepmap_hil.bench.settings import settings_in
from stepmap_hil.commands.options import BoardName, Build, JobFile
from stepmap_hil.firmware.tools import require_tools
from stepmap_hil.runs import folders as runs

OK, WRONG, NOTE, SKIPPED = "ok", "wrong", "note", "skipped"
WIDEN = "Widen low and high where it is declared, or change the reference: code is generated for this range."
MARKS = {OK: ("✓", "ok", "green"), WRONG: ("✗", "NO", "red"), NOTE: ("!", "!", "yellow"), SKIPPED: ("–", "-", "dim")}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: str
    text: str
    hint: str = ""


def check(
    file: JobFile,
    board: Annotated[
        BoardName | None,
        typer.Option(help="The board it is to run on. [default: that of [codegen] in the job, else native]"),
    ] = None,
    build: Build = Path("build"),
) -> None:
    """Check a job from its names to the tools of its board; solve, compile and write nothing.

    Lists what is in order and what is not, with what to do. Fails where anything is not. Other commands check what
    concerns them before they begin.
    """
    with working("checking"):
        found = examine(file, None if board is None else board.value, build)
    console().print(grid(("", "", "", "what to do"), [_row(finding) for finding in found]))
    wrong = sum(finding.state == WRONG for finding in found)
    if wrong:
        console().print(f"\n{wrong} thing{'s' * (wrong > 1)} to change in {file}", soft_wrap=True)
        raise typer.Exit(1)


def examine(file: Path, board: str | None, build: Path) -> list[Finding]:
    """All findings about a job, on a board and in a build folder, in the order of the chain."""
    looked, loaded = _Checks(), list[Job]()
    name = board or NATIVE.name
    if looked.at("job", lambda: _job(loaded, file)):
        (job,) = loaded
        name = board or job.root.table("codegen").entries.get("board", NATIVE.name)
        _examine_controller(looked, job, name)
        looked.at("[bench]", lambda: f"sensor {settings_in(job.root).sensor}")
    if name in boards.catalog():
        looked.at("tools", lambda: f"{name}: {', '.join(require_tools(name, runs=True))}")
    looked.at("build folder", lambda: _folder(build))
    return looked.found


def _examine_controller(looked: _Checks, job: Job, board: str) -> None:
    """What code generation and the board ask of a job."""
    looked.at("system", lambda: _system(job.system))
    fits = looked.at("motors", lambda: _motors(job, board))
    ranges = looked.at("ranges", lambda: _ranges(job))
    for text in _excursions(job) if ranges else ():
        looked.found.append(Finding("ranges", NOTE, text, WIDEN))
    if isinstance(job, TrackingJob) and (job.goal or job.rest):
        looked.at("end", lambda: _end(job))
    noise = looked.at("[noise]", lambda: _noise(job))
    code = looked.at("[codegen]", lambda: _code(job, whole=ranges and noise))
    if fits and ranges and noise and code:
        looked.at("memory", lambda: _memory(job, board))
    else:
        looked.found.append(Finding("memory", SKIPPED, "not estimated"))


@dataclass
class _Checks:
    found: list[Finding] = field(default_factory=list)

    def at(self, name: str, look: Callable[[], str]) -> bool:
        """Whether a check found nothing wrong; what it says, or raises, is a finding."""
        try:
            self.found.append(Finding(name, OK, look()))
        except StepmapError as error:
            text = ". ".join(filter(None, (str(error).splitlines()[0], error.cause)))
            self.found.append(Finding(name, WRONG, text, error.hint))
            return False
        except OSError as error:
            self.found.append(Finding(name, WRONG, f"{error.filename}: {error.strerror}"))
            return False
        return True


# What each check says where nothing is wrong


def _job(loaded: list[Job], file: Path) -> str:
    loaded.append(jobs.for_board(jobs.load(file)))
    return f"{loaded[0].kind}, {loaded[0].steps} steps of {loaded[0].dt:.4g} s"


def _system(system: System) -> str:
    parts = (
        (len(system.dynamic), "dynamic", "dynamic"),
        (len(system.kinematic), "kinematic", "kinematic"),
        (len(system.inputs), "force", "forces"),
        (len(system.constraint_names), "constraint", "constraints"),
        (len(system.sensor_channels), "measured", "measured"),
    )
    told = [f"{count} {one if count == 1 else many}" for count, one, many in parts if count]
    return f"{system.name}: {', '.join(told)}"


def _end(job: TrackingJob) -> str:
    u = job.standing.u[: len(job.system.inputs)]
    forces = ", ".join(f"{i.name} {value:.4g} {i.unit}".rstrip() for i, value in zip(job.system.inputs, u, strict=True))
    return f"the last pose can be held{' by ' if forces else ''}{forces}"


def _motors(job: Job, board: str) -> str:
    generation.require_board(job, board)
    return f"{commands(job.system)} of the {boards.find(board).motors} of {board}"


def _ranges(job: Job) -> str:
    require_declared(job.system)
    require_start(job.system, job.pose)
    return "all coordinates and inputs have low and high"


def _excursions(job: Job) -> list[str]:
    """Where the reference of a job leaves the ranges, in which case its optimum may too."""
    found = []
    poses = job.reference.poses.T if isinstance(job, TrackingJob) else ()
    for motion, (quantity, low, high) in zip(poses, require_declared(job.system), strict=False):  # coordinates first
        k = int(np.argmax(np.maximum(low - motion, motion - high)))
        if not low <= motion[k] <= high:
            at = f"{motion[k]:.4g} {quantity.unit} at t = {k * job.dt:.4g} s"
            found.append(f"the reference of {quantity.name} leaves {low:g} … {high:g}: {at}")
    return found


def _noise(job: Job) -> str:
    generation.require_noise(job)
    return f"{len(job.system.sensor_channels)} channels, filter {job.noise.filter if job.noise else ''}"


def _code(job: Job, *, whole: bool) -> str:
    choices = generation.choices_in(job.root)
    if whole:  # else it would only say again what is said already
        generation.require(job, choices)
    o = choices.options
    word = f", words of {o.word} bits" if o.scalar is Scalar.FIXED32 else ""
    return f"{o.scalar.value}{word}, Newton {choices.newton}"


def _memory(job: Job, board: str) -> str:
    spec = boards.find(board)
    found = forecast(job, generation.choices_in(job.root), board)
    if spec.bare_chip is None:
        return f"about {found.code} bytes of code, {found.schedule} of schedule"
    parts = [f"{100 * used / there:.0f} % of {there // KIB} KiB of {what}" for what, used, there in shares(found, spec)]
    short = 0 < spec.emulated_bank_bytes < found.schedule
    emulated = f"; a schedule of {found.schedule} bytes, and the emulated chip has {spec.emulated_bank_bytes} for it"
    return f"about {', '.join(parts)} of {board}{emulated if short else ''}"


def _folder(build: Path) -> str:
    runs.require_writable(build, "--build")
    return f"{build} can be written"


def _row(finding: Finding) -> tuple[str | Text, ...]:
    sign, plain, color = MARKS[finding.state]
    return Text(sign if _shows(sign) else plain, color), finding.name, finding.text, finding.hint


def _shows(sign: str) -> bool:
    """Whether the terminal has a character."""
    try:
        sign.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
