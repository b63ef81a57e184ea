"""Two runs of one mechanism on one page: lines of the second are dashed, its numbers beside those of the first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepmap.errors import ModelError
from stepmap.report import Grid, Section
from stepmap.report.charts import Chart, Line, Timeline
from stepmap.report.explore import Explorer, Headline, Tile
from stepmap.report.motion import Layer, Motion
from stepmap_hil.report.page.build import explorer, facts
from stepmap_hil.report.page.headline import headline
from stepmap_hil.report.page.panels import charts
from stepmap_hil.report.page.tiles import tiles
from stepmap_hil.report.page.view import RunView
from stepmap_hil.report.sentences import table

ASIDE = ("without feedback", "plan")  # lines that the second run has, too, and that say nothing more


def overlay(first: RunView, second: RunView, verdicts: tuple[str, str], names: tuple[str, str]) -> Explorer:
    """The page of the first run with the second one over it; raises where they are of different mechanisms."""
    one, other = (view.controller.plant.step.system for view in (first, second))
    if [c.name for c in one.coordinates] != [c.name for c in other.coordinates]:
        raise ModelError(
            f"{names[1]} is of {other.name}, and {names[0]} of {one.name}: their coordinates have other names",
            hint="Lay runs of one mechanism over each other.",
        )
    made, b = explorer(first, (), verdicts[0]), headline(second, verdicts[1])
    a = made.headline
    worse = b if a.tone == "pass" else a
    found = {chart.key: chart for chart in charts(second)}
    drawn = [_both(first, second, chart, found.get(chart.key)) for chart in charts(first)]
    assert made.timeline is not None
    return Explorer(
        title=f"{first.run.job}: two runs",
        headline=Headline(worse.tone, f"{a.word} / {b.word}", f"A: {a.sentence}", f"B: {b.sentence}"),
        facts=[("A", names[0]), ("B", names[1]), *facts(first)[:2]],
        tiles=_tiles(first, second),
        motion=_motion(first, second),
        timeline=Timeline(first.time, drawn, made.timeline.spans, made.timeline.marks),
        sections=[_numbers(first, second)],
    )


def _both(first: RunView, second: RunView, chart: Chart, other: Chart | None) -> Chart:
    mine = tuple(replace(line, name=f"{line.name}, A") for line in chart.lines if line.name not in ASIDE)
    theirs = tuple(
        Line(f"{line.name}, B", second.onto(first, line.values), line.role, dash=True, points=line.points)
        for line in (() if other is None else other.lines)
        if line.name not in ASIDE
    )
    return replace(chart, lines=(*mine, *theirs), ribbons=chart.ribbons)


def _motion(first: RunView, second: RunView) -> Motion:
    step = first.controller.plant.step
    poses = second.onto(first, second.place(second.series.coordinates))
    wanted = first.place(step.layout.pose(first.series.reference))
    layers = [
        Layer("A", "plant", first.place(first.series.coordinates)),
        Layer("B", "estimate", poses),
        Layer("reference of A", "reference", wanted),
    ]
    return Motion(step.system, np.asarray(first.time), layers)


def _tiles(first: RunView, second: RunView) -> list[Tile]:
    theirs = {tile.name: tile for tile in tiles(second)}
    return [
        Tile(tile.name, f"{tile.value} | {theirs[tile.name].value}", "A | B")
        for tile in tiles(first)
        if tile.name in theirs
    ]


def _numbers(first: RunView, second: RunView) -> Section:
    one, other = dict(table(first.summary)), dict(table(second.summary))
    rows = [(name, one.get(name, ""), other.get(name, "")) for name in dict.fromkeys([*one, *other]) if name]
    return Section("Summaries", "", (), (), grid=Grid(("", "A", "B"), rows))
