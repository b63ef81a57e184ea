"""What was found as files: ``identified.toml``, which a job takes, and ``identify.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stepmap.files import write_whole
from stepmap.identification import Identification
from stepmap.identification.unknowns import DELAY, PARAMETER
from stepmap.jobs import Job, identified
from stepmap.jobs.weights import channel_names, state_names

FILE, NUMBERS = "identified.toml", "identify.json"


def text(job: Job, fit: Identification, runs: list[str]) -> str:
    """``identified.toml``: values that a job takes with their uncertainty beside them, and what else was found."""
    kept = identified.values_in(job.root)
    values: dict[str, Any] = {name: dict(section) for name, section in kept.items()}
    remarks: dict[tuple[str, ...], str] = {}
    task = fit.fit.task
    for one in (*task.unknowns.free, *task.unknowns.held):
        if one.kind == PARAMETER and (one.name in fit.sigma or one.name not in fit.values):
            place: tuple[str, ...] = ("system", one.name)
            remark = "held"
        elif one.kind == DELAY and one.name in fit.sigma:
            place, remark = ("board", "sensor_delay"), ""
        else:
            continue
        found = fit.values.get(one.name, one.value)
        values.setdefault(place[0], {})[place[1]] = max(0.0, found) if one.kind == DELAY else found
        if one.name in fit.sigma:
            remark = f"± {fit.sigma[one.name]:.2g} {one.unit}".rstrip()
        remarks[place] = remark
    if fit.noise is not None:
        values["noise"] = _noise(job, fit, remarks)
    values[identified.KEY] = {
        "runs": runs,
        "chi2": fit.chi2,
        "values": {name: fit.values[name] for name in fit.sigma},
        "sigma": dict(fit.sigma),
    }
    about = f'Found by stepmap identify. A job takes it by a line before its tables: identified = "{FILE}"'
    notes = [f"Not told: {one}" for one in fit.untold] + [f"Remark: {said}" for said in fit.remarks]
    return identified.write(values, remarks, "\n".join([about, *notes]))


def _noise(job: Job, fit: Identification, remarks: dict[tuple[str, ...], str]) -> dict[str, dict[str, float]]:
    assert fit.noise is not None
    states, channels = state_names(job.system), channel_names(job.system)
    rates = states.groups.get("v", ())  # no reading shows them
    process = {
        name: float(value)
        for place, (name, value) in enumerate(zip(states.entries, fit.noise.process, strict=True))
        if place not in rates
    }
    for part in fit.noise.floored:
        places = [("measurement", part)]
        if part not in channels.entries:
            places = [("process", states.entries[place]) for place in states.groups[part]]
        for place in places:
            remarks["noise", *place] = "a floor: the runs show no noise here"
    measurement = dict(zip(channels.entries, map(float, fit.noise.measurement), strict=True))
    return {"process": process, "measurement": measurement}


def numbers(job: Job, fit: Identification, runs: list[str], validation: dict[str, tuple[float, float]]) -> str:
    """``identify.json``: everything, for programs."""
    fine = dict(zip(fit.told, fit.fine.values.tolist(), strict=True))
    document = {
        "job": job.name,
        "runs": runs,
        "status": fit.status,
        "chi2": fit.chi2,
        "values": fit.values,
        "sigma": fit.sigma,
        "covariance": fit.covariance.tolist(),
        "fine_plant": fine,
        "untold": [{"names": one.names, "words": one.words} for one in fit.untold],
        "ratios": {name: {"value": value, "sigma": sigma} for name, (value, sigma) in fit.ratios.items()},
        "remarks": fit.remarks,
        "validation": {name: {"before": old, "after": new} for name, (old, new) in validation.items()},
        "noise": None
        if fit.noise is None
        else {
            "process": fit.noise.process.tolist(),
            "measurement": fit.noise.measurement.tolist(),
            "floored": fit.noise.floored,
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def save(folder: Path, files: dict[str, str]) -> None:
    """Writes the files, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content.encode())
