"""What direct optimal control ends in: the trajectory on the step map it is one of, with gains along it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.mechanics.quantity import number
from stepmap.mechanics.system import System
from stepmap.optimal.direct.ends import holding
from stepmap.optimal.direct.formulation import Formulation
from stepmap.optimal.direct.search import Attempt, Searched, search
from stepmap.optimal.direct.task import Task
from stepmap.optimal.direct.weights import regulator_weights
from stepmap.optimal.gaits import renaming
from stepmap.optimal.gaits.cycle import Cycle, Stretch
from stepmap.optimal.gaits.feedback import Slopes, slopes
from stepmap.optimal.gaits.hold import held, landings
from stepmap.optimal.lqr import lqr
from stepmap.optimal.plan import Plan, gains_with_steady_end
from stepmap.optimal.problem import Iteration, Status
from stepmap.steps.kinds import discretize
from stepmap.steps.protocol import Trajectory
from stepmap.steps.variational import VariationalStep

AT_REST = 1e-6  # m or rad: what an end may move in the step that is added to it


@dataclass(frozen=True, eq=False)
class DirectSolution:
    """The best motion found. ``step`` is the map that ``trajectory`` is one of, ``time`` [s] how long it takes.

    ``cost`` is that of the program, ``iterations`` those on all grids, ``starts`` what each start came to on the
    coarsest one; ``cpu_s`` is the solver's time without compiling.
    """

    task: Task
    searched: Searched

    @property
    def status(self) -> Status:
        return self.searched.found.status

    @property
    def advice(self) -> str:
        """How the search ended and what to do."""
        found = self.searched.found
        if self.status is Status.UNMET:
            return (
                f"found no motion that meets all conditions: {found.worst} is off by {found.infeasibility:.3g}; "
                "give it more time or wider limits, try more starts, or another guess"
            )
        if self.status is Status.STALLED:
            return (
                f"stopped at a motion that meets all conditions, before its cost is least ({found.said}); start again "
                "from it (guess=solution), with another number of steps, or with more starts"
            )
        return str(self.status)

    @property
    def cost(self) -> float:
        return self.searched.found.cost

    @property
    def history(self) -> tuple[Iteration, ...]:
        return self.searched.history

    @property
    def iterations(self) -> int:
        return sum(self.searched.iterations)

    @property
    def starts(self) -> tuple[Attempt, ...]:
        return self.searched.attempts

    @property
    def spread(self) -> float:
        """How far apart costs of starts that converged are, as a part of the least."""
        costs = [attempt.cost for attempt in self.starts if attempt.status.ok]
        return (max(costs) - min(costs)) / max(abs(min(costs)), 1e-300) if costs else math.nan

    @property
    def cpu_s(self) -> float:
        return self.searched.cpu_s

    @cached_property
    def time(self) -> float:
        return sum(motion.time for motion in self.searched.motions)

    @cached_property
    def design(self) -> dict[str, float]:
        """Values of the parameters that were found, by name."""
        values = self.searched.transcription.others(self.searched.found.w)["design"]
        names = [self.task.system.parameters[i].name for i in self.task.designed]
        return dict(zip(names, map(float, values), strict=True))

    @property
    def design_slopes(self) -> dict[str, float]:
        """dJ/dβ of the least cost by each parameter of the design, by the multiplier of its bounds (envelope theorem).

        None is left of one that is found within its range; one that is given, ``design={"shank": 0.5}``, has all.
        """
        at = self.searched.transcription.numbering.others["design"]
        return dict(zip(self.design, map(float, -self.searched.found.variables[at]), strict=True))

    @cached_property
    def system(self) -> System:
        """The system with the parameters that were found."""
        return self.task.system.with_parameters(**self.design) if self.design else self.task.system

    @cached_property
    def step(self) -> VariationalStep:
        """The map of the motion, or of its first phase."""
        motion, phases = self.searched.motions[0], self.task.all_phases
        if self.task.phases and self.system.gap_names:
            return discretize(self.system, motion.h, contacts=phases[0].closed)
        return discretize(self.system, motion.h)

    @cached_property
    def trajectory(self) -> Trajectory:
        """Times, states and inputs of the map; the program's own, not simulated again.

        The state at the end of a phase is the one before its transition.
        """
        m, motions, modes = self.task.mechanism, self.searched.motions, self.task.modes
        states, inputs, forces, lengths = [], [], [], []
        for i, (motion, mode) in enumerate(zip(motions, modes, strict=True)):
            held = np.zeros((motion.steps, len(self.task.system.constraint_names)))
            rows = list(mode.rows)
            if rows:
                held[:, rows] = m.pulls(motion.q[:-1])[:, rows] * motion.lam
            before = np.vstack([self.task.first.v[None] if i == 0 else motions[i - 1].v[-1:], motion.v])[:, m.nd :]
            x = np.hstack([motion.q, motion.p, before])
            states.append(x if i == 0 else x[1:])
            inputs.append(np.hstack([motion.u, motion.q[1:, m.nq - (m.n - m.nd) :]]))
            forces.append(held)
            lengths.append(np.full(motion.steps, motion.h))
        t = np.concatenate([[0.0], np.cumsum(np.concatenate(lengths))])
        if len(motions) == 1:
            t = motions[0].h * np.arange(motions[0].steps + 1)
        found = Trajectory(t, np.vstack(states), np.vstack(inputs), np.vstack(forces))
        return self._rested(found) if self.task.rest and self.status.ok else found

    def _rested(self, found: Trajectory) -> Trajectory:
        """With one step more, under the forces that hold the end; as it is where none do."""
        step, x = self.step, found.x[-1]
        pose = step.layout.pose(x)
        forces = holding(self.system, pose)
        if forces is None:
            return found
        u = step.layout.hold(pose[None], forces[None])[0]
        after, held = step.step(x, u)[:2]
        if np.abs(step.layout.difference(x, after)[: step.system.tangent.nd]).max() > AT_REST:
            return found
        assert found.multipliers is not None
        t, forces = np.append(found.t, found.t[-1] + step.dt), np.vstack([found.multipliers, held])
        return Trajectory(t, np.vstack([found.x, after]), np.vstack([found.u, u]), forces)

    @property
    def multipliers(self) -> Array:
        """Constraint forces [N] of all steps, (N, nc)."""
        forces = self.trajectory.multipliers
        assert forces is not None
        return forces

    @cached_property
    def cycle(self) -> Cycle:
        """A periodic motion with its phases and its renaming; raises ModelError where it is none."""
        task, found = self.task, self.trajectory
        if task.periodic is None or not self.system.gap_names:
            raise ModelError("floquet: only periodic motions through contacts have a return map; give periodic={...}")
        pairs = zip(task.all_phases, self.searched.motions, strict=True)
        stretches = tuple(Stretch(tuple(phase.closed), motion.steps, motion.h) for phase, motion in pairs)
        return Cycle(self.system, stretches, renaming.Renaming(self.system, task.periodic), found.x, found.u)

    @cached_property
    def _slopes(self) -> Slopes:
        return slopes(self.cycle)

    @property
    def floquet(self) -> Array:
        """Multipliers of the return map without feedback, the largest first; ``plan.floquet`` are those with it."""
        return self._slopes.multipliers()

    @cached_property
    def plan(self) -> Plan:
        """The trajectory with gains (N, nu, ndx) on its map, whose end is held where it can be.

        Gains of a gait are periodic, and hold it through its landings.
        """
        if self.task.periodic is not None and self.system.gap_names:
            events = replace(self.trajectory, events=landings(self.cycle))
            return held(self.cycle, self._slopes, events, self.task.weights)
        step, found = self.step, self.trajectory
        Q, R = self._weights
        finite = lqr(step, found, Q, R, 100 * Q)
        gains, fading = gains_with_steady_end(step, found, Q, R, finite)
        return Plan(found, gains, found, found.events, fading=fading)

    @property
    def _weights(self) -> tuple[Array, Array]:
        """Q and R of the gains: those that were given, or natural ones."""
        if self.task.weights is not None:
            Q, R = self.task.weights
            return np.asarray(Q, dtype=float), np.asarray(R, dtype=float)
        return regulator_weights(self.step, self.trajectory, self._input_sizes)

    @property
    def _input_sizes(self) -> Array:
        """What is much of every input: half of its range, or what the trajectory uses of it where that has no end."""
        task, u = self.task, self.trajectory.u
        m = task.mechanism
        low, high = np.hstack([task.bounds.u, task.bounds.q[:, m.nq - (m.n - m.nd) :]])
        used = np.maximum(np.ptp(u, axis=0), 1e-3)
        out: Array = np.where(np.isfinite(high - low), (high - low) / 2, used)
        return out

    def require(self) -> DirectSolution:
        """Itself when converged; raises ConvergenceError otherwise."""
        if not self.status.ok:
            raise ConvergenceError(
                f"direct: {self.advice}",
                iterations=self.iterations,
                residual=self.searched.found.infeasibility,
                x=self.searched.found.w,
            )
        return self

    def at_period(self, dt: float) -> DirectSolution:
        """The solution with steps of a board's period dt [s]: time fixed to a whole number of them, polished.

        The time is rounded up, or down where the longest one allowed is shorter.
        """
        dt = number(dt, "dt", "a number of seconds")
        if not dt > 0:
            raise ModelError(f"dt: must be positive, got {dt:g}")
        low, high = self.task.all_phases[0].range
        steps = math.ceil(self.time / dt - 1e-6)
        if steps * dt > high * (1 + 1e-9) and low < high:
            steps = math.floor(high / dt + 1e-9)
        if steps < 2:
            raise ModelError(f"dt: {dt:g} s is too long for a motion of {self.time:g} s")
        task = replace(self.task, steps=steps, time=steps * dt, guess=None)
        motions = [motion.timed(steps * dt, steps * dt) for motion in self.searched.motions]
        return DirectSolution(task, search(Formulation(task), near=motions).after(self.searched))

    @property
    def told(self) -> dict[str, Any]:
        """Plain data of what the search came to."""
        clearances = [
            one.of(self.system).evaluate(self.trajectory.x[:, : self.task.mechanism.nq]) for one in self.task.clear
        ]
        return {
            "time": self.time,
            "grids": list(self.searched.iterations),
            "starts": [{"cost": a.cost, "time": a.time, "status": a.status.name.lower()} for a in self.starts],
            "infeasibility": self.searched.found.infeasibility,
            "clearance": min((float(rows.min()) for rows in clearances), default=None),
            "parameters": self.design,
        }

    def __repr__(self) -> str:
        return (
            f"DirectSolution({self.status.name.lower()}, cost {self.cost:.6g}, time {self.time:.4g} s, "
            f"{self.iterations} iterations, {self.cpu_s:.2g} s)"
        )
