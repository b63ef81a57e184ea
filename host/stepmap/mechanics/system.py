"""System: an immutable mechanism and what can be asked of it at a configuration."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import Array, rows, vector
from stepmap.errors import ConvergenceError, ModelError
from stepmap.mechanics.bodies import Body, require_possible
from stepmap.mechanics.constraints import Constraint, Row
from stepmap.mechanics.expressions import Expressions, express
from stepmap.mechanics.forces import Force
from stepmap.mechanics.frames import Frame
from stepmap.mechanics.gaps import gap_names, require_movable, violations
from stepmap.mechanics.potentials import Potential
from stepmap.mechanics.quantity import Coordinate, Input, Parameter, number
from stepmap.mechanics.sensors import Sensor


@dataclass(frozen=True, eq=False)
class System:
    """A mechanism. Made by Builder.build(); q̄ is ordered dynamic coordinates first, then kinematic."""

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

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return tuple(label for c in self.constraints for label in c.labels)

    @property
    def constraint_rows(self) -> tuple[Row, ...]:
        """What each row is: an equality, a gap that may open, or a tangent of a foot that sticks."""
        return tuple(row for c in self.constraints for row in c.rows)

    @property
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

    def with_start(self, pose: Mapping[str, float] | ArrayLike) -> System:
        """The same mechanism with ``pose`` as the start of all coordinates."""
        q = self.configuration(pose)
        self.require_on_constraints(q)
        started = {c.name: dataclasses.replace(c, start=float(e)) for c, e in zip(self.coordinates, q, strict=True)}
        copy = dataclasses.replace(self, coordinates=tuple(started.values()))
        copy.__dict__["expressions"] = self.expressions
        return copy

    # configurations ---------------------------------------------------------------------------------------------

    def configuration(self, pose: Mapping[str, float] | ArrayLike) -> Array:
        """q̄ as an array, from an array or from names; a coordinate that is not named takes its ``start``."""
        if isinstance(pose, Mapping):
            return self._named(pose, [c.start for c in self.coordinates], "pose")
        return vector(pose, len(self.coordinates), "q̄")

    def velocities(self, velocity: Mapping[str, float] | ArrayLike) -> Array:
        """A velocity of q̄ as an array; coordinates that are not named stand still."""
        if isinstance(velocity, Mapping):
            return self._named(velocity, [0.0] * len(self.coordinates), "velocity")
        return vector(velocity, len(self.coordinates), "velocity")

    def _named(self, values: Mapping[str, float], default: Sequence[float], what: str) -> Array:
        index = {c.name: i for i, c in enumerate(self.coordinates)}
        out = np.array(default, dtype=float)
        for name, value in values.items():
            if name not in index:
                raise ModelError(f"{what}: no coordinate is called {name!r}; there are {', '.join(index)}")
            out[index[name]] = number(value, f"{what} {name!r}")
        return vector(out, len(index), what)

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

    def readings(self, pose: ArrayLike) -> Array:
        """What the sensors read, in the order of ``sensor_channels``."""
        if self._affine_readings is None:
            return self._observe("readings", pose)
        offset, slope = self._affine_readings
        return rows(pose, len(self.coordinates), "q̄") @ slope.T + offset

    def readings_slope(self, pose: ArrayLike) -> Array:
        """∂readings/∂q̄, (..., channel, coordinate)."""
        if self._affine_readings is not None:
            slope = self._affine_readings[1]
            return np.broadcast_to(slope, (*np.shape(pose)[:-1], *slope.shape))
        flat = self._observe("readings_slope", pose)
        return flat.reshape(*flat.shape[:-1], len(self.sensor_channels), len(self.coordinates))

    @cached_property
    def _affine_readings(self) -> tuple[Array, Array] | None:
        """Offset and slope where every sensor is affine in q̄, as encoders and markers on sliding frames are."""
        e = self.expressions
        if any(ca.which_depends(e.readings, e.q, 2, False)):
            return None
        origin = np.zeros(len(self.coordinates))
        flat = self._observe("readings_slope", origin)
        return self._observe("readings", origin), flat.reshape(-1, len(origin))

    def residuals(self, pose: ArrayLike) -> Array:
        """h(q̄) as the step solves it; for a string |Δ|² − length²."""
        return self._observe("residual", pose)

    def residuals_slope(self, pose: ArrayLike) -> Array:
        """∂h/∂q̄, (..., constraint, coordinate)."""
        flat = self._observe("residual_jacobian", pose)
        return flat.reshape(*flat.shape[:-1], len(self.constraint_names), len(self.coordinates))

    def mass_matrix(self, pose: ArrayLike) -> Array:
        """∂²T/∂v̄² over all coordinates, (..., n, n)."""
        flat = self._observe("mass_matrix", pose)
        n = len(self.coordinates)
        return flat.reshape(*flat.shape[:-1], n, n)

    def satisfy_constraints(
        self, pose: Mapping[str, float] | ArrayLike, fixed: Sequence[str] = (), *, iterations: int = 50
    ) -> Array:
        """The nearest q̄ (least squares, Gauss–Newton) on all constraints; ``fixed`` coordinates are kept.

        A gap that is open stays as it is.
        """
        q = self.configuration(pose)
        names = [c.name for c in self.coordinates]
        for name in fixed:
            if name not in names:
                raise ModelError(f"fixed: no coordinate is called {name!r}; there are {', '.join(names)}")
        free = np.array([name not in fixed for name in names])
        residual = np.inf
        for iteration in range(iterations):
            h = self._violations(self.residuals(q))
            residual = float(np.abs(h).max(initial=0.0))
            if residual <= 4e-16 * max(1.0, float(np.abs(q).max())) ** 2:
                return q
            jacobian = self.residuals_slope(q) * free * (h != 0)[:, None]
            correction = np.linalg.lstsq(jacobian, -h, rcond=None)[0]
            if iteration > 2 and residual < 1e-12 and np.abs(correction).max() < 1e-15 * max(1.0, np.abs(q).max()):
                return q
            q = q + correction
        if residual < 1e-12:
            return q
        raise ConvergenceError(
            f"no pose near the given one satisfies the constraints of {self.name!r} (residual {residual:.3g}); "
            "start closer, or fix fewer coordinates",
            iterations=iterations,
            residual=residual,
            x=q,
        )

    def require_on_constraints(self, q: Array, tolerance: float = 1e-6, without: Sequence[str] = ()) -> None:
        """Raises ModelError where q̄ is off a constraint, or beyond a gap not in ``without``, by ``tolerance`` [m]."""
        if not self.constraints:
            return
        gaps = self._violations(self.gaps(q))
        gaps[[i for i, name in enumerate(self.constraint_names) if name in without]] = 0.0
        worst = int(np.argmax(np.abs(gaps)))
        if not abs(gaps[worst]) <= tolerance:
            name, is_gap = self.constraint_names[worst], self.constraint_rows[worst] is Row.GAP
            where = f"beyond gap {name!r}" if is_gap else f"off constraint {name!r}"
            raise ModelError(
                f"the pose is {where} by {gaps[worst]:.3g} m; put it there with satisfy_constraints(pose, fixed=[...])"
                + (" (an open gap is fine)" if is_gap else "")
            )

    def _violations(self, rows: Array) -> Array:
        """Entries of h, or of the gaps in metres, that do not hold; 0 for the others."""
        return violations(rows, self.constraint_rows) if self.gap_names else rows

    # inside -----------------------------------------------------------------------------------------------------

    @cached_property
    def _functions(self) -> dict[str, ca.Function]:
        e = self.expressions
        asked = {
            "kinetic": e.kinetic,
            "potential": e.potential,
            "positions": ca.vec(e.positions),
            "gap": e.gap,
            "gap_velocity": ca.densify(ca.jtimes(e.gap, e.q, e.v)),
            "residual": e.residual,
            "residual_jacobian": ca.vec(ca.densify(ca.jacobian(e.residual, e.q)).T),
            "readings": e.readings,
            "readings_slope": ca.vec(ca.densify(ca.jacobian(e.readings, e.q)).T),
            "mass_matrix": ca.vec(ca.densify(ca.hessian(e.kinetic, e.v)[0])),
        }
        return {name: ca.Function(name, [e.q, e.v, e.parameters], [out]) for name, out in asked.items()}

    def _observe(self, name: str, pose: ArrayLike, velocity: ArrayLike | None = None) -> Array:
        n = len(self.coordinates)
        q = rows(pose, n, "q̄")
        v = np.zeros_like(q) if velocity is None else rows(velocity, n, "velocity")
        shape = np.broadcast_shapes(q.shape, v.shape)
        q, v = np.broadcast_to(q, shape), np.broadcast_to(v, shape)
        function = self._functions[name]
        out = function.size1_out(0)
        count = int(np.prod(shape[:-1]))
        if count == 0 or out == 0:
            return np.zeros((*shape[:-1], out))
        values = function(q.reshape(count, n).T, v.reshape(count, n).T, self.parameter_values)
        return np.asarray(values).T.reshape(*shape[:-1], out)

    def _check_names(self) -> None:
        """Names of states and inputs are made from those of coordinates; two of them must not be the same."""
        q, rho = [c.name for c in self.dynamic], [c.name for c in self.kinematic]
        states = [*q, *rho, *(f"p_{name}" for name in q), *(f"v_{name}" for name in rho)]
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
            require_possible(inertia, f"inertia of {what}")

    def _check_gaps(self) -> None:
        if self.gap_names:
            e = self.expressions
            slope = ca.jacobian(e.residual, e.q[: len(self.dynamic)])
            require_movable(self.constraint_names, self.constraint_rows, slope)

    def _check_mass_matrix(self) -> None:
        """Some random pose must have a positive definite mass matrix, else a coordinate has no inertia."""
        nd = len(self.dynamic)
        rng = np.random.default_rng(0)
        poses = rng.uniform(-1.0, 1.0, (3, len(self.coordinates)))
        for matrix in self.mass_matrix(poses)[:, :nd, :nd]:
            scale = np.sqrt(np.diagonal(matrix))
            if (scale > 0).all():
                values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
                if values[0] > 1e-10:
                    return
                weak = np.abs(vectors[:, 0]) > 0.1
            else:
                weak = ~(scale > 0)
        names = ", ".join(repr(self.dynamic[i].name) for i in np.flatnonzero(weak))
        raise ModelError(
            f"system {self.name!r}: the mass matrix is singular, moving {names} moves no mass; "
            "put a mass or inertia on a frame it moves, or declare it kinematic=True"
        )


def _unpickled(content: bytes) -> System:
    with ca.global_unpickle_context():
        return System(**pickle.loads(content))
