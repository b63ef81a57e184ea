"""The stage ``generate``: a job's controller as C, its schedule, and how to read both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import stepmap
from stepmap.arrays import Array
from stepmap.errors import ModelError, ShapeError, StepmapError
from stepmap.estimate import registry
from stepmap.jobs import Job, Stage
from stepmap.jobs.kinds import entry_digest
from stepmap.jobs.stage import MANIFEST, digest, digest_data, digest_sources, read_manifest, versions
from stepmap.optimal import Plan
from stepmap.optimal.objective import Weights as Matrices
from stepmap.steps.protocol import Trajectory
from stepmap.toml.tables import Table, read
from stepmap_codegen import boards, saved
from stepmap_codegen.controller import Controller, Design, Options
from stepmap_codegen.emit import size
from stepmap_codegen.emit.embed import FILES as EMBED
from stepmap_codegen.emit.encoders import encoder_count, read_encoders
from stepmap_codegen.emit.motors import read_axes, read_sensor_delay
from stepmap_codegen.emit.schedule import FILES as SCHEDULE
from stepmap_codegen.emit.schedule import emit_schedule, same, unpack
from stepmap_codegen.lower.controller import Noise, Plant, Settings, filter_lowering
from stepmap_codegen.lower.plant import Gait
from stepmap_codegen.model.scalar import Form, Scalar
from stepmap_codegen.precision import pinned as pinning
from stepmap_codegen.precision.assign import WORDS
from stepmap_codegen.precision.ensemble import end_tangent
from stepmap_codegen.precision.pinned import PinnedFormats
from stepmap_codegen.precision.ranges import require_declared, require_start
from stepmap_codegen.stream.settings import read_stream
from stepmap_codegen.stream.tangent import require_inside
from stepmap_codegen.tuning import FACTOR, Family, design_tunable, family

NAME = "generate"
KEYS = ("scalar", "word", "newton", "form", "precision", "board", "tuning", "headroom", "formats")
RENAMED = {"room": "headroom"}
FILES = ("controller.h", "controller.c", "robot.h", "signals.json", *EMBED, *SCHEDULE)
MAX_HEADROOM = 1024.0
MAX_TUNING = 64.0
FORMS = ("auto", *(form.value for form in Form))


@dataclass(frozen=True)
class Choices:
    """What the table [codegen] of a job says; the command line goes over it."""

    options: Options
    newton: int
    tuning: float = FACTOR  # that weights of the feedback may change by without new formats
    files: Mapping[str, bytes] = field(default_factory=dict)  # contents of the files it names


def read_choices(file: Path) -> Choices:
    """The table [codegen] of a job file that is not loaded; of one that is, ``choices_in(job.root)``."""
    return choices_in(read(file))


def choices_in(root: Table) -> Choices:
    """The table [codegen] of a job's outermost table; raises JobError with the line of what is wrong."""
    table = root.table("codegen")
    table = table.renamed(RENAMED)
    table.only(KEYS)
    usual = Options()
    word = table.whole("word", usual.word)
    newton = table.whole("newton", Settings().newton)
    precision = table.number("precision") if "precision" in table else None
    if word not in WORDS:
        raise table.error(f"must be {WORDS[0]} to {WORDS[-1]} bits, got {word}", "word")
    if not 1 <= newton <= 10:
        raise table.error(f"must be 1 to 10 iterations, got {newton}", "newton")
    if precision is not None and not precision > 0:
        raise table.error(f"must be positive, got {precision:g}", "precision")
    headroom = table.number("headroom", usual.headroom)
    if not 1 <= headroom <= MAX_HEADROOM:
        raise table.error(f"must be 1 to {MAX_HEADROOM:g} times what ranges ask for, got {headroom:g}", "headroom")
    tuning = table.number("tuning", FACTOR)
    if not 1 <= tuning <= MAX_TUNING:
        raise table.error(f"must be 1 to {MAX_TUNING:g} times each weight of the feedback, got {tuning:g}", "tuning")
    pinned, files = _read_formats(table)
    form = table.choice("form", FORMS, "auto")
    board = table.choice("board", list(boards.catalog())) if "board" in table else None
    scalar = Scalar(table.choice("scalar", [s.value for s in Scalar], usual.scalar.value))
    written = None if form == "auto" else Form(form)
    chosen = Options(
        scalar, word, written, precision, board, robot=root.table("board"), headroom=headroom, pinned=pinned
    )
    return Choices(chosen, newton, tuning, files)


