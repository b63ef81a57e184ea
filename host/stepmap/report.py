"""Reports: one HTML file that holds its pictures and asks nothing of the network."""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version

import numpy as np

from stepmap.mechanics.constraints import Distance
from stepmap.simulation import Simulation

STYLE = """
:root { color-scheme: light dark;
  --ink: #262b33; --soft: #667080; --line: #e3e6ea; --paper: #fff; --ground: #f5f6f8; --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --soft: #9aa4b2; --line: #333a44; --paper: #1c2128; --ground: #13171c; --accent: #56b4e9; }
  figure img { background: #fff; border-radius: 6px; padding: .5rem; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 0 0 .6rem; }
p { margin: .4rem 0 1rem; max-width: 46rem; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 1.4rem 1.5rem;
  margin: 1.5rem 0; }
figure { margin: 1.2rem 0 0; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption, footer, th { color: var(--soft); font-size: .87rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; margin: .4rem 0 1rem; }
th, td { text-align: left; padding: .28rem 1.6rem .28rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 500; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; min-width: 4rem; }
.grid td { white-space: nowrap; padding-right: 1rem; }
@media (max-width: 40rem) {
  table:not(.grid) :is(th, td) { display: block; padding-right: 0; }
  table:not(.grid) th { border-bottom: 0; padding-bottom: 0; }
  table:not(.grid) td { padding-top: 0; }
}
code { font: .87em ui-monospace, monospace; }
summary { cursor: pointer; color: var(--accent); font-size: .92rem; }
"""


@dataclass(frozen=True)
class Picture:
    """An SVG file and what it shows."""

    caption: str
    svg: bytes


@dataclass(frozen=True)
class Grid:
    """A table with headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


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


def key_figures(simulation: Simulation) -> list[tuple[str, str]]:
    """(name, value) of what tells a good simulation from a bad one."""
    trajectory, step = simulation.trajectory, simulation.step
    length = f"{trajectory.t[-1]:g} s in {trajectory.steps} steps of {step.dt:.6g} s"
    rows = [("simulated", length), _energy(simulation)]
    if step.nc:
        rows.append(("largest constraint gap", f"{np.abs(simulation.violations).max():.2g} m"))
        rows.append(("constraint forces", constraint_forces(simulation)))
    if simulation.system.gap_names:
        rows.append(("events", _events(simulation)))
    if simulation.seconds is not None:
        each = simulation.seconds / trajectory.steps
        rows.append(("computing time", f"{1e6 * each:.3g} µs per step, {step.dt / each:,.0f} times real time"))
    return rows


def constraint_forces(simulation: Simulation) -> str:
    """Their range, and which strings would be slack: distances push as well as pull, strings cannot."""
    forces, system = simulation.multipliers, simulation.system
    strings = {label for c in system.constraints if isinstance(c, Distance) for label in c.labels}
    pushed = [name for k, name in enumerate(system.constraint_names) if name in strings and forces[:, k].min() < 0]
    slack = f"; below 0 a string would be slack: {', '.join(pushed)}" if pushed else ""
    return f"{forces.min():.3g} to {forces.max():.3g} N{slack}"


def _events(simulation: Simulation) -> str:
    kinds = [event.kind for event in simulation.trajectory.events]
    counts = [(kinds.count(kind), kind) for kind in ("impact", "release")]
    told = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for count, kind in counts)
    return f"{told}; {simulation.lost:.3g} J lost at impacts"


def _energy(simulation: Simulation) -> tuple[str, str]:
    drift, scale = simulation.energy_drift, float(simulation.kinetic.max())
    part = f" ({100 * drift / scale:.2g} % of the largest kinetic energy)" if scale > 0 else ""
    if simulation.conservative and simulation.trajectory.events:
        drift = abs(float(simulation.energy[-1] - simulation.energy[0]) + simulation.lost)
        return "energy drift", f"{drift:.2g} J beside what impacts took"
    if simulation.conservative:
        return "energy drift", f"{drift:.2g} J{part}"
    return "energy change", f"{drift:.3g} J at most; forces or moved coordinates do work"


def section(heading: str, text: str, simulation: Simulation, moves: Mapping[str, str] | None = None) -> Section:
    """A simulation as a part of a report: key figures, pictures, settings."""
    from stepmap import plots  # matplotlib takes longer to load than a small simulation to run

    drawn = [
        ("The motion; poses evenly spaced in time.", plots.motion(simulation)),
        ("Coordinates over time.", plots.coordinates(simulation)),
        ("Energy; potential and total energy relative to the start.", plots.energy(simulation)),
    ]
    if simulation.step.nc:
        drawn.append(("Constraint forces, positive when they pull.", plots.forces(simulation)))
    pictures = [Picture(caption, plots.render(figure, "svg")) for caption, figure in drawn]
    settings = [(p.name, f"{p.value:g} {p.unit}".strip()) for p in simulation.system.parameters]
    settings += [(name, f"= {formula}") for name, formula in (moves or {}).items()]
    return Section(heading, text, key_figures(simulation), pictures, settings)


def page(title: str, sections: Iterable[Section], introduction: str = "") -> str:
    """A whole HTML page."""
    body = "".join(_section(part) for part in sections)
    lead = f"<p>{escape(introduction)}</p>" if introduction else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{lead}\n{body}<footer>{escape(made_with())}</footer>\n</main>\n</body>\n</html>\n"
    )


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
    return f"<section>\n<h2>{escape(part.heading)}</h2>\n{text}{tables}{settings}{pictures}</section>\n"


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
    image = f'<img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>\n"
