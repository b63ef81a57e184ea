"""What filters ask of a step map besides its steps: readings of its sensors, and how they change with the state."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepmap.arrays import Array, rows
from stepmap.errors import ModelError
from stepmap.mechanics.constraints import Row
from stepmap.mechanics.system import System
from stepmap.steps.layout import Layout, MechanicalLayout
from stepmap.steps.protocol import StepMap
from stepmap.steps.sensing import sensing

Flags: TypeAlias = NDArray[np.bool_]
TOUCH = 1e-9  # m: a gap this close is closed, for the step with events too


class MeasurementModel(Protocol):
    """Sensors of a step map. A map of one's own has these three itself; a mechanism's come from its system.

    A model may also have ``project(x)``: states moved onto what binds them, such as constraints. With gaps, which bind
    at times, it has ``closed(x)`` too, and ``project(x, closed)`` is given those that were closed before an update.
    """

    @property
    def sensor_channels(self) -> tuple[tuple[str, str], ...]:
        """(name, unit) of every channel."""

    def readings(self, x: ArrayLike) -> Array:
        """What the sensors read at states (..., nx), one number per channel."""

    def readings_slope(self, x: ArrayLike) -> Array:
        """Derivatives (..., channel, n) of the readings in the first n tangent dimensions; in the others they are 0."""


class MechanicalMap(StepMap, Protocol):
    """A step map that knows its mechanism."""

    @property
    def system(self) -> System: ...


class OwnSensors(StepMap, MeasurementModel, Protocol):
    """A step map that has a measurement model of its own."""


MeasuredMap = MechanicalMap | OwnSensors


class MechanicalReadings:
    """The sensors of a mechanism on the states of its step map, and its constraints."""

    def __init__(self, system: System, layout: Layout, step: Any = None) -> None:
        if not (layout.plain or isinstance(layout, MechanicalLayout)):
            raise ModelError(
                f"step: states of {system.name!r} are no plain vectors; give the step map readings(x) and "
                "readings_slope(x) in the tangent space"
            )
        self.system, self.layout = system, layout
        contacts = getattr(step, "contacts", None)
        there = system.gap_names if contacts is None else contacts  # a map may have some of the gaps only
        self._sensing = sensing(step) if system.senses_rates else None
        kinds = zip(system.constraint_names, system.constraint_rows, strict=True)
        self._gaps = np.array([row is Row.GAP and name in there for name, row in kinds], dtype=bool)

    @property
    def sensor_channels(self) -> tuple[tuple[str, str], ...]:
        return self.system.sensor_channels

    def readings(self, x: ArrayLike) -> Array:
        return self.system.readings(self.layout.pose(x)) if self._sensing is None else self._sensed(x)[0]

    def readings_slope(self, x: ArrayLike) -> Array:
        return self.system.readings_slope(self.layout.pose(x)) if self._sensing is None else self._sensed(x)[1]

    def _sensed(self, x: ArrayLike) -> tuple[Array, Array]:
        """Readings and slopes of sensors some of which see the velocity at the node."""
        assert self._sensing is not None
        states = rows(x, self.layout.nx, "x")
        flat = states.reshape(-1, self.layout.nx)
        found = self._sensing.at(flat, self.system.parameter_values)
        z, H = (e.reshape(*states.shape[:-1], *e.shape[1:]) for e in found)
        return z, H

    def closed(self, x: ArrayLike) -> Flags | None:
        """Which rows of the constraints are gaps that touch, (..., nc); None where there are no gaps."""
        if not self._gaps.any():
            return None
        out: Flags = self._gaps & (self.system.gaps(self.layout.pose(x)) >= -TOUCH)
        return out

    def project(self, x: ArrayLike, closed: Flags | None = None, *, turns: int = 2) -> Array:
        """x with its dynamic coordinates moved onto the constraints by the least change; all else stays.

        A gap counts where x is beyond it, and where it was ``closed``: noise alone does not open it, the step does.
        """
        if not self.system.constraints:
            return np.asarray(x, dtype=float)
        out = np.array(x, dtype=float)
        tangent = self.system.tangent
        at, nd = slice(0, tangent.nq), tangent.nd
        equal = np.array(self.system.constraint_rows) == Row.EQUALITY
        held = equal if closed is None else equal | closed
        for _ in range(turns + 2 * bool(self.system.gap_names)):  # a gap has to touch to the last nanometre
            pose = self.layout.pose(out)
            h, J = self.system.residuals(pose), self.system.residuals_slope(pose)[..., :nd]
            if self.system.gap_names:
                held = held | (self._gaps & (h > 0))
                h, J = np.where(held, h, 0.0), np.where(held[..., None], J, 0.0)
            back = np.zeros((*out.shape[:-1], tangent.nv))
            back[..., :nd] = np.einsum("...ij,...j->...i", np.linalg.pinv(J), h)
            out[..., at] = tangent.retract(out[..., at], -back)
        return out


def measurement_model(step: Any) -> MeasurementModel:
    """The measurement model of a step map: its own, or that of its mechanism."""
    if hasattr(step, "readings") and hasattr(step, "readings_slope"):
        model: MeasurementModel = step
        return model
    system = getattr(step, "system", None)
    if not isinstance(system, System):
        raise ModelError(
            f"step: expected a step map of a mechanism, or one with sensor_channels, readings(x) and "
            f"readings_slope(x), got {type(step).__name__}"
        )
    if not system.sensor_channels:
        raise ModelError(f"system {system.name!r} has no sensor; add a marker or an encoder to it")
    return MechanicalReadings(system, step.layout, step)
