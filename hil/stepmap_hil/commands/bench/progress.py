"""How far a run is, on stderr, if that is a terminal and the run takes longer than two seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from stepmap.cli.output import Screen, plain
from stepmap_codegen import Controller
from stepmap_hil.report.off import Off
from stepmap_hil.runs.log import Row, Watch
from stepmap_hil.wire import dialect

SHOW_AFTER_S = 2.0


@contextmanager
def part_done(text: str) -> Iterator[Callable[[float], None]]:
    """Something to call with the part that is done: shows a bar while the block runs, on a terminal."""
    console = Screen(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as shown:
        task = shown.add_task(text, total=1.0)
        yield lambda part: shown.update(task, completed=part)


@contextmanager
def progress(text: str, ticks: int, controller: Controller, angles: str = "rad") -> Iterator[Watch | None]:
    """Something to call after each tick: shows ticks, state and tracking error while the block runs."""
    console = Screen(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text_now]}", markup=False),
    )
    shown, begun = Progress(*columns, console=console, transient=True), time.monotonic()
    task = shown.add_task(text, total=ticks, text_now="")

    off = Off(controller, angles)

    def watch(row: Row) -> bool:
        if time.monotonic() - begun > SHOW_AFTER_S:
            shown.start()
        far = off(row)
        text_now = f"{dialect.word('STEPMAP_STATE', row.state)}, {f'{far} off' if far else 'following set-points'}"
        shown.update(task, completed=row.tick + 1, text_now=text_now)
        return True

    try:
        yield watch
    finally:
        shown.stop()


@contextmanager
def steps_shown(first: str) -> Iterator[Callable[[str], None]]:
    """Something to call with the step that begins: a spinner shows it while the block runs; "" ends the spinner."""
    status = Screen(stderr=True).status(plain(first))

    def show(text: str) -> None:
        if text:
            status.update(plain(text))
            status.start()
        else:
            status.stop()

    show(first)
    try:
        yield show
    finally:
        status.stop()
