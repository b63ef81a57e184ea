"""What the page with a controller needs: its library as WebAssembly, and the plan that it follows as numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from stepmap import jobs
from stepmap.cli import app
from stepmap_codegen.toolchain.wasm import build_wasm
from tools.site import BUILT, ROOT, STAGED

JOB = ROOT / "examples" / "suspended_mass.toml"
TOUCHED = {  # hands move the load, which the job's filter would take for outliers
    "gate = 5.0  # standard deviations\n": "",
    "p = 0.0002   # kg m/s\n": "p = 0.002\n",
}
ROOM = 0.12  # m around what moves


def stage() -> None:
    """assets/mass.wasm and assets/mass.json of the pages."""
    library = BUILT / "library" / "mass"
    job = touched()
    command = ["generate", str(job), "--build", str(BUILT / "jobs"), "--library", str(library), "--prefix", "mass"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    if done.exit_code != 0:
        raise RuntimeError(f"stepmap {' '.join(command)}: {done.output}")
    assets = STAGED / "assets"
    assets.mkdir(parents=True, exist_ok=True)
    build_wasm(library, assets / "mass.wasm")
    (assets / "mass.json").write_text(json.dumps(plan()) + "\n")


def touched() -> Path:
    """The job of the page."""
    text = JOB.read_text()
    for old, new in TOUCHED.items():
        if old not in text:
            raise RuntimeError(f"{JOB} has no {old!r} any more")
        text = text.replace(old, new)
    text += "\n[codegen]\nheadroom = 4  # formats for motions that no simulated run has\n"
    path = BUILT / "jobs" / "touched.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def plan() -> dict[str, object]:
    """Start, path and inputs of the plan, rounded to a hundredth of a millimetre, and the numbers of the plant."""
    job = jobs.load(JOB)
    found = job.solve().require().trajectory
    values = {p.name: p.value for p in job.system.parameters}
    path, robot = found.x[:, :2], found.x[:, 2]
    height = float(values["height"])
    across = np.concatenate([path[:, 0], robot])
    view = [across.min() - ROOM, across.max() + ROOM, path[:, 1].min() - ROOM, height + ROOM / 2]
    return {
        "start": np.round(found.x[0, :4], 6).tolist(),
        "path": np.round(path, 5).tolist(),
        "inputs": np.round(found.u, 5).tolist(),
        "noise": [float(v) for v in job.noise.measurement[:2]],
        "mass": float(values["mass"]),
        "gravity": float(values["gravity"]),
        "height": height,
        "view": np.round(view, 3).tolist(),
    }
