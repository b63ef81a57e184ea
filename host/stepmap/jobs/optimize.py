"""The stage ``optimize``: a job's optimal trajectory and gains, as numbers and pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import stepmap
from stepmap.arrays import Array
from stepmap.errors import DamagedError, ModelError, StepmapError
from stepmap.jobs import kinds
from stepmap.jobs.limits import motor_limits
from stepmap.jobs.parts import RESERVED
from stepmap.jobs.stage import Stage, digest, digest_data, digest_sources, versions
from stepmap.jobs.system import source_of
from stepmap.jobs.task import Job, Outcome
from stepmap.optimal import Plan, Solution
from stepmap.optimal.goals.verdict import Verdict, judge
from stepmap.report import Picture, Section, constraint_forces
from stepmap.simulation import Simulation, input_units
from stepmap.steps import VariationalStep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "optimize"
FORMAT = "stepmap-optimum-1"
# What decides the numbers and the pictures.
PARTS = (
    "arrays.py",
    "formula.py",
    "geometry",
    "graph",
    "jobs",
    "mechanics",
    "mocap",
    "optimal",
    "plots",
    "report",
    "simulation.py",
    "steps",
    "systems",
    "toml",
    "wireframe",
)

CAPTIONS = {
    "path": "The optimal motion; poses evenly spaced in time. The paths of the reference are broad and grey.",
    "tracking": "Coordinates over time, their references dashed; impacts are lines, releases dotted ones.",
    "inputs": "Forces, and velocities of kinematic coordinates; references dashed.",
    "convergence": "The search: directional derivative and cost at every iteration.",
    "tree": "The tree of the search: its nodes, the path taken through it, start and end, obstacles.",
    "tension": "Constraint forces, positive when they pull.",
    "coordinates": "Coordinates over time.",
    "clearances": "Room between what moves and the obstacles, at nodes and between them; margins dashed.",
    "energy": "Energy; potential and total energy relative to the start.",
    "design": "Cost over the parameters that are found: inner solves, their surrogate, slopes and the exact gradient.",
    "imitation": "Moments of the motion: the dancer with the mechanism's lengths, and below it the mechanism.",
    "ground": "Forces of the ground on feet that stand, in the cone that was asked for.",
}


def stage(job: Job, out: Path) -> Stage:
    """The stage's folder; its inputs are the job's tables without those of later stages, and the files they name."""
    tables = {name: table for name, table in job.document.items() if name not in RESERVED}
    inputs = {"job": digest_data(tables), "stepmap": digest_sources("stepmap", PARTS)}
    inputs |= {f"file {name}": digest(content) for name, content in job.files.items()}
    foreign = kinds.source_digest(job.kind)
    if foreign is not None:
        inputs["kind"] = foreign
    added = source_of(job).content()  # of another package, or of a file
    inputs |= {} if added is None else {"system": digest(added)}
    used = {"stepmap": stepmap.__version__, **versions("casadi", "matplotlib", "numpy")}
    return Stage(NAME, job.name, out, inputs, used)


def write(made: Stage, job: Job, solution: Outcome, cpu_s: float, *, pictures: bool = False) -> None:
    """Replaces the stage's folder: solution.npz, summary.json and the report. Complete if the search converged.

    ``pictures`` of what the report shows itself are drawn when asked for; those that kinds have of their own, always. A
    search that was interrupted leaves neither: whoever pressed Ctrl-C would wait for them.
    """
    try:
        _ = solution.plan
    except StepmapError:
        solution.require()  # how the search ended says more than that there is no plan of it
        raise
    with made.replace(complete=solution.status.ok) as folder:
        (folder / "solution.npz").write_bytes(arrays(job, solution))
        told = summary(made, job, solution, cpu_s)
        text = json.dumps(told, indent=2, allow_nan=False, ensure_ascii=False)
        (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
        wanted = (pictures or hasattr(job, "drawn")) and not solution.status.interrupted
        drawn = render(draw(job, solution)) if wanted else {}
        moving = getattr(job, "animated", None)  # of kinds that have moving pictures
        drawn |= {} if moving is None or not drawn else moving(solution)
        for name, content in drawn.items():
            (folder / name).write_bytes(content)
        if not solution.status.interrupted:
            from stepmap.jobs.chapters.plan_page import plan_page  # draws, and takes a while to import

            page = plan_page(job, solution, step_of(job, solution), told, drawn)
            (folder / "report.html").write_text(page, encoding="utf-8")


def earlier(made: Stage, job: Job) -> Any:
    """What an earlier run left in the stage's folder, to go on from: a trajectory, or what a kind makes of the plan."""
    own = getattr(job, "resumed", None)
    return result(made, job).trajectory if own is None else own(_saved(made))


