"""``stepmap upload``: the schedule of a job into a board."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from stepmap.cli.output import Screen, console, figures, working
from stepmap.errors import LinkError, ModelError
from stepmap_codegen.precision import pinned as kept
from stepmap_hil.commands.options import TIMEOUT_S, Build, JobFile, KeyOption, PortOption, SystemOption
from stepmap_hil.commands.shared import generated_code, linked, need_key
from stepmap_hil.wire import upload as uploading
from stepmap_hil.wire.dialect import Message, value
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.ports import require_port
from stepmap_hil.wire.raw_values import SignalCodec


def upload(
    file: JobFile,
    port: PortOption,
    key: KeyOption = None,
    system: SystemOption = 1,
    build: Build = Path("build"),
) -> None:
    """Upload the schedule of a job to a board: references and gains of every tick.

    It is generated first if it has not been. An upload that was cut off goes on where it ended. The board takes it only
    while idle, and only for the model it was built with; what it had stays in use until all of the new one is there.
    """
    require_port(port)  # before anything takes time
    secret = need_key(key)
    _, generated = generated_code(file, build)
    blob = (generated.folder / "schedule.bin").read_bytes()
    codec = SignalCodec.read(generated.folder)
    with linked(port, secret, system) as link:
        with working(f"connecting to board {system}"):
            heartbeat = link.connect(TIMEOUT_S)
        _require_model(heartbeat, codec, file, build)
        with _bar("uploading") as (bar, task):
            report = uploading.upload(
                link, blob, secret, progress=lambda done, total: bar.update(task, completed=done, total=total)
            )
        heartbeat = _after(link, report.digest)
    sent = f"{report.chunks} chunks, {report.repeated} of them again, in {report.seconds:.1f} s"
    rows = [
        ("schedule", f"{report.size} bytes, {report.digest.hex()[:16]}"),
        ("sent", "nothing: already in use" if report.in_use else sent),
    ]
    if report.resumed_at and not report.in_use:
        rows.append(("resumed", f"at {report.resumed_at} bytes"))
    if not heartbeat.flags & value("STEPMAP_FLAG_LASTING"):
        rows.append(("lasts", "until the board loses power"))
    console().print(figures(rows, title=f"board {system}"))


@contextmanager
def _bar(text: str) -> Iterator[tuple[Progress, TaskID]]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    screen = Screen(stderr=True)
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bar:
        yield bar, bar.add_task(text, total=None)


def _require_model(heartbeat: Message, codec: SignalCodec, file: Path, out: Path) -> None:
    """Raises where the board runs another model, and says which."""
    runs = bytes(heartbeat.model)
    if runs != codec.model:
        raise LinkError(
            f"board {heartbeat.system} runs model {runs.hex()}{_whose(runs, out)}, and {file} is model "
            f"{codec.model.hex()}: flash this job's firmware first (stepmap flash {file} --board ...), or upload the "
            f"job the board is for"
            f"{_keeping(runs, codec, file, out)}"
        )


def _keeping(model: bytes, codec: SignalCodec, file: Path, out: Path) -> str:
    """How a job of the same system gets the model that the board runs: by the formats of its firmware."""
    if codec.scalar != "fixed32":
        return ""
    places = [*sorted(out.glob(f"*/build-*/{kept.FILE}")), *sorted(out.glob(f"*/generate/{kept.FILE}"))]
    for path in places:
        try:
            known = kept.unpack(path.read_bytes(), str(path))
        except (OSError, ModelError):
            continue
        if known.model == model.hex():
            beside = file.with_suffix(f".{kept.FILE}").name
            how = f'cp {path} {file.with_name(beside)}, and formats = "{beside}" in [codegen]'
            return f"; to keep the formats of the board: {how}" if known.system == codec.system else ""
    return (
        "; a job that differs in weights, reference or duration alone can keep the formats of the board's firmware: "
        f"{kept.FILE} of its build folder, as formats in [codegen]"
    )


def _whose(model: bytes, out: Path) -> str:
    """The job in a build folder that a model is of, in brackets."""
    for path in sorted(out.glob("*/generate/signals.json")):
        try:
            if json.loads(path.read_text(encoding="utf-8"))["model"] == model.hex():
                return f" (job {path.parent.parent.name})"
        except (OSError, ValueError, KeyError):
            continue
    return ""


def _after(link: Link, digest: bytes) -> Message:
    """A heartbeat that names the schedule that was uploaded."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        heartbeat = link.receive("HEARTBEAT", timeout=1.0)
        if (
            heartbeat is not None
            and link.believes(heartbeat)
            and bytes(heartbeat.schedule) == digest[: len(heartbeat.schedule)]
        ):
            return heartbeat
    raise LinkError(f"board {link.target} took the schedule but does not use it: upload again")
