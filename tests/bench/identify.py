"""Identification: what derivatives by parameters cost, how honest sigmas are, and what runs of the firmware teach.

    python tests/bench/identify.py [--draws N] [--docs]

Writes build/bench/identify.json; with --docs the table of docs/identify.md is made from it. Times are CPU times of one
thread, the least of several. Runs are those of the native board with the rendered Kinect, in lock-step. Exit code 1
where a figure misses what is asked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from scipy.optimize import least_squares

import stepmap as sm
from stepmap import jobs
from stepmap.identification.identify import prepare
from stepmap.steps.check import difference
from stepmap.steps.events.kernel import Point
from stepmap_hil.runs.observed import observed
from stepmap_hil.runs.recording import read_run
from tests.mechanisms import case
from tests.recordings import hanging

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "bench" / "identify"
JOB = ROOT / "examples" / "suspended_mass.toml"
PAGE = ROOT / "docs" / "identify.md"
BEGIN, END = "<!-- figures: make bench-identify -->", "<!-- end of figures -->"
DRAG = {"mass": 0.12, "damping": 0.02}
TRUTH = DRAG["damping"] / DRAG["mass"]
Told = tuple[str, str, str, bool]  # what, measured, asked, whether it is so


def least(call: Callable[[], object], times: int = 7) -> float:
    """CPU seconds of a call, the least of several."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        call()
        found.append(time.process_time() - begun)
    return min(found)


def derivatives() -> Iterator[Told]:
    """A, B, T beside A, B, and T beside sixth-order differences."""
    os.environ["STEPMAP_THREADS"] = "1"
    yield from _through_events()
    for name in ("suspended_mass", "cart_pendulum", "marionette"):
        subject = case(name)
        step = sm.discretize(subject.system, 0.01)
        par, n = step.parameter_values, 200 if step.nx > 20 else 4000
        X, U, dt = np.tile(subject.x, (n, 1)), np.tile(subject.u, (n, 1)), np.array([0.01])
        kernel = step.kernel
        kernel.parameters_all(par, dt, X[:2], U[:2], None)
        plain = least(lambda k=kernel, a=(par, dt, X, U): k.linearize_all(*a, None))
        whole = least(lambda k=kernel, a=(par, dt, X, U): k.parameters_all(*a, None))
        yield f"{name}: A, B, T beside A, B", f"{whole / plain:.2f} times", "≤ 1.4", whole <= 1.4 * plain
        yield f"… a step, {len(par)} parameters", f"{1e6 * whole / n:.2f} µs", "", True
        exact = step.sensitivity(subject.x, subject.u)

        def after(values: np.ndarray, s: Any = step, at: Any = subject) -> np.ndarray:
            return np.asarray(s.kernel.step(values, 0.01, at.x, at.u)[1])

        size = np.maximum(np.abs(par), 0.1)
        off = min(np.abs(difference(after, par, h * size) - exact.T).max() for h in (3e-4, 1e-3, 3e-3))
        off /= max(1.0, np.abs(exact.T).max())
        yield f"{name}: T against differences", f"{off:.1e}", "≤ 1e-9", bool(off <= 1e-9)