def _read_formats(table: Table) -> tuple[PinnedFormats | None, dict[str, bytes]]:
    """Formats that are pinned, and their file by the name the job gives it; none where it names none."""
    if "formats" not in table:
        return None, {}
    path, content = table.content("formats")
    try:
        return pinning.unpack(content, path), {table.text("formats"): content}
    except ModelError as error:
        raise table.error(str(error), "formats") from None


def require(job: Job, choices: Choices) -> None:
    """Raises what can be known before the trajectory is."""
    o = choices.options
    size.forms(o.scalar, o.word, o.form)
    if o.pinned is not None:
        pinning.require_kind(o.pinned, job.system.name, o.word if o.scalar is Scalar.FIXED32 else None)
    require_declared(job.system)
    require_start(job.system, job.pose)
    if o.robot is not None:
        axes, delay = read_axes(o.robot, job.system), read_sensor_delay(o.robot, job.dt)
        read_encoders(o.robot, job.system, axes, None if job.noise is None else job.noise.measurement, delay)
    read_stream(job.root, job.system)
    require_noise(job)


def require_noise(job: Job) -> None:
    """Raises where a job has no noise, its system no sensor, or its filter no code."""
    covariances(job)
    if job.noise is not None:
        filter_lowering(job.noise.filter)


def require_board(job: Job, board: str | None) -> None:
    """Raises where a job needs more motors or encoders than a board has, or more than messages carry."""
    encoders, walks = encoder_count(job.root.table("board"), job.system), getattr(job, "touchdown", None) is not None
    size.require_counts(job.system, board, job.name, encoders, walks=walks)


def covariances(job: Job) -> Noise:
    """The table [noise] as covariances."""
    noise = job.noise
    if noise is None:
        raise ModelError(f"job {job.name!r} has no table [noise]", hint="Add it: a filter needs the noise.")
    if not job.system.sensor_channels:
        raise ModelError(f"system {job.system.name!r} has no sensor; a filter needs a marker or an encoder")
    return Noise(np.diag(noise.process**2), noise.measurement**2, np.diag(noise.start**2))


def plant(job: Job, gains: Array, newton: int) -> Plant:
    """What the code is generated for."""
    noise = covariances(job)
    settings = Settings(newton) if job.noise is None else Settings(newton, job.noise.gate, job.noise.filter)
    touchdown = getattr(job, "touchdown", None)  # of a job that walks
    gait = None if touchdown is None else Gait(touchdown, job.contact, job.cycle_steps, job.beyond)  # type: ignore[attr-defined]
    return Plant(job.step, noise, gains, settings, read_stream(job.root, job.system), gait)


def controller(job: Job, plan: Plan, choices: Choices) -> Design:
    """The controller of a solved job, in formats that hold what its feedback may be tuned to."""
    made = plant(job, plan.gains, choices.newton)
    require_stream(made, plan.trajectory, choices.options.robot)
    return design_tunable(made, plan.trajectory, choices.options, _families(job, plan, choices.tuning))


def require_stream(made: Plant, trajectory: Trajectory, robot: Table | None) -> dict[str, float]:
    """How far from streamed set-points each coordinate comes to rest at worst; raises ModelError where that fails."""
    follows = end_tangent(made, trajectory)
    if made.stream is None or follows is None:
        return {}
    axes = [] if robot is None else read_axes(robot, made.step.system)
    system, speeds = made.step.system, np.abs(follows.D[:, made.step.nx :]).T @ made.stream.rate
    for k, axis in enumerate(axes):
        if k >= len(system.inputs) and speeds[k] > axis.speed * (1 + 1e-9):
            moved = system.kinematic[k - len(system.inputs)]
            raise ModelError(
                f"[stream]: set-points at their rates move {moved.name} at {speeds[k]:.3g} {moved.unit}/s, and its "
                f"motor at {axis.speed:.3g} at most",
                hint="Lower rate in [stream.of], or raise speed of the axis in [board].",
            )
    return require_inside(made.stream, made.step, follows, made.gains[-1])


def _families(job: Job, plan: Plan, factor: float) -> list[Family]:
    """Of the weights that tuning begins with: none where a kind of job has no weights, or its end cannot be held."""
    if factor <= 1:
        return []
    named: Mapping[str, Matrices] = getattr(job, "tuning_bases", {})
    made = [family(name, job.step, plan.trajectory, *weights[:2], factor) for name, weights in named.items()]
    return [one for one in made if one is not None]


