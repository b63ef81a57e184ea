"""What happened in a run, in words and figures for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepmap.optimal.goals.verdict import Verdict
from stepmap.text import sentence
from stepmap.units import size
from stepmap_hil.report import room
from stepmap_hil.report.by_unit import dynamic, grouped, length, only_lengths, told
from stepmap_hil.runs.stage_times import StageTime

WORSE = 1.05  # times the open loop's error; below, both are alike


def outcome(summary: Mapping[str, Any]) -> str:
    """What happened, in a sentence or two."""
    planned = summary.get("planned_ticks")
    if summary["ended"] == "done":
        said = f"Ran to its end: {summary['ticks']} ticks."
        opened, closed = summary.get("open_loop_rms_m"), summary.get("closed_loop_rms_m")
        if opened and closed and closed > WORSE * opened:
            said += f" But feedback made it {closed / opened:.3g} times worse: the plan was not followed."
    else:
        of = f" of {planned}" if planned else ""
        said = f"Ended early, after {summary['ticks']}{of} ticks. {sentence(summary['ended'])}"
    bad = sum(not result["ok"] for result in summary["fault_results"])
    total = len(summary["fault_results"])
    if total:
        which = "all with the expected reaction" if not bad else f"{bad} NOT with the expected reaction"
        said += f" Injected faults: {total}, {which}."
    return said


def introduction(summary: Mapping[str, Any]) -> str:
    if summary["plant"] == "real":
        sensor = summary.get("sensor", "kinect")
        by = {"kinect": "a Kinect measures", "encoders": "its own encoders measure"}.get(sensor, f"{sensor} measures")
        return (
            f"A board controls a robot that {by}. The true motion of the mechanism is not known: the report shows "
            "the board's estimate."
        )
    board = "A board controls a simulated plant over its serial line."
    differences = summary.get("plant_differences")
    if differences is None:  # recorded by an older version
        return board
    if not differences:
        return f"{board} The plant has the parameters of the model; it is simulated with a finer step."
    return f"{board} The plant differs from the model the board knows: {'; '.join(differences)}."


def table(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The summary for people."""
    exact = {True: "yes", False: "NO", None: "not comparable: floating point, or telemetry is missing"}[
        summary["bit_exact_with_host"]
    ]
    planned = summary.get("planned_ticks")
    ticks = f"{summary['ticks']}{f' of {planned}' if planned and planned != summary['ticks'] else ''} ticks"
    # A board that measures with its own encoders waits for no frame.
    real_time = summary["latency_ms"] is not None and summary["mode"] == "realtime" and summary["sensor"] != "encoders"
    times = [("latency", _times(summary["latency_ms"])), ("jitter", _times(summary["jitter_ms"]))] if real_time else []
    rows = [
        ("board", f"{summary['board']}, {summary['mode']}, {ticks}, {summary['sensor']}"),
        *([("board id", summary["board_id"])] if summary.get("board_id") else []),
        ("ended", summary["ended"]),
        *(("likely cause" if not k else "", f"{k + 1}. {text}") for k, text in enumerate(summary["suspects"])),
        *(("the plan" if not k else "", text) for k, text in enumerate(doubts(summary))),
        *_walk(summary),
        *_tracking(summary),
        *_set_points(summary),
        *_open_loop(summary),
        *_estimate(summary),
        *_filtered(summary),
        *room.rows(summary),
        ("commands", _commands(summary)),
        ("bit-exact", exact),
        *times,
        ("deadlines missed", str(summary["deadline_misses"])),
        ("board counted", _counted(summary)),
    ]
    if summary["fault_results"]:
        rows.append(("injected faults", f"{summary['injected_faults']} of {len(summary['fault_results'])} happened"))
    for result in summary["fault_results"]:
        mark = "as expected" if result["ok"] else f"NOT as expected ({result['expected']})"
        operator = ", by the operator" if result.get("by_hand") else ""
        rows.append((f"{result['kind']} at {result['at']:g} s{operator}", f"{mark}: {result['seen']}"))
    if summary.get("flashed_bytes"):
        told = f"{summary['flashed_bytes']} bytes by stm32flash in {summary['flashed_seconds']:.1f} s, then booted"
        rows.append(("flashed", told))
    if summary["flash_bytes"]:
        size = f"{summary['flash_bytes']} bytes of flash, {summary['ram_bytes']} of RAM"
        count = summary["instructions_per_tick"]
        landing = summary.get("instructions_of_landing")
        more = f", {landing} in one with a landing" if landing else ""
        rows.append(("firmware", size + (f", {count} instructions per tick{more}" if count else "")))
    return rows


