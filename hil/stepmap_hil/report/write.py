"""What a run leaves: summary.json, pictures, the recording and one HTML report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stepmap.files import write_whole
from stepmap.report import Picture, Section, page
from stepmap_codegen import Controller
from stepmap_hil.report import plots as figures
from stepmap_hil.report.sentences import introduction, outcome, table
from stepmap_hil.report.summary import comparison, moving, series, summarize
from stepmap_hil.runs.log import Run
from stepmap_hil.runs.mcap import Recorder


def conclude(recorder: Recorder, closed: Run, known: Mapping[str, Any]) -> None:
    """Adds to a recording how its run ended: at once, as whatever is done afterwards may be cut off."""
    results = json.dumps([asdict(result) for result in closed.results])
    told = {"ended": closed.ended, "results": results, "misses": str(closed.misses), "facts": json.dumps(dict(known))}
    stop = None if closed.stop is None else asdict(closed.stop)
    recorder.add("end", {**told, "suspects": json.dumps(closed.suspects), "stop": json.dumps(stop)})


def complete(recorder: Recorder, opened: Run | None, known: Mapping[str, Any]) -> None:
    """Adds to a recording what is known only later: the run to compare with, and all facts."""
    for row in opened.rows if opened is not None else ():
        recorder.write("/open_loop", row.time, **vars(row))
    recorder.add("facts", {"facts": json.dumps(dict(known))})


def write(
    folder: Path, controller: Controller, closed: Run, opened: Run | None, known: Mapping[str, Any]
) -> dict[str, Any]:
    """summary.json, pictures and report.html, in this order; each is whole or not there."""
    from stepmap import plots

    mine = series(controller, closed)
    other = series(controller, opened) if opened is not None and moving(opened) else None
    summary = summarize(controller, closed, mine, {**known, **comparison(controller, mine, other)})
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / "summary.json", text + "\n", links=False)
    drawn = figures.draw(controller, mine, other)
    pictures = []
    for name, figure in drawn.items():
        write_whole(folder / f"{name}.png", plots.render(figure, "png"), links=False)
        write_whole(folder / f"{name}.svg", picture := plots.render(figure, "svg"), links=False)
        pictures.append(Picture(figures.CAPTIONS[name], picture))
    events = [(f"{at:.2f} s", what) for at, what in closed.events]
    section = Section("The run", introduction(summary), table(summary), pictures, events, "Events")
    told = page(f"{closed.job} on {closed.board}", [section], outcome(summary))
    write_whole(folder / "report.html", told, links=False)
    return summary
