"""Jobs of kind "script": a play of acts, whose begins are found with the motion. docs/choreography.md has the keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stepmap.errors import ModelError, ShapeError
from stepmap.jobs.job import Solver, TrackingJob
from stepmap.jobs.limits import read_limits
from stepmap.jobs.parts import SHARED, read_forces, read_start, read_system, read_time
from stepmap.jobs.reference import Reference
from stepmap.jobs.weights import channel_names, input_names, read_controller, read_noise, read_weights, state_names
from stepmap.mechanics import System
from stepmap.optimal.projection import Monitor
from stepmap.optimal.switching_times import Script, ScriptSolution
from stepmap.optimal.switching_times.acts import Act, poses
from stepmap.optimal.switching_times.windows import require_times
from stepmap.steps import Trajectory
from stepmap.toml.tables import Table

NEEDED = {
    "system": "its name in the catalog or its file, and its arguments",
    "time": "dt, and duration or steps",
    "acts": "one [[acts]] or more, each with formulas of its local time in [acts.of]",
    "weights": "[weights.state] and [weights.input]",
}
OPTIONAL = ("start", "script", "solver", "noise")
BLEND, GIVE = 0.5, 0.1  # s


@dataclass(frozen=True, eq=False)
class ScriptJob(TrackingJob):
    """A play as its file says it, checked; its reference is that of the written times."""

    kind: ClassVar[str] = "script"
    acts: tuple[Act, ...] = ()
    act_names: tuple[str, ...] = ()
    at: tuple[float, ...] = ()  # written begins of all acts but the first [s]
    give: tuple[float, ...] = ()
    blend: float = BLEND

    def script(self) -> Script:
        """The problem that is solved."""
        times = (self.at, self.give, self.blend)
        return Script(self.step, self.acts, self.steps, times, self.weights.matrices, self.start, self.act_names)

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> ScriptSolution:  # type: ignore[override]
        """The best motion and times, from the written ones, or near a guess such as the result of an earlier play."""
        s, play = self.solver, self.script()
        return play.solve(guess=guess, max_iterations=s.max_iterations, tolerance=s.tolerance, monitor=monitor)

    def told(self, solution: ScriptSolution) -> dict[str, Any]:
        """What its summary has beside that of other kinds: name, written and found begin [s], and cost of each act."""
        rows = zip(self.act_names, (0.0, *self.at), solution.plan.acts, solution.act_costs, strict=True)
        return {
            "acts": [{"name": name, "written": w, "begins": begins, "cost": cost} for name, w, begins, cost in rows]
        }


def read(root: Table, name: str) -> ScriptJob:
    """The job of a document's outermost table."""
    root.only((*NEEDED, *OPTIONAL, *SHARED), "table")
    for table, why in NEEDED.items():
        if table not in root:
            raise root.error(f"the table [{table}] is missing: {why}")
    files: dict[str, bytes] = {}
    system = read_system(root.table("system"), files)
    dt, steps = read_time(root.table("time"))
    pose = read_start(root.table("start"), system)
    states, inputs = state_names(system), input_names(system)
    settings = root.table("script")
    settings.only(("blend",))
    blend = settings.number("blend", BLEND, unit="seconds")
    acts = _acts(root.tables("acts"), system)
    try:
        require_times(acts.at, acts.give, blend, steps * dt)
        written = poses(
            [c.name for c in system.coordinates], acts.formulas, pose, blend, dt * np.arange(steps + 1), acts.at
        )
    except (ModelError, ShapeError) as error:
        raise root.error(str(error), "acts") from None
    weights = read_weights(root.table("weights"), states, inputs)
    hard, soft = read_limits(root.table("limits"), system, states, inputs)
    return ScriptJob(
        name=name,
        system=system,
        dt=dt,
        steps=steps,
        forces=read_forces(root.table("time")),
        pose=pose,
        reference=Reference(written, np.zeros((steps, len(system.inputs))), "legendre", acts.named),
        goal=False,
        rest=False,
        own_weights=weights,
        controller=read_controller(root.table("weights"), states, inputs),
        hard=hard,
        limits=soft,
        solver=_solver(root.table("solver")),
        noise=read_noise(root.table("noise"), states, channel_names(system)) if "noise" in root else None,
        root=root,
        files=files,
        acts=acts.formulas,
        act_names=acts.names,
        at=acts.at,
        give=acts.give,
        blend=blend,
    )


def _solver(table: Table) -> Solver:
    table.only(("max_iterations", "tolerance"))
    usual = Solver()
    return Solver(
        max_iterations=table.whole("max_iterations", usual.max_iterations),
        tolerance=table.number("tolerance", usual.tolerance),
    )


@dataclass(frozen=True)
class _Acts:
    names: tuple[str, ...]
    formulas: tuple[Act, ...]
    at: tuple[float, ...]
    give: tuple[float, ...]
    named: tuple[str, ...]


def _acts(tables: list[Table], system: System) -> _Acts:
    """Acts in their order; all but the first have a written begin."""
    known = [c.name for c in system.coordinates]
    names, formulas, at, give = [], [], [], []
    for number, table in enumerate(tables):
        table.only(("name", "at", "give", "of"))
        names.append(table.text("name") if "name" in table else f"act {number}")
        of = table.table("of")
        of.only(known, "coordinate")
        formulas.append({name: of.entries[name] for name in of})
        if number == 0:
            for key in ("at", "give"):
                if key in table:
                    raise table.error("the first act begins with the play", key, hint="Leave it out.")
            continue
        table.need("at", "Give the time at which the act is to begin [s].")
        at.append(table.number("at", unit="seconds"))
        give.append(table.number("give", GIVE, unit="seconds"))
    if not tables:
        raise ModelError("acts: there is none")
    named = tuple(dict.fromkeys(name for act in formulas for name in act))
    return _Acts(tuple(names), tuple(formulas), tuple(at), tuple(give), named)
