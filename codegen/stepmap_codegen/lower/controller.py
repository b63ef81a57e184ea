"""From a step map, noise and limits to a program: update, constraint projection, state feedback, prediction.

All of it is written once as CasADi expressions with the parameters' values put in; structural zeros of the
linearization, of the covariance and of the gains disappear by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.graph.tape import Tape, record
from stepmap.mechanics.quantity import Coordinate, Input
from stepmap_codegen.lower.plant import Noise as Noise
from stepmap_codegen.lower.plant import Plant as Plant
from stepmap_codegen.lower.plant import Settings as Settings
from stepmap_codegen.lower.step_graph import StepGraph, solve_static
from stepmap_codegen.model.program import Block, BlockRole, Field, Guard, Operation, Program, Role, Store

CHANNELS = 32  # bits of a mask

Named: TypeAlias = Sequence[tuple[str, ca.SX]]
MakeBlock: TypeAlias = Callable[..., Block]


def lower(plant: Plant) -> Program:
    """The controller's program."""
    return _Lowering(plant).program()


class _Lowering:
    def __init__(self, plant: Plant) -> None:
        step, system = plant.step, plant.step.system
        self.plant, self.step, self.system = plant, step, system
        self.graph = StepGraph(step, plant.settings.newton)
        self.nx, self.nu, self.nz = step.nx, step.nu, len(system.sensor_channels)
        self.x, self.u = ca.SX.sym("x", self.nx), ca.SX.sym("u", self.nu)
        self.after, q2, lam = self.graph.map(self.x, self.u)
        self.A = self.graph.linearization(self.x, self.u, q2, lam)
        e = system.expressions
        readings = ca.Function("readings", [e.q, e.parameters], [e.readings, ca.jacobian(e.readings, e.q)])
        h, H = readings(self.x[: self.graph.nq], ca.DM(system.parameter_values))
        self.h, self.H = h, ca.sparsify(ca.horzcat(H, ca.SX(self.nz, self.nx - self.graph.nq)))
        self.pattern = self._covariance_pattern()
        self.entries = [(i, j) for i in range(self.nx) for j in range(i + 1) if self.pattern[i, j]]
        self.P = self._symbolic_covariance()
        self.used_gains = [
            (i, j) for i in range(self.nu) for j in range(self.nx) if np.any(plant.gains[:, i, j] != 0.0)
        ]

    # fields -----------------------------------------------------------------------------------------------------

    def fields(self) -> list[Field]:
        names, inputs = self.step.state_names, self.step.input_names
        coordinates = {c.name: c for c in self.system.coordinates}
        out = []
        for i, name in enumerate(names):
            c = coordinates.get(name) if i < self.graph.nq else None
            limits = (None, None) if c is None else (c.low, c.high)
            out.append(Field(f"x_{_plain(name)}", Role.STATE, self.unit(i), *limits, label=name))
        for i, j in self.entries:
            out.append(Field(f"P_{i}_{j}", Role.COVARIANCE, label=f"cov({names[i]}, {names[j]})", place=(i, j)))
        for name, unit in self.system.sensor_channels:
            out.append(Field(f"z_{_plain(name)}", Role.MEASUREMENT, unit, label=name))
        declared = self.declared
        for i, (name, d) in enumerate(zip(inputs, declared, strict=True)):
            moved = None if i < self.graph.nf else (self.graph.nd + i - self.graph.nf, self._channel_of(d.name))
            out.append(Field(f"u_{_plain(name)}", Role.COMMAND, d.unit, d.low, d.high, label=name, moves=moved))
        for i, name in enumerate(names):
            out.append(Field(f"xr_{_plain(name)}", Role.SCHEDULE, self.unit(i), label=f"reference of {name}"))
        for name, d in zip(inputs, declared, strict=True):
            out.append(Field(f"ur_{_plain(name)}", Role.SCHEDULE, d.unit, label=f"reference of {name}"))
        for i, j in self.used_gains:
            out.append(Field(f"K_{i}_{j}", Role.SCHEDULE, label=f"gain of {inputs[i]} on {names[j]}", place=(i, j)))
        channels = self.system.sensor_channels
        for name, unit in channels:
            out.append(Field(f"e_{_plain(name)}", Role.INNOVATION, unit, label=f"innovation of {name}"))
        for name, unit in channels:
            out.append(Field(f"s_{_plain(name)}", Role.VARIANCE, f"({unit})²", label=f"innovation variance of {name}"))
        return out

    def _channel_of(self, coordinate: str) -> int:
        """The sensor channel that reads a coordinate itself; −1 where there is none."""
        names = [name for name, _ in self.system.sensor_channels]
        k = next(i for i, c in enumerate(self.system.coordinates) if c.name == coordinate)
        for channel in range(len(names)):
            if self.h[channel].is_symbolic() and self.h[channel].name() == self.x[k].name():
                return channel
        return -1

    @property
    def declared(self) -> list[Input | Coordinate]:
        """What declares the limits of each command."""
        return [*self.system.inputs, *self.system.kinematic]

    def unit(self, i: int) -> str:
        nd, nq = self.graph.nd, self.graph.nq
        if i < nq:
            return self.system.coordinates[i].unit
        if i < nq + nd:
            return {"m": "kg m/s", "rad": "kg m²/s"}.get(self.system.dynamic[i - nq].unit, "")
        return f"{self.system.kinematic[i - nq - nd].unit}/s"

    # covariance -------------------------------------------------------------------------------------------------

    def _covariance_pattern(self) -> Array:
        """Entries of P that can ever be nonzero: a fixed point over prediction and updates."""
        noise = self.plant.noise
        A = np.array(ca.DM(self.A.sparsity(), 1.0)) != 0
        H = np.array(ca.DM(self.H.sparsity(), 1.0)) != 0
        fixed = (noise.start != 0) | (noise.process != 0)
        pattern: Array = fixed
        while True:
            grown: Array = fixed | ((A.astype(int) @ pattern.astype(int) @ A.T.astype(int)) != 0)
            for row in H:
                seen = (grown.astype(int) @ row.astype(int)) != 0
                grown = grown | np.outer(seen, seen)
            if np.array_equal(grown | pattern, pattern):
                return pattern
            pattern = grown | pattern

    def _symbolic_covariance(self) -> ca.SX:
        P = ca.SX(self.nx, self.nx)
        for i, j in self.entries:
            symbol = ca.SX.sym(f"P_{i}_{j}")
            P[i, j] = symbol
            P[j, i] = symbol
        return P

    # blocks -----------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        fields = self.fields()
        where = _places(fields)
        names = self.step.state_names
        x_fields = [f"x_{_plain(n)}" for n in names]
        P_fields = [f"P_{i}_{j}" for i, j in self.entries]
        u_fields = [f"u_{_plain(n)}" for n in self.step.input_names]
        state = [*((f, self.x[i]) for i, f in enumerate(x_fields)), *zip(P_fields, self._lower(self.P), strict=True)]

        def block(
            name: str,
            role: BlockRole,
            summary: str,
            inputs: Sequence[tuple[str, ca.SX]],
            outputs: Sequence[tuple[str, ca.SX]],
            guard: tuple[ca.SX, ca.SX] | None = None,
        ) -> Block:
            bound = [(where[f], s) for f, s in inputs]
            return make_block(name, role, summary, bound, [(where[f], s) for f, s in outputs], guard)

        blocks = []
        for k, (channel, _) in enumerate(self.system.sensor_channels):
            blocks.append(self._update(k, _plain(channel), state, x_fields, P_fields, block))
        if self.graph.nc:
            moved = list(zip(x_fields[: self.graph.nd], self._constraint_projection(), strict=True))
            blocks.append(
                block("constraint_projection", BlockRole.PROJECTION, "moves q onto the constraints", state, moved)
            )
        blocks.append(self._state_feedback(state, u_fields, block))
        inputs = [*state, *((f, self.u[i]) for i, f in enumerate(u_fields))]
        P = self.A @ self.P @ self.A.T + ca.sparsify(ca.SX(self.plant.noise.process))
        outputs = [*zip(x_fields, ca.vertsplit(self.after), strict=True), *zip(P_fields, self._lower(P), strict=True)]
        blocks.append(
            block(
                "predict",
                BlockRole.PREDICT,
                "one step of the map, and the covariance through its linearization",
                inputs,
                outputs,
            )
        )
        return Program(self.system.name, self.step.dt, tuple(fields), tuple(blocks))

    def _lower(self, P: ca.SX) -> list[ca.SX]:
        return [P[i, j] for i, j in self.entries]

    def _update(
        self, k: int, channel: str, state: Named, x_fields: list[str], P_fields: list[str], block: MakeBlock
    ) -> Block:
        z = ca.SX.sym("z")
        row = self.H[k, :].T
        Ph = self.P @ row
        error = z - self.h[k]
        S = ca.dot(row, Ph) + float(self.plant.noise.measurement[k])
        gain = Ph * (1 / S)
        x = self.x + gain * error
        P = self.P - gain @ Ph.T
        gate = self.plant.settings.gate
        guard = None if gate is None else (error * error, gate**2 * S)
        moved = [(f, x[i]) for i, f in enumerate(x_fields) if not gain[i].is_zero()]
        changed = [
            (f, P[i, j])
            for f, (i, j) in zip(P_fields, self.entries, strict=True)
            if not (gain[i].is_zero() or Ph[j].is_zero())
        ]
        outputs = [*moved, *changed, (f"e_{channel}", error), (f"s_{channel}", S)]
        inputs, name = [*state, (f"z_{channel}", z)], f"update_{channel}"
        return replace(
            block(name, BlockRole.UPDATE, f"updates the filter with {channel}", inputs, outputs, guard), channel=k
        )

    def _constraint_projection(self) -> list[ca.SX]:
        nq, nd = self.graph.nq, self.graph.nd
        h, J = self.graph.con(self.x[:nq])
        J = J[:, :nd]
        weight = solve_static(J @ J.T, h)
        return ca.vertsplit(self.x[:nd] - J.T @ weight)

    def _state_feedback(self, state: Named, u_fields: list[str], block: MakeBlock) -> Block:
        names, inputs = self.step.state_names, self.step.input_names
        xr = [(f"xr_{_plain(n)}", ca.SX.sym("xr")) for n in names]
        ur = [(f"ur_{_plain(n)}", ca.SX.sym("ur")) for n in inputs]
        K = [(f"K_{i}_{j}", ca.SX.sym("K")) for i, j in self.used_gains]
        command = [s for _, s in ur]
        for (i, j), (_, gain) in zip(self.used_gains, K, strict=True):
            command[i] = command[i] - gain * (self.x[j] - xr[j][1])
        for i, d in enumerate(self.declared):
            if d.low is not None:
                command[i] = ca.fmax(command[i], d.low)
            if d.high is not None:
                command[i] = ca.fmin(command[i], d.high)
        outputs = list(zip(u_fields, command, strict=True))
        given = [*state, *xr, *ur, *K]
        return block(
            "state_feedback", BlockRole.STATE_FEEDBACK, "u = u_ref - K (x - x_ref), within the limits", given, outputs
        )


