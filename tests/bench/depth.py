"""What the Kinect path costs and how well it measures.

    python tests/bench/depth.py                     writes build/bench/depth.json
    python tests/bench/depth.py --picture FILE      draws a frame and what is found in it, as a PNG file

The file is a list of rows {what, frames_per_s, bias_mm, sigma_mm}, null where it does not apply; what is one of

    render            a frame with noise, CPU time of one core
    render_person     the same with a person before it, a third of the image
    read              a reading from a frame, CPU time; bias and sigma of the worst channel
    read.<channel>    bias and standard deviation of a channel over a motion 1.5 m from the camera
    driver            a frame through libfreenect (fakenect) in lock-step, wall time
    loop              render, driver and read, one after the other, wall time
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

from stepmap.files import write_whole  # noqa: E402
from stepmap.plots.style import render  # noqa: E402
from stepmap_hil.depth import CHANNELS, Box, FakeKinect  # noqa: E402
from stepmap_hil.depth.tracking import picture  # noqa: E402
from tests.hil.depth_kit import motion, renderer, tracker, truth  # noqa: E402

OUTPUT = ROOT / "build" / "bench" / "depth.json"
FRAMES = 600
PERSON = Box((0.0, 0.4, 0.5), (0.5, 1.7, 0.25))
GOALS = {"read": 60.0, "render": 60.0}
Row = dict[str, str | float | None]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the Kinect path.")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw a frame instead")
    options = parser.parse_args()
    if options.picture:
        write_whole(options.picture, render(example(), "png"))
        return
    rows = measure()
    write_whole(OUTPUT, json.dumps(rows, indent=1) + "\n")
    Console().print(table(rows))


def example() -> Figure:
    """A frame of the motion, drawn."""
    frame = renderer().render(*motion(14), number=14)
    return picture.draw(frame, tracker().read(frame), renderer().camera, renderer().scene)


def measure() -> list[Row]:
    tracker()  # learned before the clock runs
    frames = [renderer().render(*motion(k), number=k) for k in range(FRAMES)]
    rows = [
        row("render", rate(lambda k: renderer().render(*motion(k), number=k), time.process_time, 200)),
        row(
            "render_person",
            rate(lambda k: renderer().render(*motion(k), occluders=[PERSON], number=k), time.process_time, 40),
        ),
    ]
    errors = np.array([tracker().read(frame).z - truth(*motion(k)) for k, frame in enumerate(frames)])
    bias, sigma = 1e3 * np.nanmean(errors, axis=0), 1e3 * np.nanstd(errors, axis=0)
    speed = rate(lambda k: tracker().read(frames[k]), time.process_time, FRAMES)
    rows.append(row("read", speed, float(np.abs(bias).max()), float(sigma.max())))
    rows += [row(f"read.{name}", None, float(bias[i]), float(sigma[i])) for i, name in enumerate(CHANNELS)]
    with FakeKinect() as kinect:
        rows.append(row("driver", rate(lambda k: kinect.show(frames[k], k), time.perf_counter, FRAMES)))
        rows.append(
            row(
                "loop",
                rate(
                    lambda k: tracker().read(kinect.show(renderer().render(*motion(k), number=k), k).depth),
                    time.perf_counter,
                    200,
                ),
            )
        )
    return rows


def rate(work: Callable[[int], object], clock: Callable[[], float], n: int) -> float:
    """Calls a second over n calls."""
    begun = clock()
    for k in range(n):
        work(k)
    return n / (clock() - begun)


def row(what: str, speed: float | None, bias: float | None = None, sigma: float | None = None) -> Row:
    numbers = (None if value is None else round(value, 3) for value in (speed, bias, sigma))
    return dict(zip(("what", "frames_per_s", "bias_mm", "sigma_mm"), (what, *numbers), strict=True))


def table(rows: list[Row]) -> Table:
    out = Table("what", "frames/s", "goal", "bias [mm]", "σ [mm]")
    for entry in rows:
        what, *numbers = entry.values()
        speed, bias, sigma = ("" if value is None else f"{value:.4g}" for value in numbers)
        out.add_row(str(what), speed, f"{GOALS[str(what)]:g}" if str(what) in GOALS else "", bias, sigma)
    return out


if __name__ == "__main__":
    main()
