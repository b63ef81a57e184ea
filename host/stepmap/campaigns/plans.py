"""The plan of a job, from its build folder, or made there."""

from __future__ import annotations

import time
from pathlib import Path

from stepmap import jobs
from stepmap.jobs import Job
from stepmap.jobs import optimize as optimum
from stepmap.optimal import Plan


def plan_of(job: Job, build: Path) -> Plan:
    """The plan of the stage ``optimize``, which is done now if it has not been; raises where the search fails."""
    whole = jobs.solved(job)
    stage = optimum.stage(whole, build)
    with stage.making() as needed:
        if not needed:
            return jobs.planned(job, optimum.result(stage, whole))
        whole.build()
        begin = time.process_time()
        solution = whole.solve()
        optimum.write(stage, whole, solution, time.process_time() - begin)
    return jobs.planned(job, solution.require().plan)
