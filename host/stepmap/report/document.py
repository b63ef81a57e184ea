"""Reports: one HTML file that holds its pictures and asks nothing of the network."""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.metadata import version
from pathlib import Path

ASSETS = Path(__file__).with_name("assets")


@dataclass(frozen=True)
class Picture:
    """An SVG file, or one of another form, and what it shows."""

    caption: str
    svg: bytes
    form: str = "svg+xml"


@dataclass(frozen=True)
class Drawing:
    """SVG in the page itself, in its colours, and what it shows."""

    caption: str
    svg: str


@dataclass(frozen=True)
class Grid:
    """A table with headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Bar:
    """How much of something is used."""

    name: str
    part: float  # 0 to 1
    text: str


@dataclass(frozen=True)
class Section:
    """One part of a report."""

    heading: str
    text: str
    figures: Sequence[tuple[str, str]]
    pictures: Sequence[Picture]
    settings: Sequence[tuple[str, str]] = field(default=())
    settings_title: str = "Settings"
    grid: Grid | None = None
    bars: Sequence[Bar] = field(default=())
    folded: bool = False  # behind its heading, until that is pressed
    verbatim: str = ""  # a text in lines, such as a file
    drawings: Sequence[Drawing] = field(default=())


@cache
def asset(name: str) -> str:
    """A file of this package that goes into pages."""
    return (ASSETS / name).read_text(encoding="utf-8")


def page(title: str, sections: Iterable[Section], introduction: str = "") -> str:
    """A whole HTML page."""
    lead = f"<p>{escape(introduction)}</p>" if introduction else ""
    body = f"<h1>{escape(title)}</h1>\n{lead}\n{content(sections)}<footer>{escape(made_with())}</footer>\n"
    return whole(title, asset("page.css"), body)


def whole(title: str, style: str, body: str) -> str:
    """A page with its frame around it."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"{body}</main>\n</body>\n</html>\n"
    )


def content(sections: Iterable[Section]) -> str:
    """Sections one below the other."""
    return "".join(_section(part) for part in sections)


def made_with() -> str:
    """The versions that decide the numbers of a report."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("casadi", "numpy"))
    return f"Made with stepmap {_own_version()}, {versions}, Python {platform.python_version()}, {platform.machine()}."


def _own_version() -> str:
    import stepmap

    return stepmap.__version__


def _section(part: Section) -> str:
    text = f"<p>{escape(part.text)}</p>\n" if part.text else ""
    pictures = "".join(_picture(picture) for picture in part.pictures)
    title = f"<summary>{escape(part.settings_title)}</summary>"
    settings = f"<details>{title}{_table(part.settings)}</details>\n" if part.settings else ""
    tables = (_table(part.figures) if part.figures else "") + (_grid(part.grid) if part.grid else "")
    verbatim = f"<pre>{escape(part.verbatim)}</pre>\n" if part.verbatim else ""
    inside = f"{text}{_bars(part.bars)}{_drawings(part.drawings)}{tables}{settings}{verbatim}{pictures}"
    if part.folded:
        heading = f"<summary><h2>{escape(part.heading)}</h2></summary>"
        return f'<section class="folded">\n<details>{heading}\n{inside}</details>\n</section>\n'
    return f"<section>\n<h2>{escape(part.heading)}</h2>\n{inside}</section>\n"


def _bars(bars: Sequence[Bar]) -> str:
    if not bars:
        return ""
    lines = "".join(
        f'<div><span>{escape(bar.name)}</span><meter min="0" max="1" high="0.9" value="{bar.part:.4f}">'
        f"{bar.part:.0%}</meter><small>{escape(bar.text)}</small></div>"
        for bar in bars
    )
    return f'<div class="bars">{lines}</div>\n'


def _drawings(drawings: Sequence[Drawing]) -> str:
    if not drawings:
        return ""
    made = "".join(f"<figure>{d.svg}<figcaption>{escape(d.caption)}</figcaption></figure>\n" for d in drawings)
    return f'<div class="drawings">{made}</div>\n'


def _table(rows: Sequence[tuple[str, str]]) -> str:
    lines = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f'<div class="wide"><table>{lines}</table></div>\n'


def _grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in grid.headings)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in grid.rows)
    return f'<div class="wide"><table class="grid"><tr>{head}</tr>{rows}</table></div>\n'


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.svg).decode()
    caption = escape(picture.caption)
    image = f'<img alt="{caption}" src="data:image/{picture.form};base64,{data}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>\n"
