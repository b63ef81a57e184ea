"""A job of kind "plan": how it is solved, and what its stage tells besides what all do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.estimate import ExtendedKalmanFilter, Filter
from stepmap.jobs.weights import Noise
from stepmap.mechanics import System
from stepmap.optimal.goals.verdict import Finding, Verdict, judge
from stepmap.optimal.planner import PlannedMotion, plan
from stepmap.optimal.planner.search import Progress
from stepmap.optimal.planner.task import Fault
from stepmap.optimal.planner.tree import STEPS
from stepmap.optimal.projection import Monitor
from stepmap.steps import Trajectory, VariationalStep
from stepmap.toml.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from stepmap.plots.tree import Grown

MOVING = "The plan reaches its goal in motion: {why}. Name other coordinates in [goal], or a wider tolerance."
OFTEN = 0.1  # s between two tellings


@dataclass(frozen=True, eq=False)
class PlanJob:
    """A plan as its file asks for it, checked. How long its motion takes is found; ``steps`` are the fewest."""

    kind: ClassVar[str] = "plan"
    goal: ClassVar[bool] = True  # the plan may have more steps than the job
    steps: ClassVar[int] = STEPS
    name: str
    step: VariationalStep
    start: Array
    options: Mapping[str, Any]  # of sm.plan
    noise: Noise | None
    root: Table
    files: Mapping[str, bytes]

    @property
    def system(self) -> System:
        return self.step.system

    @property
    def dt(self) -> float:
        return self.step.dt

    @property
    def pose(self) -> Array:
        """q̄ at the start."""
        return self.step.layout.pose(self.start)

    @property
    def document(self) -> Mapping[str, Any]:
        return self.root.entries

    def build(self) -> None:
        """Compiles the map, or loads it from the cache."""
        _ = self.step.kernel

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> PlannedMotion:
        """The motion that reaches the goal, or comes nearest to it."""
        if guess is not None:
            raise ModelError(
                "a plan is not gone on with", hint="Leave out --resume; give more extensions or seeds in [plan]."
            )
        return plan(self.step, self.start, progress=_teller(monitor), **self.options)

    def ekf(self) -> ExtendedKalmanFilter:
        """The extended Kalman filter with the job's noise."""
        return self._noise.ekf(self.step)

    def filter(self) -> Filter[Any]:
        """The filter that [noise] names, with the job's noise."""
        return self._noise.make_filter(self.step)

    def belief(self) -> Any:
        """The first belief of that filter: the start, as uncertain as the job says."""
        return self.filter().start(self.start, np.diag(self._noise.start**2))

    @property
    def _noise(self) -> Noise:
        if self.noise is None:
            raise ModelError(f"job {self.name!r} has no table [noise]", hint="Add it: a filter needs the noise.")
        return self.noise

    # what its stage writes ----------------------------------------------------------------------------------------

    def told(self, solution: PlannedMotion) -> dict[str, Any]:
        """Entries of summary.json beside those of every job."""
        return {
            "plan": {
                "distance": solution.distance,
                "end": _distance(solution),
                "tolerance": solution.task.tolerance,
                "nodes": solution.tree.count,
                "extensions": solution.extensions,
                "lost": {fault.name.lower(): solution.tree.lost[fault] for fault in Fault},
                "seed": solution.seed,
                "seeds": solution.seeds,
                "room": solution.room if np.isfinite(solution.room) else None,
                "rest": solution.rest,
            }
        }

    def key_figures(self, solution: PlannedMotion, cpu_s: float) -> list[tuple[str, str]]:
        """Rows of its report and of the command's output."""
        path, tree = solution.plan.trajectory, solution.tree
        rows = [
            ("motion", f"{path.t[-1]:g} s in {path.steps} steps of {self.dt:.6g} s"),
            ("search", f"{solution.status.name.lower()}, {cpu_s:.2g} s of CPU time"),
            ("tree", f"{tree.count} nodes of {tree.extensions} extensions, seed {solution.seed}"),
            (
                "distance from the goal",
                f"{_distance(solution):.3g}, {solution.task.tolerance:g} per coordinate allowed",
            ),
        ]
        if np.isfinite(solution.room):
            rows.append(("least distance from obstacles", f"{1e3 * solution.room:.3g} mm"))
        if path.multipliers is not None and path.multipliers.size:
            forces = path.multipliers
            rows.append(("constraint forces", f"{forces.min():.3g} N to {forces.max():.3g} N"))
        return rows

    def judged(self, solution: PlannedMotion) -> Verdict:
        """Whether the motion will work, as far as its numbers tell."""
        off = _distance(solution)
        there = bool(solution.task.reached(solution.plan.trajectory.x[-1]))
        goal = Finding("goal", f"{off:.3g} from it", there, "Allow more extensions, seeds or seconds in [plan].")
        found = [goal]
        if np.isfinite(solution.room):
            room = f"{1e3 * solution.room:.3g} mm or more from obstacles"
            found.append(Finding("clearance", room, solution.room >= 0, "Search again with another seed."))
        later = {finding.name: finding for finding in judge(self.step, solution.plan).findings if finding.name != "end"}
        if "rest" in later and not later["rest"].ok:
            why = solution.moving or "it did not come near enough to settle there"
            later["rest"] = replace(later["rest"], remedy=MOVING.format(why=why))
        return Verdict((*found, *later.values()))

    def drawn(self, solution: PlannedMotion) -> dict[str, Figure]:
        """Pictures by name."""
        from stepmap import plots  # matplotlib takes longer to load than a plan takes to find
        from stepmap.simulation import Simulation

        smooth = solution.plan
        simulation = Simulation(self.step, smooth.trajectory)
        drawn = {
            "tree": plots.tree(grown(solution)),
            "path": plots.path(simulation, smooth.reference.x),
            "tracking": plots.tracking(simulation, smooth.reference.x),
            "inputs": plots.commands(simulation, smooth.reference.u),
        }
        if self.step.nc:
            drawn["tension"] = plots.forces(simulation)
        return drawn


def grown(solution: PlannedMotion) -> Grown:
    """What is drawn of a tree."""
    from stepmap.plots.tree import Grown, ends

    task = solution.task
    frames = ends(task.step.system, [link.frame for link in task.links])
    return Grown(task.step, solution.nodes, solution.trajectory, solution.plan.trajectory, frames, task.obstacles)


def _distance(solution: PlannedMotion) -> float:
    """Of the end of the smoothed motion from the goal."""
    return float(solution.task.distances(solution.plan.trajectory.x[-1]))


def _teller(monitor: Monitor | None) -> Progress | None:
    """Tells nodes, distance and rate to a monitor that shows columns of a search's own."""
    tell = getattr(monitor, "tell", None)
    if tell is None:
        return None
    begin = last = time.monotonic()

    def told(nodes: int, distance: float, extensions: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < OFTEN:
            return
        last = now
        rate = f"{extensions / (now - begin):.0f}"
        tell({"nodes": str(nodes), "best distance": f"{distance:.4g}", "extensions": str(extensions), "per s": rate})

    return told
