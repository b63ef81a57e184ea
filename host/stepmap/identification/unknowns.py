"""What is looked for: parameters of the model, and what lies between commands, motors and sensors.

mass              a parameter of the model (b.parameter)
gain.force        a factor of an input;  offset.r  what is added to it
delay             by which inputs act late [s]
bias.mass.y       what a sensor's channel reads too much
restitution.floor of a contact that bounces
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.mechanics.gaps import Contact
from stepmap.steps import VariationalStep
from stepmap.steps.events.step import EventStep
from stepmap.text import nearest

PARAMETER, GAIN, OFFSET, DELAY, BIAS, RESTITUTION = "parameter", "gain", "offset", "delay", "bias", "restitution"


@dataclass(frozen=True)
class Unknown:
    """One number; ``place`` is that of the parameter, input, channel or row. ``log``: its logarithm is searched for."""

    name: str
    kind: str
    place: int
    value: float
    scale: float  # an uncertainty that says: not told
    unit: str
    log: bool


@dataclass(frozen=True, eq=False)
class Unknowns:
    """All that is looked for, and the values of what is not: those of the system, with what the caller holds."""

    free: tuple[Unknown, ...]
    held: tuple[Unknown, ...]  # of the names that were given
    parameters: Array  # of the model

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.free]

    @property
    def start(self) -> Array:
        """Where the search begins: logarithms, or values in their scale."""
        return self.search(np.array([one.value for one in self.free]))

    def search(self, values: Array) -> Array:
        """Coordinates of the search from values."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.array([np.log(v) if one.log else v / one.scale for one, v in zip(self.free, values, strict=True)])

    def values(self, found: Array) -> Array:
        """Values from coordinates of the search."""
        return np.array([np.exp(c) if one.log else c * one.scale for one, c in zip(self.free, found, strict=True)])

    def slopes(self, values: Array) -> Array:
        """Derivatives of the values by the coordinates of the search."""
        return np.array([v if one.log else one.scale for one, v in zip(self.free, values, strict=True)])

    def model(self, values: Array) -> Array:
        """Values of all parameters of the model."""
        made = self.parameters.copy()
        for one, value in zip(self.free, values, strict=True):
            if one.kind == PARAMETER:
                made[one.place] = value
        return made

    def kernel(self, values: Array, whole: Array) -> Array:
        """Values of all parameters of a step's kernel; ``whole`` has those that nobody looks for."""
        made = np.concatenate([self.model(values), whole[len(self.parameters) :]])
        for one in self.held:
            if one.kind == RESTITUTION:
                made[one.place] = one.value
        for column, one in self.of(RESTITUTION):
            made[one.place] = values[column]
        return made

    def of(self, kind: str) -> list[tuple[int, Unknown]]:
        """Free ones of a kind with their columns."""
        return [(i, one) for i, one in enumerate(self.free) if one.kind == kind]

    def without(self, names: Sequence[str]) -> Unknowns:
        """The same with some of the free ones held where they are."""
        moved = tuple(one for one in self.free if one.name in names)
        return Unknowns(tuple(one for one in self.free if one not in moved), self.held + moved, self.parameters)

    def at(self, values: Array) -> Unknowns:
        """The same with other values."""
        free = tuple(replace(one, value=float(v)) for one, v in zip(self.free, values, strict=True))
        return Unknowns(free, self.held, self.model(values))


def read_unknowns(
    step: VariationalStep, names: Sequence[str], hold: Mapping[str, float], noise: tuple[Array, Array]
) -> Unknowns:
    """What the names mean; ``noise`` are standard deviations of the channels and of the first state.

    Raises ModelError where a name is unknown, given twice, or held and looked for.
    """
    if not names:
        raise ModelError(f"names: none are given; there are {', '.join(known(step))}")
    for name in (*names, *hold):
        if name not in known(step):
            raise ModelError(f"names: nothing is called {name!r}", hint=nearest(name, known(step)))
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ModelError(f"names: {name!r} is given twice")
        if name in hold:
            raise ModelError(f"names: {name!r} is both looked for and held")
    parameters = step.system.parameter_values.copy()
    made = {name: _unknown(step, name, noise) for name in (*names, *hold)}
    held = []
    for name, value in hold.items():
        one = made[name]
        if not np.isfinite(value) or (one.log and value <= 0):
            raise ModelError(f"hold: {name} must be a {'positive ' if one.log else ''}number, got {value}")
        if one.kind == PARAMETER:
            parameters[one.place] = value
        held.append(Unknown(name, one.kind, one.place, float(value), one.scale, one.unit, one.log))
    return Unknowns(tuple(made[name] for name in names), tuple(held), parameters)


def known(step: VariationalStep) -> list[str]:
    """Names of all that can be looked for."""
    system, inputs = step.system, _inputs(step)
    channels = [name for name, _ in system.sensor_channels]
    return [
        *(p.name for p in system.parameters),
        DELAY,
        *(f"{GAIN}.{name}" for name in inputs),
        *(f"{OFFSET}.{name}" for name in inputs),
        *(f"{BIAS}.{name}" for name in channels),
        *(f"{RESTITUTION}.{name}" for name in _bouncing(step)),
    ]


def _bouncing(step: VariationalStep) -> dict[str, tuple[int, float]]:
    """Contacts that bounce: where the kernel's parameters have their restitution, and its value."""
    found, row = {}, len(step.system.parameters) + 1
    for one in step.system.constraints:
        if isinstance(step, EventStep) and isinstance(one, Contact) and one.restitution > 0:
            found[one.name] = (row, one.restitution)
        row += len(one.rows)
    return found


def _inputs(step: VariationalStep) -> list[str]:
    """Inputs as they are called here: forces, and the coordinates that motors move."""
    return [*(i.name for i in step.system.inputs), *(c.name for c in step.system.kinematic)]


def _unknown(step: VariationalStep, name: str, noise: tuple[Array, Array]) -> Unknown:
    system, (channel, first) = step.system, noise
    own = [p.name for p in system.parameters]
    if name in own:
        parameter = system.parameters[own.index(name)]
        positive = parameter.value > 0
        scale = abs(parameter.value) or 0.01
        return Unknown(name, PARAMETER, own.index(name), parameter.value, scale, parameter.unit, positive)
    if name == DELAY:
        return Unknown(name, DELAY, 0, 0.0, step.dt, "s", False)
    kind, _, rest = name.partition(".")
    if kind == RESTITUTION:
        place, value = _bouncing(step)[rest]
        return Unknown(name, kind, place, value, value, "", True)
    if kind == BIAS:
        place = [c for c, _ in system.sensor_channels].index(rest)
        return Unknown(name, kind, place, 0.0, 10 * float(channel[place]), system.sensor_channels[place][1], False)
    place = _inputs(step).index(rest)
    if kind == GAIN:
        return Unknown(name, kind, place, 1.0, 1.0, "", True)
    forces = len(system.inputs)
    if place < forces:
        return Unknown(name, kind, place, 0.0, 0.1, system.inputs[place].unit, False)
    coordinate = system.kinematic[place - forces]
    scale = max(2 * float(first[step.nd + place - forces]), 1e-6)
    return Unknown(name, kind, place, 0.0, scale, coordinate.unit, False)
