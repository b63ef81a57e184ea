"""``stepmap monitor``: what a board does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from stepmap.arrays import Array
from stepmap.cli.output import Screen, complain, console, working
from stepmap.errors import LinkError, ModelError
from stepmap.jobs.read import job_name
from stepmap_codegen import generate as generation
from stepmap_hil.commands.monitor.expected import innovation_sigma
from stepmap_hil.commands.monitor.history import History
from stepmap_hil.commands.monitor.view import Monitor
from stepmap_hil.commands.options import TIMEOUT_S, Build, KeyOption, PortOption, SystemOption
from stepmap_hil.commands.shared import key_file, linked, need_key
from stepmap_hil.wire.ports import require_port
from stepmap_hil.wire.raw_values import SignalCodec

REFRESH = 0.1  # s


def monitor(
    port: PortOption,
    job: Annotated[
        Path | None, typer.Option(metavar="JOB", help="A job file whose code was generated, for names and units.")
    ] = None,
    key: KeyOption = None,
    system: SystemOption = 1,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Seconds to watch, 0 or more. [default: until Ctrl-C]"),
    ] = None,
    build: Build = Path("build"),
) -> None:
    """Show the state of a board, its estimates, commands and innovations tick by tick, and how the link does.

    Without a key it only listens, and nothing it shows can be relied upon. It commands nothing.
    """
    require_port(port)
    secret = None if key_file(key) is None else need_key(key)
    if secret is None:
        complain("no key: it only listens, and nothing it shows is checked (--key FILE)", kind="warning")
    codec = None if job is None else _codec(job, build)
    with linked(port, secret, system) as link:
        history = None if codec is None or job is None else History(codec, _expected(job))
        watched = Monitor(link, codec, history=history)
        news: list[str] = []
        if secret is not None:
            with working(f"connecting to board {system}"):
                news += watched.take(link.connect(TIMEOUT_S))
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
                    news = watched.receive(REFRESH)
            except KeyboardInterrupt:
                pass  # how it is meant to end
        if live is None:
            console().print(watched.table())
        if watched.heartbeat is None:
            raise LinkError(
                f"no heartbeat of board {system} came from {port}", hint="Is it powered, and is this its port?"
            )


def _expected(job: Path) -> Array | None:
    with working("settling the filter of the job"):
        return innovation_sigma(job)


def _codec(job: Path, build: Path) -> SignalCodec:
    """Names and units of a job's numbers, from the code that was generated for it; nothing is generated here."""
    folder = build / job_name(job) / generation.NAME
    if not job.is_file():
        raise ModelError(f"--job: there is no file {job}")
    if not (folder / "signals.json").is_file():
        raise ModelError(
            f"--job: {folder} holds no generated code of this job, which has the names and units",
            hint=f"Run stepmap generate {job} first, or say with --build where it is.",
        )
    return SignalCodec.read(folder)


@contextmanager
def _nothing() -> Iterator[None]:
    yield None
