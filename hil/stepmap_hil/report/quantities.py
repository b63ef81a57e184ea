"""Metrics of a run by coordinate, measurement channel and input, each in its own unit: parts of summary.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.estimate.measurement import measurement_model
from stepmap.mechanics.quantity import Coordinate, Input
from stepmap.mechanics.system import System
from stepmap_codegen import Controller
from stepmap_hil.report.series import Series, common, whole_ticks
from stepmap_hil.runs.log import Run
from stepmap_hil.wire import dialect

Entries = dict[str, dict[str, Any]]


def coordinates(controller: Controller, closed: Series, opened: Series | None) -> Entries:
    """Errors of each coordinate in its unit, of a ball about each axis: tracking, both loops, and of the estimate."""
    step = controller.plant.step
    tangent = step.system.tangent
    tracking, estimate = (
        _off(controller, closed),
        tangent.difference(closed.coordinates, step.layout.pose(closed.estimate)),
    )
    pair = None if opened is None else common(closed, opened)
    compared = None if pair is None or not len(pair[0].tick) else [_off(controller, s) for s in pair]
    return {
        name: {
            "unit": unit,
            "kinematic": k >= tangent.nd,
            "tracking_rms": _rms(tracking[:, k]),
            "tracking_max": float(np.abs(tracking[:, k]).max()),
            "closed_loop_rms": None if compared is None else _rms(compared[0][:, k]),
            "open_loop_rms": None if compared is None else _rms(compared[1][:, k]),
            "estimate_rms": _rms(estimate[:, k]) if closed.known else None,
        }
        for k, (name, unit) in enumerate(tangent.entries)
    }


def channels(controller: Controller, s: Series) -> Entries:
    """Errors of each channel as measured and by the estimate, at the ticks at which all were seen; None without truth.

    ``robot``: it measures what an actuator prescribes, not the mechanism.
    """
    step, seen = controller.plant.step, s.valid.all(axis=1)
    robot = robot_channels(controller)
    known = s.known and bool(seen.any())
    expected = measurement_model(step).readings(s.estimate[seen]) if known else None
    return {
        name: {
            "unit": unit,
            "robot": k in robot,
            "seen": float(s.valid[:, k].mean()) if len(s.valid) else 0.0,
            "raw_rms": None if expected is None else _rms((s.measured - s.truth)[seen, k]),
            "filtered_rms": None if expected is None else _rms(expected[:, k] - s.truth[seen, k]),
        }
        for k, (name, unit) in enumerate(step.system.sensor_channels)
    }


def inputs(controller: Controller, s: Series) -> Entries:
    """Range of each command, ticks at its limits, and RMS second differences from raw and filtered measurements."""
    system, whole = controller.plant.step.system, whole_ticks(s)
    declared: list[Input | Coordinate] = [*system.inputs, *system.kinematic]
    second = {name: np.diff(values, 2, axis=0)[whole] for name, values in (("raw", s.raw_command), ("own", s.command))}
    found: Entries = {}
    for k, of in enumerate(declared):
        command = s.command[:, k]
        bounds = [(command - limit) * side for limit, side in ((of.low, 1), (of.high, -1)) if limit is not None]
        near = 1e-3 * ((of.high or 0.0) - (of.low or 0.0))  # a thousandth of its range: formats round limits
        found[of.name] = {
            "unit": of.unit,
            "low": of.low,
            "high": of.high,
            "least": float(command.min()),
            "largest": float(command.max()),
            "ticks_at_limit": int(np.any([room <= near for room in bounds], axis=0).sum()) if bounds else 0,
            "roughness_raw": _rms(second["raw"][:, k]) if whole.any() else None,
            "roughness_filtered": _rms(second["own"][:, k]) if whole.any() else None,
        }
    return found


def robot_channels(controller: Controller) -> set[int]:
    """Channels that measure what an actuator prescribes."""
    return {f.moves[1] for f in controller.program.fields if f.moves is not None}


def bodies_travel(system: System) -> bool:
    """Whether a coordinate can displace a body: a wheel about its own axis has no distance from its reference."""
    at = [body.frame.index for body in system.bodies]
    base = system.configuration({})
    n = system.tangent.nv
    moved = system.tangent.retract(base, np.vstack([np.diag(np.full(n, 0.1)), np.full(n, 0.1)]))
    poses = np.vstack([base, moved])
    return bool(at) and bool(np.ptp(system.positions(poses)[:, at], axis=0).max() > 1e-9)


def _off(controller: Controller, s: Series) -> Array:
    """Coordinates minus their reference, in the tangent space, (ticks, nv)."""
    step = controller.plant.step
    return step.system.tangent.difference(step.layout.pose(s.reference), s.coordinates)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def set_points(controller: Controller, run: Run, s: Series) -> dict[str, Any] | None:
    """How streamed set-points were followed, from the plan's end on; None for a job without a stream."""
    stream = controller.plant.stream
    if stream is None:
        return None
    over = s.tick >= len(controller.schedule.rows) - 1
    step = controller.plant.step
    off = np.abs(step.layout.pose(s.reference)[over] - s.coordinates[over][:, : len(step.system.coordinates)])
    holding = dialect.value("STEPMAP_STREAM_HOLDING")
    states = [run.followed[k].state for k in map(int, s.tick[over]) if k in run.followed]
    return {
        "sent": len(run.set_points),
        "ticks": int(over.sum()),
        "held_ticks": sum(state == holding for state in states),
        "followed": {
            q.name: {
                "unit": q.unit,
                "rms": float(np.sqrt(np.mean(off[:, q.state] ** 2))) if over.any() else None,
                "max": float(off[:, q.state].max()) if over.any() else None,
            }
            for q in stream.quantities
        },
    }
