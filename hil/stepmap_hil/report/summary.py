"""What a run was like, in numbers: summary.json, and the table on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import LinkError
from stepmap.estimate.measurement import measurement_model
from stepmap_codegen import Controller
from stepmap_codegen.reference_loop import ReferenceLoop
from stepmap_hil.report import quantities
from stepmap_hil.report.series import Series, common, moving, rms, roughness
from stepmap_hil.runs.acts import Acts, metrics
from stepmap_hil.runs.fault_verdict import MOVING, NEVER
from stepmap_hil.runs.followed import Followed
from stepmap_hil.runs.log import Run, errors
from stepmap_hil.wire import dialect


def bit_exact(controller: Controller, run: Run) -> bool | None:
    """Whether the board's estimates, commands and modes are the integer model's; None where ticks are missing."""
    if controller.formats is None or not run.rows:
        return None
    reference_loop, last = ReferenceLoop(controller), None
    follow, armed = dialect.value("STEPMAP_STATE_RUNNING"), dialect.value("STEPMAP_STATE_ARMED")
    holding = dialect.value("STEPMAP_STREAM_HOLDING")
    for row in run.rows:
        if last is not None and row.running and row.tick != (last.tick + 1 if last.running else 0):
            return None
        told = run.followed.get(row.tick) if row.running else None
        if row.running and controller.plant.stream is not None and told is None:
            return None
        made = reference_loop.step(
            row.valid if row.measured else 0,
            row.words,
            follow=row.state == follow,
            running=row.running,
            hold=row.state == armed,
            set_point=None if told is None else run.set_points.get(told.sequence),
            lost=told is not None and told.state == holding,
        )
        known = (row.estimate, row.command, row.taken) == made and row.modes == reference_loop.modes
        if not known or not _followed(reference_loop, told):
            return False
        last = row
    return True


def _followed(loop: ReferenceLoop, told: Followed | None) -> bool:
    """Whether a board followed the set-points that the model follows."""
    if told is None or loop.follower is None:
        return True
    return (loop.follower.value, loop.follower.next) == (told.value, told.next)


def comparison(controller: Controller, closed: Series, opened: Series | None) -> dict[str, Any]:
    """Tracking with and without feedback over the ticks that both runs have, and how far apart both began [m]."""
    names = ("open_loop_rms_m", "closed_loop_rms_m", "compared_ticks", "open_loop_start_apart_m")
    if opened is None:
        return dict.fromkeys(names)
    a, b = common(closed, opened)
    if not len(a.tick):
        return dict.fromkeys(names)
    if not quantities.bodies_travel(controller.plant.step.system):
        return {**dict.fromkeys(names), "compared_ticks": len(a.tick)}
    off = [rms(errors(controller, s.coordinates, s.reference)[:, None]) for s in (b, a)]
    apart = float(errors(controller, a.coordinates[:1], b.coordinates[:1])[0])
    return dict(zip(names, (*off, len(a.tick), apart), strict=True))


def _measured(controller: Controller, s: Series) -> dict[str, Any]:
    """Errors of measurements and of the estimate in the same channels, at the same ticks."""
    channels, seen = lengths(controller), s.valid.all(axis=1)
    if not (s.known and channels and seen.any()):
        return dict.fromkeys(("raw_measurement_rms_m", "filtered_measurement_rms_m", "measured_channels"))
    step = controller.plant.step
    expected = measurement_model(step).readings(s.estimate[seen])
    truth = s.truth[seen]
    return {
        "raw_measurement_rms_m": rms((s.measured[seen] - truth)[:, channels]),
        "filtered_measurement_rms_m": rms((expected - truth)[:, channels]),
        "measured_channels": ", ".join(step.system.sensor_channels[k][0] for k in channels),
    }


def summarize(
    controller: Controller, run: Run, s: Series, more: dict[str, Any], opened: Series | None = None
) -> dict[str, Any]:
    """summary.json of a run and its series; docs/bench.md describes each entry."""
    rows = moving(run)
    if not rows:
        why = "; ".join([run.ended, *run.suspects[:1]]) or "the board sent no telemetry"
        raise LinkError(f"the run ended before its first tick: {why}")
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
        **_distances(controller, s),
        **_measured(controller, s),
        "coordinates": quantities.coordinates(controller, s, opened),
        "channels": quantities.channels(controller, s),
        "inputs": quantities.inputs(controller, s),
        **({} if controller.plant.stream is None else {"set_points": quantities.set_points(controller, run, s)}),
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
        **({} if controller.plant.gait is None else {"walk": walk(run)}),
        **({"gap_events": gap_events(run)} if controller.plant.step.system.gap_names else {}),
        "bit_exact_with_host": bit_exact(controller, run),
        "digest": run.digest(),
    }
    return {**made, **{name: value for name, value in more.items() if name not in made}}  # what was computed stays


def played_acts(controller: Controller, acts: Acts, s: Series) -> list[dict[str, Any]]:
    """Acts of a play: when they began, and how far the bodies were from the plan meanwhile."""
    travel = quantities.bodies_travel(controller.plant.step.system)
    off = errors(controller, s.coordinates, s.reference) if travel else None
    return metrics(acts, controller.program.period, s, off)


def walk(run: Run) -> dict[str, Any]:
    """The steps of a robot that walks, each judged, and the worst of them; a fall is not the only failure."""
    made = run.walked
    worst: dict[str, float | None] = dict.fromkeys(("normal", "cone", "unknown_normal", "unknown_cone", "low"))
    if made:
        worst = {name: WORST[name](getattr(step, name) for step in made) for name in worst}
    return {"steps": len(made), **worst, "each": [step._asdict() for step in made]}


WORST: dict[str, Callable[[Iterable[float]], float]] = {
    "normal": min,
    "cone": max,
    "unknown_normal": min,
    "unknown_cone": max,
    "low": min,
}


def gap_events(run: Run) -> list[dict[str, Any]]:
    """Gaps of the plant that opened and closed, with times since the command to run."""
    begin = next((row.time for row in run.rows if row.running), 0.0)
    entries = ("name", "kind", "impulse", "energy")
    return [{"time": e.time - begin, **{name: getattr(e, name) for name in entries}} for e in run.gaps]


def _distances(controller: Controller, s: Series) -> dict[str, Any]:
    """How far the bodies are from their reference, and the estimate from them [m]; None where no body can travel."""
    if not quantities.bodies_travel(controller.plant.step.system):
        return dict.fromkeys(("tracking_rms_m", "tracking_max_m", "estimate_rms_m"))
    tracking = errors(controller, s.coordinates, s.reference)
    return {
        "tracking_rms_m": rms(tracking[:, None]),
        "tracking_max_m": float(tracking.max()),
        "estimate_rms_m": rms(errors(controller, s.estimate, s.coordinates)[:, None]) if s.known else None,
    }


def _board_faults(run: Run) -> int:
    """As the board counted; a board in fault reports no further tick, so the fault that ended a run is added."""
    last = run.rows[-1]
    ended = run.stop is not None and run.stop.state == "fault" and last.state in MOVING
    return last.faults + ended


def lengths(controller: Controller) -> list[int]:
    """Channels that measure the mechanism, not the robot, and in metres."""
    return measured_in(controller, "m")


def measured_in(controller: Controller, unit: str) -> list[int]:
    """Channels of a unit that measure the mechanism, not the robot."""
    robot, channels = quantities.robot_channels(controller), controller.plant.step.system.sensor_channels
    return [k for k, (_, of) in enumerate(channels) if k not in robot and of == unit]


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
