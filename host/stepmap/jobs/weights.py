"""Numbers by name: weights, limits and noise of states, inputs and sensor channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.estimate import ExtendedKalmanFilter, Filter, registry
from stepmap.estimate.protocol import Flags
from stepmap.mechanics import System
from stepmap.optimal.objective import Weights as Matrices
from stepmap.steps import VariationalStep
from stepmap.text import nearest
from stepmap.toml.tables import Table


@dataclass(frozen=True)
class Names:
    """Names of the entries of a vector, and of groups of them."""

    what: str
    entries: tuple[str, ...]
    groups: Mapping[str, tuple[int, ...]]

    def places(self, name: str) -> tuple[int, ...]:
        """Where a name stands; an entry's own name goes before a group's."""
        return (self.entries.index(name),) if name in self.entries else self.groups[name]

    @property
    def known(self) -> list[str]:
        return [*self.entries, *(name for name in self.groups if name not in self.entries)]


def state_names(system: System) -> Names:
    """Of the tangent space of x = [q, rho, p, v], with the groups q, rho, p and v, and those of each ball."""
    tangent = system.tangent
    q, rho = [name for name, _ in tangent.entries[: tangent.nd]], [c.name for c in system.kinematic]
    parts = {"q": q, "rho": rho, "p": [f"p_{name}" for name in q], "v": [f"v_{name}" for name in rho]}
    entries, groups = _joined(parts)
    for ball in system.balls:
        for prefix in ("", "p_"):
            first = entries.index(f"{prefix}{ball.name}.rx")
            groups[f"{prefix}{ball.name}"] = (first, first + 1, first + 2)
    return Names("state", entries, groups)


def input_names(system: System) -> Names:
    """Of u = [forces, rho_next], with these groups."""
    forces, rho = [i.name for i in system.inputs], [f"{c.name}_next" for c in system.kinematic]
    return Names("input", *_joined({"forces": forces, "rho_next": rho}))


def channel_names(system: System) -> Names:
    """Of all sensor channels; a sensor with several is a group."""
    return Names("sensor channel", *_joined({s.name: [name for name, _ in s.channels] for s in system.sensors}))


def _joined(parts: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]]]:
    entries: list[str] = []
    groups: dict[str, tuple[int, ...]] = {}
    for group, names in parts.items():
        if names:
            groups[group] = tuple(range(len(entries), len(entries) + len(names)))
            entries.extend(names)
    return tuple(entries), groups


def by_name(table: Table, names: Names, default: Array | None = None) -> Array:
    """Numbers that are not negative, in the order of the entries: groups first, then entries over them."""
    values = np.zeros(len(names.entries)) if default is None else np.array(default)
    flat = flattened(table)
    known = names.known
    for name, (holder, key) in flat.items():
        if name not in known:
            raise holder.error(f"no {names.what} is called {name!r}", key, hint=nearest(name, known))
    for name in sorted(flat, key=lambda name: name in names.entries):
        holder, key = flat[name]
        value = holder.number(key)
        if value < 0:
            raise holder.error(f"must not be negative, got {value:g}", key)
        values[list(names.places(name))] = value
    return values


def require_positive(values: Array, names: Names, table: Table, why: str) -> None:
    """Raises where an entry is zero: at its key, or at the table where it has none."""
    for name, value in zip(names.entries, values, strict=True):
        if not value > 0:
            raise table.error(f"{names.what} {name!r} has none, or zero; {why}", *([name] if name in table else []))


def flattened(table: Table) -> dict[str, tuple[Table, str]]:
    """Keys with the table each stands in; mass.x = 1 is the name "mass.x", whether quoted or not."""
    found: dict[str, tuple[Table, str]] = {}
    for key in table:
        if isinstance(table.entries[key], dict):
            inner = table.table(key)
            found |= {f"{key}.{name}": place for name, place in flattened(inner).items()}
        else:
            found[key] = (table, key)
    return found


@dataclass(frozen=True, eq=False)
class Weights:
    """Diagonals of Q (ndx), R (nu) and Qf (ndx)."""

    state: Array
    input: Array
    terminal: Array

    @property
    def matrices(self) -> Matrices:
        """Q, R and Qf."""
        return Matrices(*(np.diag(values) for values in (self.state, self.input, self.terminal)))


def read_weights(table: Table, states: Names, inputs: Names) -> Weights | None:
    """Weights of the plan; None where the table gives none, for the natural ones."""
    table.only(("state", "input", "terminal", "controller"))
    if not {"state", "input", "terminal"} & set(table):
        return None
    state, control = _pair(table, states, inputs)
    return Weights(state, control, _terminal(table, states, state))


@dataclass(frozen=True, eq=False)
class Controller:
    """Weights of the feedback: its own, or the plan's where it has none, times factors."""

    own: Weights | None
    speeds: Flags  # (ndx), of the state: momenta, and velocities of kinematic coordinates
    state_factor: float = 1.0
    speed_factor: float = 1.0  # on top of the state's
    input_factor: float = 1.0

    def weights(self, plan: Weights) -> Weights:
        """Those of the feedback of a plan with these weights."""
        of = plan if self.own is None else self.own
        factor = self.state_factor * np.where(self.speeds, self.speed_factor, 1.0)
        state = factor * of.state
        return Weights(state, self.input_factor * of.input, state if self.own else factor * of.terminal)


