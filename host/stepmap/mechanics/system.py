"""System: an immutable mechanism and what can be asked of it at a configuration."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, rows, vector
from stepmap.errors import ModelError
from stepmap.mechanics.bodies import Body, massless, require_possible
from stepmap.mechanics.constraints import Constraint, Row
from stepmap.mechanics.elements.rotor import Rotor
from stepmap.mechanics.expressions import Expressions, express
from stepmap.mechanics.forces import Force
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.gaps import gap_names, modes_of, require_movable
from stepmap.mechanics.gaps import violations as violated
from stepmap.mechanics.poses.named import fill, pose_places, velocity_places
from stepmap.mechanics.poses.satisfy import satisfied
from stepmap.mechanics.poses.tangent import Tangent
from stepmap.mechanics.potentials import Potential
from stepmap.mechanics.quantity import Ball, Coordinate, Input, Parameter, number
from stepmap.mechanics.sensors import Sensor

Pose: TypeAlias = "Mapping[str, Any] | ArrayLike"
"""q̄ or a velocity, as an array or by name."""


@dataclass(frozen=True, eq=False)
class System:
    """A mechanism. Made by Builder.build(); q̄ is ordered dynamic coordinates first, then kinematic.

    q̄ has one number per entry of ``coordinates``: arrays of poses have these. A ball has four of them, its unit
    quaternion, and three tangent dimensions. What is a derivative lives in the tangent space, with ``tangent.nv``
    entries: velocities (ω in the child's axes), mass matrix, slopes of constraints and readings; ``tangent`` has
    ``difference`` and ``retract``. Both sizes are the same where nothing turns freely.
    """

    name: str
    coordinates: tuple[Coordinate, ...]
    inputs: tuple[Input, ...]
    parameters: tuple[Parameter, ...]
    symbols: tuple[ca.SX, ...]
    frames: tuple[Frame, ...]
    bodies: tuple[Body, ...]
    gravity: tuple[ca.SX, ...]
    potentials: tuple[Potential, ...]
    forces: tuple[Force, ...]
    constraints: tuple[Constraint, ...]
    sensors: tuple[Sensor, ...]
    balls: tuple[Ball, ...] = ()
    rotors: tuple[Rotor, ...] = ()
    left_out: tuple[str, ...] = ()  # what the file it was imported from says besides, and this mechanism does not have

    def __post_init__(self) -> None:
        if not self.dynamic:
            raise ModelError(f"system {self.name!r} has no dynamic coordinate; nothing in it can move by itself")
        self._check_names()
        self._check_bodies()
        self._check_mass_matrix()
        self._check_gaps()

    # names ------------------------------------------------------------------------------------------------------

    @property
    def dynamic(self) -> tuple[Coordinate, ...]:
        return tuple(c for c in self.coordinates if not c.kinematic)

    @property
    def kinematic(self) -> tuple[Coordinate, ...]:
        return tuple(c for c in self.coordinates if c.kinematic)

    @cached_property
    def tangent(self) -> Tangent:
        """The tangent space of q̄."""
        return Tangent(self.coordinates, self.balls)

    @cached_property
    def constraint_names(self) -> tuple[str, ...]:
        return tuple(label for c in self.constraints for label in c.labels)

    @cached_property
    def constraint_rows(self) -> tuple[Row, ...]:
        """What each row is: an equality, a gap that may open, or a tangent of a foot that sticks."""
        return tuple(row for c in self.constraints for row in c.rows)

    @cached_property
    def gap_names(self) -> tuple[str, ...]:
        """The rows of ``constraint_names`` that may open: strings and contacts."""
        return gap_names(self.constraints)

    @property
    def sensor_channels(self) -> tuple[tuple[str, str], ...]:
        """(name, unit) of every sensor channel."""
        return tuple(channel for s in self.sensors for channel in s.channels)

    def __reduce__(self) -> tuple[Any, ...]:
        """Expressions are pickled in a context of CasADi's own, which keeps the symbols they share."""
        with ca.global_pickle_context():
            content = pickle.dumps({f.name: getattr(self, f.name) for f in dataclasses.fields(self)})
        return _unpickled, (content,)

    @cached_property
    def parameter_values(self) -> Array:
        return np.array([p.value for p in self.parameters], dtype=float)

    @cached_property
    def expressions(self) -> Expressions:
        return express(self)

    def with_parameters(self, **values: float) -> System:
        """The same mechanism with other parameter values; compiled code is shared."""
        known = {p.name for p in self.parameters}
        for name in values:
            if name not in known:
                there = ", ".join(sorted(known)) or "none"
                raise ModelError(f"system {self.name!r} has no parameter {name!r}; there are: {there}")
        given = {name: number(value, f"parameter {name!r}") for name, value in values.items()}
        changed = tuple(dataclasses.replace(p, value=given.get(p.name, p.value)) for p in self.parameters)
        copy = dataclasses.replace(self, parameters=changed)
        copy.__dict__["expressions"] = self.expressions
        return copy

    def with_start(self, pose: Pose) -> System:
        """The same mechanism with ``pose`` as the start of all coordinates."""
        q = self.configuration(pose)
        self.require_on_constraints(q)
        started = {c.name: dataclasses.replace(c, start=float(e)) for c, e in zip(self.coordinates, q, strict=True)}
        copy = dataclasses.replace(self, coordinates=tuple(started.values()))
        copy.__dict__["expressions"] = self.expressions
        return copy

    # configurations ---------------------------------------------------------------------------------------------

    def configuration(self, pose: Pose) -> Array:
        """q̄ as an array, from an array or from names; a coordinate that is not named takes its ``start``.

        A ball takes its quaternion (w, x, y, z), a free body its position and quaternion. One whose norm is off 1 by up
        to 1e-3 is normalised.
        """
        if isinstance(pose, Mapping):
            start = np.array([c.start for c in self.coordinates])
            q = fill(pose, pose_places(self.tangent, self.balls), start, "pose")
        else:
            q = vector(pose, len(self.coordinates), "q̄")
        return self.tangent.require_unit(q, "pose")

    def velocities(self, velocity: Pose) -> Array:
        """A velocity of q̄ in the tangent space; what is not named stands still.

        A ball takes ω in the child's axes, a free body the velocity of its position in the parent's axes and ω.
        """
        if isinstance(velocity, Mapping):
            return fill(velocity, velocity_places(self.tangent, self.balls), np.zeros(self.tangent.nv), "velocity")
        return vector(velocity, self.tangent.nv, "velocity")

    # what holds at a configuration; arrays may have leading axes --------------------------------------------------

    def kinetic_energy(self, pose: ArrayLike, velocity: ArrayLike) -> Array:
        """T(q̄, v̄) [J]."""
        return self._observe("kinetic", pose, velocity)[..., 0]

    def potential_energy(self, pose: ArrayLike) -> Array:
        """V(q̄) [J]."""
        return self._observe("potential", pose)[..., 0]

    def positions(self, pose: ArrayLike) -> Array:
        """World positions of all frames, (..., frame, 3) [m]; ``frame_names`` is the order."""
        flat = self._observe("positions", pose)
        return flat.reshape(*flat.shape[:-1], len(self.frames), 3)

    @property
    def frame_names(self) -> tuple[str, ...]:
        return tuple(frame.name for frame in self.frames)

    def gaps(self, pose: ArrayLike) -> Array:
        """How far each constraint is from holding [m], in the order of ``constraint_names``; of a gap, below 0 where it
        is open."""
        return self._observe("gap", pose)

    def gap_velocities(self, pose: ArrayLike, velocity: ArrayLike) -> Array:
        """d/dt of the gaps [m/s]."""
        return self._observe("gap_velocity", pose, velocity)

    def readings(self, pose: ArrayLike, velocity: ArrayLike | None = None) -> Array:
        """What the sensors read, in the order of ``sensor_channels``; those of rates at rest without a velocity."""
        if self._affine_readings is None:
            return self._observe("readings", pose, velocity)
        return rows(pose, len(self.coordinates), "q̄") @ self._affine_readings[1].T + self._affine_readings[0]

    @cached_property
    def senses_rates(self) -> bool:
        """Whether a sensor, such as a gyro, reads velocities."""
        return bool(self.sensors) and ca.depends_on(self.expressions.readings, self.expressions.v)

    def readings_slope(self, pose: ArrayLike) -> Array:
        """∂readings/∂q̄, (..., channel, nv)."""
        if self._affine_readings is not None:
            slope = self._affine_readings[1]
            return np.broadcast_to(slope, (*np.shape(pose)[:-1], *slope.shape))
        flat = self._observe("readings_slope", pose)
        return flat.reshape(*flat.shape[:-1], len(self.sensor_channels), self.tangent.nv)

    @cached_property
    def _affine_readings(self) -> tuple[Array, Array] | None:
        """Offset and slope where every sensor is affine in q̄, as encoders and markers on sliding frames are."""
        e = self.expressions
        if self.balls or self.senses_rates or any(ca.which_depends(e.readings, e.q, 2, False)):
            return None
        origin = np.zeros(len(self.coordinates))
        return self._observe("readings", origin), self._observe("readings_slope", origin).reshape(-1, len(origin))

    def residuals(self, pose: ArrayLike) -> Array:
        """h(q̄) as the step solves it; for a string |Δ|² − length²."""
        return self._observe("residual", pose)

    def residuals_slope(self, pose: ArrayLike) -> Array:
        """∂h/∂q̄, (..., constraint, nv)."""
        flat = self._observe("residual_jacobian", pose)
        return flat.reshape(*flat.shape[:-1], len(self.constraint_names), self.tangent.nv)

    def mass_matrix(self, pose: ArrayLike) -> Array:
        """∂²T/∂v̄² over all coordinates, (..., nv, nv)."""
        flat = self._observe("mass_matrix", pose)
        n = self.tangent.nv
        return flat.reshape(*flat.shape[:-1], n, n)

    def satisfy_constraints(self, pose: Pose, fixed: Sequence[str] = (), *, iterations: int = 50) -> Array:
        """The nearest q̄ (least squares, Gauss–Newton) on all constraints; ``fixed`` coordinates are kept.

        A gap that is open stays as it is.
        """
        return satisfied(self, self.configuration(pose), fixed, iterations)

    def require_on_constraints(self, q: Array, tolerance: float = 1e-6, without: Sequence[str] = ()) -> None:
        """Raises ModelError where q̄ is off a constraint, or beyond a gap not in ``without``, by ``tolerance`` [m]."""
        if not self.constraints:
            return
        gaps = self.violations(self.gaps(q))
        gaps[[i for i, name in enumerate(self.constraint_names) if name in without]] = 0.0
        worst = int(np.argmax(np.abs(gaps)))
        if not abs(gaps[worst]) <= tolerance:
            name, is_gap = self.constraint_names[worst], self.constraint_rows[worst] is Row.GAP
            where = f"beyond gap {name!r}" if is_gap else f"off constraint {name!r}"
            raise ModelError(
                f"the pose is {where} by {gaps[worst]:.3g} m; put it there with satisfy_constraints(pose, fixed=[...])"
                + (" (an open gap is fine)" if is_gap else "")
            )

    def violations(self, rows: Array) -> Array:
        """Entries of h, or of the gaps in metres, that do not hold; 0 for the others."""
        return violated(rows, self.constraint_rows) if self.gap_names else rows

    # inside -----------------------------------------------------------------------------------------------------

    @cached_property
    def _functions(self) -> dict[str, ca.Function]:
        e = self.expressions
        asked = {
            "kinetic": e.kinetic,
            "potential": e.potential,
            "positions": ca.vec(e.positions),
            "gap": e.gap,
            "gap_velocity": ca.densify(e.centered(ca.jtimes(e.charted.gap, e.chart, e.v))),
            "residual": e.residual,
            "residual_jacobian": _slope(e, e.charted.residual),
            "readings": e.readings,
            "readings_slope": _slope(e, e.charted.readings),
            "mass_matrix": ca.vec(ca.densify(ca.hessian(e.kinetic, e.v)[0])),
        }
        return {name: ca.Function(name, [e.q, e.v, e.parameters], [out]) for name, out in asked.items()}

    def _observe(self, name: str, pose: ArrayLike, velocity: ArrayLike | None = None) -> Array:
        n, nv = len(self.coordinates), self.tangent.nv
        q = rows(pose, n, "q̄")
        v = np.zeros(nv) if velocity is None else rows(velocity, nv, "velocity")
        shape = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
        q, v = np.broadcast_to(q, (*shape, n)), np.broadcast_to(v, (*shape, nv))
        function = self._functions[name]
        out = function.size1_out(0)
        count = int(np.prod(shape))
        if count == 0 or out == 0:
            return np.zeros((*shape, out))
        values = function(q.reshape(count, n).T, v.reshape(count, nv).T, self.parameter_values)
        return np.asarray(values).T.reshape(*shape, out)

    def _check_names(self) -> None:
        """Names of states and inputs are made from those of coordinates; two of them must not be the same."""
        q, rho = [c.name for c in self.dynamic], [c.name for c in self.kinematic]
        moving = [name for name, _ in self.tangent.entries[: self.tangent.nd]]
        states = [*q, *rho, *(f"p_{name}" for name in moving), *(f"v_{name}" for name in rho)]
        inputs = [*(i.name for i in self.inputs), *(f"{name}_next" for name in rho)]
        for names, kind in ((states, "states"), (inputs, "inputs")):
            for name in names:
                if names.count(name) > 1:
                    raise ModelError(
                        f"system {self.name!r}: two {kind} would be called {name!r} (momenta are p_…, velocities of "
                        "kinematic coordinates v_…, their inputs …_next); rename the coordinate or input"
                    )

    def _check_bodies(self) -> None:
        parameters = ca.vertcat(*self.symbols) if self.symbols else ca.SX(0, 1)
        for body in self.bodies:
            evaluate = ca.Function("body", [parameters], [body.mass, ca.densify(body.inertia)])
            mass, inertia = (np.asarray(e) for e in evaluate(self.parameter_values))
            what = f"mass on frame {body.frame.name!r}"
            if not mass[0, 0] >= 0:
                raise ModelError(f"{what}: must not be negative, got {mass[0, 0]}")
            require_possible(inertia, f"inertia of {what}", rounded=body.rounded)

    def _check_gaps(self) -> None:
        if self.gap_names:
            e = self.expressions
            slope = e.centered(ca.jacobian(e.charted.residual, e.chart[: self.tangent.nd]))
            require_movable(self.constraint_names, self.constraint_rows, slope)

    def _check_mass_matrix(self) -> None:
        """Some random pose must have a positive definite mass matrix, else a coordinate has no inertia."""
        nd = self.tangent.nd
        rng = np.random.default_rng(0)
        poses = self.tangent.normalize(rng.uniform(-1.0, 1.0, (3, len(self.coordinates))))
        slopes = self.residuals_slope(poses)[..., :nd]
        held = [slopes[:, rows] for rows in modes_of(self.constraint_rows)]
        weak = massless(self.mass_matrix(poses)[:, :nd, :nd], held)
        if weak:
            names = ", ".join(repr(self.tangent.entries[i][0]) for i in weak)
            raise ModelError(
                f"system {self.name!r}: the mass matrix is singular, moving {names} moves no mass; "
                "put a mass or inertia on a frame it moves, or declare it kinematic=True"
            )


def _slope(e: Expressions, charted: ca.SX) -> ca.SX:
    """Entries of the Jacobian in the tangent space, row by row."""
    return ca.vec(ca.densify(e.centered(ca.jacobian(charted, e.chart))).T)


def _unpickled(content: bytes) -> System:
    with ca.global_unpickle_context():
        return System(**pickle.loads(content))
