"""``stepmap simulate``: a system, moved by formulas of time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import stepmap
from stepmap import systems
from stepmap.cli.commands import options
from stepmap.cli.output import complain, console, figures, working
from stepmap.descriptions import read as descriptions
from stepmap.files import write_whole
from stepmap.formula import Formula
from stepmap.report import key_figures
from stepmap.simulation import Simulation, require_movable, start_pose
from stepmap.simulation import simulate as run

PICTURES = ("png", "svg", "pdf")


def simulate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SYSTEM",
            help="A system of the catalog (see: stepmap systems), or a Python file, URDF or MJCF (.xml) with one.",
        ),
    ],
    dt: Annotated[float, typer.Option(metavar="SECONDS", help="Time step [s].")] = 0.01,
    steps: Annotated[int, typer.Option(metavar="N", help="Number of steps.")] = 500,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An argument of the system: --set mass=0.2. Repeatable."),
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A coordinate at the start: --start theta=pi/2. Repeatable."),
    ] = None,
    move: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FORMULA",
            help='A kinematic coordinate or an input over time t: --move "xr=0.1*sin(3*t)". Repeatable.',
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a picture, by its name a .png, .svg or .pdf.")
    ] = None,
    json_: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all numbers as JSON.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with pictures (HTML).")] = None,
) -> None:
    """Simulate a system from rest and say how well energy and constraints were kept.

    It starts at the system's example pose, or at --start, put on the constraints. Inputs are held: forces at zero,
    kinematic coordinates where they start, except what --move names.
    """
    form = options.picture_format("--plot", plot, PICTURES) if plot else None
    arguments = options.arguments(name, set_ or [])
    texts = options.pairs("--move", move or [], '"xr=0.1*sin(3*t)"')
    moves = options.formulas("--move", texts)
    wanted = options.numbers("--start", start or [], "theta=1.0")
    simulation = _simulation(name, arguments, dt, steps, wanted, moves)
    if plot and form:
        _write_picture(simulation, plot, form)
    if json_:
        write_whole(json_, document(simulation, arguments, texts))
    if report:
        _write_report(simulation, texts, report)
    _print(simulation, [path for path in (plot, json_, report) if path])


def _simulation(
    name: str,
    arguments: Mapping[str, Any],
    dt: float,
    steps: int,
    wanted: Mapping[str, float],
    moves: Mapping[str, Formula],
) -> Simulation:
    make = options.maker(name)
    systems.files.require_arguments(make, arguments, f"{make.__name__}()")
    system = make(**arguments)
    if system.left_out:
        complain(descriptions.left_out(name, system), kind="warning")
    for moved in moves:
        require_movable(system, moved)
    pose = start_pose(system, wanted or systems.files.example(make), moves=moves, firm=bool(wanted))
    with working(f"building {name}"):
        step = stepmap.discretize(system, dt)
    with working(f"simulating {name}"):
        return run(step, steps, pose, moves)


def document(simulation: Simulation, arguments: Mapping[str, Any], moves: Mapping[str, str]) -> str:
    """The simulation as JSON text, with what it was asked for."""
    asked = {"stepmap": stepmap.__version__, "arguments": dict(arguments), "moves": dict(moves)}
    return json.dumps({**simulation.document(), **asked}, allow_nan=False, ensure_ascii=False) + "\n"


def _write_picture(simulation: Simulation, path: Path, form: str) -> None:
    with working("drawing"):
        from stepmap import plots

        write_whole(path, plots.render(plots.overview(simulation), form))


def _write_report(simulation: Simulation, moves: Mapping[str, str], path: Path) -> None:
    with working("drawing"):
        from stepmap.report import page, section

        title = simulation.system.name.replace("_", " ")
        write_whole(path, page(f"Simulation of the {title}", [section(title, "", simulation, moves)]))


def _print(simulation: Simulation, written: list[Path]) -> None:
    rows = key_figures(simulation) + [("written", str(path)) for path in written]
    console().print(figures(rows, title=simulation.system.name))
