"""What came of a run: its verdict, its report, and both in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from stepmap.cli.output import console, figures, working
from stepmap.text import printable
from stepmap_codegen import Controller
from stepmap_hil.commands.stage_list import print_memory
from stepmap_hil.report import write as results
from stepmap_hil.report.page import Origin
from stepmap_hil.report.sentences import outcome, table
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.log import STOPPED, Run
from stepmap_hil.runs.stage_times import StageClock

COLORS = {runs.PASSED: "green", runs.STOPPED: "yellow", runs.ABORTED: "yellow", runs.FAILED: "red"}

Recorded = tuple[Run, Run | None, dict[str, Any]]
"""Closed loop, open loop, facts."""


def finish(
    kept: runs.OpenRun, controller: Controller, recorded: Recorded, clock: StageClock, origin: Origin
) -> tuple[str, str]:
    """Writes the report and prints what came of a run; the verdict, and what was not as it should be."""
    closed, opened, known = recorded
    with clock.stage("report"), working("drawing"):
        evaluated = results.evaluate(controller, closed, opened, known, origin)
    summary = evaluated.summary | {"stages": clock.document()}
    verdict, reason = verdict_on(closed, summary)
    kept.require_there()
    results.save(kept.path, evaluated, summary, verdict)
    kept.end(verdict, reason or summary["ended"], summary["ticks"])
    screen = console()
    screen.print()
    screen.print(figures(table(summary), title=closed.job))
    print_memory(summary)
    screen.print()
    screen.print(verdict_line(verdict, summary), soft_wrap=not screen.is_terminal)
    screen.print(f"report  {kept.path / 'report.html'}", soft_wrap=True)
    size = kept.recording.stat().st_size / 1e6
    screen.print(f"recording  {kept.recording}, {size:.2g} MB", soft_wrap=True)
    return verdict, reason


def verdict_on(closed: Run, summary: Mapping[str, Any]) -> tuple[str, str]:
    """The verdict on a run, and what was not as it should be."""
    bad = [result for result in summary["fault_results"] if not result["ok"]]
    if bad:
        return runs.FAILED, f"{len(bad)} of {len(summary['fault_results'])} faults had another reaction than expected"
    if closed.broken or (closed.ended not in ("", STOPPED) and not closed.results):
        why = f". Most likely: {closed.suspects[0]}" if closed.suspects else ""
        return runs.FAILED, f"the run ended early: {closed.ended}{why}"
    return (runs.STOPPED if closed.ended == STOPPED else runs.PASSED), ""


def verdict_line(verdict: str, summary: Mapping[str, Any]) -> Text:
    """The verdict in its colour, and what happened in a sentence or two."""
    return Text.assemble((verdict.upper(), f"bold {COLORS[verdict]}"), "  ", printable(outcome(summary)))
