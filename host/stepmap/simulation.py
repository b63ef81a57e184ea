"""Simulations: a start, inputs as formulas of time, one rollout, and what can be read off the result."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.formula import Formula
from stepmap.mechanics.gaps import violations
from stepmap.mechanics.system import System
from stepmap.steps import Trajectory, VariationalStep

FORMAT = "stepmap-simulation-1"


@dataclass(frozen=True, eq=False)
class Simulation:
    """A trajectory of a step map; what follows from it is computed when first asked for."""

    step: VariationalStep
    trajectory: Trajectory
    seconds: float | None = None  # computing time of the rollout

    @property
    def system(self) -> System:
        return self.step.system

    @property
    def poses(self) -> Array:
        """q̄ at all times, (N+1, n)."""
        return self.trajectory.x[:, : len(self.system.coordinates)]

    @cached_property
    def gaps(self) -> Array:
        """How far each constraint is from holding [m], (N+1, nc)."""
        return self.system.gaps(self.poses)

    @property
    def violations(self) -> Array:
        """The same of what does not hold: 0 where a gap is open."""
        return violations(self.gaps, self.system.constraint_rows)

    @cached_property
    def kinetic(self) -> Array:
        """Kinetic energy [J], (N+1)."""
        return self.system.kinetic_energy(self.poses, self.step.velocity(self.trajectory.x))

    @cached_property
    def potential(self) -> Array:
        """Potential energy [J], (N+1)."""
        return self.system.potential_energy(self.poses)

    @property
    def energy(self) -> Array:
        """Total energy [J], (N+1)."""
        return self.kinetic + self.potential

    @cached_property
    def conservative(self) -> bool:
        """Whether nothing does work: no force acts and no kinematic coordinate moves. Then energy should stay."""
        rho = self.poses[:, len(self.system.dynamic) :]
        if (rho != rho[0]).any():
            return False
        e, n = self.system.expressions, len(self.system.inputs)
        force = ca.Function("force", [e.q, e.v, e.u, e.parameters], [e.force])
        moved = self.system.tangent.difference(self.poses[:-1], self.poses[1:])
        middle = self.system.tangent.retract(self.poses[:-1], moved / 2)
        velocity = moved / self.step.dt
        if not len(middle):
            return True
        values = force(middle.T, velocity.T, self.trajectory.u[:, :n].T, self.system.parameter_values)
        return not np.asarray(values).any()

    @property
    def energy_drift(self) -> float:
        """Largest change of the energy since the start [J]."""
        return float(np.abs(self.energy - self.energy[0]).max())

    @property
    def lost(self) -> float:
        """Energy lost at impacts [J]."""
        return float(sum(event.energy for event in self.trajectory.events))

    def open_phases(self, name: str) -> list[tuple[float, float]]:
        """When a gap was open: times of begin and end. A bounce does not end it."""
        t, modes = self.trajectory.t, self.trajectory.modes
        events = [event for event in self.trajectory.events if event.name == name]
        closes = [event.kind == "release" for event in events[1:]] + [bool(modes) and name in modes[-1]]
        first = events[0].kind == "impact" if events else not (modes and name in modes[-1])
        begin, found = (float(t[0]) if first else None), []
        for event, closed in zip(events, closes, strict=False):
            if event.kind == "release":
                begin = event.time
            elif closed and begin is not None:
                found.append((begin, event.time))
                begin = None
        return found if begin is None else [*found, (begin, float(t[-1]))]

    @property
    def multipliers(self) -> Array:
        """Constraint forces [N] during each step, positive when they pull, (N, nc)."""
        known = self.trajectory.multipliers
        return np.zeros((self.trajectory.steps, self.step.nc)) if known is None else known

    def document(self) -> dict[str, object]:
        """The simulation as plain data, ready for JSON; docs/cli.md describes each entry."""
        system, step = self.system, self.step
        return {
            "format": FORMAT,
            "system": system.name,
            "parameters": {p.name: p.value for p in system.parameters},
            "parameter_units": {p.name: p.unit for p in system.parameters},
            "dt": step.dt,
            "steps": self.trajectory.steps,
            "state_names": list(step.state_names),
            "state_units": list(step.layout.units),
            "input_names": list(step.input_names),
            "input_units": input_units(step),
            "constraint_names": list(system.constraint_names),
            "t": self.trajectory.t.tolist(),
            "x": self.trajectory.x.tolist(),
            "u": self.trajectory.u.tolist(),
            "multipliers": self.multipliers.tolist(),
            "gaps": self.gaps.tolist(),
            "kinetic": self.kinetic.tolist(),
            "potential": self.potential.tolist(),
            "energy": self.energy.tolist(),
            "gap_names": list(system.gap_names),
            "events": [event._asdict() for event in self.trajectory.events],
            "modes": [list(mode) for mode in self.trajectory.modes],
        }


def simulate(
    step: VariationalStep, steps: int, pose: ArrayLike, moves: Mapping[str, Formula] | None = None
) -> Simulation:
    """N steps from rest at a pose; ``moves`` drive inputs by name, the others are held."""
    if steps < 1:
        raise ModelError(f"steps: must be at least 1, got {steps}")
    U = inputs(step, steps, pose, moves or {})
    x0 = step.rest(pose)
    begin = time.perf_counter()
    trajectory = step.rollout(x0, U)
    return Simulation(step, trajectory, time.perf_counter() - begin)


def inputs(step: VariationalStep, steps: int, pose: ArrayLike, moves: Mapping[str, Formula]) -> Array:
    """U (N, nu): forces zero and kinematic coordinates as in the pose, except where ``moves`` names them.

    A kinematic coordinate takes its formula's value at the end of each step. A force takes the one where its impulse
    has its centre, which keeps second order: in the middle if it is held, at the begin if it acts on the left.
    """
    names = movable(step.system)
    rho = step.system.configuration(pose)[len(step.system.dynamic) :]
    U = np.tile(np.concatenate([np.zeros(len(names) - step.nk), rho]), (steps, 1))
    for name, formula in moves.items():
        require_movable(step.system, name)
        column = names.index(name)
        late = 1.0 if column >= len(names) - step.nk else 1.0 - step.left
        U[:, column] = formula(step.dt * (np.arange(steps) + late))
    return U


def movable(system: System) -> list[str]:
    """Names that ``moves`` may use: force inputs, then kinematic coordinates; the order of u."""
    return [*(i.name for i in system.inputs), *(c.name for c in system.kinematic)]


def require_movable(system: System, name: str) -> None:
    """Raises ModelError unless the name is an input's or a kinematic coordinate's."""
    names = movable(system)
    if name in names:
        return
    there = f"there are {', '.join(names)}" if names else f"{system.name!r} has none"
    if any(c.name == name for c in system.dynamic):
        raise ModelError(f"coordinate {name!r} is dynamic and moves by itself; inputs can be moved, and {there}")
    raise ModelError(f"no kinematic coordinate or force input is called {name!r}; {there}")


def start_pose(
    system: System, wanted: Mapping[str, float], *, moves: Mapping[str, Formula] | None = None, firm: bool = True
) -> Array:
    """q̄ on the constraints with the ``wanted`` values; a moved kinematic coordinate begins where its formula does.

    What is not wanted gives way: dynamic coordinates first, then kinematic ones. Where ``firm`` is false, wanted values
    give way last of all.
    """
    kinematic = [c.name for c in system.kinematic]
    moved = {name: float(formula(0.0)) for name, formula in (moves or {}).items() if name in kinematic}
    for name in moved.keys() & wanted.keys():
        if firm and abs(moved[name] - wanted[name]) > 1e-9:
            raise ModelError(
                f"{name!r} starts at {wanted[name]:g}, but its formula at t = 0 is {moved[name]:g}; "
                "leave out the start or make them agree"
            )
    pose = {**wanted, **moved}
    attempts: list[Collection[str]] = [{*pose, *kinematic}, set(pose)]
    if not firm:
        attempts.append(set(moved))
    for fixed in attempts[:-1]:
        with contextlib.suppress(ConvergenceError):
            return system.satisfy_constraints(pose, sorted(fixed))
    return system.satisfy_constraints(pose, sorted(attempts[-1]))


def input_units(step: VariationalStep) -> list[str]:
    """Units of u = [forces, rho_next]."""
    return [*(i.unit for i in step.system.inputs), *(c.unit for c in step.system.kinematic)]