def _places(fields: Sequence[Field]) -> dict[str, int]:
    """Fields by name; raises ModelError where two names are one in C, or where there are more channels than bits."""
    where: dict[str, int] = {}
    for i, field in enumerate(fields):
        if field.name in where:
            other = fields[where[field.name]].label
            raise ModelError(
                f"{field.label!r} and {other!r} would both be called {field.name!r} in C; rename one of them"
            )
        where[field.name] = i
    channels = sum(field.role is Role.MEASUREMENT for field in fields)
    if channels > CHANNELS:
        raise ModelError(f"the system has {channels} sensor channels, and a controller takes {CHANNELS}")
    return where


def make_block(
    name: str,
    role: BlockRole,
    summary: str,
    inputs: Sequence[tuple[int, ca.SX]],
    outputs: Sequence[tuple[int, ca.SX]],
    guard: tuple[ca.SX, ca.SX] | None,
) -> Block:
    """A block from expressions; loads of fields it does not use, and stores that change nothing, are dropped."""
    symbols = ca.vertcat(*(s for _, s in inputs))
    values = [ca.SX(v) for v in (*(guard or ()), *(s for _, s in outputs))]
    stacked = ca.cse(ca.densify(ca.vertcat(*values)))
    tape = record(ca.Function("block", [symbols], [stacked.T]))
    operations, places = _without_division(tape, [field for field, _ in inputs])
    at = {store.position: places[store.value] for store in tape.stores}
    first = 2 if guard else 0
    wanted = [at[i] for i in range(first)] + [at[first + k] for k in range(len(outputs))]
    order = _schedule(operations, wanted[:first], wanted)
    place = {old: new for new, old in enumerate(order)}
    moved = tuple(replace(operations[i], arguments=tuple(place[a] for a in operations[i].arguments)) for i in order)
    stores = tuple(
        Store(field, place[i])
        for (field, _), i in zip(outputs, wanted[first:], strict=True)
        if not (operations[i].code == ca.OP_INPUT and operations[i].field == field)
    )
    check = None
    if guard:
        small, large = place[wanted[0]], place[wanted[1]]
        check = Guard(max(small, large), small, large)
    return Block(name, role, summary, moved, stores, check)


