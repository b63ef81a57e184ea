"""Jobs as data: a TOML file says everything from the system to its noise, and every stage reads the same file."""

from typing import TYPE_CHECKING

from stepmap.jobs.job import Solver
from stepmap.jobs.read import load, parse
from stepmap.jobs.stage import Stage
from stepmap.jobs.task import Outcome, Task

# To a type checker a Job is a job of any kind, so that code annotated with it relies on nothing else. At run time the
# name is that of the class of kind "track".
if TYPE_CHECKING:
    from stepmap.jobs.task import Task as Job
else:
    from stepmap.jobs.job import Job

__all__ = ["Job", "Outcome", "Solver", "Stage", "Task", "load", "parse"]
