"""The parts a controller is put together from, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import casadi as ca

from stepmap.mechanics.quantity import Coordinate, Input
from stepmap.steps.mechanical import MechanicalStep
from stepmap.steps.sensing import sensing
from stepmap_codegen.lower.blocks import Named, Sketch, identifier
from stepmap_codegen.lower.gaps import lower_gaps
from stepmap_codegen.lower.landing import Landing
from stepmap_codegen.lower.plant import Gait, Noise
from stepmap_codegen.lower.step import LoweredStep, lower_step
from stepmap_codegen.lower.step_graph import solve_static
from stepmap_codegen.model.program import Field


@dataclass(frozen=True, eq=False)
class FilterParts:
    """A filter: what it keeps besides the estimate, its updates channel by channel, and its part of the prediction.

    What it keeps are entries of the covariance: fields with the role COVARIANCE and their place in P. They start as
    [noise] says, and their diagonal tells the supervisor how uncertain the estimate is.
    ``health`` names two fields per channel, its innovation e and the variance s of it. The mean of e²/s over the
    channels that were accepted, the normalized innovation, is the figure that the supervisor reads.
    """

    fields: tuple[Field, ...]
    memory: Named  # these fields as symbols, which all blocks may read
    updates: tuple[Sketch, ...]  # one per channel
    predicted: Named  # these fields after a step
    health: tuple[tuple[str, str], ...]
    branches: tuple[Named, ...] = ()  # of a map with gaps: ``predicted`` of each of its branches
    slack_tests: tuple[Sketch, ...] = ()  # of a map with gaps: run before the updates, and may open gaps
    landed: Named = ()  # of a robot that walks: these fields after a landing


class Model:
    """A step map and its sensors as expressions: what filter, projection, law and prediction are made of."""

    def __init__(self, step: MechanicalStep, newton: int, gait: Gait | None = None) -> None:
        self.step, self.system = step, step.system
        self.map: LoweredStep = lower_step(step, newton)
        self.x, self.u, self.layout = self.map.x, self.map.u, step.layout
        self.gaps = lower_gaps(step, newton, self.x, self.u)  # ``map`` is the step with all of them closed
        self.landing = None if gait is None else Landing(gait, self.x, step.dt)
        self.nx, self.ndx, self.nu, self.nz = step.nx, step.ndx, step.nu, len(self.system.sensor_channels)
        self.h, self.H = self._sensors()

    def _sensors(self) -> tuple[ca.SX, ca.SX]:
        """Readings at x, and their derivatives in the tangent space."""
        e, tangent = self.system.expressions, self.system.tangent
        if self.system.senses_rates:
            return self._rates()
        slope = e.centered(ca.jacobian(e.charted.readings, e.chart))
        readings = ca.Function("readings", [e.q, e.parameters], [e.readings, slope])
        h, slope = readings(self.x[: tangent.nq], ca.DM(self.system.parameter_values))
        return h, ca.sparsify(ca.horzcat(slope, ca.SX(self.nz, self.ndx - tangent.nv)))

    def _rates(self) -> tuple[ca.SX, ca.SX]:
        """The same where sensors see the velocity at the node, solved for by elimination (steps/sensing.py)."""
        s = sensing(self.step)
        still = ca.substitute(s.balance, s.y, ca.SX.zeros(s.y.numel()))
        parts = ca.Function("balance", [s.x, s.parameters], [still, s.balance_y])
        par = ca.DM(self.system.parameter_values)
        still, matrix = parts(self.x, par)
        y = -solve_static(matrix, still) if s.y.numel() else s.y
        seen = ca.Function("seen", [s.x, s.y, s.parameters], [s.readings, s.readings_x, s.readings_y, s.balance_x])
        h, along, by_y, balance_x = seen(self.x, y, par)
        if s.y.numel():
            along = along - by_y @ solve_static(matrix, balance_x)
        return h, ca.sparsify(along)

    @cached_property
    def channels(self) -> list[str]:
        """Names of the sensor channels in C."""
        return [identifier(name) for name, _ in self.system.sensor_channels]

    @cached_property
    def x_fields(self) -> list[str]:
        return [f"x_{identifier(name)}" for name in self.layout.names]

    @cached_property
    def u_fields(self) -> list[str]:
        return [f"u_{identifier(name)}" for name in self.step.input_names]

    @property
    def estimate(self) -> Named:
        """The fields of the estimate as symbols."""
        return [(field, self.x[i]) for i, field in enumerate(self.x_fields)]

    @cached_property
    def declared(self) -> list[Input | Coordinate]:
        """What declares unit and limits of each input."""
        return [*self.system.inputs, *self.system.kinematic]

    def limits(self, i: int) -> tuple[float | None, float | None]:
        """Limits of input i; those of a kinematic coordinate hold for an input that is its next value."""
        d = self.declared[i]
        bounded = isinstance(d, Input) or self.map.sets(i) is not None
        return (d.low, d.high) if bounded else (None, None)

    def input_unit(self, i: int) -> str:
        d = self.declared[i]
        return d.unit if isinstance(d, Input) or self.map.sets(i) is not None else f"{d.unit}/s²"


LowerFilter: TypeAlias = Callable[[Model, Noise, float | None], FilterParts]