def _without_division(tape: Tape, fields: Sequence[int]) -> tuple[list[Operation], list[int]]:
    """The tape's operations with a/b as a·(1/b), one reciprocal a divisor; and where each old operation went."""
    operations: list[Operation] = []
    places: list[int] = []
    reciprocals: dict[int, int] = {}
    for op in tape.operations:
        arguments = tuple(places[a] for a in op.arguments)
        if op.code in (ca.OP_DIV, ca.OP_INV):
            divisor = arguments[-1]
            if divisor not in reciprocals:
                reciprocals[divisor] = len(operations)
                known = operations[divisor]
                constant = known.code == ca.OP_CONST
                inverse = Operation(ca.OP_CONST, (), 1 / known.constant) if constant else None
                operations.append(inverse or Operation(ca.OP_INV, (divisor,)))
            if op.code == ca.OP_INV:
                places.append(reciprocals[divisor])
                continue
            arguments = (arguments[0], reciprocals[divisor])
            places.append(len(operations))
            operations.append(Operation(ca.OP_MUL, arguments))
            continue
        places.append(len(operations))
        field = fields[op.source[1]] if op.code == ca.OP_INPUT else -1
        operations.append(Operation(op.code, arguments, op.constant, field))
    return operations, places


def _schedule(operations: Sequence[Operation], early: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The operations that are needed, in order, those for ``early`` first."""
    order: list[int] = []
    seen: set[int] = set()
    for goals in (early, wanted):
        need: set[int] = set()
        stack = list(goals)
        while stack:
            i = stack.pop()
            if i not in need and i not in seen:
                need.add(i)
                stack.extend(operations[i].arguments)
        order.extend(sorted(need))
        seen |= need
    return order


def _plain(name: str) -> str:
    """A name as a C identifier."""
    return "".join(c if c.isalnum() else "_" for c in name)
