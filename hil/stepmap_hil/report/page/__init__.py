"""The page of a run, report.html: what happened in one sentence, tiles, motion, charts, tables."""

from stepmap_hil.report.page.build import explorer
from stepmap_hil.report.page.view import Origin, RunView

__all__ = ["Origin", "RunView", "explorer"]
