"""Of a play: its acts, when they were written to begin, and when they did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepmap.jobs.chapters.subject import Subject
from stepmap.jobs.script import ScriptJob
from stepmap.report.chapter import Chapter
from stepmap.report.charts import Mark
from stepmap.report.document import Grid, Section

TEXT = "Acts in their order; where one may give, its begin is found together with the motion."


def chapter(subject: Subject) -> Chapter | None:
    """None for what is no play."""
    job = subject.job
    if not isinstance(job, ScriptJob):
        return None
    written = (0.0, *job.at)
    begins = [at for at, _ in subject.acts] or list(written)
    named = ", ".join(f"{name} from {at:.2f} s" for name, at in zip(job.act_names, begins, strict=False))
    told = subject.told.get("acts") or [{}] * len(job.act_names)
    rows = [
        (name, f"{was:.3g} s", f"{at:.4g} s", _score(one, subject.flown))
        for name, was, at, one in zip(job.act_names, written, begins, told, strict=False)
    ]
    count = f"{len(rows)} act{'s' * (len(rows) != 1)}"
    last = "from the plan, RMS" if subject.flown else "cost"
    return Chapter(
        phrase=f"{'played' if subject.flown else 'a play of'} {count}, {named}",
        marks=[]
        if subject.flown
        else [Mark(at, f"act: {name}") for name, at in zip(job.act_names, begins, strict=False)],
        sections=[Section("Acts", TEXT, (), (), grid=Grid(("act", "as written", "begins", last), rows))],
    )


def _score(told: Mapping[str, Any], flown: bool) -> str:
    """What an act cost in the plan; how far a run was from the plan in it."""
    if not flown:
        return f"{told['cost']:.4g}" if "cost" in told else ""
    if told.get("begins", 0.0) is None:
        return "not reached"
    off = told.get("tracking_rms_m")
    return "" if off is None else f"{1e3 * off:.3g} mm"
