"""What a kind of job adds to a report: a phrase for its first sentence, tiles, marks, charts, sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepmap.report.charts import Chart, Mark
from stepmap.report.document import Section
from stepmap.report.explore import Tile


@dataclass(frozen=True)
class Chapter:
    """``phrase`` goes on from "the board followed the plan to its end:" or "the search converged:"."""

    phrase: str = ""
    tiles: Sequence[Tile] = ()
    marks: Sequence[Mark] = ()
    charts: Sequence[Chart] = ()  # over the times of the subject
    sections: Sequence[Section] = ()
