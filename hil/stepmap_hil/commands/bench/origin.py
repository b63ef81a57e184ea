"""Where a run comes from, for its report."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import stepmap
from stepmap.errors import StepmapError
from stepmap.jobs import Job
from stepmap_hil.bench.settings import settings_in
from stepmap_hil.bench.setup import Setup
from stepmap_hil.report.page import Origin
from stepmap_hil.runs.acts import named
from stepmap_hil.runs.recording import RecordedRun


def origin_of(setup: Setup, begun: str = "", recording: str = "run.mcap") -> Origin:
    """Of a run that was just made."""
    job, changed = setup.job, setup.settings.plant.system
    known = _numbers({} if setup.rig.real else changed)
    return Origin(job, _text(job), _date(begun), stepmap.__version__, setup.named_acts, recording, known)


def recorded_origin(recorded: RecordedRun, file: Path) -> Origin:
    """Of a recording; [bench] of its job says how the plant differed."""
    about, job = recorded.about, recorded.job
    try:
        changed = settings_in(job.root).plant.system if recorded.closed.plant == "simulated" else {}
    except StepmapError:  # a sensor that is not installed here
        changed = {}
    begun, made, acts = ("", "", ()) if about is None else (about.begun, about.stepmap, about.acts)
    return Origin(job, _text(job), _date(begun), made, named(job, acts), file.name, _numbers(changed))


def _numbers(changed: Any) -> dict[str, float]:
    return {name: float(value) for name, value in changed.items() if isinstance(value, int | float)}


def _text(job: Job) -> str:
    return job.root.source.decode("utf-8", "replace")


def _date(begun: str) -> str:
    """A date for people."""
    if not begun:
        return ""
    return f"{datetime.fromisoformat(begun):%Y-%m-%d %H:%M:%S} UTC"