def result(made: Stage, job: Job) -> Plan:
    """The plan in the stage's folder."""
    path, found = made.folder / "solution.npz", _saved(made)
    x, u = found.trajectory.x, found.trajectory.u
    steps = max(job.steps, len(u)) if getattr(job, "goal", False) else job.steps  # a goal may have taken more time
    if x.shape != (steps + 1, job.step.nx) or u.shape != (steps, job.step.nu):
        raise ModelError(f"the result in {path} is of another system or horizon; run without it first")
    return found


def _saved(made: Stage) -> Plan:
    path = made.folder / "solution.npz"
    try:
        return Plan.load(path)
    except (OSError, DamagedError, ModelError) as error:
        raise ModelError(f"there is no result to go on from: {path} cannot be read ({error})") from None


def step_of(job: Job, solution: Outcome) -> VariationalStep:
    """The map of a solution: its own where its time or its system was found, else the job's."""
    step: VariationalStep = getattr(solution, "step", job.step)
    return step


def arrays(job: Job, solution: Outcome) -> bytes:
    """solution.npz; docs/jobs.md describes each entry."""
    plan, step = solution.plan, step_of(job, solution)
    more: dict[str, Any] = dict(
        multipliers=Simulation(step, plan.trajectory).multipliers,
        **_weights(solution),
        cost=np.array(solution.cost),
        state_names=np.array(job.step.state_names),
        input_names=np.array(job.step.input_names),
        constraint_names=np.array(job.system.constraint_names, dtype=np.str_),
    )
    return plan.packed(step, kind=job.kind, more=more)


def verdict(job: Job, plan: Plan) -> Verdict:
    """Whether a plan of the job will work, as far as its numbers tell."""
    planned, motor = getattr(job, "input_limits", None), motor_limits(job.system)
    step, weights = job.step, getattr(job, "weights", None)
    made, there = (None if limits is None else limits.on(step) for limits in (planned, motor))
    weighed = None if weights is None else (weights.state + weights.terminal)[: step.system.tangent.nv] > 0
    return judge(step, plan, made, there, weighed, **getattr(job, "remedies", {}))


def judged(job: Job, solution: Outcome) -> Verdict:
    """``verdict`` on a solution; a kind may have a judgement of its own."""
    own = getattr(job, "judged", None)
    return verdict(job, solution.plan) if own is None else own(solution)


def saved_verdict(made: Stage) -> dict[str, Any] | None:
    """What ``verdict`` said about the plan in the stage's folder, as JSON has it; None where that cannot be read."""
    try:
        found = json.loads((made.folder / "summary.json").read_text(encoding="utf-8"))["verdict"]
        return Verdict.read(found).data()
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _weights(solution: Outcome) -> dict[str, Array]:
    """Those of the gains, where a tracking cost was what the search was for."""
    if not isinstance(solution, Solution) or solution.problem is None:
        return {}
    weights = solution.problem.weights
    return {} if weights is None else weights._asdict()


