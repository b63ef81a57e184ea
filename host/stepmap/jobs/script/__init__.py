"""Jobs of kind "script": a play of acts, whose begins are found with the motion. docs/choreography.md has the keys."""

from stepmap.jobs.script.job import ScriptJob
from stepmap.jobs.script.read import read

__all__ = ["ScriptJob", "read"]
