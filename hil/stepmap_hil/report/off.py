"""How far a mechanism is off at one tick, each unit told apart: for the terminal and the live page."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.system import System
from stepmap.units import plural, size
from stepmap_codegen import Controller
from stepmap_hil.report.quantities import bodies_travel
from stepmap_hil.runs.log import Row, errors, reference


def groups(system: System) -> dict[str, list[int]]:
    """Tangent dimensions of the coordinates that move by themselves, by unit."""
    found: dict[str, list[int]] = {}
    tangent = system.tangent
    for k, (_, unit) in enumerate(tangent.entries[: tangent.nd]):
        found.setdefault(unit, []).append(k)
    return found


def label(system: System, unit: str) -> str:
    """What the coordinates of a unit are called: the name of a single one, or lengths, angles."""
    tangent = system.tangent
    names = [name for name, of in tangent.entries[: tangent.nd] if of == unit]
    return names[0] if len(names) == 1 else plural(unit)


def apart(system: System, one: Array, other: Array) -> dict[str, float]:
    """Distance between two q̄ or states x, per unit."""
    tangent = system.tangent
    off = tangent.difference(other[: tangent.nq], one[: tangent.nq])
    return {unit: float(np.linalg.norm(off[columns])) for unit, columns in groups(system).items()}


class Off:
    """Tells how far a tick is off its reference: the masses, and coordinates that are no lengths.

    Nothing after the end of a plan that set-points follow, which a tick does not tell.
    """

    def __init__(self, controller: Controller, angles: str = "rad") -> None:
        self.controller, self.angles, self.system = controller, angles, controller.plant.step.system
        self._travels = bodies_travel(self.system)

    def __call__(self, row: Row) -> str:
        stream = self.controller.plant.stream
        if stream is not None and row.tick >= len(self.controller.schedule.rows) - 1:
            return ""
        here, goal = np.array([row.coordinates]), reference(self.controller, [row])
        found = apart(self.system, here[0], goal[0])
        if self._travels:
            found = {**found, "m": float(errors(self.controller, here, goal)[0])}
        ordered = sorted(found.items(), key=lambda pair: pair[0] != "m")
        return ", ".join(size(value, unit, self.angles) for unit, value in ordered)
