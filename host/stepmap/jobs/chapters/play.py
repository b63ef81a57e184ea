"""Of a play: its acts, when they were written to begin, and when they did."""

from __future__ import annotations

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
    rows = [
        (name, f"{was:.3g} s", f"{at:.4g} s") for name, was, at in zip(job.act_names, written, begins, strict=False)
    ]
    count = f"{len(rows)} act{'s' * (len(rows) != 1)}"
    return Chapter(
        phrase=f"{'played' if subject.flown else 'a play of'} {count}, {named}",
        marks=[]
        if subject.flown
        else [Mark(at, f"act: {name}") for name, at in zip(job.act_names, begins, strict=False)],
        sections=[Section("Acts", TEXT, (), (), grid=Grid(("act", "as written", "begins"), rows))],
    )
