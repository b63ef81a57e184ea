"""What a run leaves: summary.json, pictures, the recording and one HTML report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepmap.files import write_whole
from stepmap.report.document import Picture
from stepmap.report.explore import explore
from stepmap_codegen import Controller
from stepmap_hil.report import plots as figures
from stepmap_hil.report import room
from stepmap_hil.report.page import Origin, RunView, explorer
from stepmap_hil.report.series import moving, series
from stepmap_hil.report.summary import comparison, played_acts, summarize
from stepmap_hil.runs.foxglove import LAYOUT, layout
from stepmap_hil.runs.log import Run
from stepmap_hil.runs.mcap import Recorder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMS = ("png", "svg")
MIME = {"png": "png", "svg": "svg+xml"}
LARGE = 150_000  # bytes of a picture from which on the report takes its smaller form
BUDGET = 500_000  # bytes of all pictures in the report, where base64 makes them a third larger


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
        if opened is not None and row.running and row.tick in opened.followed:
            recorder.write("/open_loop_set_point", row.time, **vars(opened.followed[row.tick]))
    recorder.add("facts", {"facts": json.dumps(dict(known))})


@dataclass(frozen=True)
class Evaluated:
    """What is written about a run."""

    view: RunView
    summary: dict[str, Any]
    pictures: dict[str, dict[str, bytes]]  # by name and form
    captions: Mapping[str, str]


def evaluate(
    controller: Controller, closed: Run, opened: Run | None, known: Mapping[str, Any], origin: Origin | None = None
) -> Evaluated:
    """Metrics and pictures of a run, which is what takes time; raises LinkError where it has no tick.

    With its job, also the room between the mechanism and obstacles.
    """
    job = None if origin is None else origin.job
    mine = series(controller, closed)
    other = series(controller, opened) if opened is not None and moving(opened) else None
    around = room.clearances(job)
    played = () if origin is None else origin.acts
    more = {**known, **comparison(controller, mine, other), **room.metrics(around, mine, other)}
    more |= {"acts": played_acts(controller, played, mine)} if played else {}
    summary = summarize(controller, closed, mine, more, other)
    drawn = figures.draw(controller, mine, other, known.get("angles") or "rad", room.shapes(job))
    captions = figures.captions(controller, compared=other is not None)
    if around:
        drawn["clearances"] = room.figure(around, mine, other)
        captions["clearances"] = room.CAPTION
    pictures = {name: _rendered(figure) for name, figure in drawn.items()}
    view = RunView(controller, closed, mine, other, summary, origin or Origin())
    return Evaluated(view, summary, pictures, captions)


def _rendered(figure: Figure) -> dict[str, bytes]:
    from stepmap import plots  # takes a while to import

    return {form: plots.render(figure, form) for form in FORMS}


def save(folder: Path, evaluated: Evaluated, summary: Mapping[str, Any], verdict: str = "") -> None:
    """summary.json, pictures, a layout for Foxglove and report.html, in this order; each is whole or not there.

    The report has the verdict on the run where one is given.
    """
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / "summary.json", text + "\n", links=False)
    for name, forms in evaluated.pictures.items():
        for form, content in forms.items():
            write_whole(folder / f"{name}.{form}", content, links=False)
    pictures = embedded(evaluated.pictures, evaluated.captions)
    write_whole(folder / LAYOUT, layout(evaluated.view.controller), links=False)
    page = explore(explorer(replace(evaluated.view, summary=summary), pictures, verdict))
    write_whole(folder / "report.html", page, links=False)


def embedded(pictures: Mapping[str, Mapping[str, bytes]], captions: Mapping[str, str]) -> list[Picture]:
    """Pictures as the report has them: the smaller form of those that a long run makes large, as long as they fit."""
    left, made = BUDGET, []
    for name, forms in sorted(pictures.items(), key=lambda pair: min(map(len, pair[1].values()))):
        vector = len(forms["svg"]) <= LARGE
        form = "svg" if vector else min(forms, key=lambda form: len(forms[form]))
        left -= len(forms[form])
        if left < 0:  # it stays a file beside the page
            break
        made.append((list(pictures).index(name), Picture(captions[name], forms[form], MIME[form])))
    return [picture for _, picture in sorted(made, key=lambda pair: pair[0])]


def write(
    folder: Path, controller: Controller, closed: Run, opened: Run | None, known: Mapping[str, Any]
) -> dict[str, Any]:
    """The summary of a run; it is written with pictures and report."""
    evaluated = evaluate(controller, closed, opened, known)
    save(folder, evaluated, evaluated.summary)
    return evaluated.summary
