"""The ticks of a run as arrays, for metrics and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError
from stepmap_codegen import Controller
from stepmap_hil.runs.fault_verdict import MOVING
from stepmap_hil.runs.followed import references
from stepmap_hil.runs.log import Row, Run
from stepmap_hil.wire.raw_values import SignalCodec


@dataclass(frozen=True)
class Series:
    """Arrays of the ticks while running, one row per tick."""

    tick: Array  # number of the tick, int
    time: Array
    reference: Array  # x
    coordinates: Array  # q̄ of the plant
    truth: Array  # readings without noise
    measured: Array
    valid: Array  # (ticks, channels), bool
    estimate: Array  # x
    plan: Array  # u of the schedule
    command: Array
    raw_command: Array  # what the feedback would make of the measurements themselves
    latency_ms: Array
    jitter_ms: Array
    known: bool  # whether coordinates and truth are those of the plant, and not its estimate and what was measured

    def at(self, where: Array) -> Series:
        """The ticks for which `where` (bool, one entry per tick) holds."""
        apart = ("latency_ms", "jitter_ms", "known")  # not of every tick
        return replace(self, **{f.name: getattr(self, f.name)[where] for f in fields(self) if f.name not in apart})


def moving(run: Run) -> list[Row]:
    """The ticks of a run until the board ended it."""
    return [row for row in run.rows if row.running and row.state in MOVING]


def series(controller: Controller, run: Run) -> Series:
    """The ticks of a run until the board ended it, as arrays."""
    codec = SignalCodec.parse(controller.description())
    rows = moving(run)
    step = controller.plant.step
    planned = references(controller, rows, run.followed).reshape(-1, step.nx + step.nu)
    nz = len(codec.fields["measurement"])
    measured = np.array([row.z for row in rows]).reshape(-1, nz)
    valid = np.array([[row.valid >> k & 1 for k in range(nz)] for row in rows], dtype=bool).reshape(-1, nz)
    return Series(
        tick=np.array([row.tick for row in rows], dtype=np.int64),
        time=np.array([row.time for row in rows]) - (rows[0].time if rows else 0.0),
        reference=planned[:, : step.nx],
        coordinates=np.array([row.coordinates for row in rows]),
        truth=np.array([row.truth for row in rows]),
        measured=measured,
        valid=valid,
        estimate=np.array([codec.decode("estimate", row.estimate) for row in rows]),
        plan=planned[:, step.nx :],
        command=np.array([codec.decode("command", row.command) for row in rows]),
        raw_command=_raw_commands(controller, rows, _held(measured, valid), planned),
        latency_ms=np.array([row.latency_ms for row in rows if row.measured]),
        jitter_ms=np.array([row.jitter_ms for row in rows if row.measured]),
        known=run.plant == "simulated",
    )


def _held(z: Array, valid: Array) -> Array:
    """Measurements with the last one seen in place of those that were not."""
    held = z.copy()
    for k in range(1, len(held)):
        held[k] = np.where(valid[k], z[k], held[k - 1])
    return held


def _raw_commands(controller: Controller, rows: Sequence[Row], z: Array, planned: Array) -> Array:
    """Commands from measurements alone: positions as measured, momenta and speeds from the last two of them.

    ``planned`` are references of states and inputs, a row per tick.
    """
    step = controller.plant.step
    robot = [c.name for c in step.system.kinematic]
    start, tangent = step.layout.pose(controller.output.start), step.system.tangent
    slope = np.linalg.pinv(np.asarray(step.system.readings_slope(start)))
    q = tangent.retract(start, (z - np.asarray(step.system.readings(start))) @ slope.T)
    speed = tangent.difference(np.concatenate([q[:1], q[:-1]]), q) / step.dt
    values = controller.schedule.values()
    nx = step.nx
    gains = controller.plant.gains
    out = []
    codec = SignalCodec.parse(controller.description())
    for k, row in enumerate(rows):
        chosen = codec.row_of(row.modes)
        at = min(row.tick if chosen is None else chosen, len(values) - 1)
        pushing = values[max(at - 1, 0), nx : nx + len(step.system.inputs)]  # forces of the step that ended here
        x_ref, u_ref = planned[k, :nx], planned[k, nx:]
        try:
            pushed = step.from_velocity(step.system.satisfy_constraints(q[k], robot), speed[k], forces=pushing)
        except ConvergenceError:  # measurements that no pose could give
            out.append(u_ref)
            continue
        x = np.concatenate([q[k], pushed[len(q[k]) :]])
        out.append(u_ref - gains[min(at, len(gains) - 1)] @ step.layout.difference(x_ref, x))
    return np.array(out)


def rms(errors: Array) -> float:
    """Root mean square over time of the length of an error."""
    return float(np.sqrt(np.mean(np.sum(errors**2, axis=-1)))) if len(errors) else float("nan")


def roughness(commands: Array, s: Series) -> float | None:
    """RMS second difference, over ticks that follow each other with nothing missing in their three measurements."""
    whole = whole_ticks(s)
    return rms(np.diff(commands, 2, axis=0)[whole]) if whole.any() else None


def whole_ticks(s: Series) -> Array:
    """Which second differences are of ticks that follow each other, with all channels seen in all three."""
    whole: Array = np.all(s.valid[2:] & s.valid[1:-1] & s.valid[:-2], axis=1)
    whole &= (np.diff(s.tick)[1:] == 1) & (np.diff(s.tick)[:-1] == 1)
    return whole


def common(closed: Series, opened: Series) -> tuple[Series, Series]:
    """The ticks that both runs have, so that what is compared is of the same span."""
    return closed.at(np.isin(closed.tick, opened.tick)), opened.at(np.isin(opened.tick, closed.tick))
