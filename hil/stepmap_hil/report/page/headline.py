"""How a run went: a word in colour, and one sentence that says what happened."""

from __future__ import annotations

from stepmap.report.explore import Headline
from stepmap.text import sentence
from stepmap_hil.report.by_unit import dynamic, only_lengths, told
from stepmap_hil.report.page.view import RunView
from stepmap_hil.report.sentences import outcome
from stepmap_hil.runs.log import STOPPED

PASSED, FAILED, BY_USER, ABORTED = "passed", "failed", "stopped", "aborted"  # verdicts; the folder of a run has them


def headline(view: RunView, verdict: str = "", chapter: str = "") -> Headline:
    """What happened; ``chapter`` is what a kind of job adds to it."""
    summary, run = view.summary, view.run
    bad = sum(not result["ok"] for result in summary["fault_results"])
    done = summary["ended"] == "done"
    verdict = verdict or (PASSED if done and not bad else BY_USER if summary["ended"] == STOPPED else FAILED)
    tone, word = _colour(verdict, None if run.stop is None else run.stop.state, bad)
    first = _done(view, chapter) if done else _ended(view)
    if verdict == PASSED and not done:
        first += ", as the fault file expects"
    if bad:
        first += f"; {bad} of {len(summary['fault_results'])} faults had another reaction than expected"
    plain = done and not summary["fault_results"] and "worse" not in outcome(summary)
    more = "" if plain else outcome(summary)
    if summary["suspects"]:
        more += f" Most likely: {sentence(summary['suspects'][0])}"
    return Headline(tone, word, sentence(first), more)


def _colour(verdict: str, state: str | None, bad: int) -> tuple[str, str]:
    if verdict == PASSED:
        return "pass", "PASS"
    if verdict in (BY_USER, ABORTED):
        return "stopped", verdict.upper()
    if state == "fault":
        return "fault", "FAULT"
    if state is not None and not bad:
        return "stopped", "STOPPED"
    return "fault", "FAILED"


def _done(view: RunView, chapter: str) -> str:
    summary = view.summary
    seconds = summary["ticks"] * view.controller.plant.step.dt
    by = " by its estimate" if summary["plant"] == "real" else ""
    off = _off(view)
    far = f", {off} RMS from its reference{by}" if off else ""
    what = f": {chapter}" if chapter else ""
    return f"The board followed the plan to its end{what}; {summary['ticks']} ticks in {seconds:.3g} s{far}"


def _off(view: RunView) -> str:
    summary = view.summary
    if only_lengths(summary) and summary["tracking_rms_m"] is not None:
        return f"{1e3 * summary['tracking_rms_m']:.3g} mm"
    return told(dynamic(summary), "tracking_rms", view.angles)


def _ended(view: RunView) -> str:
    summary, stop = view.summary, view.run.stop
    planned = summary.get("planned_ticks")
    dt = view.controller.plant.step.dt
    of = f" of {planned * dt:.3g} s" if planned else ""
    at = summary["ticks"] * dt
    act = next((name for begin, name in reversed(view.origin.acts) if begin <= at), "")
    during = f', in the act "{act}"' if act else ""
    if summary["ended"] == STOPPED:
        return f"The operator stopped the run after {at:.3g} s{of}{during}"
    if stop is None:
        return f"The run was cut off after {at:.3g} s{of}{during}: {summary['ended']}"
    how = "went into fault and stopped the robot" if stop.state == "fault" else "stopped the robot"
    if stop.state == "idle":
        how = "left the run"
    why = summary["ended"].partition(": ")[2].partition(" at tick")[0] or stop.reason.replace("_", " ")
    return f"The board {how} after {at:.3g} s{of}{during}: {why}"
