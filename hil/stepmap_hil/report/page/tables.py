"""Tables of a run: what was injected, how the plant differs, memories, events, the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepmap.report import Bar, Grid, Picture, Section
from stepmap_hil.report.page.view import RunView
from stepmap_hil.report.sentences import each, introduction, memory, plan_verdict, stages, steps, table

COORDINATES = "Errors over time, each in its own unit; closed and open loop over the ticks that both runs have."
PLAN = "What its numbers said before the run, and what to do where something speaks against it."
STAGES = "How the run came about. CPU time includes that of compilers, emulators and other children."
STEPS = (
    "What each step asked of the ground: the least normal force, and the largest ratio of tangential and normal force, "
    "impacts among them. Between a landing and the next tick the board does not know of it."
)
FAULTS = "What was injected, what should have come of it, and what did."
CHANNELS = "Errors of each channel as measured, and of what the estimate expects there."

Pictures = Sequence[Picture]


def sections(view: RunView, pictures: Pictures) -> list[Section]:
    """Everything that is a table, from what matters most to what is looked up."""
    makers: list[Callable[[RunView], Section | None]] = [
        faults,
        plant,
        firmware,
        numbers,
        walk,
        each_coordinate,
        channels,
        plan,
    ]
    made = [section for make in makers if (section := make(view)) is not None]
    made += [section for section in (_stages(view.summary), events(view), _job(view)) if section is not None]
    if pictures:
        text = "The same as files beside this page, PNG and SVG."
        made.append(Section("Pictures for papers", text, (), pictures, folded=True))
    return made


def faults(view: RunView) -> Section | None:
    found = view.summary["fault_results"]
    if not found:
        return None
    rows = [
        (
            "✓" if one["ok"] else "✗",
            one["kind"] + (" (by the operator)" if one.get("by_hand") else ""),
            f"{one['at']:g} s",
            one["expected"],
            one["seen"],
        )
        for one in found
    ]
    return Section("Faults", FAULTS, (), (), grid=Grid(("", "fault", "at", "expected", "observed"), rows))


def plant(view: RunView) -> Section | None:
    """How the plant differs from the model that the board knows."""
    if view.summary["plant"] == "real":
        return None
    known = {p.name: p for p in view.controller.plant.step.system.parameters}
    rows = []
    for name, value in view.origin.parameters.items():
        model, unit = (known[name].value, known[name].unit) if name in known else (None, "")
        by = "" if not model else f"{100 * (value / model - 1):+.3g} %"
        rows.append((name, "" if model is None else f"{model:g} {unit}".rstrip(), f"{value:g} {unit}".rstrip(), by))
    text = introduction(view.summary)
    grid = Grid(("parameter", "model", "plant", "difference"), rows) if rows else None
    return Section("Model against plant", text, (), (), grid=grid)


def firmware(view: RunView) -> Section | None:
    found = memory(view.summary)
    bars = [Bar(name, used / total, f"{used} of {total} bytes") for name, used, total in found]
    rows = [("model", view.controller.digest), ("numbers", view.controller.output.scalar.value)]
    if view.summary.get("instructions_per_tick"):
        rows.append(("instructions per tick", str(view.summary["instructions_per_tick"])))
    if view.summary.get("board_id"):
        rows.append(("board id", view.summary["board_id"]))
    return Section("Firmware", "", rows, (), bars=bars)


def numbers(view: RunView) -> Section:
    return Section("Summary", "As in the terminal; summary.json has all of it in SI units.", table(view.summary), ())


def walk(view: RunView) -> Section | None:
    """The steps of a robot that walks, each judged."""
    headings, rows = steps(view.summary)
    return Section("Steps", STEPS, (), (), grid=Grid(headings, rows)) if rows else None


def each_coordinate(view: RunView) -> Section | None:
    headings, rows = each(view.summary)
    return Section("Coordinates", COORDINATES, (), (), grid=Grid(headings, rows)) if rows else None


def channels(view: RunView) -> Section | None:
    from stepmap.units import size

    found = view.summary.get("channels", {})
    rows = [
        (
            name,
            f"{100 * c['seen']:.4g} %",
            *("" if c[m] is None else size(c[m], c["unit"], view.angles) for m in ("raw_rms", "filtered_rms")),
        )
        for name, c in found.items()
    ]
    grid = Grid(("channel", "seen", "measured RMS", "filtered RMS"), rows)
    return Section("Measurements", CHANNELS, (), (), grid=grid) if rows else None


def plan(view: RunView) -> Section | None:
    judged = plan_verdict(view.summary)
    return Section("The plan: will it work?", PLAN, judged, ()) if judged else None


def _stages(summary: Mapping[str, Any]) -> Section | None:
    rows = stages(summary)
    return Section("Stages", STAGES, (), (), grid=Grid(("stage", "result", "time", "CPU time"), rows)) if rows else None


def events(view: RunView) -> Section | None:
    rows = [(f"{round(at - view.begin, 2) + 0.0:.2f} s", text) for at, text in view.run.events]  # no -0.00
    text = "Times are since the command to run."
    return Section("Events", text, (), (), grid=Grid(("at", "what"), rows)) if rows else None


def _job(view: RunView) -> Section | None:
    return Section("The job file", "", (), (), verbatim=view.origin.text, folded=True) if view.origin.text else None
