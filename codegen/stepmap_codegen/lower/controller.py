"""From a step map, noise and limits to a program: update, constraint projection, state feedback, prediction.

All of it is written once as CasADi expressions with the parameters' values put in; structural zeros of the
linearization, of the covariance and of the gains disappear by themselves. Step maps are lowered in ``step``, filters
each in a file of its own; this one puts the parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import casadi as ca
import numpy as np

from stepmap.errors import ModelError
from stepmap.estimate import registry
from stepmap_codegen.lower import ekf
from stepmap_codegen.lower.blocks import Sketch, identifier
from stepmap_codegen.lower.blocks import make_block as make_block
from stepmap_codegen.lower.gaps import Gaps
from stepmap_codegen.lower.parts import LowerFilter, Model
from stepmap_codegen.lower.plant import Noise as Noise
from stepmap_codegen.lower.plant import Plant as Plant
from stepmap_codegen.lower.plant import Settings as Settings
from stepmap_codegen.lower.step_graph import solve_static
from stepmap_codegen.model.program import BlockRole, Field, Program, Role

CHANNELS = 32  # bits of a mask
FILTERS: dict[str, LowerFilter] = {"ekf": ekf.lower}


def lower(plant: Plant) -> Program:
    """The controller's program."""
    return Lowering(plant).program()


def filter_lowering(name: str) -> LowerFilter:
    """What lowers the filter of that name: a function here, or ``lower`` of what another package registered."""
    made = FILTERS.get(name) or getattr(registry.maker(name), "lower", None)
    if made is None:
        raise ModelError(
            f"no code can be generated for the filter {name!r}: it has no function lower(model, noise, gate); choose "
            f"another in [noise], such as {', '.join(map(repr, FILTERS))}"
        )
    return cast(LowerFilter, made)


