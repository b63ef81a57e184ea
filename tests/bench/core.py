"""What the core costs: steps, derivatives and builds, beside the figures of the library the papers used.

    python tests/bench/core.py [system ...]        all systems without a name; writes build/bench/core.json

The file is a list of rows {system, work, us, reference_us, peers}; work is one of

    step, linearize, curvature    one call of the Python API, CPU time
    rollout                       one step of a compiled rollout, CPU time
    linearize_along, curvature_along    one step of A and B, or of second derivatives, along a trajectory, CPU time
    rollout_many                  one step of 10 000 rollouts of 300 steps in one call, of fewer where states are large,
                                  in lanes of vectors, CPU time
    ekf                           10 000 filtered runs of 300 steps in one call: the whole of it, CPU time
    build                         from nothing to a first curvature with an empty cache, wall time: what one waits for
    build_cached                  the same with all of it in the cache; both in a fresh process, after the imports

CPU times are the best of many rounds over states along a motion. ``reference_us`` is the papers' library's time for the
same work: its derivatives leave out the step, ours include it, so the figure is step, step + first, and step + first +
second derivatives; a step of a rollout is a step. It is null where no figure is known. ``peers`` are times [us] of
other libraries measured here, on the same mechanism (peers/dynamics.py); null where none was asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import stepmap as sm

sys.path.insert(0, str(Path(__file__).parents[2]))  # this file runs as a script, too
from tests.bench.peers import dynamics

DT = 0.01
STEPS = 300  # of the motion the states are from
MANY = 10_000  # rollouts in one call, and filtered runs
LARGEST = 24_000_000  # numbers that one call of rollouts writes
BUDGET = 2.0  # CPU seconds of calls a system
OUTPUT = Path(__file__).parents[2] / "build" / "bench" / "core.json"
Array = NDArray[np.float64]
Row = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """A system of the catalog; ``reference`` is the papers' library's step, first and second derivatives [us]."""

    system: str
    arguments: Mapping[str, int] = field(default_factory=dict)
    reference: tuple[float, float, float] | None = None
    peers: bool = False  # measured beside MuJoCo and Pinocchio, where these are installed
    filtered: bool = False

    @property
    def name(self) -> str:
        return "_".join([self.system, *map(str, self.arguments.values())])

    def reference_us(self, work: str) -> float | None:
        """The papers' library's time for the same work."""
        terms = {"step": 1, "rollout": 1, "rollout_many": 1, "linearize": 2, "linearize_along": 2, "curvature": 3}.get(
            work
        )
        return round(sum(self.reference[:terms]), 1) if self.reference and terms else None


# trep 1.0, one thread, measured on a machine like ours; its planar mass is the suspended mass.
SUBJECTS = (
    Subject("suspended_mass", reference=(12.8, 3.5, 13.3), filtered=True),
    Subject("double_pendulum", reference=(16.6, 2.6, 5.9)),
    Subject("cart_pendulum"),
    Subject("marionette", reference=(2096.0, 874.0, 26942.0), peers=True),
    Subject("marionette_balls"),
    Subject("pendulum_chain", {"n": 5}, (66.6, 15.0, 61.0)),
    Subject("pendulum_chain", {"n": 10}),
    Subject("pendulum_chain", {"n": 20}, (2438.0, 665.0, 15224.0), peers=True),
    Subject("pendulum_chain", {"n": 40}),
)
GOALS_US = {
    ("suspended_mass", "rollout"): 2.0,
    ("suspended_mass", "rollout_many"): 0.3,
    ("suspended_mass", "ekf"): 1e6,
    ("marionette", "rollout"): 12.0,
    ("marionette", "rollout_many"): 5.0,
    ("marionette", "step"): 60.0,
    ("marionette", "linearize"): 80.0,
    ("marionette", "curvature"): 150.0,
    ("marionette", "build"): 15e6,
    ("marionette", "build_cached"): 0.3e6,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the core.")
    parser.add_argument("names", nargs="*", help="systems to measure; all without one")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--calls", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        subject = next(s for s in SUBJECTS if s.name == options.names[0])
        print(json.dumps(work(subject, calls=options.calls)))
        return
    chosen = [s for s in SUBJECTS if not options.names or {s.name, s.system} & set(options.names)]
    console = Console()
    rows = [row for subject in track(chosen, "measuring", console=console) for row in measure(subject)]
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    console.print(table(rows))


# fresh processes ----------------------------------------------------------------------------------------------------


def measure(subject: Subject) -> Iterator[Row]:
    """The rows of a system, from one process that builds it and one that finds it built."""
    with tempfile.TemporaryDirectory(prefix="stepmap-bench-") as cache:
        cold, warm = run(subject, cache), run(subject, cache, "--calls")
    build = {"build": cold["build"], "build_cached": warm.pop("build")}
    peers = warm.pop("peers", {})
    for name, us in (warm | build).items():
        row = {"system": subject.name, "work": name, "us": round(us, 3), "reference_us": subject.reference_us(name)}
        yield row | {"peers": peers.get(name)}


def run(subject: Subject, cache: str, *options: str) -> dict[str, Any]:
    """What a worker process measured."""
    command = [sys.executable, __file__, subject.name, "--worker", *options]
    environment = os.environ | {"STEPMAP_CACHE": cache}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    out: dict[str, Any] = json.loads(done.stdout)
    return out


def work(subject: Subject, *, calls: bool) -> dict[str, Any]:
    """Times [us] of building a system in this process and, if asked, of its calls."""
    _ = sm.discretize  # the first name of stepmap imports all of it
    start = time.perf_counter()
    step = sm.discretize(sm.systems.get(subject.system, **subject.arguments), DT)
    x = step.rest(pose(subject, step.system))
    step.curvature(x, hold(step, x), np.ones(step.ndx))  # builds the second library
    build = (time.perf_counter() - start) * 1e6
    if not calls:
        return {"build": build}
    path = motion(step, x)
    times: dict[str, Any] = time_calls(step, path)
    if subject.filtered:
        times["ekf"] = time_filter(step, path) * 1e6
    if subject.peers:
        times["peers"] = {}
        for name, peer, seconds in dynamics.timings(step, path):
            times["peers"].setdefault(name, {})[peer] = round(seconds * 1e6, 2)
    return {**times, "build": build}


# one system ---------------------------------------------------------------------------------------------------------


def pose(subject: Subject, system: sm.System) -> Array:
    return system.satisfy_constraints(sm.systems.example(subject.system), fixed=[c.name for c in system.kinematic])


def hold(step: sm.VariationalStep, x: Array) -> Array:
    """The input without force that keeps the kinematic coordinates where they are."""
    return np.concatenate([np.zeros(step.nu - step.nk), x[step.layout["rho"]]])


def motion(step: sm.VariationalStep, start: Array) -> sm.Trajectory:
    """A swing from the start: the first input waves."""
    inputs = np.tile(hold(step, start), (STEPS, 1))
    if step.nu:
        inputs[:, 0] += 0.1 * np.sin(3 * DT * np.arange(1, STEPS + 1))
    return step.rollout(start, inputs)


def time_calls(step: sm.VariationalStep, path: sm.Trajectory) -> dict[str, float]:
    """CPU time [us] of each kind of call."""
    some = [(path.x[k], path.u[k]) for k in range(STEPS // 4, STEPS, STEPS // 30)]
    z = np.linspace(-1.0, 1.0, step.ndx)
    rounds: dict[str, tuple[int, Callable[[], object]]] = {
        "step": (len(some), lambda: [step.step(x, u) for x, u in some]),
        "linearize": (len(some), lambda: [step.linearize(x, u) for x, u in some]),
        "curvature": (len(some), lambda: [step.curvature(x, u, z) for x, u in some]),
        "rollout": (STEPS, lambda: step.rollout(path.x[0], path.u)),
        "linearize_along": (STEPS, lambda: step.linearize_along(path)),
        "curvature_along": (STEPS, lambda: step.curvature_along(path, np.tile(z, (STEPS, 1)))),
    }
    best = dict.fromkeys(rounds, np.inf)
    start = time.process_time()
    while time.process_time() - start < BUDGET:
        for name, (count, call) in rounds.items():  # in turns: a slow moment of the machine hits all alike
            best[name] = min(best[name], cpu_time(call) / count)
    best["rollout_many"] = time_many(step, path)
    return {name: seconds * 1e6 for name, seconds in best.items()}


def time_many(step: sm.VariationalStep, path: sm.Trajectory) -> float:
    """CPU time [s] per step of many rollouts, the best of several calls: fresh memory costs."""
    count = min(MANY, LARGEST // (path.steps * step.nx))
    starts = np.tile(path.x[0], (count, 1))
    starts[:, step.layout["p"]] += 1e-3 * np.random.default_rng(0).normal(size=(count, step.nd))
    _ = getattr(step.kernel, "lanes", None)  # builds them, where there are any
    return min(cpu_time(lambda: step.rollout_many(starts, path.u)) for _ in range(5)) / (count * path.steps)


def time_filter(step: sm.VariationalStep, path: sm.Trajectory) -> float:
    """CPU time [s] of a Monte Carlo study with an extended Kalman filter, the best of several calls."""
    ekf = sm.ExtendedKalmanFilter(step, 1e-6 * np.eye(step.ndx), 1e-4 * np.eye(4), gate=5.0)
    first = ekf.start(np.tile(path.x[0], (MANY, 1)), 1e-6 * np.eye(step.ndx))
    seen = step.system.readings(step.layout.pose(path.x[1:]))
    Z = seen + 1e-2 * np.random.default_rng(0).normal(size=(MANY, *seen.shape))
    ekf.run(first, path.u, Z[:, :STEPS])
    return min(cpu_time(lambda: ekf.run(first, path.u, Z)) for _ in range(4))


def cpu_time(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


# report -------------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> Table:
    caption = (
        "Calls: CPU time through the Python API; rollout: a compiled step; derivatives include their step. "
        "Builds: wall time in a fresh process, after the imports, to a first curvature. "
        "Reference: trep 1.0, the sum of its step and derivatives that does the same work. "
        "Below it: a step or first derivatives of others, measured here on the same tree with the same masses; MuJoCo "
        "with soft strings, in its own rollouts, derivatives by differences; Pinocchio without strings, continuous "
        "forward dynamics and their derivatives."
    )
    out = Table(title="core", caption=caption, caption_justify="left")
    for name in ("system", "work"):
        out.add_column(name, no_wrap=True)
    for name in ("time", "goal", "reference", "ratio"):
        out.add_column(name, justify="right", no_wrap=True)
    for i, row in enumerate(rows):
        last = i + 1 == len(rows) or rows[i + 1]["system"] != row["system"]
        out.add_row(*cells(row), end_section=last and not row["peers"])
        peers = list(beside(row))
        for k, theirs in enumerate(peers):
            out.add_row(*theirs, end_section=last and k + 1 == len(peers))
    return out


def cells(row: Row) -> list[str]:
    us, reference = float(row["us"] or 0), row["reference_us"]
    system, name = str(row["system"]), str(row["work"])
    show = seconds if name.startswith("build") or name == "ekf" else microseconds
    goal = GOALS_US.get((system, name))
    met = "" if goal is None else f"[{'green' if us <= goal else 'red'}]≤ {show(goal)}[/]"
    other = ["", ""] if reference is None else [show(float(reference)), f"{float(reference) / us:.3g}×"]
    return [system, name, show(us), met, *other]


def beside(row: Row) -> Iterator[list[str]]:
    """Rows of the peers, with the ratio of their time to ours; of a peer that is not installed, that."""
    if row["peers"] is None:
        return
    for peer, us in row["peers"].items():
        yield ["", f"  {peer}", "", "", microseconds(us), f"{us / float(row['us']):.3g}×"]
    for peer in dynamics.missing():
        yield ["", f"  {peer}", "", "", "not installed", ""]


def seconds(us: float) -> str:
    return f"{us / 1e6:.2f} s "


def microseconds(us: float) -> str:
    return f"{us:.{2 if us < 1 else 1 if us < 1000 else 0}f} µs"


if __name__ == "__main__":
    main()
