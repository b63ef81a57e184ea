"""Steps with events: what they cost, and a marionette's campaign.

    python tests/bench/events.py [--runs N]

Costs are CPU times of rollouts, the least of many, each ratio of two in turn. The marionette of 25 + 21 coordinates
hangs on seven held strings and is thrown at random, 10 s per run at 10 ms. Exit code 1 where a figure misses what is
asked.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import stepmap as sm
from stepmap.arrays import Array
from stepmap.simulation import simulate

Told = tuple[str, str, str, bool]  # what, measured, asked, whether it is so
DT, SECONDS, REPEATS = 0.01, 10.0, 15


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="of the marionette")
    good = True
    for what, measured, asked, holds in (*costs(), *campaign(parser.parse_args().runs)):
        print(f"{what:<58} {measured:>14}   {asked:<12} {'' if holds else 'MISSED'}", flush=True)
        good &= holds
    return 0 if good else 1


def costs() -> Iterator[Told]:
    """Steps of a taut string beside those of a wire, and a step with an impact beside plain ones."""
    wire, string = (sm.discretize(sm.systems.get(name), DT) for name in ("planar_arm", "planar_arm_string"))
    x0 = wire.rest(wire.system.satisfy_constraints(sm.systems.example("planar_arm")))
    U = np.tile(wire.layout.hold(x0), (1000, 1))
    smooth = string.rollout(x0, U)
    same = not smooth.events and np.array_equal(smooth.x, wire.rollout(x0, U).x)
    for what, one, other in (
        ("arm, 1000 steps with a taut string, in those of a wire", string.rollout, wire.rollout),
        ("… in C alone", _in_c(string), _in_c(wire)),
    ):
        ratio = _ratio(partial(one, x0, U), partial(other, x0, U))
        yield what, f"{ratio:.3f}", "<= 1.2", ratio <= 1.2
    yield "… and the same trajectory to the last bit", "yes" if same else "no", "yes", same
    for name in ("planar_arm_string", "wall_pendulum", "ball_on_slope", "marionette_strings"):
        cost = _impact(name)
        yield f"{name}: a step with an impact, in plain steps", f"{cost:.1f}", "<= 6", cost <= 6


def _impact(name: str, most: int = 9) -> float:
    """A step with one impact in steps without events of the same run: medians of several, in C."""
    step = sm.discretize(sm.systems.get(name), DT)
    run = simulate(step, 300, step.system.satisfy_constraints(sm.systems.example(name))).trajectory
    counts = np.bincount([event.step for event in run.events], minlength=len(run.u))
    struck = [event.step for event in run.events if event.kind == "impact" and counts[event.step] == 1]
    free = np.flatnonzero(counts == 0).tolist()

    def single(places: list[int]) -> float:
        chosen = places[:: 1 + len(places) // most]
        return float(np.median([_c_time(step, run.x[i], run.u[i : i + 1]) for i in chosen]))

    return single(struck) / single(free)


def _in_c(step: sm.VariationalStep) -> Callable[[Array, Array], object]:
    """A rollout by the runtime, without what Python makes of it."""
    return lambda x, U: step.kernel.rollout(step.parameter_values, np.full(len(U), DT), x, U)


def _c_time(step: sm.VariationalStep, x: Array, U: Array, copies: int = 200) -> float:
    """CPU time of a step in the runtime: that of many at once, so that the call from Python does not count."""
    X, lengths = np.tile(x, (copies, 1)), np.full(1, DT)
    return _least(lambda: step.kernel.rollout_many(step.parameter_values, lengths, X, U)) / copies


def campaign(runs: int) -> Iterator[Told]:
    """Random throws at 10 ms; the balance of energy of the first ones at 5 ms too."""
    step = sm.discretize(sm.systems.get("marionette_strings", damping=0.0), DT)
    done, impacts, cpu, gap, force = 0, [], 0.0, 0.0, 0.0
    for run, seconds in throws(step, runs):
        cpu, done = cpu + seconds, done + 1
        impacts += [event.energy for event in run.events if event.kind == "impact"]
        gap = max(gap, float(step.system.gaps(step.layout.pose(run.x)).max()))
        force = min(force, float(np.asarray(run.multipliers).min()))
    rate = run.steps * done / cpu
    yield "marionette 25 + 21: runs of 10 s that ended", f"{done} of {runs}", "all", done == runs
    yield "… steps per second of CPU", f"{rate:.0f}", ">= 10000", rate >= 10000
    yield "… impacts", str(len(impacts)), ">= 2000", len(impacts) >= min(2000, 50 * runs)
    yield "… least energy lost at one [J]", f"{min(impacts):.1e}", ">= -1e-12", min(impacts) >= -1e-12
    yield "… largest gap [m]", f"{gap:.1e}", "<= 1e-12", gap <= 1e-12
    yield "… least force [N]", f"{force:.1e}", ">= -1e-12", force >= -1e-12
    for dt, asked in ((DT, ""), (DT / 2, "<= 10")):
        step = sm.discretize(step.system, dt)
        off, lost = zip(*(balance(step, run) for run, _ in throws(step, min(runs, 8))), strict=True)
        worst, mean = 3e3 * max(np.divide(off, lost)), float(np.mean(lost))
        what = f"… of {mean:.1f} J lost per run, not told per 3 J [mJ], {1e3 * dt:g} ms"
        yield what, f"{worst:.1f}", asked, not asked or worst <= 10


def throws(step: sm.VariationalStep, runs: int) -> Iterator[tuple[sm.Trajectory, float]]:
    """Runs and their CPU time; those that fail are told and left out."""
    rng = np.random.default_rng(3)
    for _ in range(runs):
        x0 = thrown(step, rng)
        U = np.tile(step.layout.hold(x0), (round(SECONDS / step.dt), 1))
        begin = time.process_time()
        try:
            run = step.rollout(x0, U)
        except sm.ConvergenceError as error:
            print(f"  a run failed: {error}")
        else:
            yield run, time.process_time() - begin


def balance(step: sm.VariationalStep, run: sm.Trajectory) -> tuple[float, float]:
    """How far the losses that are told are from those of the energy, and what is lost [J]."""
    energy, told = step.energy(run.x[[0, -1]]), sum(event.energy for event in run.events)
    return abs(float(energy[0] - energy[1]) - told), told


def thrown(step: sm.VariationalStep, rng: np.random.Generator) -> Array:
    """The puppet lifted a little, with joints and speeds drawn at random."""
    pose, names = step.system.configuration({"torso_tz": 0.01}), [c.name for c in step.system.dynamic]
    slides = np.array(["_t" in name for name in names])
    pose[: len(names)] += rng.normal(0, np.where(slides, 0.002, 0.03))
    speeds = dict(zip(names, rng.normal(0, np.where(slides, 0.1, 0.5)).tolist(), strict=True))
    return step.from_velocity(step.system.satisfy_constraints(pose), speeds, instant=True)


def _ratio(one: Callable[[], object], other: Callable[[], object]) -> float:
    """Of the least times, measured in turn: whatever else a machine does only adds to them."""
    times = [(_once(one), _once(other)) for _ in range(4 * REPEATS)]
    return min(t for t, _ in times) / min(t for _, t in times)


def _least(call: Callable[[], object]) -> float:
    return min(_once(call, 1) for _ in range(REPEATS))


def _once(call: Callable[[], object], calls: int = 20) -> float:
    begin = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - begin) / calls


if __name__ == "__main__":
    sys.exit(main())