def _through_events() -> Iterator[Told]:
    """Of a mass that a winch drops twice: A, B, T and what it is compared with hold the order of events."""
    step = sm.discretize(sm.systems.get("suspended_mass_string"), 1 / 30)
    t = step.dt * np.arange(1, 151)
    length = 0.6 + 0.15 * np.clip((t - 1.5) / 0.09, 0, 1) + 0.1 * np.clip((t - 3) / 0.06, 0, 1)
    path = step.rollout(
        step.rest({"xm": 0.02, "ym": 0.4, "xr": 0.02, "r": 0.6}), np.c_[0.02 + 0.1 * np.sin(3.5 * t), length]
    )
    par, dt, X, U = step.parameter_values, np.array([step.dt]), path.x[:-1], path.u
    plain = least(lambda: step.kernel.linearize_all(par, dt, X, U, None))
    with_T = least(lambda: step.by_parameters(par, dt, X, U, None))
    name, busy, worst = "suspended_mass_string", sorted({event.step for event in path.events}), 0.0
    yield f"{name}: A, B, T beside A, B", f"{with_T / plain:.2f} times", "≤ 1.4", with_T <= 1.4 * plain
    T, size = step.by_parameters(par, dt, X, U, None)[4], np.maximum(np.abs(par), 0.1)
    for k in busy:
        place = Point(step.dt, X[k], U[k])

        def after(values: np.ndarray, at: Any = place, k: int = k) -> np.ndarray:
            info, there, *_ = step.kernel.frozen(par, at, at, values)
            return step.layout.difference(path.x[k + 1], there) if not info.status else np.full(step.ndx, np.nan)

        errors = [np.abs(difference(after, par, h * size) - T[k]).max(axis=0) for h in (1e-3, 1e-4, 1e-5)]
        worst = max(worst, float((np.nanmin(errors, axis=0) / np.maximum(1.0, np.abs(T[k]).max(axis=0)))[:4].max()))
    what = f"{name}: T through {len(path.events)} impacts and releases against differences"
    yield what, f"{worst:.1e}", "≤ 1e-9", worst <= 1e-9


def fits(draws: int) -> Iterator[Told]:
    """Speed of a fit, sigmas of many draws, outliers; on a plant with a step sixteen times shorter."""
    job = jobs.load(JOB)
    plan = job.solve().plan.trajectory
    run = hanging(plan, job, 1, **DRAG)
    task, _, _ = prepare(job, run, ["damping", "delay", "height", "bias.r"], {}, "auto")

    def fit(jac: Any) -> Any:
        return least_squares(task.residual, task.start, jac=jac, x_scale="jac")

    exact, numeric = least(lambda: fit(task.jacobian)), least(lambda: fit("2-point"), 3)
    yield "a fit of 4 unknowns, 300 ticks, exact Jacobian", f"{1e3 * exact:.0f} ms", "", True
    yield "… by 2-point differences", f"{numeric / exact:.1f} times", "≥ 4", numeric >= 4 * exact
    off = []
    for seed in range(draws):
        found = sm.identify(job, hanging(plan, job, 1000 + seed, **DRAG), ["damping", "delay"], hold={"mass": 0.12})
        truth = {"damping": 0.02, "delay": 0.0}
        off.append([(found.values[name] - truth[name]) / found.sigma[name] for name in truth])
    for name, rms in zip(("drag", "delay"), np.sqrt(np.mean(np.square(off), axis=0)), strict=True):
        yield f"{name}: rms error in sigmas, {draws} draws", f"{rms:.2f}", "0.9–1.1", bool(0.9 <= rms <= 1.1)
    yield "3 % outliers of 5–30 cm, 12 draws: largest shift", *_outliers(job, plan)


def _outliers(job: Any, plan: sm.Trajectory) -> tuple[str, str, bool]:
    worst = 0.0
    for seed in range(12):
        run = hanging(plan, job, 2000 + seed, **DRAG)
        rng = np.random.default_rng(seed)
        Z, bad = run.Z.copy(), rng.random(run.Z.shape) < 0.03
        Z[bad] += rng.choice([-1, 1], bad.sum()) * rng.uniform(0.05, 0.3, bad.sum())
        spoilt = sm.Observed(run.dt, run.U, Z, before=run.before, guess=run.guess)
        clean, robust = (sm.identify(job, one, ["damping", "height"]) for one in (run, spoilt))
        shifts = (abs(robust.values[n] - clean.values[n]) / clean.sigma[n] for n in clean.values)
        worst = max(worst, *shifts)
    return f"{worst:.2f} σ", "≤ 1 σ", worst <= 1


def bench(name: str, text: str) -> dict[str, Any]:
    """The summary of a run of a job on the native board."""
    OUT.mkdir(parents=True, exist_ok=True)
    file = OUT / f"{name}.toml"
    file.write_text(text)
    words = [sys.executable, "-m", "stepmap.cli", "bench", str(file), "--build", str(OUT), "--no-open-loop"]
    subprocess.run(words, check=False, capture_output=True)  # a run that the board stops is one to learn from
    found: dict[str, Any] = json.loads((OUT / name / "bench" / "summary.json").read_text())
    return found


