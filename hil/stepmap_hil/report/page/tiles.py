"""Numbers of a run that are worth a box."""

from __future__ import annotations

import numpy as np

from stepmap.estimate.consistency import chi_square_band
from stepmap.report.explore import Tile
from stepmap_hil.report.by_unit import dynamic, only_lengths, told
from stepmap_hil.report.page.view import RunView


def tiles(view: RunView) -> list[Tile]:
    """What is looked at first."""
    found = [*_tracking(view), *_estimate(view), *_nis(view), *_timing(view), *_exact(view)]
    summary = view.summary
    saturations, faults = summary["saturations"], summary["faults"]
    counted = f"{saturations} saturation{'s' * (saturations != 1)}, {faults} fault{'s' * (faults != 1)} of its own"
    found.append(Tile("rejected by the gate", str(summary["gated"]), counted))
    if summary.get("instructions_per_tick"):
        found.append(Tile("instructions per tick", f"{summary['instructions_per_tick']:,}", "counted in the emulator"))
    return found


def _mm(value: float) -> str:
    return f"{1e3 * value:.3g} mm" if value < 1.0 else f"{value:.3g} m"


def _tracking(view: RunView) -> list[Tile]:
    summary, angles = view.summary, view.angles
    if only_lengths(summary):
        made = [Tile("tracking, RMS", _mm(summary["tracking_rms_m"]), f"{_mm(summary['tracking_max_m'])} at most")]
        if summary["open_loop_rms_m"] is not None:
            span = f"{_mm(summary['closed_loop_rms_m'])} with it, over the same {summary['compared_ticks']} ticks"
            made.append(Tile("without feedback", _mm(summary["open_loop_rms_m"]), span))
        return made
    moved = dynamic(summary)
    made = [
        Tile("tracking, RMS", told(moved, "tracking_rms", angles), f"{told(moved, 'tracking_max', angles)} at most")
    ]
    if summary["compared_ticks"]:
        span = f"over the same {summary['compared_ticks']} ticks"
        made.append(Tile("without feedback", told(moved, "open_loop_rms", angles), span))
    return made


def _estimate(view: RunView) -> list[Tile]:
    summary = view.summary
    if summary["plant"] == "real" or summary["estimate_rms_m"] is None:
        return []
    raw = summary["raw_measurement_rms_m"]
    note = "" if raw is None else f"measured {_mm(raw)}, filtered {_mm(summary['filtered_measurement_rms_m'])}"
    return [Tile("estimate, RMS", _mm(summary["estimate_rms_m"]), note)]


def _nis(view: RunView) -> list[Tile]:
    """The mean over the run of the squares that the filter took, each channel of each tick counted once."""
    history = view.history
    count = int(history.taken.sum())
    if not count:
        return []
    mean = float(np.where(history.taken, np.nan_to_num(history.innovation) ** 2, 0.0).sum()) / count
    low, high = (value for value in chi_square_band(1, count))
    fits = low <= mean <= high
    verdict = "consistent" if fits else "too sure of itself" if mean > high else "too cautious"
    note = f"95 % band {low:.2f} to {high:.2f}: {verdict}"
    return [Tile("mean NIS", f"{mean:.2f}", note, "pass" if fits else "stopped")]


def _timing(view: RunView) -> list[Tile]:
    summary, missed = view.summary, view.summary["deadline_misses"]
    if summary["latency_ms"] is None:
        return []
    period = 1e3 * view.controller.program.period
    worst = summary["latency_ms"]["max"]
    note = f"of {period:.3g} ms, {missed} deadline{'s' * (missed != 1)} missed"
    return [Tile("worst tick", f"{worst:.1f} ms", note, "fault" if missed else "pass")]


def _exact(view: RunView) -> list[Tile]:
    exact, ticks = view.summary["bit_exact_with_host"], view.summary["ticks"]
    if exact is None:
        return [Tile("bit-exact", "not comparable", "floating point, or telemetry is missing")]
    return [
        Tile(
            "bit-exact",
            f"{ticks} of {ticks}" if exact else "no",
            "ticks, with the integer model",
            "pass" if exact else "fault",
        )
    ]
