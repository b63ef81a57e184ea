"""Of a motion found by direct optimal control: its time, its cost, and what was chosen with it."""

from __future__ import annotations

from stepmap.jobs.chapters.subject import Subject
from stepmap.jobs.direct.job import DirectJob
from stepmap.report.chapter import Chapter
from stepmap.report.document import Section


def chapter(subject: Subject) -> Chapter | None:
    """None for other kinds, and for runs, which tell of the plan no more than its verdict."""
    if not isinstance(subject.job, DirectJob):
        return None
    seconds = float(subject.t[-1] - subject.t[0])
    if subject.flown:
        return Chapter()
    low, high = subject.job.task.all_phases[0].range
    free = "" if low == high else f", found between {low:g} and {high:g} s"
    told = subject.told.get("direct", {})
    rows = [(str(name), str(value)) for name, value in told.items() if isinstance(value, str | int | float)]
    return Chapter(
        phrase=f"a motion of {seconds:.3g} s{free}",
        sections=[Section("The search", "How the nonlinear program was solved.", rows, ())] if rows else [],
    )