def read_controller(table: Table, states: Names, inputs: Names) -> Controller | None:
    """Weights of the feedback, where they are not those of the plan."""
    if "controller" not in table:
        return None
    inner = table.table("controller")
    inner.only(("state", "input", *FACTORS))
    factors = {name: inner.number(name, 1.0) for name in FACTORS}
    for name, factor in factors.items():
        if not factor > 0:
            raise inner.error(f"must be positive, got {factor:g}", name)
    speeds = speeds_of(states)
    if not {"state", "input"} & set(inner):
        if not set(FACTORS) & set(inner):
            raise inner.error("it gives no weights", hint=f"Give state and input, or one of {', '.join(FACTORS)}.")
        return Controller(None, speeds, **factors)
    state, control = _pair(inner, states, inputs)
    return Controller(Weights(state, control, state), speeds, **factors)


FACTORS = ("state_factor", "speed_factor", "input_factor")


def speeds_of(states: Names) -> Flags:
    """Which states are momenta, or velocities of kinematic coordinates."""
    places = [*states.groups.get("p", ()), *states.groups.get("v", ())]
    return np.isin(np.arange(len(states.entries)), places)


def _pair(table: Table, states: Names, inputs: Names) -> tuple[Array, Array]:
    table.need("state", "Give weights by state name or by group (q, rho, p, v).")
    table.need("input", "Give weights by input name or by group (forces, rho_next).")
    inner = table.table("input")
    control = by_name(inner, inputs)
    require_positive(control, inputs, inner, "every input needs a positive weight, or its optimum is not unique")
    return by_name(table.table("state"), states), control


def _terminal(table: Table, states: Names, state: Array) -> Array:
    """A factor on the weights of the state, or a table that replaces some of them."""
    if isinstance(table.entries.get("terminal"), dict):
        return by_name(table.table("terminal"), states, state)
    factor = table.number("terminal", 1.0)
    if factor < 0:
        raise table.error(f"must not be negative, got {factor:g}", "terminal")
    return factor * state


@dataclass(frozen=True, eq=False)
class Noise:
    """Standard deviations of a step (ndx), of a measurement (nz) and of the first estimate (ndx); a gate, or None.

    ``filter`` is the name of the filter that is to use them, ``options`` are its own.
    """

    process: Array
    measurement: Array
    start: Array
    gate: float | None
    filter: str = registry.DEFAULT
    options: Mapping[str, Any] = field(default_factory=dict)

    def make_filter(self, step: VariationalStep) -> Filter[Any]:
        """The filter of that name on a step map with this noise."""
        make = registry.maker(self.filter)
        return make(step, np.diag(self.process**2), np.diag(self.measurement**2), gate=self.gate, **self.options)

    def ekf(self, step: VariationalStep) -> ExtendedKalmanFilter:
        """The extended Kalman filter on a step map with this noise."""
        return ExtendedKalmanFilter(step, np.diag(self.process**2), np.diag(self.measurement**2), gate=self.gate)


def read_noise(table: Table, states: Names, channels: Names) -> Noise:
    table.only(("process", "measurement", "start", "gate", "filter"))
    table.need("process", "Give standard deviations per step, by state name or by group (q, rho, p, v).")
    table.need("measurement", "Give standard deviations by sensor channel.")
    process = by_name(table.table("process"), states)
    inner = table.table("measurement")
    measurement = by_name(inner, channels)
    require_positive(measurement, channels, inner, "every channel needs a positive standard deviation")
    start = by_name(table.table("start"), states) if "start" in table else process
    gate = table.number("gate") if "gate" in table else None
    if gate is not None and not gate > 0:
        raise table.error(f"must be a positive number of standard deviations, got {gate:g}", "gate")
    return Noise(process, measurement, start, gate, _filter_name(table, "filter"))


def read_filter(root: Table, noise: Noise | None) -> Noise:
    """The noise with what the table [filter] says: the kind of the filter, and options of its own."""
    table = root.table("filter")
    if noise is None:
        raise table.error("there is no table [noise], and a filter needs the noise", hint="Add it.")
    if "filter" in root.table("noise"):
        raise table.error("[noise] names the filter, too", "kind", hint="Leave it out there.")
    table.need("kind", f"There are {', '.join(registry.names())}.")
    kind = _filter_name(table, "kind")
    taken = list(signature(registry.maker(kind)).parameters.values())[3:]  # after step, process and measurement
    own = {p.name: p.default for p in taken if p.name != "gate" and isinstance(p.default, (bool, int, float))}
    table.only(("kind", *own))
    return replace(noise, filter=kind, options={key: table.like(key, own[key]) for key in own if key in table})


def _filter_name(table: Table, key: str) -> str:
    chosen, there = table.text(key) if key in table else registry.DEFAULT, registry.names()
    if chosen not in there:
        raise table.error(f"no filter is called {chosen!r}; {nearest(chosen, there)}", key)
    return chosen
