"""A gait job as a board sees it: the robot on its stance foot, rows that begin again at every landing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.estimate import ExtendedKalmanFilter, Filter
from stepmap.jobs.weights import Noise
from stepmap.optimal import Plan
from stepmap.optimal.direct import DirectSolution
from stepmap.optimal.gaits.cycle import Cycle, Stretch
from stepmap.optimal.gaits.renaming import Renaming
from stepmap.optimal.projection import Monitor
from stepmap.steps import Trajectory, VariationalStep
from stepmap.toml.tables import Table
from stepmap.walking.schedule import BEYOND, Schedule
from stepmap.walking.standing import StandingSystem, Touchdown, stance_step, standing

if TYPE_CHECKING:
    from stepmap.jobs.gaits.job import GaitJob


@dataclass(frozen=True, eq=False)
class GaitOnBoard:
    """What later stages take for the job: coordinates that the stance foot holds are left out of all of it."""

    kind: ClassVar[str] = "gait"
    whole: GaitJob

    def __post_init__(self) -> None:
        _require_one_phase(self.whole)
        _ = self.system

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def root(self) -> Table:
        return self.whole.root

    @property
    def document(self) -> Mapping[str, Any]:
        return self.whole.document

    @property
    def files(self) -> Mapping[str, bytes]:
        return self.whole.files

    @property
    def dt(self) -> float:
        return self.whole.dt

    @property
    def cycle_steps(self) -> int:
        """Rows of the plan."""
        return self.whole.steps

    @property
    def beyond(self) -> int:
        """Rows behind them, for landings that are late."""
        return BEYOND

    @property
    def steps(self) -> int:
        return self.cycle_steps + self.beyond

    @cached_property
    def system(self) -> StandingSystem:
        return standing(self.whole.system, self.closed, self.whole.pose)

    @property
    def closed(self) -> tuple[str, ...]:
        return tuple(self.whole.wanted.all_phases[0].closed)

    @cached_property
    def step(self) -> VariationalStep:
        return stance_step(self.system, self.dt)

    @cached_property
    def renaming(self) -> Renaming:
        return Renaming(self.whole.system, self.whole.wanted.periodic or {})

    @cached_property
    def contact(self) -> str:
        """The contact that comes down at the end of a step."""
        after = [self.renaming.partners[name] for name in self.closed]
        struck = [name for name in after if name not in self.closed]
        if len(struck) != 1:
            raise ModelError(f"job {self.name!r}: a board knows one landing per step, and here {len(struck)} feet land")
        return struck[0]

    @cached_property
    def touchdown(self) -> Touchdown:
        return Touchdown(self.system, self.renaming, self.whole.system.constraint_names.index(self.contact))

    @property
    def pose(self) -> Array:
        pose: Array = self.whole.pose[list(self.system.free)]
        return pose

    @property
    def noise(self) -> Noise | None:
        made, free = self.whole.noise, list(self.system.free)
        if made is None:
            return None
        both = [*free, *(len(self.whole.system.coordinates) + i for i in free)]
        return Noise(made.process[both], made.measurement, made.start[both], made.gate, made.filter)

    def build(self) -> None:
        self.whole.build()

    def solve(self, monitor: Monitor | None = None, guess: Trajectory | None = None) -> DirectSolution:
        return self.whole.solve(monitor, guess)

    def filter(self) -> Filter[Any]:
        if self.noise is None:
            raise ModelError(f"job {self.name!r} has no table [noise]", hint="Add it: a filter needs the noise.")
        return self.noise.make_filter(self.step)

    def ekf(self) -> ExtendedKalmanFilter:
        return self.whole.ekf()

    def on_board(self, plan: Plan) -> Plan:
        """The rows that a board follows: those of the plan, and those that continue it through the ground."""
        found, system = plan.trajectory, self.whole.system
        stretch = Stretch(self.closed, self.cycle_steps, self.dt)
        cycle = Cycle(system, (stretch,), self.renaming, found.x, found.u)
        n, free = len(system.coordinates), list(self.system.free)
        columns = [*free, *(n + i for i in free)]
        rows = Schedule.of(cycle, plan.gains, self.beyond)
        last = cycle.maps[0].step(rows.x[-1], rows.u[-1]).x
        x = np.concatenate([rows.x, last[None]])[:, columns]
        made = Trajectory(self.dt * np.arange(len(x)), x, rows.u)
        return Plan(made, rows.gains[:, :, columns], made)


def _require_one_phase(job: GaitJob) -> None:
    phases = job.wanted.all_phases
    if len(phases) != 1:
        raise ModelError(f"job {job.name!r}: a board walks gaits of one phase per step, and this one has {len(phases)}")
    low, high = phases[0].range
    if low != high:
        raise job.root.tables("phases")[0].error(
            "a board's period is decided before the gait is known; give the time as a number",
            "time",
            hint="stepmap optimize finds it: summary.json has it as time.",
        )
    if job.wanted.design:
        raise job.root.table("design").error(
            "a board's mechanism is decided before the gait is known",
            hint="stepmap optimize finds the parameters: put them into [system], and leave [design] out.",
        )