def identify(name: str, *words: str) -> dict[str, Any]:
    run = OUT / name / "bench" / "run.mcap"
    call = [sys.executable, "-m", "stepmap.cli", "identify", str(run), "--build", str(OUT), "--no-formats", *words]
    subprocess.run(call, check=True, capture_output=True)
    found: dict[str, Any] = json.loads((OUT / name / "identify" / "identify.json").read_text())
    return found


def recorded() -> Iterator[Told]:
    """Runs of the firmware: drag on another mass, an untold latency, tracking with what was learnt."""
    drag = JOB.read_text().replace("mass = 0.11 ", "mass = 0.12 ").replace("damping = 0.005", "damping = 0.02")
    drag = drag.replace("[bench.plant.start]\nxm = 0.03", "[bench.plant.start]\nxm = 0.0")
    before = bench("drag", drag)
    found = identify("drag", "--parameters", "mass,damping,delay", "--noise")
    ratio = found["ratios"]["damping/mass"]
    off = abs(ratio["value"] / TRUTH - 1)
    told = f"{ratio['value']:.4f} ± {ratio['sigma']:.4f} 1/s"
    yield "main job, drag 0.02 on 0.12 kg: damping/mass", told, "0.1667 ± 3 %", off <= 0.03
    words = found["untold"][0]["words"] if found["untold"] else "told"
    yield "… mass", words.partition(";")[0], "not told", "only damping/mass" in words
    after = bench("drag_learnt", f'identified = "{OUT / "drag" / "identify" / "identified.toml"}"\n{drag}')
    rms = [1e3 * one["tracking_rms_m"] for one in (before, after)]
    yield "… tracking, before and after", f"{rms[0]:.2f}, {rms[1]:.2f} mm", "", True
    yield "… better", f"{rms[0] / rms[1]:.1f} times", "≥ 2.5", rms[0] >= 2.5 * rms[1]
    late = drag.replace("[bench]", "[bench]\nlatency = 0.012", 1)
    stopped = bench("late", late)
    found = identify("late", "--parameters", "damping,delay")
    ticks = observed(read_run(OUT / "late" / "bench" / "run.mcap"), "late")[0].steps
    yield (
        "12 ms of latency that nobody told the board",
        stopped["ended"].partition(":")[0],
        "stopped",
        (stopped["ended"] != "done"),
    )
    delay, sigma = 1e3 * found["values"]["delay"], 1e3 * found["sigma"]["delay"]
    yield f"… found from {ticks} steps", f"{delay:.2f} ± {sigma:.2f} ms", "12 ± 1 ms", abs(delay - 12) <= 1
    known = bench("late_learnt", f'identified = "{OUT / "late" / "identify" / "identified.toml"}"\n{late}')
    yield (
        "… with what was learnt",
        f"{known['ended']}, {1e3 * known['tracking_rms_m']:.2f} mm",
        "done",
        (known["ended"] == "done"),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=120)
    parser.add_argument("--docs", action="store_true", help="put the table into docs/identify.md")
    asked = parser.parse_args()
    rows: list[Told] = []
    for part in (derivatives(), fits(asked.draws), recorded()):
        for row in part:
            print(f"{row[0]:<52} {row[1]:<24} {row[2]:<14} {'' if row[3] else 'MISSED'}", flush=True)
            rows.append(row)
    file = OUT.parent / "identify.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    keys = ("what", "measured", "asked", "holds")
    file.write_text(
        json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=1, ensure_ascii=False) + "\n"
    )
    if asked.docs:
        fill(rows)
    return 0 if all(row[3] for row in rows) else 1


def fill(rows: list[Told]) -> None:
    """The table of the page."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    lines = ["", "| | measured | asked |", "|---|---|---|", *(f"| {a} | {b} | {c} |" for a, b, c, _ in rows), ""]
    PAGE.write_text(head + BEGIN + "\n".join(lines) + END + tail)


if __name__ == "__main__":
    sys.exit(main())
