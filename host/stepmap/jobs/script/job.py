"""A play of acts as its file says it, how it is solved, and how one that was changed goes on from its old solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.jobs.job import TrackingJob
from stepmap.optimal import Plan
from stepmap.optimal.plan import ACT
from stepmap.optimal.projection import Monitor
from stepmap.optimal.switching_times import Script, ScriptSolution
from stepmap.optimal.switching_times.acts import Act
from stepmap.optimal.switching_times.windows import require_times
from stepmap.steps import Trajectory

BLEND = 0.5  # s


@dataclass(frozen=True, eq=False)
class Earlier:
    """Where a search goes on: the motion and the begins of an earlier play; of one with other acts the begins alone."""

    trajectory: Trajectory | None
    begins: Array


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
        play = Script(self.step, self.acts, self.steps, times, self.weights.matrices, self.start, self.act_names)
        play.regulator = self.regulator
        return play

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | Earlier | None = None) -> ScriptSolution:  # type: ignore[override]
        """The best motion and times, from the written ones, or near a guess; ``resumed`` makes one of an old plan."""
        s, play = self.solver, self.script()
        begins = guess.begins if isinstance(guess, Earlier) else None
        motion = guess.trajectory if isinstance(guess, Earlier) else guess
        most, tolerance = s.max_iterations, s.tolerance
        return play.solve(begins, guess=motion, max_iterations=most, tolerance=tolerance, monitor=monitor)

    def resumed(self, plan: Plan) -> Earlier:
        """An earlier plan of this play as a guess, also where acts or times have changed.

        Acts begin where they did; those that are new, or were moved further than they give, where they are written.
        """
        old, step = plan.trajectory, self.step
        if old.x.shape[1] != step.nx or old.u.shape[1] != step.nu:
            raise ModelError("the earlier plan is of another system; run without it first")
        if {event.name for event in plan.events if event.kind == ACT} != set(self.act_names):
            return Earlier(None, self._begins_of(plan))
        t = np.clip(self.t, old.t[0], old.t[-1])
        x = np.column_stack([np.interp(t, old.t, column) for column in old.x.T])
        u = np.column_stack([np.interp(t[:-1], old.t[:-1], column) for column in old.u.T])
        return Earlier(Trajectory(self.t, x, u), self._begins_of(plan))

    def _begins_of(self, plan: Plan) -> Array:
        """Begins of the acts that the plan has, too, by their names; as written where they would not fit."""
        found = {event.name: event.time for event in plan.events if event.kind == ACT}
        written = np.array(self.at, dtype=float)
        begins = np.array([found.get(name, at) for name, at in zip(self.act_names[1:], written, strict=True)])
        far = np.abs(begins - written) > 3 * np.array(self.give)  # it was moved: the old begin says nothing
        begins = np.where(far, written, begins)
        try:
            require_times(begins, self.give, self.blend, self.steps * self.dt)
        except ModelError:
            return written
        return begins

    def told(self, solution: ScriptSolution) -> dict[str, Any]:
        """What its summary has beside that of other kinds: name, written and found begin [s], and cost of each act."""
        rows = zip(self.act_names, (0.0, *self.at), solution.plan.acts, solution.act_costs, strict=True)
        return {
            "acts": [{"name": name, "written": w, "begins": begins, "cost": cost} for name, w, begins, cost in rows]
        }
