"""Gaits of Pekarek's bipeds as figures of the thesis have them: energy over a step, and pictures of it."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from stepmap import systems
from stepmap.arrays import Array
from stepmap.mechanics import System
from stepmap.optimal.direct import DirectSolution, Phase
from stepmap.optimal.direct.mechanism import Mechanism
from stepmap.optimal.direct.motion import Motion
from stepmap.optimal.gaits.hold import transport, work

STEPS, TIME, TORQUE = 80, 0.9, 140.0
STARTS = 4
LEGS = {
    "x": "swing.x - stride",
    "y": "swing.y",
    "theta1": "theta1 + theta2 + theta3 + theta4",
    "theta2": "-theta4",
    "theta3": "-theta3",
    "theta4": "-theta2",
}
SNAPSHOTS, APART = 9, 0.62  # poses of a step, and m between where they are drawn
PRINTED = {"gait": 1.59e-3, "design": 4.44e-4}  # η of the thesis

ASSUMPTIONS = (
    "model of 4.2.2: links of 0.5 m, 2 kg shanks, 3 kg thighs, inertia m L²/24, step 0.56 m in 0.9 s, 80 steps; knees "
    "bend forward",
    f"moments within ±{TORQUE:g} N m, the thesis names none; no limit of their rates, as there. Without one Σ|w| "
    "measures that bound, the grid and the way of the search, not the robot: docs/gaits.md",
    f"{STARTS} starts, each by a recipe of its own; the best is drawn",
    "gravity 9.81 m/s²; kinetic energy has its ½, which the thesis leaves out",
)


def biped() -> System:
    return systems.get("biped_planar")


def options(**more: Any) -> dict[str, Any]:
    """What ``sm.direct`` is asked for: least work, as the thesis has it."""
    motors = ("ankle", "stance_knee", "hip", "swing_knee")
    return {
        "phases": [Phase(["stance"], STEPS, TIME)],
        "periodic": LEGS,
        "running": "work",
        "limits": dict.fromkeys(motors, (-TORQUE, TORQUE)),
        **more,
    }


def energy(found: DirectSolution) -> tuple[Array, Array]:
    """Times and total energy in the middles of all steps."""
    system, motion, mechanism = found.system, found.searched.motions[0], found.task.mechanism
    tangent = system.tangent
    # With balls the middle is half a step on, by the velocity that the map has there.
    q = tangent.retract(motion.q[:-1], tangent.difference(motion.q[:-1], motion.q[1:]) / 2)
    v = (
        motion.v
        if not tangent.balls
        else mechanism.values(_velocity(mechanism), motion.q[:-1], motion.v, _h(motion))[0]
    )
    pairs = zip(q, v, strict=True)
    total = [float(system.kinetic_energy(*one)) + float(system.potential_energy(one[0])) for one in pairs]
    return motion.h * (np.arange(len(q)) + 0.5), np.array(total)


def _velocity(mechanism: Mechanism) -> ca.Function:
    q, v, h = ca.SX.sym("q", mechanism.nq), ca.SX.sym("v", mechanism.n), ca.SX.sym("h")
    par = ca.SX.sym("par", len(mechanism.system.parameters))
    return ca.Function("velocity", [q, v, h, par], [mechanism.move(q, v, h).velocity])


def _h(motion: Motion) -> Array:
    return np.full((motion.steps, 1), motion.h)


def told(found: DirectSolution) -> list[tuple[str, str]]:
    """Key figures of a gait."""
    eta, (_, total) = transport(found.cycle), energy(found)
    assert eta is not None
    done = work(found.cycle).sum(axis=1)
    # In the middle of a step half of its work is done.
    lost = float(np.ptp(total - np.cumsum(done) + done / 2))
    ends = ", ".join(f"{start.cost:.3g}" for start in found.starts)
    normal = found.multipliers[:, found.system.constraint_names.index("stance")]
    return [
        ("cost of transport", f"{eta:.3g}"),
        ("cost, by start", ends),
        ("total energy", f"{total.mean():.2f} J, changes by {np.ptp(total):.2g} J"),
        ("of which not by motors", f"{lost:.2g} J: the map's own error at {1e3 * found.step.dt:.3g} ms"),
        ("least force of the ground", f"{normal.min():.3g} N"),
    ]


def rows(found: DirectSolution) -> list[dict[str, float]]:
    """Times and energies as numbers."""
    return [{"t": float(t), "energy": float(e)} for t, e in zip(*energy(found), strict=True)]


def draw(found: DirectSolution, title: str) -> Any:
    """Energy above, snapshots of the step below: the leg that stands and the leg that swings in two colours."""
    from stepmap.plots.style import COLORS, FAINT, blank, styled

    t, total = energy(found)
    with styled():
        figure = blank(8.0, 4.2)
        above, below = figure.subplots(2, 1, height_ratios=(1.3, 1.0))
        above.plot(t, total, color=COLORS[0])
        above.set_xlabel("time [s]")
        above.set_ylabel("total energy [J]")
        above.set_xlim(0, t[-1] + t[0])
        above.ticklabel_format(useOffset=False)
        above.set_title(title)
        for place, k in enumerate(np.linspace(0, len(t), SNAPSHOTS).astype(int)):
            at = APART * place
            for leg, color in zip(legs(found, k), (COLORS[0], COLORS[1]), strict=True):
                below.plot(leg[:, 0] + at, leg[:, 1], color=color, linewidth=2.0, marker="o", markersize=2.5)
            below.text(at, -0.06, f"{k * found.step.dt:.2f} s", ha="center", va="top", fontsize=8)
        below.axhline(0.0, color=FAINT, linewidth=1.2)
        handles = [below.plot([], [], color=color)[0] for color in COLORS[:2]]
        figure.legend(handles, ["leg that stands", "leg that swings"], loc="outside lower center", ncols=2)
        below.set_aspect("equal")
        below.set_ylim(-0.16, 1.05)
        below.axis("off")
    return figure


def legs(found: DirectSolution, k: int) -> tuple[Array, Array]:
    """Points of the leg that stands and of the one that swings at node k, from the side."""
    system = found.system
    at = system.positions(found.trajectory.x[k, : system.tangent.nq])
    names = [frame.name for frame in system.frames]
    stands, swings = (("stance", "stance_knee", "hip"), ("hip", "swing_knee", "swing"))
    side = [0, 2] if system.tangent.balls else [0, 1]  # z is up in space, y in the plane
    place = {name: at[names.index(name)][side] for name in {*stands, *swings}}
    return np.array([place[name] for name in stands]), np.array([place[name] for name in swings])
