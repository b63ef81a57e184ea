"""Of a gait: how far and how fast it walks, what it costs, and whether gains hold it."""

from __future__ import annotations

from stepmap.jobs.chapters.subject import Subject
from stepmap.jobs.gaits.job import GaitJob
from stepmap.report.chapter import Chapter
from stepmap.report.document import Section
from stepmap.report.explore import Tile


def chapter(subject: Subject) -> Chapter | None:
    """None for what is no gait."""
    if not isinstance(subject.job, GaitJob):
        return None
    told, seconds = subject.told, float(subject.t[-1] - subject.t[0])
    far = float(told.get("stride", 0.0))
    left, cost = told.get("multiplier"), told.get("transport")
    held = "no gains hold it" if left is None else f"{left:.2g} of a deviation is left after it"
    phrase = f"a gait whose period takes {seconds:.3g} s and {far:.3g} m; {held}"
    tiles = [
        Tile("period", f"{seconds:.3g} s", f"{far:.3g} m, {far / seconds:.3g} m/s"),
        Tile(
            "largest multiplier",
            "none" if left is None else f"{left:.3g}",
            "with feedback; below 1 it is held",
            "fault" if left is None or left >= 1 else "pass",
        ),
    ]
    if cost is not None:
        tiles.append(Tile("cost of transport", f"{cost:.3g}", "J per J of weight times distance"))
    rows = [(name, f"{value:.6g}") for name, value in {**told.get("design", {})}.items()]
    rows += [("starts tried", str(len(told["starts"])))] if told.get("starts") else []
    return Chapter(phrase, tiles, sections=[Section("The gait", "What the search chose.", rows, ())] if rows else [])
