"""Jobs as data: a TOML file says everything from the system to its noise, and every stage reads the same file."""

from stepmap.jobs.job import Solver, TrackingJob
from stepmap.jobs.read import load, parse
from stepmap.jobs.stage import Stage
from stepmap.jobs.task import Job, Outcome, for_board, planned, solved

Task = Job  # its name in the last release

__all__ = [
    "Job",
    "Outcome",
    "Solver",
    "Stage",
    "Task",
    "TrackingJob",
    "for_board",
    "load",
    "parse",
    "planned",
    "solved",
]
