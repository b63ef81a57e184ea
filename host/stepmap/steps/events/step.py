"""The midpoint step of a system with gaps: a chain of segments, cut where a gap closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, rows, vector
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.graph.library import Order, Recipe
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.gaps import Contact, existing
from stepmap.mechanics.system import System
from stepmap.steps.events.balls import BallEventKernel
from stepmap.steps.events.cone import Slip, slips
from stepmap.steps.events.frozen import FrozenStep
from stepmap.steps.events.kernel import EventKernel, RecordingKernel
from stepmap.steps.events.told import tallies, told
from stepmap.steps.kernels.info import OK, Info
from stepmap.steps.lengths import times
from stepmap.steps.limits import InputBounds
from stepmap.steps.midpoint_functions import GapFunctions
from stepmap.steps.protocol import StepResult, Trajectory
from stepmap.steps.rotations.kernel import ball_defines
from stepmap.steps.rotations.maps import Rotation
from stepmap.steps.variational import Forces, VariationalStep

BEYOND, TOO_MANY = -5, -4  # statuses of the runtime
ABSENT = -1.0  # restitution of a gap that a map does not have
TOUCH = 1e-9  # m: a gap this close is closed


class EventStep(VariationalStep):
    """The one-step map of a system with strings and contacts.

    Closed gaps are read from x. Without an event it is the midpoint step with the closed gaps as constraints; where a
    gap closes, the step is cut there, the momentum jumps by the law of impacts, and the rest of the step follows.
    ``substeps`` cuts every step into so many equal parts; ``contacts`` are the gaps that exist in this map, all of them
    by default.
    """

    opens = True

    def __init__(
        self,
        system: System,
        dt: float,
        forces: Forces = "held",
        substeps: int = 1,
        contacts: Sequence[str] | None = None,
        rotation: Rotation = "exp",
    ) -> None:
        if isinstance(substeps, bool) or not isinstance(substeps, int) or not 1 <= substeps <= 100:
            raise ModelError(f"substeps: expected a whole number from 1 to 100, got {substeps!r}")
        super().__init__(system, dt, forces, rotation)
        if system.balls and forces != "held":
            raise ModelError(
                f"forces: a step with events has held forces where there are balls "
                f"({', '.join(ball.name for ball in system.balls)}), got {forces!r}"
            )
        if not system.gap_names:
            raise ModelError(
                f"system {system.name!r} has no gaps: nothing can happen inside its steps; use sm.discretize"
            )
        self.substeps = substeps
        self.contacts = existing(system.gap_names, contacts)

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "substeps": self.substeps, "contacts": self.contacts}

    @cached_property
    def functions(self) -> GapFunctions:
        return GapFunctions(self.system.expressions, self.nd)

    @cached_property
    def kernel(self) -> RecordingKernel:
        sizes = {"ND": self.nd, "NK": self.nk, "NU": len(self.system.inputs), "NC": self.nc}
        defines = {
            **sizes,
            "NA": len(self.functions.active),
            "NP": len(self.system.parameters),
            "ACTIVE": _listed(self.functions.active),
            "ROW_KINDS": _listed([int(row) for row in self.system.constraint_rows]),
            "FORCES_LEFT": self.left,
            "SM_GAPS": 1,
        }
        dimensions = self.nx, self.ndx, self.nu, self.nc
        if self.system.balls:
            recipe = Recipe("events.c", self.functions, {**defines, **ball_defines(self)})
            return BallEventKernel(recipe, dimensions, self.layout)
        return EventKernel(Recipe("events.c", self.functions, defines), dimensions, None, (Order.FIRST, Order.SECOND))

    @cached_property
    def parameter_values(self) -> Array:
        """Those of the model, the number of parts of a step, and the restitution of every row."""
        return np.concatenate([self.system.parameter_values, [float(self.substeps)], self._restitutions])

    @cached_property
    def _restitutions(self) -> Array:
        values = []
        for c in self.system.constraints:
            bounce = c.restitution if isinstance(c, Contact) else 0.0
            absent = c.rows[0] is not Row.EQUALITY and c.name not in self.contacts
            values.extend([ABSENT if absent else bounce] * len(c.rows))
        return np.array(values)

    # motion -----------------------------------------------------------------------------------------------------

    def step(self, x: ArrayLike, u: ArrayLike) -> StepResult:
        """The next state from state x under input u, with the events in between."""
        x, u = self._point(x, u)
        (info, after, multipliers), log = self.kernel.recorded(
            lambda: self.kernel.step(self.parameter_values, self.dt, x, u), 1
        )
        self._require(info, x, u)
        result = StepResult(after, multipliers, info.iterations)
        result.events, (result.modes,) = told(self.system, log, np.array([0.0, self.dt]), multipliers[None])
        return result

    def rollout(self, x0: ArrayLike, U: ArrayLike, dt: ArrayLike | None = None) -> Trajectory:
        """As of every step map; the trajectory has its events and modes."""
        x0 = vector(x0, self.nx, "x0")
        U = rows(np.array(U) if isinstance(U, np.ndarray) else U, self.nu, "U")
        if U.ndim != 2:
            raise ShapeError(f"U: expected (N, {self.nu}), got shape {U.shape}")
        self._check_lengths(U)
        lengths = self._lengths_of(dt, len(U))
        (info, X, multipliers), log = self.kernel.recorded(
            lambda: self.kernel.rollout(self.parameter_values, lengths, x0, U), len(U)
        )
        if info.status != OK:
            self._lost(info, X, U, "rollout", info.step, lengths)
        t = times(lengths, len(U))
        return Trajectory(t, X, U, multipliers, *told(self.system, log, t, multipliers))

    def follow(
        self,
        x0: ArrayLike,
        reference: Trajectory,
        gains: ArrayLike,
        dt: ArrayLike | None = None,
        *,
        within: InputBounds | None = None,
    ) -> Trajectory:
        """As of every step map; the trajectory has its events and modes.

        Where the reference has them too, feedback is off at nodes whose events so far differ (u = ū): gains would
        multiply the jump of the velocity that only one of the two has had.
        """
        expected = tallies(self.system, reference, self.closed(reference.x[0]))
        found, log = self.kernel.recorded(
            lambda: super(EventStep, self).follow(x0, reference, gains, dt, within=within), reference.steps, expected
        )
        forces = np.zeros((reference.steps, self.nc)) if found.multipliers is None else found.multipliers
        return Trajectory(found.t, found.x, found.u, forces, *told(self.system, log, found.t, forces))

    def frozen(self, x: ArrayLike, u: ArrayLike) -> FrozenStep:
        """The map with the order of events of (x, u) everywhere, which the exact derivatives there are those of."""
        return FrozenStep(self, *self._point(x, u))

    def outside_cone(self, trajectory: Trajectory, coefficient: float | Mapping[str, float]) -> tuple[Slip, ...]:
        """Where contacts that stick would slip: steps and impacts with |λ_t| > μ λ_n, in the order of time.

        ``coefficient`` is μ, one number for all contacts that stick, or numbers by name for those that matter.
        """
        self._fits(trajectory)
        return slips(self, trajectory, coefficient)

    def closed(self, x: ArrayLike) -> Array:
        """Which rows of the constraints are closed in a state, (..., nc): those of wires, and gaps that touch."""
        gaps = self.system.gaps(self.layout.pose(rows(x, self.nx, "x")))
        kinds = np.array(self.system.constraint_rows)
        touching = (gaps >= -TOUCH) & (kinds == Row.GAP) & (self._restitutions != ABSENT)
        for i in np.flatnonzero(kinds == Row.TANGENT):  # after the gap they belong to
            touching[..., i] = touching[..., i - 1]
        out: Array = touching | (kinds == Row.EQUALITY)
        return out

    def velocity(self, x: ArrayLike) -> Array:
        """Velocity of q̄ that belongs to p, after what closed gaps and constraints hold back is taken off.

        Closed gaps only hold back what approaches: one that leaves does so.
        """
        state = rows(x, self.nx, "x")
        flat = state.reshape(-1, self.nx)
        out = np.array([self._velocity(one) for one in flat]).reshape(*state.shape[:-1], self.nd + self.nk)
        return out

    def _velocity(self, x: Array) -> Array:
        nd, nq = self.nd, self.layout.nq
        q, p, v = x[:nq], x[nq : nq + nd], x[nq + nd :]
        mass, slope = self.system.mass_matrix(q), self.system.residuals_slope(q)
        kinds, held = np.array(self.system.constraint_rows), self.closed(x)
        free = p - mass[:nd, nd:] @ v
        while True:
            D = slope[held]
            inverse = np.linalg.solve(mass[:nd, :nd], np.column_stack([free, D[:, :nd].T]))
            speeds = D[:, :nd] @ inverse[:, 0] + D[:, nd:] @ v
            impulses = np.linalg.lstsq(D[:, :nd] @ inverse[:, 1:], speeds, rcond=1e-12)[0]
            leaving = (impulses < -1e-12) & (kinds[held] == Row.GAP)
            if not leaving.any():
                return np.concatenate([inverse[:, 0] - inverse[:, 1:] @ impulses, v])
            least = np.flatnonzero(held)[np.argmin(np.where(leaving, impulses, 0.0))]
            held[least] = False
            held[[i for i in range(least + 1, self.nc) if kinds[i] == Row.TANGENT and _owner(kinds, i) == least]] = (
                False
            )

    # checks -----------------------------------------------------------------------------------------------------

    def _require_pose(self, q: Array) -> None:
        passed = [name for name in self.system.gap_names if name not in self.contacts]
        self.system.require_on_constraints(q, without=passed)

    def _fail(self, info: Info, x: Array, u: Array, where: str = "", dt: float | None = None) -> NoReturn:
        nq, names = self.layout.nq, self.system.constraint_names
        exist = (np.array(self.system.constraint_rows) == Row.GAP) & (self._restitutions != ABSENT)
        if info.status == BEYOND:
            gaps = np.where(exist, self.system.gaps(x[:nq]), -np.inf)
            worst = int(np.argmax(gaps))
            raise ModelError(
                f"{where}x is beyond gap {names[worst]!r} by {gaps[worst]:.3g} m; put it there with "
                "satisfy_constraints(pose, fixed=[...]) (an open gap is fine)"
            )
        if info.status in (-2, -3, TOO_MANY) and exist.any():
            ahead = np.concatenate([x[: nq - self.nk], u[len(self.system.inputs) :]])
            gaps = np.where(exist, self.system.gaps(ahead), -np.inf)
            worst = int(np.argmax(gaps))
            many = "more than 200 segments in a step" if info.status == TOO_MANY else "it was halved eight times"
            raise ConvergenceError(
                f"{where}the step of {self.name!r} at dt = {dt or self.dt:g} s could not be solved; gap "
                f"{names[worst]!r} is beyond by {gaps[worst]:.3g} m with the input: out of reach, or dt is too long "
                f"({many}; iterations {info.iterations}, residual {info.residual:.3g})",
                iterations=info.iterations,
                residual=info.residual,
                x=x.copy(),
            )
        super()._fail(info, x, u, where, dt)


def _owner(kinds: Array, i: int) -> int:
    while kinds[i] == Row.TANGENT:
        i -= 1
    return i


def _listed(values: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"
