"""A plan: what every search ends in, and what goes to the board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, DamagedError, ModelError, ShapeError
from stepmap.optimal import plan_file
from stepmap.optimal.lqr import lqr, riccati
from stepmap.steps.layout import MechanicalLayout
from stepmap.steps.protocol import Event, StepMap, Trajectory

ACT = "act"  # the kind of an event that is the begin of an act
NODE = 1e-9  # of a step: a begin that near to a node is at it


@dataclass(frozen=True, eq=False)
class Plan:
    """A trajectory, the gains (N, nu, ndx) that stabilize it, the reference it was sought for, its events.

    u = trajectory.u[k] − gains[k] difference(trajectory.x[k], x). The last gain can be held for ever, unless ``fading``
    says why it cannot: then gains are those of a finite horizon, and the last ones let go. A search without a reference
    gives the trajectory itself; a map without events gives none.
    """

    trajectory: Trajectory
    gains: Array
    reference: Trajectory
    events: tuple[Event, ...] = ()  # those of the trajectory, and the acts of a script
    acts: tuple[float, ...] = ()  # times [s] at which the acts of a script begin
    fading: str = ""

    def __post_init__(self) -> None:
        found, wanted = self.trajectory, self.reference
        shape, given = (found.steps, found.u.shape[1], found.x.shape[1]), np.shape(self.gains)
        # On a manifold there are fewer tangent dimensions than stored numbers.
        if len(given) != 3 or given[:2] != shape[:2] or not 0 < given[2] <= shape[2]:
            raise ShapeError(f"gains: expected {shape} along this trajectory, got {given}")
        if wanted.x.shape != found.x.shape or wanted.u.shape != found.u.shape:
            raise ShapeError(
                f"reference: expected states {found.x.shape} and inputs {found.u.shape}, "
                f"got {wanted.x.shape} and {wanted.u.shape}"
            )

    def save(self, path: str | Path, step: StepMap | None = None, *, kind: str = "") -> None:
        """Writes the plan to one .npz, whole or not at all; a step map adds names, units and its dt to the manifest."""
        plan_file.write(Path(path), self.packed(step, kind=kind))

    def packed(self, step: StepMap | None = None, *, kind: str = "", more: Mapping[str, Any] | None = None) -> bytes:
        """The content of the plan's file; ``more`` are arrays beside the plan's own, or in place of them."""
        found, wanted = self.trajectory, self.reference
        arrays = {"t": found.t, "x": found.x, "u": found.u, "gains": self.gains, "x_ref": wanted.x, "u_ref": wanted.u}
        if found.multipliers is not None:
            arrays["multipliers"] = found.multipliers
        manifest: dict[str, Any] = {
            "kind": kind,
            "steps": found.steps,
            "forces": "multipliers" in arrays or "multipliers" in (more or {}),
            "acts": list(self.acts),
            "fading": self.fading,
            "events": plan_file.event_rows(self.events),
            "modes": plan_file.mode_rows(found),
        }
        if step is not None:
            manifest |= {
                "dt": step.dt,
                "step": plan_file.kind_of(step),
                "options": getattr(step, "options", {}),
                "state_names": list(step.state_names),
                "state_units": list(step.layout.units),
                "tangent_names": list(step.layout.tangent_names),
                "input_names": list(step.input_names),
            }
        return plan_file.pack(arrays, manifest, more)

    @classmethod
    def load(cls, path: str | Path, step: StepMap | None = None) -> Plan:
        """The plan of a file; raises DamagedError or ModelError where it is none, or not one for that step map."""
        path = Path(path)
        arrays, manifest = plan_file.read(path)
        if step is not None:
            plan_file.require_for(step, manifest, path)
        events = plan_file.events_from(manifest.get("events", ()), path)
        try:
            gaps = tuple(event for event in events if event.kind != ACT)
            found = plan_file.trajectory_of(arrays, gaps, plan_file.modes_from(manifest, path))
            reference = Trajectory(found.t, arrays["x_ref"], arrays["u_ref"])
            acts, fading = tuple(manifest.get("acts", ())), str(manifest.get("fading", ""))
            return cls(found, arrays["gains"], reference, events, acts, fading)
        except (ShapeError, TypeError) as error:
            raise DamagedError(f"{path}: its arrays do not fit together: {error}") from None


def with_acts(gaps: Sequence[Event], names: Sequence[str], begins: Sequence[float], dt: float) -> tuple[Event, ...]:
    """Events of a trajectory and the begins [s] of acts, in their order."""
    acts = [Event(at, int(at / dt + NODE), name, ACT) for name, at in zip(names, begins, strict=True)]
    return tuple(sorted([*gaps, *acts], key=lambda event: event.time))


def gains_with_steady_end(
    step: StepMap, trajectory: Trajectory, Q: Array, R: Array, otherwise: Array
) -> tuple[Array, str]:
    """Gains whose terminal weight is the infinite-horizon cost of holding the end of the trajectory, and "".

    Gains of a finite horizon fade towards its end, and the last of them hold nothing that falls. Where there is no
    steady regulator, ``otherwise`` as it is, and why. Of weights that change with time the last ones hold the end.
    """
    last_Q, last_R = (M if M.ndim == 2 else M[-1] for M in (Q, R))
    try:
        at = step.linearize(trajectory.x[-1], held_input(step, trajectory.x[-1], trajectory.u[-1]))
        return lqr(step, trajectory, Q, R, riccati(at.A, at.B, last_Q, last_R)), ""
    except (ConvergenceError, ModelError) as error:
        return otherwise, str(error)


def held_input(step: StepMap, x: Array, u: Array) -> Array:
    """The input that holds kinematic coordinates where x has them, with the forces of u."""
    layout = step.layout
    return layout.hold(x, u[: layout.forces]) if isinstance(layout, MechanicalLayout) else np.array(u, dtype=float)