def _walk(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Steps of a robot that walks, and what its worst one asked of the ground."""
    found = summary.get("walk")
    if not found:
        return []
    rows = [("steps", str(found["steps"]))]
    if found["steps"]:
        lengths = [step["length"] for step in found["each"]]
        rows = [("steps", f"{found['steps']}, of {min(lengths):.3f} to {max(lengths):.3f} s")]
        known = f"{found['normal']:.3g} N or more, within a cone of {found['cone']:.2f}"
        rows.append(("the ground", f"pushes with {known}, once the board knows of a landing"))
        before = f"{found['unknown_normal']:.3g} N or more, cone {found['unknown_cone']:.3g}"
        rows.append(("", f"before that: {before}"))
        rows.append(("", f"the swing foot stays {1e3 * found['low']:.2g} mm above it before mid-step"))
    return rows


def steps(summary: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Headings and rows of a table of all steps of a robot that walks; no rows of all others."""
    found = summary.get("walk") or {"each": []}
    headings = ["step", "time", "least normal force", "cone", "before the board knew", "cone", "lowest foot"]
    rows: list[tuple[str, ...]] = [
        (
            str(k + 1),
            f"{one['length']:.3f} s",
            f"{one['normal']:.1f} N",
            f"{one['cone']:.2f}",
            f"{one['unknown_normal']:.1f} N",
            f"{one['unknown_cone']:.2f}",
            f"{1e3 * one['low']:.1f} mm",
        )
        for k, one in enumerate(found["each"])
    ]
    return headings, rows


def _set_points(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = summary.get("set_points")
    if not found or not found["ticks"]:
        return []
    angles = _angles(summary)
    off = [f"{name} {size(one['rms'], one['unit'], angles)}" for name, one in found["followed"].items()]
    held = f", {found['held_ticks']} of them held without one" if found["held_ticks"] else ""
    return [("set-points", f"{', '.join(off)} RMS off over {found['ticks']} ticks after the plan{held}")]


def plan_verdict(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the plan's numbers said before the run, as after ``stepmap optimize``; none of older versions."""
    found = summary.get("plan_verdict")
    return [] if found is None else Verdict.read(found).rows()


def doubts(summary: Mapping[str, Any]) -> list[str]:
    """What spoke against the plan before the run, with what to do."""
    found = summary.get("plan_verdict")
    if found is None:
        return []
    return [f"{f.name}: {f.text}. {f.remedy}".rstrip() for f in Verdict.read(found).findings if not f.ok]


def memory(summary: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """(name, bytes used, bytes there) of the memories of a board; none of a process, or where a limit is not known."""
    found = []
    for name, entry in (("flash", "flash"), ("RAM", "ram"), ("stack", "stack")):
        used, total = summary.get(f"{entry}_bytes"), summary.get(f"{entry}_limit_bytes")
        if used is not None and total:
            found.append((name, used, total))
    return found


def stages(summary: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Name, result, seconds and CPU seconds of the stages of a run; none where they were not recorded."""
    times = [StageTime(**stage) for stage in summary.get("stages") or ()]
    return [(s.name, s.result, f"{s.seconds:.2f} s", f"{s.cpu_seconds:.2f} s") for s in times]


EACH = {
    "tracking_rms": "tracking RMS",
    "tracking_max": "max",
    "closed_loop_rms": "closed loop RMS",
    "open_loop_rms": "open loop RMS",
    "estimate_rms": "estimate RMS",
}


def each(summary: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Headings and rows of a table of all coordinates with what is known of them; no row of an older version."""
    found = summary.get("coordinates", {})
    known = [metric for metric in EACH if any(c[metric] is not None for c in found.values())]
    rows = [(name, *(size(c[m], c["unit"], _angles(summary)) for m in known)) for name, c in found.items()]
    return ["coordinate", *(EACH[metric] for metric in known)], rows


def _tracking(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One distance where all coordinates are lengths; else each coordinate in its unit, then the masses."""
    whose = ", by the estimate" if summary["plant"] == "real" else ""
    rows = []
    if not only_lengths(summary):
        moved, angles = dynamic(summary), _angles(summary)
        rms, most = (told(moved, name, angles) for name in ("tracking_rms", "tracking_max"))
        rows.append(("tracking", f"{rms} RMS; {most} max{whose}"))
    if summary["tracking_rms_m"] is not None:
        name = "masses" if rows else "tracking"
        rows.append((name, f"{_mm(summary['tracking_rms_m'])} RMS, {_mm(summary['tracking_max_m'])} max{whose}"))
    return rows


def _estimate(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    if summary["plant"] == "real":
        return []
    masses = "" if (known := summary["estimate_rms_m"]) is None else f"{_mm(known)} RMS of the masses"
    each = "" if only_lengths(summary) else told(dynamic(summary), "estimate_rms", _angles(summary))
    text = "; ".join(part for part in (f"{each} RMS" if each else "", masses) if part)
    return [("estimate", text)] if text else []


def _angles(summary: Mapping[str, Any]) -> str:
    return str(summary.get("angles") or "rad")


APART = 1e-4  # m, between the starts of two runs that are compared; less is not worth a word


def _open_loop(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """With and without feedback, of the same ticks."""
    opened, closed, ticks = summary["open_loop_rms_m"], summary["closed_loop_rms_m"], summary["compared_ticks"]
    if opened is None or closed is None:
        moved, angles = dynamic(summary), _angles(summary)
        if not ticks or not moved:
            return []
        without, own = (told(moved, name, angles) for name in ("open_loop_rms", "closed_loop_rms"))
        return [("with feedback", f"open loop {without} RMS, closed loop {own} over the same {ticks} ticks")]
    apart = summary["open_loop_start_apart_m"]
    began = f"; they began {_mm(apart)} apart" if apart > APART else ""
    whose = "" if only_lengths(summary) else " of the masses"
    text = f"open loop {_mm(opened)} RMS{whose}, closed loop {_mm(closed)} over the same {ticks} ticks"
    return [("with feedback", f"{text}{_times_better(opened, closed)}{began}")]


def _filtered(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Measurements and estimate in the same channels, one row per unit."""
    rows: list[tuple[str, str]] = []
    angles = _angles(summary)
    for unit, group in grouped({n: c for n, c in summary["channels"].items() if not c["robot"]}).items():
        raw, filtered = length(group, "raw_rms"), length(group, "filtered_rms")
        if raw is None or filtered is None:
            continue
        text = f"measured {size(raw, unit, angles)} RMS, filtered {size(filtered, unit, angles)} at the same ticks"
        rows.append(("" if rows else "with the filter", f"{text} in {', '.join(group)}{_times_better(raw, filtered)}"))
    return rows


def _times_better(before: float, after: float, better: str = "better", worse: str = "worse") -> str:
    """How many times, and which way; nothing where a figure is 0."""
    if not (before > 0 and after > 0):
        return ""
    ratio = before / after
    if f"{ratio:.2f}" == "1.00":
        return ": no difference"
    return f": {_ratio(ratio)} times {better}" if ratio > 1 else f": {_ratio(1 / ratio)} times {worse}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"


def _mm(metres: float) -> str:
    return f"{1e3 * metres:.3g} mm" if metres < 1.0 else f"{metres:.3g} m"


def _counted(summary: Mapping[str, Any]) -> str:
    return (
        f"{_number(summary['gated'], 'value')} gated, {_number(summary['saturations'], 'saturation')}, "
        f"{_number(summary['faults'], 'fault')} of its own"
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _commands(summary: Mapping[str, Any]) -> str:
    """How smooth commands are, each unit apart, and how often they were at a limit."""
    texts, angles = [], _angles(summary)
    for unit, group in grouped(summary["inputs"]).items():
        raw, filtered = length(group, "roughness_raw"), length(group, "roughness_filtered")
        if not filtered:
            continue
        text = f"{size(filtered, unit, angles)} RMS second difference"
        if raw:
            better = _times_better(raw, filtered, "smoother", "rougher")
            text += f", {size(raw, unit, angles)} from raw measurements{better}"
        texts.append(text)
    limited = {name: entry["ticks_at_limit"] for name, entry in summary["inputs"].items() if entry["ticks_at_limit"]}
    texts += [f"{name} at its limit in {_number(count, 'tick')}" for name, count in limited.items()]
    return "; ".join(texts) or "too few to tell"


def _times(ms: Mapping[str, float]) -> str:
    return f"{ms['p50']:.1f} ms median, {ms['p99']:.1f} ms at the 99th percentile, {ms['max']:.1f} ms max"
