"""Schultz & Murphey, Figs. 2 and 4, from a recording of the main job on the bench: ``stepmap figure fig2`` and 4."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import DamagedError, LinkError, ModelError
from stepmap.figures import Progress, Published
from stepmap.plots.style import styled
from stepmap.units import size
from stepmap_codegen import Controller
from stepmap_hil.firmware.sources import sources
from stepmap_hil.report import plots as figures
from stepmap_hil.report.series import Series, common, rms, roughness, series
from stepmap_hil.report.summary import command_unit
from stepmap_hil.runs import folders as runs
from stepmap_hil.runs.recording import RecordedRun, read_run

BUILD = Path("build")
JOB = "examples/suspended_mass.toml"
OWN = BUILD / "figures" / runs.RUNS  # runs that are made for a figure; those of the user stay as they are


def fig2(progress: Progress, recording: Path | None = None) -> Published:
    """Paths with and without feedback, and their last two seconds at the set point."""
    recorded = _recorded(progress, recording)
    if recorded.opened is None:
        raise ModelError(f"{recording}: has no open loop to compare with; record it without --no-open-loop")
    if not figures.two_lengths(recorded.controller):
        raise ModelError(
            f"{recording}: the figure is of a path in a plane, and the first two coordinates of {recorded.job.name} "
            "are not two lengths"
        )
    closed, opened = common(series(recorded.controller, recorded.closed), series(recorded.controller, recorded.opened))
    if not len(closed.tick):
        raise ModelError(f"{recording}: its open loop and its closed loop have no tick in common")
    with styled():
        drawn = figures.setpoint(recorded.controller, closed, opened)
    x, y = (c.name for c in recorded.controller.plant.step.system.dynamic[:2])
    target = closed.reference[-1, :2]
    return Published(
        title="Open loop and closed loop, and the set point",
        source="Schultz & Murphey, Fig. 2",
        caption=f"Paths of the mechanism with commands of the plan alone (a) and with feedback (b). The last "
        f"{figures.LAST:g} seconds are at the set point ({target[0]:.2f}, {target[1]:.2f}).",
        figure=drawn,
        rows=_rows(
            time=closed.time,
            **_pair("reference", (x, y), closed.reference),
            **_pair("open_loop", (x, y), opened.coordinates),
            **_pair("closed_loop", (x, y), closed.coordinates),
        ),
        key_figures=[("open loop", _about(opened, target)), ("closed loop", _about(closed, target))],
        assumptions=_assumptions(recorded),
    )


def fig4(progress: Progress, recording: Path | None = None) -> Published:
    """Commands of the reference, from raw and from filtered measurements."""
    recorded = _recorded(progress, recording)
    s = series(recorded.controller, recorded.closed)
    with styled():
        drawn = figures.commands(recorded.controller, s)
    names = tuple(recorded.controller.plant.step.input_names)
    curves = {"reference": s.plan, "raw": s.raw_command, "filtered": s.command}
    rough = {name: roughness(values, s) or np.nan for name, values in curves.items()}
    unit = command_unit(recorded.controller)
    told = {name: size(value, "" if unit == "mixed" else unit) for name, value in rough.items()}
    return Published(
        title="Commands from raw and from filtered measurements",
        source="Schultz & Murphey, Fig. 4",
        caption=_commanded(recorded.controller),
        figure=drawn,
        rows=_rows(
            time=s.time, **{k: v for name, values in curves.items() for k, v in _pair(name, names, values).items()}
        ),
        key_figures=[
            ("from raw measurements", f"{told['raw']} RMS second difference"),
            (
                "from filtered ones",
                f"{told['filtered']}, {rough['raw'] / rough['filtered']:.1f} times less; the reference itself has "
                f"{told['reference']}",
            ),
        ],
        assumptions=(
            *_assumptions(recorded),
            "both commands are of one run, which used the filtered one; the paper shows two trials. Raw: positions as "
            "measured, velocities from the last two, the same gains",
        ),
    )


def _commanded(controller: Controller) -> str:
    if not controller.plant.step.system.kinematic:
        return "Inputs of the reference, and those that the feedback makes of raw and of filtered measurements."
    return (
        "Velocities that are commanded to the robot: finite differences of the reference, and of what the feedback "
        "makes of raw and of filtered measurements."
    )


def _recorded(progress: Progress, recording: Path | None) -> RecordedRun:
    """The given run, or the last one of the main job; it is run now, apart, where there is none that can be used."""
    progress(0.0, "reading the recording")
    if recording is not None:
        return read_run(runs.find(recording, BUILD))
    for place in (runs.folder(BUILD, Path(JOB).stem), OWN):
        recorded = _usable(runs.latest(place))
        if recorded is not None:
            return recorded
    progress(0.1, "running the bench, about a minute")
    command = [
        sys.executable,
        "-m",
        "stepmap.cli",
        "bench",
        str(sources() / JOB),
        "--build",
        str(BUILD),
        "--runs",
        str(OWN),
    ]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if run.returncode:
        raise LinkError(f"the bench gave no recording: {run.stderr.strip().removeprefix('error: ')}")
    progress(0.9, "drawing")
    made = runs.latest(OWN)
    if made is None:
        raise LinkError(f"the bench gave no recording: there is none in {OWN}")
    return read_run(made / runs.RECORDING)


def _usable(run: Path | None) -> RecordedRun | None:
    """A run that went to its end, with one in open loop to compare with."""
    if run is None:
        return None
    try:
        recorded = read_run(run / runs.RECORDING)
    except (ModelError, DamagedError):  # of another version
        return None
    return recorded if recorded.opened is not None and not recorded.closed.ended else None


def _assumptions(recorded: RecordedRun) -> tuple[str, ...]:
    run, facts = recorded.closed, recorded.facts
    return (
        f"recorded on the bench: {run.board}, {run.mode}, sensor {facts['sensor']}, seed "
        f"{facts['seed']}; the robot is simulated, and differs from its model as the job's table [bench] says",
        "the paper states neither its weights nor its noise; those of the job are used",
    )


def _about(s: Series, target: Array) -> str:
    end = s.coordinates[s.time >= s.time[-1] - figures.LAST, :2] - target
    tracking = rms(s.coordinates[:, :2] - s.reference[:, :2])
    most = float(np.linalg.norm(end, axis=1).max())
    told = f"{1e3 * most:.1f} mm at most from the set point in the last {figures.LAST:g} s"
    return f"{told}, tracking {1e3 * tracking:.1f} mm RMS"


def _pair(curve: str, names: tuple[str, ...], values: Array) -> dict[str, Array]:
    return {f"{curve}_{name}": values[:, k] for k, name in enumerate(names)}


def _rows(**columns: Array) -> list[dict[str, Any]]:
    """An object a tick that all columns have."""
    return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=False)]
