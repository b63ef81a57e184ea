"""Campaigns of gaits: least effort and work of the planar and the spatial biped, designs of a shank, robots that walk.

make bench-gaits            all of them, many minutes
python -m tests.bench.gaits effort work design gradient study cycles space walk
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import stepmap as sm
from stepmap import jobs
from stepmap.optimal.direct import DirectSolution
from stepmap.optimal.direct.formulation import Formulation
from stepmap.optimal.direct.search import continued
from stepmap.optimal.gaits.feedback import periodic_gains, slopes
from stepmap.optimal.gaits.hold import natural, transport
from stepmap.toml import tables
from stepmap.walking.observer import Observer
from stepmap.walking.schedule import Schedule
from stepmap.walking.walk import walk
from tests.gaits import Biped, judge
from tests.gaits_in_space import SpatialBiped, judge_in_space

EXAMPLES = Path(__file__).parents[2] / "examples" / "gaits"
LEGS = {
    "x": "swing.x - stride",
    "y": "swing.y",
    "theta1": "theta1 + theta2 + theta3 + theta4",
    "theta2": "-theta4",
    "theta3": "-theta3",
    "theta4": "-theta2",
}
MOTORS = ("ankle", "stance_knee", "hip", "swing_knee")
FOOT = {"clearance": {"swing": 0.02}, "landing": {"swing": 0.2}}


def found(
    knees: str = "forward", steps: int = 80, system: dict[str, Any] | None = None, **options: Any
) -> DirectSolution:
    """A gait with the thesis's stride and time."""
    biped = sm.systems.get("biped_planar", knees=knees, **(system or {}))
    return sm.direct(biped, phases=[sm.Phase(["stance"], steps, 0.9)], periodic=LEGS, **options)


def bounds(torque: float, rate: float | None) -> dict[str, dict[str, float]]:
    slew = {} if rate is None else {"rate": rate}
    return {name: {"low": -torque, "high": torque, **slew} for name in MOTORS}


def line(name: str, solve: Callable[[], DirectSolution]) -> DirectSolution:
    begin = time.process_time()
    got = solve()
    cpu = time.process_time() - begin
    steps = got.trajectory.steps
    values = {p.name: p.value for p in got.system.parameters}
    told = judge(Biped(values["shank"]), got.trajectory.x[:, :6], got.trajectory.u, 0.9 / steps)
    off = max(told.motion, told.jump, told.periodic)
    eta, spread = transport(got.cycle), got.spread
    print(
        f"{name:40s} {got.status.name.lower():10s} cost {got.cost:9.4f} eta {eta:9.3e} off {off:7.1e} "
        f"N {told.normal:6.1f} spread {spread:7.1e} {got.iterations:5d} it {cpu:6.1f} s  {got.design or ''}",
        flush=True,
    )
    return got


def effort() -> None:
    line("effort, 8 starts", lambda: found(running="effort", starts=8))
    line("effort, clearance and landing", lambda: found(running="effort", **FOOT))
    for shank in (0.4, 0.5, 0.6, 0.7):
        line(f"effort, shank {shank}", lambda shank=shank: found(system={"shank": shank}, running="effort"))  # type: ignore[misc]


def work() -> None:
    for knees in ("forward", "backward"):
        line(f"work, 60 N m, 600 N m/s, {knees}", lambda k=knees: found(k, running="work", limits=bounds(60, 600)))  # type: ignore[misc]
    line("the same, forward, 160 steps", lambda: found(steps=160, running="work", limits=bounds(60, 600)))
    for knees in ("forward", "backward"):
        line(f"work, 140 N m, {knees}", lambda k=knees: found(k, running="work", limits=bounds(140, None), starts=4))  # type: ignore[misc]


def design() -> None:
    ends = {"shank": (0.3, 0.7)}
    line("effort, shank found", lambda: found(running="effort", design=ends, starts=4))
    line("work, 60 N m, 600 N m/s, shank found", lambda: found(running="work", limits=bounds(60, 600), design=ends))
    free = {"running": "work", "limits": bounds(140, None), "design": ends, "starts": 4}
    line("work, 140 N m, shank found", lambda: found(**free))
    line("the same, backward", lambda: found("backward", **free))


def gradient() -> None:
    """Slopes of the least cost by multipliers against differences along a continued branch."""
    for name, options in (("effort", {}), ("effort, clearance and landing", FOOT)):
        base = found(running="effort", design={"shank": 0.5}, **options)
        costs = []
        for by in (-1e-3, 1e-3):
            task = replace(base.task, system=base.system.with_parameters(shank=0.5 + by), design={"shank": 0.5 + by})
            moved = DirectSolution(task, continued(Formulation(task), base.searched)).require()
            costs.append(moved.cost)
        slope, difference = base.design_slopes["shank"], (costs[1] - costs[0]) / 2e-3
        print(
            f"{name:40s} dJ/dshank {slope:.6f}, by differences {difference:.6f}: {abs(slope / difference - 1):.1e} off"
        )


def study() -> None:
    """Surrogates beside exact gradients: by effort, which asks for the knees, and by work, which does not."""
    ends = {"shank": (0.3, 0.7)}
    biped, phases = sm.systems.get("biped_planar"), [sm.Phase(["stance"], 80, 0.9)]
    free = {"running": "work", "limits": bounds(140, None)}
    for method in ("spline", "ego"):
        for name, options in (("effort", {"running": "effort"}), ("work, 140 N m", free)):
            how = sm.Surrogate(method, workers=1)
            made = sm.design_study(biped, surrogate=how, design=ends, phases=phases, periodic=LEGS, **options)
            print(f"-- {name}, {method}\n{made}", flush=True)


