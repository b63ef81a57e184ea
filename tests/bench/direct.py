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
from stepmap import jobs
from stepmap.jobs.direct.job import DirectJob
from tests.pages import ROOT
from tests.unit.test_direct_balls import FLIGHT, helicopter

SWING: Any = {"goal": {"x": 0.0, "theta": math.pi}, "running": "force**2/1000"}
WAYS: dict[str, Any] = {"compiled": {}, "virtual machine": {"compiled": False}, "fatrop": {"solver": "fatrop"}}


def canyon() -> dict[str, dict[str, Any]]:
    """The flight of examples/flight/canyon.toml with 64 steps, and changes of its task."""
    job = jobs.load(ROOT / "examples" / "flight" / "canyon.toml")
    assert isinstance(job, DirectJob)
    task = job.task
    given = {name: getattr(task, name) for name in ("steps", "time", "start", "goal", "running", "limits", "clear")}
    turns = [f"v_body.r{axis}" for axis in "xyz"]
    thrift = "1e-3*(lift**2 + yaw**2) + 2*(pitch**2 + roll**2)"
    freely = {name: ends for name, ends in task.limits.items() if name not in turns}
    changes: dict[str, dict[str, Any]] = {
        "canyon, free time, N 64": {},
        "  tilt up to 0.3 rad": {"limits": {**task.limits, "pitch": (-0.3, 0.3), "roll": (-0.3, 0.3)}},
        "  turning up to 2 rad/s": {"limits": {**task.limits, **dict.fromkeys(turns, (-2.0, 2.0))}},
        "  time from 4 to 9 s": {"time": (4.0, 9.0)},
        "  price of turning doubled": {"running": f"{task.running} + {' + '.join(f'{name}**2' for name in turns)}"},
        "  turning free and without price": {"running": thrift, "limits": freely},
        "  N 32": {"steps": 32},
        "  N 256": {"steps": 256},
    }
    return {name: given | change for name, change in changes.items()}


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
    flown = sm.systems.get("helicopter")
    for name, task in canyon().items():
        found[name] = flown, task, 3.0 if task["steps"] == 64 else None
    return found


def main() -> None:
    print(f"{'':34} {'way':16} {'CPU s':>7} {'limit':>6}  iterations, cost, time, off its map")
    for name, (system, task, limit) in problems().items():
        for way, options in WAYS.items():
            if "clear" in task and way == "fatrop":
                continue  # it takes no distance grids
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
