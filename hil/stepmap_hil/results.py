"""What a run leaves: summary.json, pictures, the recording and one HTML report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stepmap.jobs.stage import Stage
from stepmap.report import Picture, Section, page
from stepmap_codegen import Controller
from stepmap_hil import figures
from stepmap_hil.instructions import instructions
from stepmap_hil.logbook import Run, errors
from stepmap_hil.record import Recorder
from stepmap_hil.run import Rig
from stepmap_hil.summary import rms, series, summarize


def facts(rig: Rig, scratch: Path) -> dict[str, Any]:
    """What the summary says about the firmware, and about how it was run."""
    built = rig.firmware.summary
    return {
        "seed": rig.seed,
        "sensor": rig.settings.sensor,
        "flashed_bytes": None if rig.flashed is None else rig.flashed.size,
        "flashed_seconds": None if rig.flashed is None else round(rig.flashed.seconds, 3),
        "flash_bytes": built.get("flash_bytes"),
        "ram_bytes": built.get("ram_bytes"),
        "instructions_per_tick": instructions(rig.controller, rig.firmware.board, scratch),
    }


def complete(recorder: Recorder, closed: Run, opened: Run | None, known: Mapping[str, Any]) -> None:
    """Adds to a recording what is known only at the end."""
    for row in opened.rows if opened is not None else ():
        recorder.write("/open_loop", row.time, **vars(row))
    results = json.dumps([asdict(result) for result in closed.results])
    told = {"ended": closed.ended, "results": results, "misses": str(closed.misses), "facts": json.dumps(dict(known))}
    recorder.add("end", told)


def leave(
    made: Stage,
    controller: Controller,
    closed: Run,
    opened: Run | None,
    known: Mapping[str, Any],
    recording: Path,
) -> dict[str, Any]:
    """Writes everything into the stage's folder; returns the summary."""
    with made.replace() as folder:
        summary = write(folder, controller, closed, opened, known)
        if recording.exists():
            recording.replace(folder / "run.mcap")
    return summary


def write(
    folder: Path, controller: Controller, closed: Run, opened: Run | None, known: Mapping[str, Any]
) -> dict[str, Any]:
    """summary.json, pictures and report.html."""
    from stepmap import plots

    other = series(controller, opened) if opened is not None else None
    compared = None if other is None else rms(errors(controller, other.coordinates, other.reference)[:, None])
    summary = summarize(controller, closed, {"open_loop_rms_m": compared, **known})
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "summary.json").write_text(text + "\n")
    drawn = figures.draw(controller, series(controller, closed), other)
    pictures = []
    for name, figure in drawn.items():
        (folder / f"{name}.png").write_bytes(plots.render(figure, "png"))
        (folder / f"{name}.svg").write_bytes(picture := plots.render(figure, "svg"))
        pictures.append(Picture(figures.CAPTIONS[name], picture))
    events = [(f"{at:.2f} s", what) for at, what in closed.events]
    section = Section("The run", INTRODUCTIONS[closed.plant], table(summary), pictures, events)
    (folder / "report.html").write_text(page(f"{closed.job} on {closed.board}", [section]))
    return summary


INTRODUCTIONS = {
    "simulated": "A board controls a simulated plant over its serial line. The plant differs from the model the board "
    "knows: mass, drag, string length, start, lag and play of the motors.",
    "real": "A board controls a robot that a Kinect watches. Where its mechanism truly was nobody knows: what is shown "
    "is the board's estimate.",
}


def table(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The summary for people."""
    opened, known, better = summary["open_loop_rms_m"], summary["estimate_rms_m"], ""
    gain = "" if not opened else f", {opened / summary['tracking_rms_m']:.1f} times better than open loop"
    if summary["raw_measurement_rms_m"]:
        better = f", {summary['raw_measurement_rms_m'] / summary['estimate_rms_m']:.1f} times better than measurements"
    most = f"{1e3 * summary['tracking_max_m']:.1f} mm at most"
    whose = ", by the estimate" if summary["plant"] == "real" else ""
    exact = {True: "yes", False: "NO", None: "not comparable: telemetry is missing"}[summary["bit_exact_with_host"]]
    counted = f"{summary['gated']} values gated, {summary['saturations']} saturations, {summary['faults']} faults"
    rows = [
        ("board", f"{summary['board']}, {summary['mode']}, {summary['ticks']} ticks, {summary['sensor']}"),
        ("ended", summary["ended"]),
        ("tracking", f"{1e3 * summary['tracking_rms_m']:.2f} mm RMS, {most}{gain}{whose}"),
        *([] if known is None else [("estimate", f"{1e3 * known:.2f} mm RMS{better}")]),
        ("commands", _commands(summary)),
        ("bit-exact", exact),
        ("latency", _times(summary["latency_ms"])),
        *([("jitter", _times(summary["jitter_ms"]))] if summary["mode"] == "realtime" else []),
        ("deadlines missed", str(summary["deadline_misses"])),
        ("events", counted),
    ]
    for result in summary["fault_results"]:
        mark = "as expected" if result["ok"] else f"NOT as expected ({result['expected']})"
        by_hand = ", by hand" if result.get("by_hand") else ""
        rows.append((f"{result['kind']} at {result['at']:g} s{by_hand}", f"{mark}: {result['seen']}"))
    if summary.get("flashed_bytes"):
        told = f"{summary['flashed_bytes']} bytes by stm32flash in {summary['flashed_seconds']:.1f} s, then booted"
        rows.append(("flashed", told))
    if summary["flash_bytes"]:
        size = f"{summary['flash_bytes']} bytes of flash, {summary['ram_bytes']} of RAM"
        count = summary["instructions_per_tick"]
        rows.append(("firmware", size + (f", {count} instructions a tick" if count else "")))
    return rows


def _commands(summary: Mapping[str, Any]) -> str:
    raw, filtered = summary["command_roughness_raw"], summary["command_roughness_filtered"]
    if not filtered:
        return "too few to tell"
    smoother = "" if not raw else f", {raw / filtered:.1f} times smoother than from raw measurements"
    unit = summary["command_unit"]
    size = f"{1e3 * filtered:.2f} mm" if unit == "m" else f"{filtered:.3g} {unit}"
    return f"{size} RMS second difference{smoother}"


def _times(ms: Mapping[str, float]) -> str:
    return f"{ms['p50']:.1f} ms median, {ms['p99']:.1f} ms at the 99th percentile, {ms['max']:.1f} ms at most"
