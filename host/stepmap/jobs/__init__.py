"""Jobs as data: a TOML file says everything from the system to its noise, and every stage reads the same file."""

from stepmap.jobs.job import Job, Solver
from stepmap.jobs.read import load, parse
from stepmap.jobs.stage import Stage

__all__ = ["Job", "Solver", "Stage", "load", "parse"]