def summary(made: Stage, job: Job, solution: Outcome, cpu_s: float) -> dict[str, Any]:
    """summary.json; docs/jobs.md describes each entry."""
    step, system = step_of(job, solution), job.system
    simulation = Simulation(step, solution.plan.trajectory)
    told = getattr(job, "told", None)  # of kinds that have more to tell
    forces, gaps, relaxed = simulation.multipliers, np.abs(simulation.violations), getattr(solution, "relaxation", None)
    return {
        "format": FORMAT,
        "job": job.name,
        "kind": job.kind,
        "system": system.name,
        "parameters": {p.name: p.value for p in system.parameters},
        "dt": step.dt,
        "steps": solution.plan.trajectory.steps,
        "status": solution.status.name.lower(),
        "advice": "" if solution.status.ok else getattr(solution, "advice", str(solution.status)),
        "cost": solution.cost,
        "iterations": taken(solution),
        "slope": solution.history[-1].slope if solution.history else None,
        "history": [entry._asdict() for entry in solution.history],
        "cpu_s": cpu_s,
        "constraint_force_low": float(forces.min()) if forces.size else None,
        "constraint_force_high": float(forces.max()) if forces.size else None,
        "constraint_gap": float(gaps.max()) if gaps.size else None,
        "events": [event._asdict() for event in solution.plan.events],
        "relaxation": None if relaxed is None else relaxed.data(),
        "verdict": judged(job, solution).data(),
        "state_names": list(step.state_names),
        "state_units": list(step.layout.units),
        "input_names": list(step.input_names),
        "input_units": input_units(step),
        "digest": made.digest,
        "inputs": dict(made.inputs),
        **({} if told is None else told(solution)),
    }


def taken(solution: Outcome) -> int:
    """Steps the search took; the last entry of a history may be the test that ends it."""
    return sum(entry.length > 0 for entry in solution.history)


def draw(job: Job, solution: Outcome) -> dict[str, Figure]:
    """Figures by name; CAPTIONS says what each shows."""
    from stepmap import plots  # matplotlib takes longer to load than most jobs take to solve

    own = getattr(job, "drawn", None)  # of kinds with pictures of their own
    if own is not None:
        return {**own(solution), **({"convergence": plots.convergence(solution.history)} if solution.history else {})}
    plan = solution.plan
    simulation = Simulation(job.step, plan.trajectory)
    drawn = {
        "path": plots.path(simulation, plan.reference.x),
        "tracking": plots.tracking(simulation, plan.reference.x),
        "inputs": plots.commands(simulation, plan.reference.u),
        "convergence": plots.convergence(solution.history),
    }
    if job.step.nc:
        drawn["tension"] = plots.forces(simulation)
    return drawn


def render(figures: Mapping[str, Figure], forms: Sequence[str] = ("png", "svg")) -> dict[str, bytes]:
    """Picture files by name."""
    from stepmap import plots

    return {f"{name}.{form}": plots.render(figure, form) for name, figure in figures.items() for form in forms}


def section(heading: str, text: str, figures: Sequence[tuple[str, str]], drawn: Mapping[str, Figure]) -> Section:
    """An optimization as a part of a report, from its key figures and what ``draw`` made."""
    made = render(drawn, ["svg"])
    pictures = [Picture(CAPTIONS[name.removesuffix(".svg")], content) for name, content in made.items()]
    return Section(heading, text, figures, pictures)


def key_figures(job: Job, solution: Outcome, cpu_s: float) -> list[tuple[str, str]]:
    """(name, value) of what tells a good result from a bad one; a kind may have figures of its own."""
    own = getattr(job, "key_figures", None)
    if own is not None:
        rows: list[tuple[str, str]] = own(solution, cpu_s)
        return rows
    step, steps = step_of(job, solution), solution.plan.trajectory.steps
    simulation = Simulation(step, solution.plan.trajectory)
    longer = f", longer than the {job.steps * job.dt:g} s of the job" if steps > job.steps else ""
    if (found := getattr(job, "found_within", None)) is not None:
        longer = f", found within {found[0]:g} to {found[1]:g} s"
    relaxed = getattr(solution, "relaxation", None)  # its last slope is that of a polish, which may end on a kink
    slope = f", |Dg| {abs(solution.history[-1].slope):.2g}" if solution.history and relaxed is None else ""
    rows = [
        ("horizon", f"{solution.plan.trajectory.t[-1]:g} s in {steps} steps of {step.dt:.6g} s{longer}"),
        ("search", f"{solution.status.name.lower()} after {taken(solution)} steps{slope}, {cpu_s:.2g} s of CPU time"),
        ("cost", f"{solution.cost:.10g}"),
    ]
    if job.step.nc:
        rows.append(("constraint forces", constraint_forces(simulation)))
        rows.append(("largest constraint gap", f"{np.abs(simulation.violations).max():.2g} m"))
    if relaxed is not None:
        rows.append(("relaxed gaps", str(relaxed)))
    more = getattr(job, "rows", None)  # of kinds that have more to tell on the screen
    return rows if more is None else [*rows, *more(solution)]
