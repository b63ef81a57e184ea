"""What ``stepmap tune`` leaves: the sweep as a picture and as numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from stepmap.arrays import Array
from stepmap.files import write_whole
from stepmap.jobs.tuning import Point, Sweep


def write(folder: Path, found: Sweep, chosen: Point, factors: list[float]) -> None:
    """tune.json, tune.png and tune.svg; each is whole or not there."""
    from stepmap import plots  # takes a while to import
    from stepmap.plots.tuning import factor_maps

    folder.mkdir(parents=True, exist_ok=True)
    data = found.data() | {"chosen": {"state_factor": chosen.state_factor, "speed_factor": chosen.speed_factor}}
    write_whole(folder / "tune.json", (json.dumps(data, indent=1) + "\n").encode())

    def values(name: str, scale: float = 1.0) -> Array:
        return np.array([[scale * getattr(point, name) for point in row] for row in found.points])

    short = {"m": ("mm", 1e3), "rad": ("mrad", 1e3)}.get(found.unit, (found.unit, 1.0))
    maps = [
        (f"tracking, {short[0]} RMS".replace(",  RMS", ", RMS"), values("tracking", short[1]), True),
        ("effort of feedback, % of the range", values("effort", 100), True),
        ("roughness of commands, ‰ of the range", values("roughness", 1000), True),
        ("modulus margin at the end", values("margin"), False),
    ]
    marks = [("now", found.present.factors), ("chosen", chosen.factors)]
    figure = factor_maps(factors, factors, maps, values("lost") > 0, marks)
    for form in ("png", "svg"):
        write_whole(folder / f"tune.{form}", plots.render(figure, form))
