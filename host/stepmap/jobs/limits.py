"""The table [limits]: how much of its motors a plan may use, and limits of states and inputs, hard or soft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepmap.errors import ModelError
from stepmap.jobs.weights import Names
from stepmap.mechanics import System
from stepmap.optimal import SoftLimit
from stepmap.steps import InputLimits
from stepmap.toml.tables import Table

KEYS = ("low", "high", "rate", "weight")
USE = 0.75  # with less, plans are held by motors that are 10 % weaker or stronger than told; with 90 % not all are


@dataclass(frozen=True)
class HardLimits:
    """What a plan keeps to: a part of the system's own limits, and what the job gives in their place or besides.

    ``inputs`` are (low, high) and ``rates`` largest rates by the name of an input, ``states`` (low, high) by state.
    """

    use: float = USE
    inputs: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    states: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def plan(self, system: System) -> InputLimits | None:
        """Limits that the plan keeps; None where there are none."""
        own = {name: _scaled(low, high, self.use) for name, (low, high) in force_limits(system).items()}
        kept = {**own, **kinematic_limits(system), **self.inputs}
        if not kept and not self.rates:
            return None
        low, high = ({name: pair[i] for name, pair in kept.items()} for i in (0, 1))
        return InputLimits(low, high, dict(self.rates))


def motor_limits(system: System) -> InputLimits | None:
    """The system's own limits of its inputs, which a law may use."""
    own = {**force_limits(system), **kinematic_limits(system)}
    if not own:
        return None
    return InputLimits(*({name: pair[i] for name, pair in own.items()} for i in (0, 1)))


def force_limits(system: System) -> dict[str, tuple[float, float]]:
    """(low, high) of the force inputs that have limits."""
    return {i.name: _ends(i.low, i.high) for i in system.inputs if not (i.low is None and i.high is None)}


def kinematic_limits(system: System) -> dict[str, tuple[float, float]]:
    """(low, high) of the next values of kinematic coordinates that have limits."""
    return {f"{c.name}_next": _ends(c.low, c.high) for c in system.kinematic if not (c.low is None and c.high is None)}


def unlimited(system: System, hard: HardLimits) -> list[str]:
    """Inputs without a lower or an upper limit."""
    own = {**force_limits(system), **kinematic_limits(system), **hard.inputs}
    names = [*(i.name for i in system.inputs), *(f"{c.name}_next" for c in system.kinematic)]
    return [name for name in names if not np.isfinite(own.get(name, (-np.inf, np.inf))).all()]


def read_limits(table: Table, system: System, states: Names, inputs: Names) -> tuple[HardLimits, tuple[SoftLimit, ...]]:
    """Hard limits, and soft ones: those with a weight."""
    use = table.number("use", USE)
    if not 0 < use <= 1:
        raise table.error(f"must be a part of the motors' limits, above 0 and up to 1, got {use:g}", "use")
    table.only(["use", *states.entries, *inputs.entries], "state or input")
    hard = HardLimits(use, {}, {}, {})
    soft: list[SoftLimit] = []
    for name in (name for name in table if name != "use"):
        entry = table.table(name)
        entry.only(KEYS)
        of_input = name not in states.entries
        if not {"low", "high", "rate"} & set(entry):
            raise entry.error("give low, high or both, or the rate of a kinematic coordinate's input")
        if "weight" in entry:
            soft.append(_soft(entry, (inputs if of_input else states).entries.index(name), of_input))
        elif of_input:
            _hard_input(entry, name, system, hard)
        else:
            _hard_state(entry, name, system, hard)
    return hard, tuple(soft)


def _soft(entry: Table, index: int, of_input: bool) -> SoftLimit:
    if "rate" in entry:
        raise entry.error("a limit of the rate is hard, and has no weight", "rate")
    values: dict[str, Any] = {key: entry.number(key) for key in entry}
    try:
        return SoftLimit(index, of_input=of_input, **values)
    except ModelError as error:
        raise entry.error(str(error)) from None


def _hard_input(entry: Table, name: str, system: System, hard: HardLimits) -> None:
    if "rate" in entry:
        if name not in {f"{c.name}_next" for c in system.kinematic}:
            raise entry.error("only the input of a kinematic coordinate has a rate", "rate")
        if not entry.number("rate") > 0:
            raise entry.error(f"must be positive, got {entry.number('rate'):g}", "rate")
        hard.rates[name] = entry.number("rate")  # type: ignore[index]
    if not {"low", "high"} & set(entry):
        return
    own_low, own_high = {**force_limits(system), **kinematic_limits(system)}.get(name, (-np.inf, np.inf))
    low, high = _pair(entry, own_low, own_high)
    for key, value in (("low", low), ("high", high)):
        if not own_low <= value <= own_high:
            raise entry.error(f"{value:g} is beyond the system's own limits, {own_low:g} to {own_high:g}", key)
    hard.inputs[name] = low, high  # type: ignore[index]


def _hard_state(entry: Table, name: str, system: System, hard: HardLimits) -> None:
    """Of a state. A kinematic coordinate is what its input makes it: its limit is the input's, which is exact."""
    if "rate" in entry:
        raise entry.error("give the rate of an input, or low and high of the velocity v_…", "rate")
    low, high = _pair(entry, -np.inf, np.inf)
    kinematic = {c.name for c in system.kinematic}
    if name in kinematic:
        _hard_input(entry, f"{name}_next", system, hard)
    elif name.removeprefix("v_") in kinematic and low == -high:
        hard.rates[f"{name.removeprefix('v_')}_next"] = high  # type: ignore[index]
    else:
        hard.states[name] = low, high  # type: ignore[index]


def _pair(entry: Table, least: float, most: float) -> tuple[float, float]:
    low, high = entry.number("low", least), entry.number("high", most)
    if not low < high:
        raise entry.error(f"low ({low:g}) must be below high ({high:g})")
    return low, high


def _scaled(low: float, high: float, use: float) -> tuple[float, float]:
    """A part of a range, about no force where that is in it, else about the least one."""
    middle = min(max(0.0, low), high)
    return middle + use * (low - middle), middle + use * (high - middle)


def _ends(low: float | None, high: float | None) -> tuple[float, float]:
    return -np.inf if low is None else low, np.inf if high is None else high
