"""Chapters of reports: each kind of job, and each kind of mechanism, tells what others do not have.

Found by entry points of the group ``stepmap.chapters``: an entry loads to a function ``chapter(subject)`` that returns
a `stepmap.report.chapter.Chapter`, or None where it has nothing to say. All of them are asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from stepmap.jobs.chapters import direct, flight, gait, play, track, walk
from stepmap.jobs.chapters.subject import Subject
from stepmap.registry import Registry
from stepmap.report.chapter import Chapter

Writer: TypeAlias = Callable[[Subject], Chapter | None]

OWN: dict[str, Writer] = {
    "play": play.chapter,
    "gait": gait.chapter,
    "walk": walk.chapter,
    "flight": flight.chapter,
    "direct": direct.chapter,
    "track": track.chapter,
}
CHAPTERS = Registry[Writer].of("stepmap.chapters", "chapter of reports", OWN)


def chapters(subject: Subject) -> list[Chapter]:
    """What there is to say about a job's motion, stepmap's own first."""
    names = [*OWN, *(name for name in CHAPTERS.names() if name not in OWN)]
    found = [CHAPTERS.get(name)(subject) for name in names]
    return [chapter for chapter in found if chapter is not None]


__all__ = ["CHAPTERS", "Subject", "chapters"]