def cycles() -> None:
    """The examples of walkers without motors against published cycles: time or speed, and multipliers."""
    r = (math.cos(math.pi / 4) + 0.05) / 1.05
    speed = math.sqrt(4 * 9.81 * math.sin(math.pi / 8) * math.sin(0.08) * r**2 / (1.05 * (1 - r**2)))
    for name in ("compass", "rimless_wheel"):
        root = tables.read(EXAMPLES / f"{name}.toml")
        for steps in (40, 80, 160):
            phases = [{**root.entries["phases"][0], "steps": steps}]
            got = jobs.parse(replace(root, entries={**root.entries, "phases": phases}), name).solve()
            values = ", ".join(f"{value:.4f}" for value in np.abs(got.floquet[:3]))
            landed = got.cycle.landed(0)
            off = got.time - 0.734721 if name == "compass" else -got.step.velocity(landed.x)[2] - speed
            print(
                f"{name:14s} {steps:4d} steps: time {got.time:.6f} s, off {off:.2e}, multipliers {values}", flush=True
            )
    print(f"published: compass 0.5800, 0.5800, 0.1316; rimless wheel {r**2:.4f}, {speed:.6f} rad/s")


def space(robots: int = 8, steps: int = 50) -> None:
    """The spatial biped of the example: least effort, robots that walk by its gains, least work."""
    job = jobs.load(Path(__file__).parents[2] / "examples" / "gaits" / "biped_spatial.toml")
    gait = in_space("effort", job.solve)
    schedule, rng = Schedule.of(gait.cycle, gait.plan.gains), np.random.default_rng(4)
    for i in range(robots):
        a, b = 1 + 0.05 * rng.uniform(-1, 1, 2)
        robot = gait.system.with_parameters(shank_mass=2 * a, thigh_mass=3 * b, friction=0.05)
        w = walk(schedule, robot, steps, limits=np.full(len(gait.system.inputs), 140.0))
        print(
            f"  robot {i}: {w.steps} steps {w.fell}, N {w.normal:.1f}, cone {w.cone:.2f}, off {max(w.off):.4f} rad, "
            f"swing foot {1e3 * w.low:.1f} mm",
            flush=True,
        )
    options = {**job.options, "running": "work", "max_iterations": 700}
    in_space("work, cut off", lambda: sm.direct(job.system, **options))


def in_space(name: str, solve: Callable[[], DirectSolution]) -> DirectSolution:
    begin = time.process_time()
    got = solve()
    cpu = time.process_time() - begin
    x, u, dt = got.trajectory.x, got.trajectory.u, got.step.dt
    told = judge_in_space(SpatialBiped(), x[:, :13], u, dt)
    off = max(told.motion, told.closed, told.unit, told.jump, told.periodic)
    rate = np.abs(np.diff(u, axis=0)).max() / dt
    print(f"{name}: {got.status.name.lower()}, cost {got.cost:.4f}, eta {transport(got.cycle):.3g}, off {off:.1e}")
    print(
        f"  N {told.normal:.1f}, cone {told.cone:.2f}, of the landing {told.landing_cone:.2f} at {told.speed:.2f} m/s; "
        f"apart: feet {told.feet:.3f}, knees {told.knees:.3f}, legs {told.apart:.3f} m"
    )
    print(
        f"  |u| {np.abs(u).max():.1f} N m, rate {rate:.0f} N m/s; Newton's law {told.newton:.1e}, angular momentum "
        f"{told.spin:.1e}; multipliers {abs(got.floquet[0]):.2g}, {abs(got.plan.floquet[0]):.3f}; "  # type: ignore[attr-defined]
        f"{got.iterations} it {cpu:.1f} s",
        flush=True,
    )
    return got


def walks(robots: int = 8, steps: int = 50) -> None:
    """Robots with masses and inertias up to 5 % off and joint friction, with the state known and by a filter."""
    for ankle in (True, False):
        gait = found(system={"ankle": ankle}, running="effort", **FOOT)
        schedule = Schedule.of(gait.cycle, gait.plan.gains)
        open_loop, closed = abs(gait.floquet[0]), abs(gait.plan.floquet[0])
        gains = periodic_gains(slopes(gait.cycle, fixed=True), *natural(gait.system)).gains
        clock = np.abs(slopes(gait.cycle).multipliers(gains)).max()
        told = f"{open_loop:.3g} open, {closed:.3g} closed, {clock:.3g} with landings taken at a fixed time"
        print(f"ankle {'driven' if ankle else 'free'}: multipliers {told}")
        rng = np.random.default_rng(4)
        for i in range(robots):
            a, b, c = 1 + 0.05 * rng.uniform(-1, 1, 3)
            robot = gait.system.with_parameters(shank_mass=2 * a, thigh_mass=3 * b, inertia=c / 24, friction=0.05)
            noise = np.array([1e-4] * 6 + [1e-2] * 6), np.array([5e-3] * 6 + [2e-2] * 6)
            filters = (None, Observer(gait.cycle, np.full(4, 2e-3), *noise, np.random.default_rng(i)))
            for observer in filters:
                w = walk(schedule, robot, steps, observer=observer, limits=np.full(len(gait.system.inputs), 140.0))
                error = f"{1e3 * np.mean(np.square(w.errors)) ** 0.5:.2f} mrad" if w.errors else "known"
                print(
                    f"  robot {i}, state {error:10s}: {w.steps} steps {w.fell}, N {w.normal:.1f}, cone {w.cone:.2f}, "
                    f"off {max(w.off, default=0):.3f} rad, swing foot {1e3 * w.low:.1f} mm",
                    flush=True,
                )


CAMPAIGNS = {
    "effort": effort,
    "work": work,
    "design": design,
    "gradient": gradient,
    "study": study,
    "cycles": cycles,
    "space": space,
    "walk": walks,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or CAMPAIGNS:
        CAMPAIGNS[chosen]()
