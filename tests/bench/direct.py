"""Direct optimal control, measured: CPU seconds of the solver, without compiling, and iterations on each grid.

    python tests/bench/direct.py

Each problem with compiled stages first; beside it CasADi's virtual machine and fatrop, where these take it.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

import stepmap as sm
from tests.unit.test_direct_balls import FLIGHT, helicopter

SWING: Any = {"goal": {"x": 0.0, "theta": math.pi}, "running": "force**2/1000"}
WAYS: dict[str, Any] = {"compiled": {}, "virtual machine": {"compiled": False}, "fatrop": {"solver": "fatrop"}}


def canyon() -> sm.Heightmap:
    """A winding gorge, 3 m wide at its floor, with rough walls."""
    x, y = np.linspace(-4.0, 34.0, 77), np.linspace(-9.0, 9.0, 37)
    X, Y = np.meshgrid(x, y, indexing="ij")
    away = np.abs(Y - 3.0 * np.sin(X / 5.0))
    walls = 8.0 / (1.0 + np.exp(-2.0 * (away - 3.0)))
    return sm.Heightmap(x, y, walls + 0.15 * np.sin(2.3 * X) * np.cos(1.7 * Y), spacing=0.5)


def problems() -> dict[str, tuple[sm.System, dict[str, Any], float | None]]:
    """By name: system, task, and the CPU seconds that it may take."""
    cart, craft = sm.systems.get("cart_pendulum"), helicopter()
    found: dict[str, tuple[sm.System, dict[str, Any], float | None]] = {
        "cart swing-up, N 200": (cart, {"steps": 200, "time": 2.0, **SWING}, 1.0),
        "the same within 0.8 m": (cart, {"steps": 200, "time": 3.0, "limits": {"x": (-0.8, 0.8)}, **SWING}, None),
        "the same, free time": (
            cart,
            {"steps": 200, "time": (1.0, 4.0), **SWING, "running": "1 + force**2/1000"},
            None,
        ),
    }
    for steps, limit in ((32, 0.5), (64, 1.0), (256, 3.0)):
        found[f"helicopter, N {steps}"] = craft, {"steps": steps, "time": 4.0, **FLIGHT}, limit
        timed = FLIGHT | {"running": f"1 + {FLIGHT['running']}"}
        found[f"helicopter, free time, N {steps}"] = craft, {"steps": steps, "time": (2.0, 8.0), **timed}, limit
    through = {
        "steps": 64,
        "time": (5.0, 10.0),
        "start": {"body": (0, 0, 2.5, 1, 0, 0, 0)},
        "goal": {"body": (28, 3 * math.sin(28 / 5), 2.5, 1, 0, 0, 0)},
        "running": f"1000*({FLIGHT['running']})",  # the barrier begins at 0.1: costs below that are slow
        "clear": [sm.Clearance("body", [sm.Sphere((0.7 * i, 0, 0), 0.5) for i in (-1, 0, 1)], canyon(), margin=0.2)],
    }
    found["canyon, free time, N 64"] = craft, through, 3.0
    return found


def main() -> None:
    print(f"{'':34} {'way':16} {'CPU s':>7} {'limit':>6}  iterations, cost, time, off its map")
    for name, (system, task, limit) in problems().items():
        for way, options in WAYS.items():
            if "clear" in task and way != "compiled":
                continue
            sm.direct(system, **task, **options, max_iterations=1)  # compiles
            one = sm.direct(system, **task, **options)
            path, step = one.trajectory, one.step
            ends = [step.step(x, u).x for x, u in zip(path.x[:-1], path.u, strict=True)]
            off = max(np.abs(step.layout.difference(a, b)).max() for a, b in zip(ends, path.x[1:], strict=True))
            wanted = f"{limit:6.1f}" if limit is not None and way == "compiled" else " " * 6
            grids = "+".join(map(str, one.searched.iterations))
            status = "" if one.status.ok else f"  {one.status.name}"
            told = f"{grids}, {one.cost:.6g}, {one.time:.4g} s, {off:.1e}{status}"
            print(f"{name:34} {way:16} {one.cpu_s:7.2f} {wanted}  {told}", flush=True)


if __name__ == "__main__":
    main()