class Lowering:
    """The parts of a controller put together; ``loops`` has other ones."""

    def __init__(self, plant: Plant) -> None:
        self.plant, self.step = plant, plant.step
        self.model = Model(plant.step, plant.settings.newton, plant.gait)
        self.filter = filter_lowering(plant.settings.filter)(self.model, plant.noise, plant.settings.gate)
        gaps = self.model.gaps
        modes = [] if gaps is None else list(zip(gaps.fields, gaps.modes, strict=True))
        self.state = [*self.model.estimate, *self.filter.memory, *modes]
        self.used_gains = self.gains_in_use()

    def gains_in_use(self) -> list[tuple[int, int]]:
        """Places of gains that are not always 0."""
        m, gains = self.model, self.plant.gains
        return [(i, j) for i in range(m.nu) for j in range(m.ndx) if np.any(gains[:, i, j] != 0.0)]

    def program(self) -> Program:
        fields = self.fields()
        where = _places(fields)
        lost = [name for pair in self.filter.health for name in pair if name not in where]
        if lost or len(self.filter.health) != self.model.nz:
            raise ModelError(
                f"filter {self.plant.settings.filter!r}: health needs an innovation and its variance per channel"
            )
        tests = self.filter.slack_tests
        sketches = [
            *self._landing(),
            *tests,
            *self.filter.updates,
            *self._projection(),
            self._state_feedback(),
            *self._predict(),
        ]
        blocks = tuple(sketch.block(where) for sketch in sketches)
        return Program(self.model.system.name, self.step.dt, tuple(fields), blocks)

    # fields -----------------------------------------------------------------------------------------------------

    def fields(self) -> list[Field]:
        m, layout, inputs = self.model, self.model.layout, self.step.input_names
        coordinates = dict(zip(layout.names, m.system.coordinates, strict=False))  # q̄ comes first
        quaternions = {entry.name for ball in m.system.balls for entry in ball.entries}
        out = []
        for f, name, unit in zip(m.x_fields, layout.names, layout.units, strict=True):
            c = coordinates.get(name)
            limits = (None, None) if c is None else (c.low, c.high)
            out.append(Field(f, Role.STATE, unit, *limits, label=name, rounded=name in quaternions))
        out.extend(self.filter.fields)
        if m.gaps is not None:
            for f, name in zip(m.gaps.fields, m.gaps.names, strict=True):
                out.append(Field(f, Role.MODE, "", 0.0, 1.0, label=f"{name}: 1 where it is taut, else 0", start=1.0))
        out += [] if m.landing is None else m.landing.fields
        channels = m.system.sensor_channels
        for name, unit in channels:
            out.append(Field(f"z_{identifier(name)}", Role.MEASUREMENT, unit, label=name))
        for i, (f, name) in enumerate(zip(m.u_fields, inputs, strict=True)):
            place = m.map.sets(i)
            moved = None if place is None else (place, self._channel_of(place))
            out.append(Field(f, Role.COMMAND, m.input_unit(i), *m.limits(i), label=name, moves=moved))
        for name, unit in zip(layout.names, layout.units, strict=True):
            out.append(Field(f"xr_{identifier(name)}", Role.SCHEDULE, unit, label=f"reference of {name}"))
        for i, name in enumerate(inputs):
            out.append(Field(f"ur_{identifier(name)}", Role.SCHEDULE, m.input_unit(i), label=f"reference of {name}"))
        for i, j in self.used_gains:
            label = f"gain of {inputs[i]} on {layout.tangent_names[j]}"
            out.append(Field(f"K_{i}_{j}", Role.SCHEDULE, label=label, place=(i, j)))
        for name, unit in channels:
            out.append(Field(f"e_{identifier(name)}", Role.INNOVATION, unit, label=f"innovation of {name}"))
        for name, unit in channels:
            label = f"innovation variance of {name}"
            out.append(Field(f"s_{identifier(name)}", Role.VARIANCE, f"({unit})²", label=label))
        return out

    def _channel_of(self, place: int) -> int:
        """The sensor channel that reads an entry of x itself; −1 where there is none."""
        h, x = self.model.h, self.model.x[place]
        return next((k for k in range(self.model.nz) if ca.is_equal(h[k], x)), -1)

    # blocks -----------------------------------------------------------------------------------------------------

    def _landing(self) -> list[Sketch]:
        m = self.model
        if m.landing is None:
            return []
        if not self.filter.landed:
            raise ModelError(
                f"filter {self.plant.settings.filter!r}: no code can be generated for a gait; choose 'ekf'"
            )
        return [m.landing.sketch(self.state, m.x_fields, self.filter.landed)]

    def _projection(self) -> list[Sketch]:
        """Newton's step onto the constraints, by the least change of q; nothing where there are none."""
        m = self.model
        if m.gaps is not None:
            return self._gap_projections(m.gaps)
        if m.map.constraints is None:
            return []
        h, J = m.map.constraints
        back, stored = J.T @ solve_static(J @ J.T, h), len(m.system.dynamic)
        if m.layout.plain:
            moved = m.x[:stored] - back
        else:
            moved = m.map.retract(m.x, ca.vertcat(-back, ca.SX.zeros(m.ndx - back.numel())))[:stored]
        outputs = list(zip(m.x_fields[:stored], ca.vertsplit(moved), strict=True))
        return [
            Sketch("constraint_projection", BlockRole.PROJECTION, "moves q onto the constraints", self.state, outputs)
        ]

    def _gap_projections(self, gaps: Gaps) -> list[Sketch]:
        """The same for each set of gaps that are closed or violated: two-sided where taut, one-sided where slack."""
        m, name, made = self.model, "constraint_projection", gaps.projections()
        several = len(made) > 1
        return [
            Sketch(
                f"{name}_{_label(gaps, closed)}" if several else name,
                BlockRole.PROJECTION,
                f"moves q onto the constraints, where {_words(gaps, closed)}",
                self.state,
                list(zip(m.x_fields[: gaps.nd], ca.vertsplit(moved), strict=True)),
                (off, ca.SX(0.5)),
                chain=name if several else "",
            )
            for closed, moved, off in made
        ]

    def _state_feedback(self) -> Sketch:
        m = self.model
        xr = [(f"xr_{identifier(n)}", ca.SX.sym("xr")) for n in m.layout.names]
        ur = [(f"ur_{identifier(n)}", ca.SX.sym("ur")) for n in self.step.input_names]
        K = [(f"K_{i}_{j}", ca.SX.sym("K")) for i, j in self.used_gains]
        off = m.map.difference(ca.vertcat(*(s for _, s in xr)), m.x)
        command = [s for _, s in ur]
        for (i, j), (_, gain) in zip(self.used_gains, K, strict=True):
            command[i] = command[i] - gain * off[j]
        for i, (low, high) in enumerate(map(m.limits, range(m.nu))):
            if low is not None:
                command[i] = ca.fmax(command[i], low)
            if high is not None:
                command[i] = ca.fmin(command[i], high)
        outputs = list(zip(m.u_fields, command, strict=True))
        summary = "u = u_ref - K (x - x_ref), within the limits"
        return Sketch("state_feedback", BlockRole.STATE_FEEDBACK, summary, [*self.state, *xr, *ur, *K], outputs)

    def _predict(self) -> list[Sketch]:
        m = self.model
        if m.gaps is not None:
            return self._branches(m.gaps)
        inputs = [*self.state, *((f, m.u[i]) for i, f in enumerate(m.u_fields))]
        outputs = [*zip(m.x_fields, ca.vertsplit(m.map.after), strict=True), *self.filter.predicted]
        summary = "one step of the map, and the covariance through its linearization"
        return [Sketch("predict", BlockRole.PREDICT, summary, inputs, outputs)]

    def _branches(self, gaps: Gaps) -> list[Sketch]:
        """A prediction per set of closed gaps, of which the first that violates nothing is taken."""
        m = self.model
        if len(self.filter.branches) != len(gaps.branches):
            raise ModelError(
                f"filter {self.plant.settings.filter!r}: no code can be generated for a system with gaps; choose 'ekf'"
            )
        inputs = [*self.state, *((f, m.u[i]) for i, f in enumerate(m.u_fields))]
        made = []
        for branch, covariance in zip(gaps.branches, self.filter.branches, strict=True):
            modes = [(f, ca.SX(int(i in branch.closed))) for i, f in enumerate(gaps.fields)]
            made.append(
                Sketch(
                    f"predict_{_label(gaps, branch.closed)}",
                    BlockRole.PREDICT,
                    f"one step of the map with its covariance, where {_words(gaps, branch.closed)}",
                    inputs,
                    [*zip(m.x_fields, ca.vertsplit(branch.after), strict=True), *covariance, *modes],
                    None if branch.excess is None else (branch.excess, ca.SX(0)),
                    chain="predict",
                )
            )
        return made


def _label(gaps: Gaps, closed: Sequence[int]) -> str:
    """A set of closed gaps in the name of a function."""
    return "_".join(["taut", *(identifier(gaps.names[i]) for i in closed)]) if closed else "free"


def _words(gaps: Gaps, closed: Sequence[int]) -> str:
    parts = [f"{name} is {'taut' if i in closed else 'slack'}" for i, name in enumerate(gaps.names)]
    return " and ".join(parts)


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
