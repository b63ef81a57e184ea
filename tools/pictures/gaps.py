"""Draws docs/images/gaps.png, the motions of the catalog's systems with strings and contacts:
``python -m tools.pictures.gaps``."""

from __future__ import annotations

import io
from collections import Counter

from matplotlib.figure import Figure
from PIL import Image

import stepmap as sm
from stepmap import plots
from stepmap.files import write_whole
from stepmap.formula import parse
from stepmap.plots.motion import Motion, draw_motion
from stepmap.plots.style import blank, styled
from stepmap.simulation import Simulation, simulate, start_pose
from tools.pictures.packages import ROOT

SHOWN = {  # seconds, what moves, and columns of the picture, of five per row
    "suspended_mass_string": (1.2, {"r": "1 - 0.25*sin(9*t)"}, 1),
    "planar_arm_string": (0.8, {}, 1),
    "ball_on_slope": (1.2, {}, 1),
    "marionette_strings": (1.5, {}, 2),
    "wall_pendulum": (1.2, {}, 1),
    "rocking_wedge": (0.5, {}, 1),
    "rimless_wheel": (1.6, {}, 2),
    "compass_walker": (0.7, {}, 1),
}


def motion(name: str) -> Simulation:
    """The system from its example pose, with its inputs held but for those that move."""
    seconds, formulas, _ = SHOWN[name]
    system = sm.systems.get(name)
    moves = {moved: parse(text) for moved, text in formulas.items()}
    pose = start_pose(system, sm.systems.example(name), moves=moves, firm=False)
    step = sm.discretize(system, 0.01)
    return simulate(step, round(seconds / step.dt), pose, moves)


def gallery() -> Figure:
    """All of them, with what happened."""
    with styled():
        figure = blank(13.0, 5.6)
        grid, begin = figure.add_gridspec(2, 5), 0
        for name, (_, _, width) in SHOWN.items():
            found = motion(name)
            row, column = divmod(begin, 5)
            axes = draw_motion(figure, grid[row, column : column + width], Motion.simulated(found))
            counts = Counter(event.kind for event in found.trajectory.events)
            told = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items()]
            axes.set_title("\n".join([name, ", ".join(told)]), fontsize=8)
            begin += width
    return figure


def small(png: bytes) -> bytes:
    """The picture in 64 colours, a third of its size."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(64).save(out, "png", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    write_whole(ROOT / "docs" / "images" / "gaps.png", small(plots.render(gallery(), "png")))
