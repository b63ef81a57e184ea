"""``stepmap demo``: two systems of the papers, simulated and drawn, and one of them optimized.

With ``--live`` the latter runs on a board, on a page in the browser.
"""

from __future__ import annotations

import ctypes.util
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import stepmap
from stepmap import jobs, systems
from stepmap.cli import plugins
from stepmap.cli.output import complain, console, figures, working
from stepmap.errors import ToolchainError
from stepmap.files import write_whole
from stepmap.formula import parse
from stepmap.jobs import optimize as optimum
from stepmap.mechanics import System
from stepmap.report import Section, key_figures, page, section
from stepmap.simulation import Simulation, simulate, start_pose
from stepmap.systems.marionette import STRINGS

INTRODUCTION = (
    "Two mechanisms from the literature, each described once as a tree of frames and moved by its one-step "
    "variational map in generated C. Kinematic coordinates, the robots and the strings they wind, follow formulas of "
    "time; everything else follows from mechanics. For the first the question is also turned around: how has the "
    "robot to move so that the mass follows a given path?"
)
JOB = Path(__file__).with_name("demo.toml")
OPTIMUM = (
    "The mass draws a figure of eight and comes to rest at its tip",
    "The job examples/suspended_mass.toml. The reference, a mass that follows the figure with the robot straight above "
    "it, is no motion the system can make; the optimal trajectory is the feasible one nearest to it. Newton's method "
    "with exact second derivatives of the step map finds it in a few iterations.",
)


@dataclass(frozen=True)
class Scene:
    """A system of the catalog and how its inputs move."""

    system: str
    heading: str
    text: str
    dt: float
    steps: int


SUSPENDED = Scene(
    "suspended_mass",
    "A mass under a driving robot",
    "A robot drives along a rail and winds the string that carries a mass of 0.1 kg (Schultz & Murphey, III-A). The "
    "time step is 1/30 s, the frame time of a Kinect.",
    1 / 30,
    180,
)
MARIONETTE = Scene(
    "marionette",
    "A marionette that walks and waves",
    "22 dynamic and 18 kinematic coordinates on six strings (after Murphey & Johnson, Fig. 2). Six robots walk it "
    "forward and lift its legs in turn; its right arm waves.",
    0.01,
    600,
)


def suspended_moves(system: System) -> dict[str, str]:
    """The robot drives to and fro and winds its string; both start gently."""
    return {"xr": "0.3*sin(2*t)*(1-exp(-t))", "r": "1+0.2*sin(1.3*t)*(1-exp(-t))"}


def marionette_moves(system: System) -> dict[str, str]:
    """All robots walk along y; leg strings shorten in turn, the right arm is lifted in front of the body and waves."""
    start = {c.name: c.start for c in system.kinematic}
    gently, forward = "(1-exp(-t**2))", "0.25*(t-tanh(t))"
    added = {f"{string}_string-y": forward for string in STRINGS} | {
        "right_arm_string-x": f"0.2*{gently}",
        "right_arm_string-y": f"{forward}+0.25*{gently}",
        "right_arm_string-length": f"{gently}*(0.11*sin(4.6*t)-0.36)",
        "left_arm_string-length": f"0.06*{gently}*cos(4*t)",
        "left_leg_string-length": f"0.18*{gently}*cos(4*t)",
        "right_leg_string-length": f"-0.18*{gently}*cos(4*t)",
    }
    return {name: f"{start[name]:.6g}+{formula}".replace("+-", "-") for name, formula in added.items()}


MOVES = {SUSPENDED.system: suspended_moves, MARIONETTE.system: marionette_moves}


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where pictures and report go.")] = Path("build/demo"),
    live: Annotated[
        bool, typer.Option("--live", help="Let a board move the mass, and show that on a page in your browser.")
    ] = False,
) -> None:
    """Simulate a suspended mass and a marionette, optimize the former; leave pictures and a report.

    With --live, optimize the former, generate and build its firmware, and let an emulated STM32F405, or a process of
    this computer where QEMU or a compiler for it is missing, move the mass along a figure of eight. A page in the
    browser shows it, and shows it again until Ctrl-C.
    """
    if live:
        _live()
        return
    sections = [_scene(SUSPENDED, out), _optimum(out), _scene(MARIONETTE, out)]
    path = out / "report.html"
    write_whole(path, page("What stepmap does", sections, INTRODUCTION))
    console().print(f"report: {path}")


def _live() -> None:
    """The job of the optimum on a board, watched by a Kinect where its driver is there."""
    sensor = "kinect" if ctypes.util.find_library("freenect") else "gaussian"
    words = [str(JOB), "--live", "--no-open-loop", "--sensor", sensor]
    try:
        _bench(*words, "--board", "stm32f405")
    except ToolchainError as error:
        if shutil.which(error.command):  # not missing: it failed
            raise
        complain(f"{str(error).splitlines()[0]}; a process of this computer stands in", hint=error.hint, kind="note")
        _bench(*words, "--board", "native")


def _bench(*words: str) -> None:
    """Runs ``stepmap bench``, which belongs to a package above this one."""
    bench = plugins.command("bench")
    with bench.make_context("bench", list(words)) as context:
        bench.invoke(context)


def _scene(scene: Scene, out: Path) -> Section:
    system = systems.get(scene.system)
    moves = MOVES[scene.system](system)
    simulation = play(scene, system, moves)
    console().print(figures(key_figures(simulation), title=scene.heading))
    console().print()
    return _draw(scene, simulation, moves, out)


def play(scene: Scene, system: System, moves: Mapping[str, str]) -> Simulation:
    """The scene's simulation."""
    formulas = {name: parse(text) for name, text in moves.items()}
    pose = start_pose(system, {}, moves=formulas, firm=False)
    with working(f"building {scene.system}"):
        step = stepmap.discretize(system, scene.dt)
    return simulate(step, scene.steps, pose, formulas)


def _draw(scene: Scene, simulation: Simulation, moves: Mapping[str, str], out: Path) -> Section:
    with working(f"drawing {scene.system}"):
        from stepmap import plots

        for name, figure in (("motion", plots.motion(simulation)), ("overview", plots.overview(simulation))):
            for form in ("png", "svg"):
                write_whole(out / f"{scene.system}_{name}.{form}", plots.render(figure, form))
        return section(scene.heading, scene.text, simulation, moves)


def _optimum(out: Path) -> Section:
    """The part on optimization; the path is also a picture of its own."""
    job = jobs.load(JOB)
    with working(f"building {job.system.name}"):
        job.build()
    begin = time.process_time()
    solution = job.solve()
    rows = optimum.key_figures(job, solution, time.process_time() - begin)
    heading, text = OPTIMUM
    console().print(figures(rows, title=heading))
    console().print()
    with working("drawing the optimum"):
        drawn = optimum.draw(job, solution)
        for name, content in optimum.render({"path": drawn["path"]}).items():
            write_whole(out / f"{job.system.name}_optimum_{name}", content)
        return optimum.section(heading, text, rows, drawn)
