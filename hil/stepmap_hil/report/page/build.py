"""The page of a run, put together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepmap.jobs.chapters import Subject, chapters
from stepmap.report.chapter import Chapter
from stepmap.report.charts import Timeline
from stepmap.report.explore import Explorer
from stepmap.report.motion import Layer, Motion
from stepmap_hil.report.page.headline import headline
from stepmap_hil.report.page.panels import charts
from stepmap_hil.report.page.states import marks, spans
from stepmap_hil.report.page.tables import Pictures, sections
from stepmap_hil.report.page.tiles import tiles
from stepmap_hil.report.page.view import RunView
from stepmap_hil.runs.foxglove import LAYOUT


def explorer(view: RunView, pictures: Pictures, verdict: str = "") -> Explorer:
    """The page; the verdict on the run where one is given."""
    told = _chapters(view)
    phrase = "; ".join(chapter.phrase for chapter in told if chapter.phrase)
    drawn = charts(view)
    drawn += [chart for chapter in told for chart in chapter.charts]
    made = sections(view, pictures)
    summary, run = view.summary, view.run
    off = drawn[0].lines[-1].values if drawn else None
    return Explorer(
        title=f"{run.job} on {run.board}",
        headline=headline(view, verdict, phrase),
        facts=facts(view),
        links=links(view),
        tiles=[*(tile for chapter in told for tile in chapter.tiles), *tiles(view)],
        motion=motion(view),
        timeline=Timeline(view.time, drawn, spans(view), marks(view)),
        weight=off if summary["ticks"] else None,
        sections=[*made[:1], *(s for chapter in told for s in chapter.sections), *made[1:]],
    )


def _chapters(view: RunView) -> list[Chapter]:
    if view.origin.job is None:
        return []
    system = view.controller.plant.step.system
    pose = view.controller.plant.step.layout.pose
    poses, reference = view.place(view.series.coordinates), view.place(pose(view.series.reference))
    given = Subject(
        view.origin.job, system, view.time, poses, reference, flown=True, acts=view.origin.acts, told=view.summary
    )
    return chapters(given)


def facts(view: RunView) -> list[tuple[str, str]]:
    """What was run, when, and with what."""
    summary, origin = view.summary, view.origin
    rows = [
        ("job", summary["job"]),
        ("board", summary["board"]),
        ("sensor", str(summary.get("sensor") or "")),
        ("mode", summary["mode"]),
        ("plant", summary["plant"]),
        ("seed", str(summary.get("seed", ""))),
        ("begun", origin.begun),
        ("stepmap", origin.stepmap),
        ("model", view.controller.digest[:16]),
        ("digest", summary["digest"][:16]),
    ]
    return [(name, value) for name, value in rows if value]


def links(view: RunView) -> list[tuple[str, str]]:
    """Files beside the page."""
    made = [("summary.json", "summary.json")]
    if not view.origin.recording:
        return made
    return [(view.origin.recording, view.origin.recording), *made, ("layout for Foxglove", LAYOUT)]


def motion(view: RunView) -> Motion:
    """Plant, estimate, reference and the run without feedback."""
    step, s, o = view.controller.plant.step, view.series, view.opened
    pose = step.layout.pose
    layers = [Layer("estimate", "estimate", view.place(pose(s.estimate)), shown=not s.known)]
    if s.known:
        layers.insert(0, Layer("plant", "plant", view.place(s.coordinates)))
    layers.append(Layer("reference", "reference", view.place(pose(s.reference))))
    if o is not None:
        layers.append(Layer("without feedback", "open", view.place(o.coordinates, o), shown=False))
    known = slice(int(s.tick.max()) + 1)
    kept = [replace(layer, poses=layer.poses[known]) for layer in layers]
    return Motion(step.system, np.asarray(view.time)[known], kept)
