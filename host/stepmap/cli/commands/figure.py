"""``stepmap figure``: a published figure, made anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from stepmap import figures as published
from stepmap.cli.output import Screen, console, figures
from stepmap.errors import ModelError
from stepmap.files import write_whole
from stepmap.report import Picture, Section, page
from stepmap.text import nearest


def figure(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="fig2, fig3, fig4, double_pendulum, cart_pendulum, hand, particles, planner, canyon_flight, "
            "canyon_views, canyon_states, canyon_inputs, wedge_path, wedge_energy, gait_planar, gait_spatial, "
            "gait_designed, design_search, score, imitation, waving_arm.",
        ),
    ],
    recording: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="For fig2 and fig4: a run, as stepmap runs lists them, or an .mcap file. [default: the latest of the "
            "main job]",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files go.")] = Path("build/figures"),
) -> None:
    """Make a published figure: PNG, SVG, GIF where it moves, numbers as JSON, a page that says what was assumed."""
    if name not in published.names():
        raise ModelError(f"no figure is called {name!r}", hint=nearest(name, published.names()))
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
        console=Screen(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(name, total=1.0)
        made = published.make(name, lambda part, text: bar.update(task, completed=part, description=text), recording)
    _write(name, made, out)
    console().print(figures(made.key_figures, title=f"{made.source}: {made.title}"))
    console().print(f"page: {out / f'{name}.html'}")


def _write(name: str, made: published.Published, out: Path) -> None:
    """PNG, SVG, GIF, JSON and the page."""
    from stepmap import plots

    picture = plots.render(made.figure, "svg")
    write_whole(out / f"{name}.png", plots.render(made.figure, "png"))
    write_whole(out / f"{name}.svg", picture)
    write_whole(out / f"{name}.json", json.dumps(list(made.rows), indent=1) + "\n")
    pictures = [Picture(made.caption, picture)]
    if made.animation:
        write_whole(out / f"{name}.gif", made.animation)
        pictures.append(Picture("The same in motion.", made.animation, "gif"))
    part = Section(
        made.title,
        f"After {made.source}.",
        made.key_figures,
        pictures,
        [(f"assumption {i}", text) for i, text in enumerate(made.assumptions, start=1)],
    )
    write_whole(out / f"{name}.html", page(f"{made.source}", [part]))
