"""A report to explore: what happened in one sentence, tiles, the mechanism in motion, charts with one time axis.

The charts are uPlot's (MIT licence), which goes into the page with its licence; nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from stepmap.arrays import Array
from stepmap.report.charts import Timeline
from stepmap.report.document import Section, asset, content, made_with, whole
from stepmap.report.motion import Motion

TONES = ("pass", "stopped", "fault", "plain")


@dataclass(frozen=True)
class Tile:
    """A number worth a box; ``tone`` is one of TONES."""

    name: str
    value: str
    note: str = ""
    tone: str = "plain"


@dataclass(frozen=True)
class Headline:
    """How it went: a word in colour, one sentence why, and more sentences where there is more to say."""

    tone: str
    word: str
    sentence: str
    more: str = ""


@dataclass(frozen=True)
class Explorer:
    """All of a page."""

    title: str
    headline: Headline
    facts: Sequence[tuple[str, str]] = ()  # job, board, date, versions
    links: Sequence[tuple[str, str]] = ()  # text, name of a file beside the page
    tiles: Sequence[Tile] = ()
    motion: Motion | None = None
    timeline: Timeline | None = None
    weight: Array | None = None  # of the times: which of them matter most, where there are too many
    sections: Sequence[Section] = field(default=())


def explore(given: Explorer) -> str:
    """The whole page as HTML."""
    motion = None if given.motion is None else given.motion.data()
    timeline = None if given.timeline is None else given.timeline.data(given.weight)
    parts = [_header(given), _tiles(given.tiles), _moving(motion), _charts(timeline), content(given.sections)]
    licence = f"<details><summary>uPlot {UPLOT}</summary><pre>{escape(asset('uPlot.LICENSE'))}</pre></details>"
    footer = f"<footer>{escape(made_with())} {licence}</footer>\n"
    style = "\n".join(map(asset, ("page.css", "uPlot.min.css", "explore.css")))
    script = "\n".join([_library(), asset("motion.js"), asset("explore.js")])
    data = {"timeline": timeline, "motion": motion}
    scripts = (
        f'<script type="application/json" id="data">{_json(data)}</script>\n'
        f'<script type="text/javascript">{script}</script>\n'
    )
    return whole(given.title, style, "".join(parts) + footer + scripts)


def _json(data: Mapping[str, Any]) -> str:
    """JSON that no text in it can end."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _library() -> str:
    """uPlot without its first line, a comment; the page has its licence."""
    return asset("uPlot.iife.min.js").partition("*/")[2].strip()


UPLOT = "1.6.32, © Leon Sorokin, MIT licence"


def _header(given: Explorer) -> str:
    said = given.headline
    more = f"<p>{escape(said.more)}</p>" if said.more else ""
    facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in given.facts)
    links = "".join(f'<a class="button" href="{escape(file)}">{escape(text)}</a>' for text, file in given.links)
    return (
        f'<header class="verdict {escape(said.tone)}">\n<h1>{escape(given.title)}</h1>\n'
        f'<p class="why"><b id="verdict" class="pill">{escape(said.word)}</b> '
        f'<span id="sentence">{escape(said.sentence)}</span></p>\n{more}<dl class="facts">{facts}</dl>\n'
        f'<div class="links">{links}</div>\n</header>\n'
    )


LONG = 12  # characters of a number that is shown large


def _tiles(tiles: Sequence[Tile]) -> str:
    if not tiles:
        return ""
    made = "".join(
        f'<div class="tile {escape(t.tone)}"><span>{escape(t.name)}</span>'
        f"<strong{' class=long' * (len(t.value) > LONG)}>{escape(t.value)}</strong>"
        f"<small>{escape(t.note)}</small></div>"
        for t in tiles
    )
    return f'<div class="tiles">{made}</div>\n'


def _moving(motion: Mapping[str, Any] | None) -> str:
    if motion is None:
        return ""
    return (
        '<section class="moving"><h2>Motion</h2>\n<div class="scenes"><figure><canvas id="scene"></canvas>'
        "<figcaption>The mechanism. The slider and the charts move it.</figcaption></figure>\n"
        '<figure><canvas id="paths"></canvas><figcaption>The paths of its masses.</figcaption></figure></div>\n'
        '<div class="player"><button id="play" type="button">Play</button>'
        '<input id="scrub" type="range" min="0" value="0" step="1" aria-label="time">'
        '<output id="clock"></output><span id="layers"></span></div></section>\n'
    )


def _charts(timeline: Mapping[str, Any] | None) -> str:
    if timeline is None:
        return ""
    return (
        '<section class="over-time"><h2>Over time</h2>\n<div class="tools"><span class="hint">Drag over a chart to '
        'zoom; a double click shows all.</span><button id="whole" type="button">Show all</button>'
        '<button id="values" type="button" aria-pressed="false">Coordinates as they are</button></div>\n'
        '<div id="states"></div><div id="happened"></div><div id="charts"></div></section>\n'
    )
