"""The midpoint variational step: x = [q, rho, p, v], u = [forces, rho_next]."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, rows, vector
from stepmap.errors import ModelError
from stepmap.graph.library import Order, Recipe
from stepmap.mechanics.constraints import Distance
from stepmap.mechanics.elements.tendon import Tendon
from stepmap.mechanics.quantity import Coordinate
from stepmap.mechanics.system import Pose, System
from stepmap.steps.balance import balanced, holding_forces
from stepmap.steps.kernels.compiled import Kernel, choose, ready
from stepmap.steps.kernels.equations import Equations, entries
from stepmap.steps.kernels.implicit import call
from stepmap.steps.layout import MOMENTUM_UNITS, Copied, MechanicalLayout, pose_entries
from stepmap.steps.mechanical import MechanicalStep
from stepmap.steps.midpoint_functions import ModelFunctions
from stepmap.steps.rotations.equations import equations_with_balls, legendre_with_balls, momentum_with_balls
from stepmap.steps.rotations.kernel import ball_kernel
from stepmap.steps.rotations.maps import MAPS, Rotation

Forces: TypeAlias = Literal["held", "left"]
LANES = "midpoint_lanes.c"
LEFT = {"held": 0.5, "left": 1.0}  # part of a force's impulse that acts at the step's begin


class MidpointState(NamedTuple):
    """The parts of a state."""

    q: Array
    rho: Array
    p: Array
    v: Array


class MidpointLayout(MechanicalLayout):
    """x = [q, rho, p, v]: coordinates, momenta of the dynamic ones, rates of the kinematic ones."""

    def __init__(self, step: VariationalStep) -> None:
        system = step.system
        super().__init__(
            system,
            {
                **pose_entries(system),
                "p": [(f"p_{name}", MOMENTUM_UNITS.get(unit, "")) for name, unit in system.tangent.entries[: step.nd]],
                "v": [(f"v_{c.name}", f"{c.unit}/s" if c.unit else "") for c in system.kinematic],
            },
        )
        self._step = step

    @property
    def copied(self) -> Copied | None:
        return Copied(self.nd, self.nk) if self.nk else None

    @cached_property
    def legendre(self) -> ca.Function:
        return legendre_with_balls(self._step)

    def hold(self, x: ArrayLike, forces: ArrayLike | None = None) -> Array:
        return self._with_forces(np.asarray(x, dtype=float)[..., self["rho"]], forces)

    def momentum(self, pose: ArrayLike, velocity: ArrayLike, forces: ArrayLike | None = None) -> Array:
        """The discrete Legendre transform D2 Ld(q̄ − dt v̄, q̄), and what held forces add to it, (..., nd)."""
        step = self._step
        q, v = rows(pose, self.nq, "pose"), rows(velocity, self.tangent.nv, "velocity")
        given = np.zeros(self.forces) if forces is None else rows(forces, self.forces, "forces")
        if not self.plain:
            return momentum_with_balls(step, q, v, given)
        q, v = np.broadcast_arrays(q, v)
        flat = (q - step.dt / 2 * v).reshape(-1, q.shape[-1]).T
        u = np.broadcast_to(given, (*q.shape[:-1], self.forces)).reshape(flat.shape[1], self.forces).T
        par = np.tile(step.system.parameter_values[:, None], flat.shape[1])
        lq, lv, force = map(np.asarray, step.functions.first.casadi(flat, v.reshape(flat.T.shape).T, u, par))
        p = step.dt / 2 * lq + lv + (1 - step.left) * step.dt * force
        out: Array = p.reshape(-1, self.nd).reshape(*q.shape[:-1], self.nd)
        return out


class VariationalStep(MechanicalStep):
    """The one-step map of the midpoint variational integrator (eq. 5–8, Schultz & Murphey).

    Constraints hold to rounding at every step; without forces the symplectic form is preserved. Forces that are "held"
    give half of their impulse at each end of the step: p is the momentum at the node, and the map is second order
    against a plant whose inputs are held over the step. Forces on the "left" give all of it at the step's begin. Balls
    turn by ``rotation``: "exp", or "cayley", the map of Kobilarov and others, which is less exact (steps/rotations).
    """

    def __init__(self, system: System, dt: float, forces: Forces = "held", rotation: Rotation = "exp") -> None:
        if forces not in LEFT:
            raise ModelError(f"forces: expected 'held' or 'left', got {forces!r}")
        if rotation not in MAPS:
            raise ModelError(f"rotation: expected 'exp' or 'cayley', got {rotation!r}")
        self.forces, self.left = forces, LEFT[forces]
        self.rotation, self.map = rotation, MAPS[rotation]
        super().__init__(system, dt)
        if system.gap_names and not self.opens:
            raise ModelError(
                f"system {system.name!r} has gaps ({', '.join(system.gap_names)}), which this kind of step cannot "
                "open; use sm.discretize"
            )

    opens = False  # whether gaps may open in a step

    @property
    def options(self) -> dict[str, Any]:
        turns = {"rotation": self.rotation} if self.rotation != "exp" else {}
        return {"forces": self.forces, **turns}

    @cached_property
    def layout(self) -> MidpointLayout:
        return MidpointLayout(self)

    @cached_property
    def functions(self) -> ModelFunctions:
        return ModelFunctions(self.system.expressions, self.nd)

    @cached_property
    def kernel(self) -> Kernel:
        if self.system.balls:
            held = self.forces == "held"
            return ready(ball_kernel(self), self.evaluated) if held else self.from_equations()
        forces = len(self.system.inputs)
        active = self.functions.active
        sizes = {"ND": self.nd, "NK": self.nk, "NU": forces, "NC": self.nc, "NA": len(active)}
        sizes["NP"] = len(self.system.parameters)
        listed = "{" + ", ".join(map(str, active)) + "}"
        recipe = Recipe("midpoint.c", self.functions, {**sizes, "ACTIVE": listed, "FORCES_LEFT": self.left}, LANES)
        dimensions = self.nx, self.ndx, self.nu, self.nc
        return choose(recipe, dimensions, self.evaluated, (Order.EXTENDED, Order.EXTENDED))

    @cached_property
    def equations(self) -> Equations:
        return self.smooth_equations()

    def smooth_equations(self) -> Equations:
        """Eq. 5–8 as a graph; the unknowns are the next q and the impulses of the constraints."""
        if self.system.balls:
            return equations_with_balls(self)
        e, nd = self.system.expressions, self.nd
        nf, nq = len(self.system.inputs), self.nd + self.nk
        x, u, dt = ca.SX.sym("x", self.nx), ca.SX.sym("u", self.nu), ca.SX.sym("dt")
        z = ca.SX.sym("z", nd + self.nc)
        q1, p = x[:nq], x[nq : nq + nd]
        rho1, rho2 = entries(x, nd, nq), entries(u, nf, self.nu)
        q2, lam = ca.vertcat(z[:nd], rho2), entries(z, nd, nd + self.nc)
        lq, lv = ca.gradient(e.lagrangian, e.q)[:nd], ca.gradient(e.lagrangian, e.v)[:nd]
        middle = ca.Function("middle", [e.q, e.v, e.u, e.parameters], [lq, lv, e.force])
        lq, lv, force = middle((q1 + q2) / 2, (q2 - q1) / dt, entries(u, 0, nf), e.parameters)
        jacobian = ca.jacobian(e.residual, e.q[:nd])
        gaps = ca.Function("gaps", [e.q, e.parameters], [e.residual, jacobian, e.pull])
        _, slope, pull = gaps(q1, e.parameters)
        return Equations(
            x,
            u,
            z,
            dt,
            e.parameters,
            residual=ca.vertcat(
                p + dt / 2 * lq - lv + self.left * dt * force - slope.T @ lam, gaps(q2, e.parameters)[0]
            ),
            after=ca.vertcat(q2, dt / 2 * lq + lv + (1 - self.left) * dt * force, (rho2 - rho1) / dt),
            multipliers=pull * lam / dt,
            guess=ca.vertcat(x[:nd], ca.SX.zeros(self.nc)),
            decisive=nd,
        )

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        forces = (i.name for i in self.system.inputs)
        return (*forces, *(f"{c.name}_next" for c in self.system.kinematic))

    @cached_property
    def _lengths(self) -> list[int]:
        places = {c.name: len(self.system.inputs) + i for i, c in enumerate(self.system.kinematic)}
        strings = (c.length for c in self.system.constraints if isinstance(c, (Distance, Tendon)))
        return [places[length.name] for length in strings if isinstance(length, Coordinate)]

    # states -----------------------------------------------------------------------------------------------------

    def pack(
        self, q: ArrayLike, rho: ArrayLike | None = None, p: ArrayLike | None = None, v: ArrayLike | None = None
    ) -> Array:
        """x from its parts; parts left out are zero."""
        parts = []
        stored = len(self.system.dynamic)
        for name, part, size in (("q", q, stored), ("rho", rho, self.nk), ("p", p, self.nd), ("v", v, self.nk)):
            parts.append(np.zeros(size) if part is None else vector(part, size, name))
        return np.concatenate(parts)

    def unpack(self, x: ArrayLike) -> MidpointState:
        """The parts q, rho, p, v of a state."""
        return MidpointState(*self._split(x))

    def rest(self, pose: Pose | None = None, forces: ArrayLike | None = None) -> Array:
        """The state that has been held still at a pose for the last step: p = D2 Ld(q, q) = −dt/2 dV/dq.

        Without a pose, at the start of all coordinates. ``forces`` are those that held it; forces on the left leave no
        trace in p.
        """
        q = self.system.configuration({} if pose is None else pose)
        self._require_pose(q)
        return self._resting(q, self._given(forces))

    def _require_pose(self, q: Array) -> None:
        self.system.require_on_constraints(q)

    def _given(self, forces: ArrayLike | None) -> Array:
        """Forces, zero where not given."""
        count = len(self.system.inputs)
        return np.zeros(count) if forces is None else vector(forces, count, "forces")

    def _resting(self, q: Array, forces: Array) -> Array:
        still = np.zeros(self.system.tangent.nv)
        return np.concatenate([q, self.layout.momentum(q, still, forces), still[self.nd :]])

    def from_velocity(
        self,
        pose: Pose,
        velocity: Pose,
        *,
        instant: bool = False,
        forces: ArrayLike | None = None,
    ) -> Array:
        """The state at a pose reached with a velocity of q̄.

        By default the velocity is the one of the last step, (q̄_k − q̄_{k−1})/dt, and p its discrete Legendre transform
        D2 Ld(q̄ − dt v, q̄); ``rest`` is the case v = 0. With ``instant`` the velocity is the one at this very moment and
        p = L_v(q̄, v): use it to compare with a continuous solution, to second order in dt.
        """
        q = self.system.configuration(pose)
        velocities = self.system.velocities(velocity)
        self._require_pose(q)
        if not instant:
            p = self.layout.momentum(q, velocities, self._given(forces))
        else:
            no_force = np.zeros(len(self.system.inputs))
            p = call(self.functions.first, q, velocities, no_force, self.system.parameter_values)[1][:, 0]
        return np.concatenate([q, p, velocities[self.nd :]])

    def satisfy_constraints(self, pose: Pose, fixed: Sequence[str] = ()) -> Array:
        """The nearest q̄ on all constraints, keeping the ``fixed`` coordinates."""
        return self.system.satisfy_constraints(pose, fixed)

    def equilibrium(
        self,
        pose: Pose | None = None,
        forces: ArrayLike | None = None,
        *,
        iterations: int = 100,
    ) -> tuple[Array, Array]:
        """(x, u) that the map keeps: q near ``pose`` where all forces balance, rho held as given.

        Newton's method on dt (L_q + F) − D_q hᵀ lam = 0, h = 0, its steps shortened until the residual falls.
        """
        force = self._given(forces)
        q = balanced(
            self.system, self.functions, self.system.configuration({} if pose is None else pose), force, iterations
        )
        return self._resting(q, force), np.concatenate([force, q[len(self.system.dynamic) :]])

    def holding_forces(self, pose: Pose | None = None) -> Array | None:
        """The least forces that keep a pose as it is; None where no forces do. ``rest(pose, forces)`` then stays."""
        return holding_forces(self.system, self.functions, self.system.configuration({} if pose is None else pose))

    # motion -----------------------------------------------------------------------------------------------------

    def velocity(self, x: ArrayLike) -> Array:
        """Velocity of q̄ that belongs to p, after p's part normal to the constraints (their impulse) is taken off.

        Solves M q̇ + D_q hᵀ μ = p − M_qρ v,  D_q h q̇ = −D_ρ h v  for one state or many, (..., nx).
        """
        state = rows(x, self.nx, "x")
        nd, nc, nq = self.nd, self.nc, self.layout.nq
        q, p, v = state[..., :nq], state[..., nq : nq + nd], state[..., nq + nd :]
        mass, jacobian = self.system.mass_matrix(q), self.system.residuals_slope(q)
        matrix = np.zeros((*state.shape[:-1], nd + nc, nd + nc))
        matrix[..., :nd, :nd] = mass[..., :nd, :nd]
        matrix[..., nd:, :nd] = jacobian[..., :nd]
        matrix[..., :nd, nd:] = np.swapaxes(jacobian[..., :nd], -1, -2)
        free = p - np.einsum("...ij,...j->...i", mass[..., :nd, nd:], v)
        driven = -np.einsum("...ij,...j->...i", jacobian[..., nd:], v)
        right = np.concatenate([free, driven], axis=-1)[..., None]
        return np.concatenate([np.linalg.solve(matrix, right)[..., :nd, 0], v], axis=-1)

    def energy(self, x: ArrayLike) -> Array:
        """T + V [J] of one state or many."""
        q = self.layout.pose(rows(x, self.nx, "x"))
        return self.system.kinetic_energy(q, self.velocity(x)) + self.system.potential_energy(q)
