"""``stepmap build``, ``flash``, ``upload``, ``monitor``, ``stop`` and ``key``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from stepmap import jobs
from stepmap.cli.output import Screen, complain, console, figures, plain, working
from stepmap.errors import LinkError, ModelError
from stepmap.jobs import Job, Stage
from stepmap.jobs import optimize as optimum
from stepmap_codegen import generate as generation
from stepmap_codegen import kept
from stepmap_codegen.commands import generate
from stepmap_codegen.size import BOARDS as MEMORY
from stepmap_codegen.size import require_counts
from stepmap_hil import build as building
from stepmap_hil import flash as flashing
from stepmap_hil import key as keys
from stepmap_hil import upload as uploading
from stepmap_hil.boards import SerialBoard
from stepmap_hil.build import BOARDS, Choices, Firmware
from stepmap_hil.dialect import Message, value, word
from stepmap_hil.image import require_image
from stepmap_hil.key import Key
from stepmap_hil.link import Link
from stepmap_hil.monitor import Monitor
from stepmap_hil.ports import require_port
from stepmap_hil.reasons import explain
from stepmap_hil.words import Words

BoardName = Enum("BoardName", {name: name for name in BOARDS}, type=str)  # type: ignore[misc]
JobFile = Annotated[Path, typer.Argument(metavar="JOB", help="A job file (TOML); docs/jobs.md describes it.")]
BoardOption = Annotated[BoardName, typer.Option(help="The board; docs/boards.md describes them.")]
Build = Annotated[Path, typer.Option(metavar="FOLDER", help="Where build folders go.")]
KeyOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The key of the board. Usually that of stepmap key.")
]
SystemOption = Annotated[int, typer.Option(min=1, max=254, help="MAVLink system id of the board.")]
RegistryOption = Annotated[bool, typer.Option("--registry", help="Use PlatformIO's own platforms, which it downloads.")]
PortOption = Annotated[
    str, typer.Option(metavar="PORT", help="A serial device, a pseudo terminal, or socket://HOST:NUMBER.")
]
PATIENCE = 5.0  # s for an answer
REFRESH = 0.1  # s
SETTLE = 0.5  # s for motors to come to rest before they are switched off
KEPT = "a schedule uploaded for the same model stays in use; stepmap monitor says which one is"


def build(
    file: JobFile,
    board: BoardOption,
    key: KeyOption = None,
    system: SystemOption = 1,
    build: Build = Path("build"),
    registry: RegistryOption = False,
    force: Annotated[bool, typer.Option("--force", help="Do it again even if nothing has changed.")] = False,
) -> None:
    """Build the firmware of a job for a board; leave it and its sizes in FOLDER/<job>/build-<board>.

    What comes before is done first if it has not been. Nothing is done if nothing has changed.
    """
    choices = Choices(board.value, _key_file(key), system, registry)
    _build(file, choices, build, force=force)


def flash(
    board: BoardOption,
    file: Annotated[
        Path | None, typer.Argument(metavar="[JOB]", help="A job file (TOML). Without it, the only one that was built.")
    ] = None,
    port: Annotated[str | None, typer.Option(metavar="PORT", help="A serial device. Usually the only one.")] = None,
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Flash this file (.bin) instead of a job's firmware.")
    ] = None,
    key: KeyOption = None,
    system: SystemOption = 1,
    build: Build = Path("build"),
    registry: RegistryOption = False,
) -> None:
    """Flash a firmware into a board, through the bootloader of the chip.

    With a job its firmware is built first if it has not been. An STM32 has to be in its bootloader: set BOOT0 high and
    press reset. Uploaded schedules stay.
    """
    name = board.value
    flashing.require(name)
    if file is not None and image is not None:
        raise ModelError("--image: give a job or an image, not both")
    if file is None and (key is not None or system != 1 or registry):
        raise ModelError("--key, --system and --registry: are built into a firmware; give the job to build")
    if file is None:
        given = flashing.find_image(name, build) if image is None else image
        require_image(name, given)
        place = flashing.find_port(port)
        with working(f"flashing {given}"):
            flashing.flash_image(name, given, place)
    else:
        place = flashing.find_port(port)  # before anything takes time
        choices = Choices(name, _key_file(key), system, registry)
        generated, made = _build(file, choices, build)
        given = Firmware(made.folder, name).image
        with _doing(f"flashing {name}") as progress:
            flashing.flash_job(made, generated.folder, choices, place, progress)
    console().print(f"flashed: {given}, {given.stat().st_size} bytes, into {name} at {place}", soft_wrap=True)
    if MEMORY[name].bank:
        console().print(KEPT, soft_wrap=True)


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
    secret = _need_key(key)
    _, generated = _generate(file, build)
    blob = (generated.folder / "schedule.bin").read_bytes()
    words = Words.read(generated.folder)
    with _linked(port, secret, system) as link:
        with working(f"connecting to board {system}"):
            beat = link.connect(PATIENCE)
        _require_model(beat, words, file, build)
        with _bar("uploading") as (bar, task):
            report = uploading.upload(
                link, blob, secret, progress=lambda done, total: bar.update(task, completed=done, total=total)
            )
        beat = _after(link, report.digest)
    sent = f"{report.chunks} chunks, {report.repeated} of them again, in {report.seconds:.1f} s"
    rows = [
        ("schedule", f"{report.size} bytes, {report.digest.hex()[:16]}"),
        ("sent", "nothing: already in use" if report.in_use else sent),
    ]
    if report.resumed_at and not report.in_use:
        rows.append(("resumed", f"at {report.resumed_at} bytes"))
    if not beat.flags & value("STEPMAP_FLAG_LASTING"):
        rows.append(("lasts", "until the board loses power"))
    console().print(figures(rows, title=f"board {system}"))


def monitor(
    port: PortOption,
    job: Annotated[Path | None, typer.Option(metavar="JOB", help="A job file, to name numbers.")] = None,
    key: KeyOption = None,
    system: SystemOption = 1,
    seconds: Annotated[float | None, typer.Option(min=0, help="How long. Until Ctrl-C without it.")] = None,
    build: Build = Path("build"),
) -> None:
    """Show what a board does: its state and why, the last tick, and how the link does.

    Without a key it only listens, and nothing it shows can be relied upon. It commands nothing.
    """
    require_port(port)
    secret = None if _key_file(key) is None else _need_key(key)
    if secret is None:
        complain("no key: it only listens, and nothing it shows is checked (--key FILE)", kind="warning")
    words = None if job is None else Words.read(_generate(job, build)[1].folder)
    with _linked(port, secret, system) as link:
        watched = Monitor(link, words)
        news: list[str] = []
        if secret is not None:
            with working(f"connecting to board {system}"):
                news += watched.take(link.connect(PATIENCE))
        end = None if seconds is None else time.monotonic() + seconds
        screen = Screen()
        with Live(console=screen, auto_refresh=False) if screen.is_terminal else _nothing() as live:
            try:
                while True:
                    if live is not None:
                        live.update(watched.table(), refresh=True)
                    for line in news if live is None else ():
                        print(line, flush=True)
                    if end is not None and time.monotonic() >= end:
                        break
                    news = watched.hear(REFRESH)
            except KeyboardInterrupt:
                pass  # how it is meant to end
        if live is None:
            console().print(watched.table())
        if watched.beat is None:
            raise LinkError(f"no heartbeat of board {system} came from {port}: is it powered, and is this its port?")


def stop(
    port: PortOption,
    key: KeyOption = None,
    system: SystemOption = 1,
    restart: Annotated[bool, typer.Option("--restart", help="Restart the board afterwards.")] = False,
) -> None:
    """Stop whatever a board does and make it idle: it ramps to a stop, then its motors are switched off.

    A fault is reset, and shown first. Motors that are off hold no load.
    """
    secret = _need_key(key)
    with _linked(port, secret, system) as link:
        with working(f"stopping board {system}"):
            answer = link.command("stop", timeout=PATIENCE)
        state = word("STEPMAP_STATE", answer.state)
        if state in ("stopped", "fault"):
            console().print(f"board {system} was in {state}: {explain(answer.reason)}", soft_wrap=True)
            time.sleep(SETTLE if state == "stopped" else 0.0)
            answer = link.command("reset_fault")
        if restart:
            with working(f"restarting board {system}"):
                answer = _restarted(link)
    state = word("STEPMAP_STATE", answer.state)
    if state != "idle":
        raise LinkError(f"board {system} does not become idle, it is in {state}: {explain(answer.reason)}")
    console().print(f"board {system} is idle: {explain(answer.reason)}", soft_wrap=True)


def key(
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the key is, or is to be.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Say which key there is; make none.")] = False,
) -> None:
    """Make the key that a host and its boards share, in a file that only you can read.

    Never replaces one: boards that were built with it would not obey any more. The name that is shown tells keys apart
    and gives nothing away.
    """
    place = keys.default_path() if file is None else file
    found = keys.read(place) if show else keys.create(place)
    console().print(f"{'key' if show else 'made key'} {found.name}: {place}", soft_wrap=True)


# What commands share


def _generate(file: Path, out: Path, board: str | None = None) -> tuple[Job, Stage]:
    """The job and its generated code, which is made now where it is not there."""
    with working("reading the job"):
        job = jobs.load(file)
        require_counts(job.system, board)
        choices = generation.read_choices(file)
        made = generation.stage(job, optimum.stage(job, out), choices, out)
        ready = made.unchanged()
    if not ready:
        generate(file, build=out)
    return job, made


def _build(file: Path, choices: Choices, out: Path, *, force: bool = False) -> tuple[Stage, Stage]:
    """Stages of the generated code and of the firmware, both made now where they are not there."""
    building.checkout()  # before anything takes time
    secret = None if choices.key is None else keys.read(choices.key)
    if secret is None:
        complain("no key: this board will take no messages; make one with stepmap key", kind="warning")
    job, generated = _generate(file, out, choices.board)
    made = building.stage(job, generated, choices, secret, out)
    begin = time.monotonic()
    with made.making(force=force) as needed:
        if not needed:
            console().print(f"unchanged, skipped: {made.folder}", soft_wrap=True)
            return generated, made
        with _doing(f"building {job.name} for {choices.board}") as progress:
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


@contextmanager
def _doing(text: str) -> Iterator[building.Progress]:
    """A spinner whose text goes on; nothing where stderr is not a terminal."""
    with Screen(stderr=True).status(plain(text)) as status:
        yield lambda doing: status.update(plain(f"{text}: {doing}"))


@contextmanager
def _bar(text: str) -> Iterator[tuple[Progress, TaskID]]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    screen = Screen(stderr=True)
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bar:
        yield bar, bar.add_task(text, total=None)


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


@contextmanager
def _linked(port: str, secret: Key | None, system: int) -> Iterator[Link]:
    with SerialBoard(port) as board:
        yield Link(board.open(), secret, target=system)


def _key_file(given: Path | None) -> Path | None:
    """The key file: the given one, or the usual one where it is there."""
    if given is not None:
        return given
    usual = keys.default_path()
    return usual if usual.exists() else None


def _need_key(given: Path | None) -> Key:
    return keys.read(keys.default_path() if given is None else given)


def _require_model(beat: Message, words: Words, file: Path, out: Path) -> None:
    """Raises where the board runs another model, and says which."""
    runs = bytes(beat.model)
    if runs != words.model:
        raise LinkError(
            f"board {beat.system} runs model {runs.hex()}{_whose(runs, out)}, and {file} is model {words.model.hex()}: "
            f"flash this job's firmware first (stepmap flash {file} --board ...), or upload the job the board is for"
            f"{_keeping(runs, words, file, out)}"
        )


def _keeping(model: bytes, words: Words, file: Path, out: Path) -> str:
    """How a job of the same system gets the model that the board runs: by the formats of its firmware."""
    if words.scalar != "fixed32":
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
            return f"; to keep the formats of the board: {how}" if known.system == words.system else ""
    return (
        "; a job that differs in weights, reference or duration alone can keep the formats of the board's firmware: "
        f"{kept.FILE} of its build folder, as formats in [codegen]"
    )


def _whose(model: bytes, out: Path) -> str:
    """The job in a build folder that a model is of, in brackets."""
    for path in sorted(out.glob("*/generate/signals.json")):
        try:
            if json.loads(path.read_text())["model"] == model.hex():
                return f" (job {path.parent.parent.name})"
        except (OSError, ValueError, KeyError):
            continue
    return ""


def _after(link: Link, digest: bytes) -> Message:
    """A heartbeat that names the schedule that was uploaded."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        beat = link.receive("HEARTBEAT", timeout=1.0)
        if beat is not None and link.believes(beat) and bytes(beat.schedule) == digest[: len(beat.schedule)]:
            return beat
    raise LinkError(f"board {link.target} took the schedule but does not use it: upload again")


def _restarted(link: Link) -> Message:
    """The heartbeat of a board that has started after it was told to."""
    begun = time.monotonic()
    link.command("restart")
    while time.monotonic() - begun < 2 * PATIENCE:
        beat = link.connect(PATIENCE)
        if beat.uptime_ms < 1000 * (time.monotonic() - begun):
            return beat
    raise LinkError(f"board {link.target} was told to restart but has not: press its reset, or switch it off and on")
