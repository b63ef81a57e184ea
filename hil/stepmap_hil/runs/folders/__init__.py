"""Folders of runs: every run has one of its own, ``<build>/<job>/runs/<UTC date>-<board>-<n>/``; none replaces another.

A folder holds the recording, pictures, summary.json, the report, and ``run.json`` with the verdict. ``runs/latest``
leads to the last run that left a report, ``<build>/<job>/bench`` leads there too, and ``<build>/<job>/aborted.mcap`` to
the recording of the last run that was cut off. A run that goes on holds a lock, and one that was killed does not.

Folders may be among them that are somebody else's, or came from elsewhere: only what is a run is listed or removed, and
nothing is written through links.
"""

from stepmap_hil.runs.folders.layout import (
    ABORTED,
    FAILED,
    FORMAT,
    KILLED,
    PASSED,
    RECORDING,
    RUNNING,
    RUNS,
    STOPPED,
    UNKNOWN,
    folder,
    require_place,
    require_writable,
)
from stepmap_hil.runs.folders.links import latest, lead, lead_aborted
from stepmap_hil.runs.folders.listing import Known, find, holds_runs, known, prunable, remove
from stepmap_hil.runs.folders.open_run import OpenRun, begin, sweep

__all__ = [
    "ABORTED",
    "FAILED",
    "FORMAT",
    "KILLED",
    "PASSED",
    "RECORDING",
    "RUNNING",
    "RUNS",
    "STOPPED",
    "UNKNOWN",
    "Known",
    "OpenRun",
    "begin",
    "find",
    "folder",
    "holds_runs",
    "known",
    "latest",
    "lead",
    "lead_aborted",
    "prunable",
    "remove",
    "require_place",
    "require_writable",
    "sweep",
]
