"""``stepmap bench``: a board controls the simulated plant of a job, or a real robot.

`command` reads the options, `request` what they mean for the job, `prepare` makes what is missing, `run` runs it, and
`finish` says what came of it.
"""

from stepmap_hil.commands.bench.command import bench

__all__ = ["bench"]