def stage(job: Job, optimum: Stage, choices: Choices, out: Path, place: Path | None = None) -> Stage:
    """The stage's folder."""
    o = choices.options
    made = {
        "scalar": o.scalar.value,
        "word": o.word,
        "newton": choices.newton,
        "form": o.form.value if o.form else "auto",
        "precision": o.precision,
        "board": o.board,
        "robot": {} if o.robot is None else o.robot.entries,
        "headroom": o.headroom,
        "tuning": choices.tuning,
        "formats": [digest(content) for content in choices.files.values()],
    }
    inputs = {
        "optimize": optimum.digest,
        "choices": digest_data(made),
        "stepmap_codegen": digest_sources("stepmap_codegen", ["."]),
    }
    if "stream" in job.root:
        inputs["stream"] = digest_data(job.root.table("stream").entries)
    added = None if job.noise is None else registry.added(job.noise.filter)
    if added is not None:
        inputs["filter"] = entry_digest(added) or ""
    used = {"stepmap": stepmap.__version__, **versions("casadi", "numpy")}
    return Stage(NAME, job.name, out, inputs, used, place)


def write(made: Stage, controller: Controller) -> None:
    """Replaces the stage's folder, whole or not at all."""
    with made.replace() as folder:
        for name, content in controller.files().items():
            (folder / name).write_bytes(content)
        (folder / saved.FILE).write_bytes(saved.pack(controller))
        formats = controller.formats_file()
        if formats is not None:
            (folder / pinning.FILE).write_text(formats, encoding="utf-8")


def load(made: Stage, job: Job, choices: Choices) -> Controller:
    """The controller of a stage that is unchanged; raises DamagedError where its folder holds none."""
    content = (made.folder / saved.FILE).read_bytes()
    return saved.unpack(content, plant(job, np.zeros(0), choices.newton))


def require_own(folder: Path) -> None:
    """Raises where a folder that is to be replaced holds what nobody generated, or is the one we are in."""
    others = foreign(folder)
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise ModelError(
            f"{folder} holds files that were not generated ({', '.join(others[:3])}{more}), and all of it would be "
            "replaced; give a folder of its own, or remove them"
        )
    if folder.resolve() == Path.cwd():
        raise ModelError(f"--out: {folder} is the folder you are in, and it would be replaced; name one inside it")


def foreign(folder: Path) -> list[str]:
    """Names in a folder that are not those of generated files."""
    known = {*FILES, pinning.FILE, saved.FILE, MANIFEST}
    return sorted(path.name for path in folder.iterdir() if path.name not in known) if folder.is_dir() else []


def stale(folder: Path, controller: Controller) -> list[str]:
    """What is wrong with generated files in a folder, each in a few words; nothing where they are what is made now.

    A schedule may be off by a unit of each format: other machines round the last bit of a trajectory differently.
    """
    if not folder.is_dir():
        return ["there is no such folder"]
    wanted = controller.files()
    found = {name: (folder / name).read_bytes() for name in wanted if (folder / name).is_file()}
    alike = _schedule_holds(found, controller)
    wrong = [f"{name} is missing" for name in wanted if name not in found]
    wrong += [f"{name} differs" for name in found if found[name] != wanted[name] and not (alike and name in SCHEDULE)]
    formats = folder / pinning.FILE  # folders under version control may do without
    if formats.exists() and formats.read_text(encoding="utf-8") != controller.formats_file():
        wrong.append(f"{pinning.FILE} differs")
    return [*wrong, *(f"{name} is not generated" for name in foreign(folder))]


def _schedule_holds(found: Mapping[str, bytes], controller: Controller) -> bool:
    """Whether the three files of a schedule say the same, and what the controller's does."""
    blob = found.get("schedule.bin", b"")
    try:
        near = same(unpack(blob), controller.schedule)
    except ShapeError:
        return False
    return near and all(found.get(name) == text.encode() for name, text in emit_schedule(blob).items())


def stale_manifest(made: Stage) -> list[str]:
    """Whether a folder's manifest, if it has one, is of other inputs than today's."""
    if not (made.folder / MANIFEST).exists():
        return []  # folders under version control have none
    manifest = read_manifest(made.folder)
    ours = manifest is not None and manifest.get("complete") is True and manifest.get("digest") == made.digest
    return [] if ours else [f"{MANIFEST} is of other inputs or another version"]


class StaleError(StepmapError):
    """Generated files that are not what would be generated now."""

    def __init__(self, folder: Path, wrong: Sequence[str]) -> None:
        super().__init__(f"{folder} is stale: {', '.join(wrong)}; generate it again and look at the changes")


def with_options(choices: Choices, **given: object) -> Choices:
    """Choices with what is not None over them."""
    newton = given.pop("newton", None)
    known = {name: value for name, value in given.items() if value is not None}
    options = replace(choices.options, **known)  # type: ignore[arg-type]
    return replace(choices, options=options, newton=choices.newton if newton is None else int(str(newton)))
