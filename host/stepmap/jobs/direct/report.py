"""What the stage of a job of kind "direct" writes besides what all jobs do: room, judgement, pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepmap.arrays import Array
from stepmap.geometry.room import Room, between, rooms
from stepmap.jobs.limits import motor_limits
from stepmap.optimal import DirectSolution
from stepmap.optimal.direct.task import Task
from stepmap.optimal.goals.verdict import Finding, Verdict, judge
from stepmap.simulation import Simulation
from stepmap.steps import InputLimits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from stepmap.plots.motion import Motion

REST = "Set rest = true in [goal]."


def room_over_time(solution: DirectSolution) -> tuple[Array, list[Room]]:
    """Times, and the room from obstacles at nodes and at ten places of every step."""
    bound = [one.of(solution.system) for one in solution.task.clear]
    if not bound:
        return solution.trajectory.t, []
    t, poses = between(bound, solution.trajectory.t, solution.step.layout.pose(solution.trajectory.x))
    return t, rooms(bound, poses)


def told(solution: DirectSolution) -> dict[str, Any]:
    """Entries of summary.json."""
    t, found = room_over_time(solution)
    least = [
        {
            "what": room.label,
            "margin": room.margin,
            "least": float(room.values.min()),
            "at": float(t[int(room.values.argmin())]),
        }
        for room in found
    ]
    return {"direct": {**solution.told, "room": least}}


def judged(asked: Task, solution: DirectSolution) -> Verdict:
    """Whether the plan will work, as far as its numbers tell; its time was found within what was ``asked``."""
    step, task = solution.step, solution.task
    m, b = task.mechanism, task.bounds
    ends = np.hstack([b.u, b.q[:, m.nq - (m.n - m.nd) :]])
    motor = motor_limits(solution.system)
    planned = InputLimits(*ends).on(step) if (ends[0] < ends[1]).all() else None  # an input may be fixed
    there = None if motor is None else motor.on(step)
    verdict = judge(step, solution.plan, planned, there, rest=REST)
    return Verdict((*_time(asked, solution.time), *verdict.findings, *_room(solution)))


def _time(task: Task, time: float) -> list[Finding]:
    low, high = sum(p.range[0] for p in task.all_phases), sum(p.range[1] for p in task.all_phases)
    text = f"{time:.4g} s, found within {low:g} to {high:g} s"
    return [Finding("time", text)] if low < high else []


def _room(solution: DirectSolution) -> list[Finding]:
    t, found = room_over_time(solution)
    made = []
    for room in found:
        k = int(room.values.argmin())
        text = f"{room.values[k]:.3g} m at {t[k]:.2f} s, also between nodes: {room.label}, margin {room.margin:g} m"
        remedy = "It passes through between nodes: take more steps, or a larger margin."
        made.append(Finding("obstacles", text, bool(room.values[k] >= 0), remedy))
    return made


def _shapes(task: Task) -> list[Any]:
    """All obstacles, each once."""
    return list({id(shape): shape for one in task.clear for shape in one.world}.values())


def drawn(solution: DirectSolution) -> dict[str, Figure]:
    """Pictures by name."""
    from stepmap import plots  # matplotlib takes longer to load than most jobs take to solve
    from stepmap.plots.obstacles.clearances import clearances

    task, step = solution.task, solution.step
    simulation = Simulation(step, solution.trajectory)
    m, bounds = task.mechanism, task.bounds
    limits = np.hstack([bounds.u, bounds.v[:, m.nd :]])
    made = {
        "path": plots.motion(simulation, _shapes(task)),
        "coordinates": plots.coordinates(simulation),
        "inputs": plots.inputs(simulation, *limits),
    }
    if task.clear:
        t, found = room_over_time(solution)
        made["clearances"] = clearances({"plan": (t, found)})
    if step.nc:
        made["tension"] = plots.forces(simulation)
    return made


def animated(solution: DirectSolution) -> dict[str, bytes]:
    """Moving pictures by the names of their files."""
    from stepmap.plots.film import film

    return {"motion.gif": film(_motion(solution))}


def _motion(solution: DirectSolution) -> Motion:
    from stepmap.plots.motion import Motion

    poses = solution.step.layout.pose(solution.trajectory.x)
    return Motion.of(solution.system, solution.trajectory.t, poses, _shapes(solution.task))
