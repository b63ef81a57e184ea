"""A recording as the run it is of: its job, its controller, its ticks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stepmap import jobs
from stepmap.archives import read_arrays
from stepmap.arrays import Array
from stepmap.errors import DamagedError, JobError, ModelError, StepmapError
from stepmap.jobs import Job
from stepmap.optimal import Plan
from stepmap.steps.protocol import Trajectory
from stepmap.systems import files
from stepmap.toml.tables import Table, parse_text
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_hil.runs import recording_checks as recorded
from stepmap_hil.runs.log import Run
from stepmap_hil.runs.mcap import Recording, read
from stepmap_hil.wire.raw_values import SignalCodec


@dataclass(frozen=True)
class RecordedRun:
    """A run as its recording has it: its job, its controller, its ticks, and what was sent."""

    job: Job
    choices: generation.Choices
    controller: Controller
    closed: Run
    opened: Run | None
    facts: dict[str, Any]
    sent: list[dict[str, Any]]
    concluded: bool = True  # whether the run came to its end; one that was cut off has no verdict of its own
    about: recorded.About | None = None


DAMAGED = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RuntimeError, AssertionError)
"""What comes of something else in place of a run's content."""
ATTACHED = "files/"  # before the names of files that the job names
ARRAYS = ("t", "x", "u", "gains")


def read_run(path: Path, system: Path | None = None) -> RecordedRun:
    """The run of a recording; raises where it is none, or where this version makes another controller.

    It comes from elsewhere: nothing in it names a file of this computer, and what it says is checked before it is used.
    Where its system is code, that is run only if the user has run it before, or names his copy of it: ``system``.
    """
    recording = read(path)
    code = None if system is None else files.read(system)
    with blaming(path):
        return _recorded_run(recording, path, code)


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Makes whatever a damaged recording causes in the block a DamagedError that names it."""
    try:
        yield
    except (JobError, DamagedError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from None
    except StepmapError:
        raise
    except DAMAGED as error:
        raise DamagedError(f"{path} is damaged: {error}") from error


def _recorded_run(recording: Recording, path: Path, code: bytes | None) -> RecordedRun:
    about = recorded.About.read(recording.about["run"])
    if "job.toml" not in recording.attachments or "solution.npz" not in recording.attachments:
        raise ModelError(f"{path} holds no job: it was made by another program, or ends before its first entry")
    job, choices, controller = _designed(about.job, tuple(sorted(recording.attachments.items())), code)
    if controller.digest != about.model:
        raise ModelError(
            f"{path} was recorded with model {about.model}, and this version makes {controller.digest} of its job: "
            f"use stepmap {about.stepmap} as it was then"
        )
    codec = SignalCodec.parse(controller.description())
    sizes = (codec, len(job.system.coordinates))
    closed = Run(about.job, about.board, about.mode, about.plant, recorded.rows(recording.of("/tick"), *sizes))
    closed.board_id = recorded.board_id(recording.about.get("board", {}).get("id", ""))
    closed.events = [recorded.event(entry) for entry in recording.of("/event")]
    closed.gaps = [recorded.gap(entry, job.system.gap_names) for entry in recording.of("/gap")]
    closed.walked = [recorded.walked(entry) for entry in recording.of("/step")]
    end = recording.about.get("end")
    closed.ended = (
        recorded.reason(recording.about.get("aborted", {}).get("why", "the recording ends here"))
        if end is None
        else recorded.reason(end["ended"])
    )
    facts: dict[str, Any] = dict.fromkeys(("flash_bytes", "ram_bytes", "instructions_per_tick"))
    facts = {"seed": about.seed, "sensor": about.sensor, **facts}
    if end is not None:
        closed.results = recorded.results(end["results"])
        closed.misses = recorded.misses(end["misses"])
        closed.suspects = recorded.suspects(end.get("suspects", "[]"))
        closed.stop = recorded.stop(end.get("stop", "null"))
        facts = recorded.facts(recording.about.get("facts", end)["facts"])  # at first without what takes time
    rows = recorded.rows(recording.of("/open_loop"), *sizes)
    opened = Run(about.job, about.board, "lockstep", rows=rows) if rows else None
    sent = [recorded.sent(entry, codec) for entry in recording.of("/sent")]
    closed.set_points = {one["sequence"]: one["words"] for one in sent if one["kind"] == "set_point"}
    for run, topic in ((closed, "/set_point"), (opened, "/open_loop_set_point")):
        told = [recorded.followed(entry, codec) for entry in recording.of(topic)]
        if run is not None:
            run.followed = {one.tick: one for one in told}
    return RecordedRun(job, choices, controller, closed, opened, facts, sent, concluded=end is not None, about=about)


@lru_cache(maxsize=4)
def _designed(
    name: str, attachments: tuple[tuple[str, bytes], ...], code: bytes | None
) -> tuple[Job, generation.Choices, Controller]:
    """The controller of a recorded job. To design it takes seconds, and recordings of one job are read in a row."""
    content = dict(attachments)
    root = parse_text(content["job.toml"], "job.toml", _files(content))
    if code is not None:
        root = _with_system(root, code)
    job = jobs.for_board(jobs.parse(root, name))
    choices = generation.choices_in(root)
    packed = read_arrays(content["solution.npz"], ARRAYS)
    trajectory = _trajectory(job, packed)
    return job, choices, generation.controller(job, Plan(trajectory, packed["gains"], trajectory), choices)


def _files(attachments: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that the job names, as it names them."""
    return {name.removeprefix(ATTACHED): data for name, data in attachments.items() if name.startswith(ATTACHED)}


def _with_system(root: Table, code: bytes) -> Table:
    """The job with the user's code in place of that which came with it."""
    named = root.table("system")
    if "file" not in named:
        raise ModelError("--system-file: the system of this recording is of the catalog; leave the option out")
    return replace(root, attached={**(root.attached or {}), named.text("file"): code})


def _trajectory(job: Job, packed: Mapping[str, Array]) -> Trajectory:
    steps, nx, nu, ndx = job.steps, job.step.nx, job.step.nu, job.step.ndx
    if getattr(job, "goal", False):  # whose plan may have taken more time
        steps = max(steps, len(packed["u"]))
    shapes = {"t": (steps + 1,), "x": (steps + 1, nx), "u": (steps, nu), "gains": (steps, nu, ndx)}
    for name, shape in shapes.items():
        if packed[name].shape != shape or packed[name].dtype != float or not np.isfinite(packed[name]).all():
            raise DamagedError(f"its {name} are not {shape} finite numbers")
    return Trajectory(packed["t"], packed["x"], packed["u"])
