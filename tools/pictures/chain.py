"""docs/images/chain-*.svg: from a model to a run, six boxes with a thumbnail and a command each.

``python -m tools.pictures.chain`` draws them from the main job: its optimum, a simulated filter, its generated code and
``build/figures/fig2.json``, which ``stepmap figure fig2`` makes from a run of the bench. The measurements of the filter
have eight times the noise of the job, so that they can be seen at this size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stepmap import jobs
from tools.pictures.packages import ROOT
from tools.pictures.svg import MONO, PALETTES, Drawing, Palette

JOB = ROOT / "examples" / "suspended_mass.toml"
CODE = ROOT / "firmware" / "generated" / "suspended_mass" / "controller.c"
RUN = ROOT / "build" / "figures" / "fig2.json"
WIDTH, HEIGHT, THUMB = 184, 200, 104
Point = tuple[float, float]


@dataclass(frozen=True)
class Data:
    """What the thumbnails show."""

    plan: np.ndarray  # xm, ym, xr over time
    measured: np.ndarray  # xm, ym
    estimated: np.ndarray
    code: list[str]
    time: np.ndarray
    opened: np.ndarray  # distance from the reference [m]
    closed: np.ndarray


def data() -> Data:
    job = jobs.load(JOB)
    plan = job.solve().require().trajectory
    ekf, belief, rng = job.ekf(), job.belief(), np.random.default_rng(1)
    assert job.noise is not None
    measured, estimated = [], []
    for k in range(60):
        z = job.system.readings(plan.x[k + 1, :4]) + 8 * job.noise.measurement * rng.standard_normal(4)
        belief, _ = ekf.update(ekf.predict(belief, plan.u[k]), z)
        measured.append(z[:2])
        estimated.append(belief.x[:2])
    feedback = re.search(r"^void sm_state_feedback\(.*?^}", CODE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert feedback is not None
    code = [line.strip() for line in feedback[0].splitlines() if "sm_mul" in line][:6]
    rows = json.loads(RUN.read_text(encoding="utf-8"))
    wanted = np.array([[row["reference_xm"], row["reference_ym"]] for row in rows])
    far = {
        trial: np.linalg.norm(np.array([[row[f"{trial}_xm"], row[f"{trial}_ym"]] for row in rows]) - wanted, axis=1)
        for trial in ("open_loop", "closed_loop")
    }
    time = np.array([row["time"] for row in rows])
    return Data(
        plan.x[:, :3], np.array(measured), np.array(estimated), code, time, far["open_loop"], far["closed_loop"]
    )


def _fit(points: np.ndarray, x: float, y: float, *, equal: bool = True) -> Callable[[np.ndarray], list[Point]]:
    """From coordinates to pixels of a thumbnail whose corner is (x, y)."""
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    room = np.array([WIDTH - 36, THUMB - 16])
    scale = np.full(2, (room / span).min()) if equal else room / span
    margin = (np.array([WIDTH, THUMB]) - scale * span) / 2
    return lambda some: [
        (x + margin[0] + scale[0] * (a - low[0]), y + THUMB - margin[1] - scale[1] * (b - low[1])) for a, b in some
    ]


def model(d: Drawing, x: float, y: float, shown: Data) -> None:
    p = d.palette
    rail, robot, mass = y + 22, x + 112, (x + 68, y + 88)
    d.line([(x + 20, rail), (x + WIDTH - 20, rail)], width=2)
    d.line([(robot, rail), mass], color=p.blue, width=2)
    d.box(robot - 14, rail - 8, 28, 16, fill=p.ink, edge=p.ink)
    d.dot(*mass, 10, p.orange)
    d.text(robot + 2, rail + 40, "r", 13, color=p.faint)


def trajectory(d: Drawing, x: float, y: float, shown: Data) -> None:
    robot = np.column_stack([shown.plan[:, 2], np.full(len(shown.plan), 0.55)])
    to = _fit(np.vstack([shown.plan[:, :2], robot]), x, y)
    d.line(to(shown.plan[:, :2]), color=d.palette.blue, width=2)
    d.line(to(robot), width=1.5)
    for k in (40, 95, 150, 205):
        mass, above = to(np.vstack([shown.plan[k, :2], robot[k]]))
        d.line([mass, above], width=1)
        d.dot(*mass, 4, d.palette.orange)


def estimation(d: Drawing, x: float, y: float, shown: Data) -> None:
    to = _fit(np.vstack([shown.measured, shown.estimated]), x, y, equal=False)
    for point in to(shown.measured):
        d.dot(*point, 2, d.palette.faint)
    d.line(to(shown.estimated), color=d.palette.blue, width=2)


def code(d: Drawing, x: float, y: float, shown: Data) -> None:
    for i, line in enumerate(shown.code):
        d.text(x + 12, y + 20 + 15 * i, line[:29], 9, font=MONO, color=d.palette.green)


def board(d: Drawing, x: float, y: float, shown: Data) -> None:
    p = d.palette
    left, top, size = x + WIDTH / 2 - 34, y + 18, 68
    for i in range(6):
        at = top + 9 + 10 * i
        d.line([(left - 10, at), (left + size + 10, at)], width=3)
        d.line([(left + 9 + 10 * i, top - 10), (left + 9 + 10 * i, top + size + 10)], width=3)
    d.box(left, top, size, size, fill=p.ink, edge=p.ink)
    d.text(left + size / 2, top + 32, "STM32", 12, color=p.page, bold=True, anchor="middle")
    d.text(left + size / 2, top + 48, "F405", 11, color=p.page, anchor="middle")


def run(d: Drawing, x: float, y: float, shown: Data) -> None:
    p = d.palette
    both = np.vstack([np.column_stack([shown.time, shown.opened]), [[shown.time[0], 0.0]]])
    to = _fit(both, x, y, equal=False)
    d.line(to(np.array([[shown.time[0], 0.0], [shown.time[-1], 0.0]])), width=1)
    d.line(to(np.column_stack([shown.time, shown.opened])), color=p.orange, width=1.5)
    d.line(to(np.column_stack([shown.time, shown.closed])), color=p.blue, width=2)


BOXES: tuple[tuple[str, str, Callable[[Drawing, float, float, Data], None]], ...] = (
    ("model", "stepmap simulate", model),
    ("trajectory", "stepmap optimize", trajectory),
    ("filter + feedback", "stepmap ranges", estimation),
    ("fixed-point C", "stepmap generate", code),
    ("board", "stepmap flash", board),
    ("run", "stepmap bench", run),
)
TITLE = "From a model to a run: " + ", ".join(f"{name} ({command})" for name, command, _ in BOXES)


def _box(d: Drawing, x: float, y: float, number: int, shown: Data) -> None:
    name, command, thumbnail = BOXES[number]
    d.box(x, y, WIDTH, HEIGHT)
    d.text(x + WIDTH / 2, y + 26, name, 15, bold=True, anchor="middle")
    d.box(x + 8, y + 40, WIDTH - 16, THUMB + 12, fill=d.palette.page)
    thumbnail(d, x, y + 46, shown)
    d.text(x + WIDTH / 2, y + HEIGHT - 18, command, 12, font=MONO, anchor="middle", color=d.palette.blue)


def draw(palette: Palette, columns: int, shown: Data) -> Drawing:
    """Boxes in rows of so many columns, read like a text."""
    gap, rows = 20, len(BOXES) // columns
    d = Drawing(columns * (WIDTH + gap) - gap + 2, rows * (HEIGHT + gap) - gap + 2, TITLE, palette)
    places: Sequence[Point] = [
        (1 + (i % columns) * (WIDTH + gap), 1 + (i // columns) * (HEIGHT + gap)) for i in range(len(BOXES))
    ]
    for i, (x, y) in enumerate(places):
        _box(d, x, y, i, shown)
        if (i + 1) % columns:
            d.arrow((x + WIDTH, y + HEIGHT / 2), (x + WIDTH + gap, y + HEIGHT / 2))
    return d


if __name__ == "__main__":
    shown = data()
    for theme, palette in PALETTES.items():
        (ROOT / "docs" / "images" / f"chain-{theme}.svg").write_text(draw(palette, 6, shown).svg(), encoding="utf-8")
        (ROOT / "docs" / "images" / f"chain-narrow-{theme}.svg").write_text(
            draw(palette, 2, shown).svg(), encoding="utf-8"
        )
