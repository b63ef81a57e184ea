"""A simulation as a part of a report: key figures, pictures, settings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepmap.mechanics.constraints import Distance
from stepmap.report.document import Picture, Section
from stepmap.simulation import Simulation


def key_figures(simulation: Simulation) -> list[tuple[str, str]]:
    """(name, value) of what tells a good simulation from a bad one."""
    trajectory, step = simulation.trajectory, simulation.step
    length = f"{trajectory.t[-1]:g} s in {trajectory.steps} steps of {step.dt:.6g} s"
    rows = [("simulated", length), _energy(simulation)]
    if step.nc:
        rows.append(("largest constraint gap", f"{np.abs(simulation.violations).max():.2g} m"))
        rows.append(("constraint forces", constraint_forces(simulation)))
    if simulation.system.gap_names:
        rows.append(("events", _events(simulation)))
    if simulation.seconds is not None:
        each = simulation.seconds / trajectory.steps
        rows.append(("computing time", f"{1e6 * each:.3g} µs per step, {step.dt / each:,.0f} times real time"))
    return rows


def constraint_forces(simulation: Simulation) -> str:
    """Their range, and which strings would be slack: distances push as well as pull, strings cannot."""
    forces, system = simulation.multipliers, simulation.system
    strings = {label for c in system.constraints if isinstance(c, Distance) for label in c.labels}
    pushed = [name for k, name in enumerate(system.constraint_names) if name in strings and forces[:, k].min() < 0]
    slack = f"; below 0 a string would be slack: {', '.join(pushed)}" if pushed else ""
    return f"{forces.min():.3g} to {forces.max():.3g} N{slack}"


def _events(simulation: Simulation) -> str:
    kinds = [event.kind for event in simulation.trajectory.events]
    counts = [(kinds.count(kind), kind) for kind in ("impact", "release")]
    told = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for count, kind in counts)
    return f"{told}; {simulation.lost:.3g} J lost at impacts"


def _energy(simulation: Simulation) -> tuple[str, str]:
    drift, scale = simulation.energy_drift, float(simulation.kinetic.max())
    part = f" ({100 * drift / scale:.2g} % of the largest kinetic energy)" if scale > 0 else ""
    if simulation.conservative and simulation.trajectory.events:
        drift = abs(float(simulation.energy[-1] - simulation.energy[0]) + simulation.lost)
        return "energy drift", f"{drift:.2g} J beside what impacts took"
    if simulation.conservative:
        return "energy drift", f"{drift:.2g} J{part}"
    return "energy change", f"{drift:.3g} J at most; forces or moved coordinates do work"


def section(heading: str, text: str, simulation: Simulation, moves: Mapping[str, str] | None = None) -> Section:
    """A simulation as a part of a report: key figures, pictures, settings."""
    from stepmap import plots  # matplotlib takes longer to load than a small simulation to run

    drawn = [
        ("The motion; poses evenly spaced in time.", plots.motion(simulation)),
        ("Coordinates over time.", plots.coordinates(simulation)),
        ("Energy; potential and total energy relative to the start.", plots.energy(simulation)),
    ]
    if simulation.step.nc:
        drawn.append(("Constraint forces, positive when they pull.", plots.forces(simulation)))
    pictures = [Picture(caption, plots.render(figure, "svg")) for caption, figure in drawn]
    settings = [(p.name, f"{p.value:g} {p.unit}".strip()) for p in simulation.system.parameters]
    settings += [(name, f"= {formula}") for name, formula in (moves or {}).items()]
    return Section(heading, text, key_figures(simulation), pictures, settings)
