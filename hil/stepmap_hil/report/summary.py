"""What a run was like, in numbers: summary.json, and the table on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, LinkError
from stepmap_codegen import Controller
from stepmap_codegen.reference_loop import ReferenceLoop
from stepmap_hil.runs.fault_verdict import MOVING, NEVER
from stepmap_hil.runs.log import Row, Run, errors, reference
from stepmap_hil.wire import dialect
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
    nz = len(codec.fields["measurement"])
    measured = np.array([row.z for row in rows]).reshape(-1, nz)
    valid = np.array([[row.valid >> k & 1 for k in range(nz)] for row in rows], dtype=bool).reshape(-1, nz)
    return Series(
        tick=np.array([row.tick for row in rows], dtype=np.int64),
        time=np.array([row.time for row in rows]) - (rows[0].time if rows else 0.0),
        reference=reference(controller, rows),
        coordinates=np.array([row.coordinates for row in rows]),
        truth=np.array([row.truth for row in rows]),
        measured=measured,
        valid=valid,
        estimate=np.array([codec.decode("estimate", row.estimate) for row in rows]),
        plan=_plan(controller, rows),
        command=np.array([codec.decode("command", row.command) for row in rows]),
        raw_command=_raw_commands(controller, rows, _held(measured, valid)),
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


def _plan(controller: Controller, rows: Sequence[Row]) -> Array:
    """Inputs of the schedule at the ticks of a run."""
    step, values = controller.plant.step, controller.schedule.values()
    return np.array([values[min(row.tick, len(values) - 1), step.nx : step.nx + step.nu] for row in rows])


def _raw_commands(controller: Controller, rows: Sequence[Row], z: Array) -> Array:
    """Commands from measurements alone: positions as measured, momenta and speeds from the last two of them."""
    step = controller.plant.step
    robot = [c.name for c in step.system.kinematic]
    start = step.layout.pose(controller.output.start)
    slope = np.linalg.pinv(np.asarray(step.system.readings_slope(start)))
    q = start + (z - np.asarray(step.system.readings(start))) @ slope.T
    speed = np.diff(q, axis=0, prepend=q[:1]) / step.dt
    values = controller.schedule.values()
    nx, nu = step.nx, step.nu
    gains = controller.plant.gains
    out = []
    for k, row in enumerate(rows):
        at = min(row.tick, len(values) - 1)
        pushing = values[max(at - 1, 0), nx : nx + len(step.system.inputs)]  # forces of the step that ended here
        x_ref, u_ref = values[at, :nx], values[at, nx : nx + nu]
        try:
            pushed = step.from_velocity(step.system.satisfy_constraints(q[k], robot), speed[k], forces=pushing)
        except ConvergenceError:  # measurements that no pose could give
            out.append(u_ref)
            continue
        x = np.concatenate([q[k], pushed[len(q[k]) :]])
        out.append(u_ref - gains[min(at, len(gains) - 1)] @ step.layout.difference(x_ref, x))
    return np.array(out)


def bit_exact(controller: Controller, run: Run) -> bool | None:
    """Whether the board's estimates and commands are the integer model's; None where ticks are missing."""
    if controller.formats is None or not run.rows:
        return None
    reference_loop, last = ReferenceLoop(controller), None
    follow, armed = dialect.value("STEPMAP_STATE_RUNNING"), dialect.value("STEPMAP_STATE_ARMED")
    for row in run.rows:
        if last is not None and row.running and last.running and row.tick != last.tick + 1:
            return None
        made = reference_loop.step(
            row.valid if row.measured else 0,
            row.words,
            follow=row.state == follow,
            running=row.running,
            hold=row.state == armed,
        )
        if (row.estimate, row.command, row.taken) != made:
            return False
        last = row
    return True


def rms(errors: Array) -> float:
    """Root mean square over time of the length of an error."""
    return float(np.sqrt(np.mean(np.sum(errors**2, axis=-1)))) if len(errors) else float("nan")


def roughness(commands: Array, s: Series) -> float | None:
    """RMS second difference, over ticks that follow each other with nothing missing in their three measurements."""
    whole = np.all(s.valid[2:] & s.valid[1:-1] & s.valid[:-2], axis=1)
    whole &= (np.diff(s.tick)[1:] == 1) & (np.diff(s.tick)[:-1] == 1)
    return rms(np.diff(commands, 2, axis=0)[whole]) if whole.any() else None


def common(closed: Series, opened: Series) -> tuple[Series, Series]:
    """The ticks that both runs have, so that what is compared is of the same span."""
    return closed.at(np.isin(closed.tick, opened.tick)), opened.at(np.isin(opened.tick, closed.tick))


def comparison(controller: Controller, closed: Series, opened: Series | None) -> dict[str, Any]:
    """Tracking with and without feedback over the ticks that both runs have, and how far apart both began [m]."""
    names = ("open_loop_rms_m", "closed_loop_rms_m", "compared_ticks", "open_loop_start_apart_m")
    if opened is None:
        return dict.fromkeys(names)
    a, b = common(closed, opened)
    if not len(a.tick):
        return dict.fromkeys(names)
    off = [rms(errors(controller, s.coordinates, s.reference)[:, None]) for s in (b, a)]
    apart = float(errors(controller, a.coordinates[:1], b.coordinates[:1])[0])
    return dict(zip(names, (*off, len(a.tick), apart), strict=True))


def _measured(controller: Controller, s: Series) -> dict[str, Any]:
    """Errors of measurements and of the estimate in the same channels, at the same ticks."""
    channels, seen = lengths(controller), s.valid.all(axis=1)
    if not (s.known and channels and seen.any()):
        return dict.fromkeys(("raw_measurement_rms_m", "filtered_measurement_rms_m", "measured_channels"))
    step = controller.plant.step
    expected = np.asarray(step.system.readings(step.layout.pose(s.estimate[seen])), dtype=float)
    truth = s.truth[seen]
    return {
        "raw_measurement_rms_m": rms((s.measured[seen] - truth)[:, channels]),
        "filtered_measurement_rms_m": rms((expected - truth)[:, channels]),
        "measured_channels": ", ".join(step.system.sensor_channels[k][0] for k in channels),
    }


def summarize(controller: Controller, run: Run, s: Series, more: dict[str, Any]) -> dict[str, Any]:
    """summary.json of a run and its series; docs/bench.md describes each entry."""
    rows = moving(run)
    if not rows:
        why = "; ".join([run.ended, *run.suspects[:1]]) or "the board sent no telemetry"
        raise LinkError(f"the run ended before its first tick: {why}")
    tracking = errors(controller, s.coordinates, s.reference)
    clock = not run.lockstep  # in lock-step the host's clock does not matter to the robot
    made = {
        "format": "stepmap-bench-1",
        "job": run.job,
        "board": run.board,
        "board_id": run.board_id,
        "mode": run.mode,
        "plant": run.plant,
        "ended": run.ended or "done",
        "suspects": list(run.suspects),
        "ticks": len(rows),
        "deadline_misses": run.misses,
        "latency_ms": _percentiles(s.latency_ms) if clock else None,
        "jitter_ms": _percentiles(s.jitter_ms) if clock else None,
        "tracking_rms_m": rms(tracking[:, None]),
        "tracking_max_m": float(tracking.max()),
        "estimate_rms_m": rms(errors(controller, s.estimate, s.coordinates)[:, None]) if s.known else None,
        **_measured(controller, s),
        "command_roughness_raw": roughness(s.raw_command, s),
        "command_roughness_filtered": roughness(s.command, s),
        "command_unit": command_unit(controller),
        "feedback_roughness_raw": roughness(s.raw_command - s.plan, s),
        "feedback_roughness_filtered": roughness(s.command - s.plan, s),
        "saturations": rows[-1].saturations,
        "gated": rows[-1].gated,
        "faults": _board_faults(run),
        "injected_faults": sum(not result.seen.startswith(NEVER) for result in run.results),
        "fault_results": [result.document() for result in run.results],
        "bit_exact_with_host": bit_exact(controller, run),
        "digest": run.digest(),
    }
    return {**made, **{name: value for name, value in more.items() if name not in made}}  # what was computed stays


def _board_faults(run: Run) -> int:
    """As the board counted; a board in fault reports no further tick, so the fault that ended a run is added."""
    last = run.rows[-1]
    ended = run.stop is not None and run.stop.state == "fault" and last.state in MOVING
    return last.faults + ended


def lengths(controller: Controller) -> list[int]:
    """Channels that measure the mechanism, not the robot, and in metres."""
    robot = {f.moves[1] for f in controller.program.fields if f.moves is not None}
    units = [unit for _, unit in controller.plant.step.system.sensor_channels]
    return [k for k, unit in enumerate(units) if k not in robot and unit == "m"]


def command_unit(controller: Controller) -> str:
    """Of all commands; "mixed" where they have several."""
    system = controller.plant.step.system
    units = {u.unit for u in system.inputs} | {c.unit for c in system.kinematic}
    return units.pop() if len(units) == 1 else "mixed"


def _percentiles(values: Array) -> dict[str, float]:
    if not len(values):
        return {"p50": 0.0, "p99": 0.0, "max": 0.0}
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3), "max": round(float(values.max()), 3)}
