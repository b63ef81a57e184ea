"""What an act asks for: formulas, a CSV file, motion capture, or a motion of a library of plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, DamagedError, JobError, ModelError, ShapeError
from stepmap.jobs.columns import read_columns
from stepmap.jobs.imitate.read import TRAVEL, facing_of, manner_of, markers_of, positive, recording_of
from stepmap.mechanics import System
from stepmap.mocap import retarget
from stepmap.mocap.rehearsal import postures
from stepmap.optimal import plan_file
from stepmap.optimal.switching_times.acts import Act, require_act
from stepmap.optimal.switching_times.sampled import SampledAct
from stepmap.toml.tables import Table

SOURCES = ("of", "csv", "motion", "plan")
CAPTURE = ("begin", "end", "up", "facing", "travel", "response", "room", "markers")  # beside ``motion``
KEYS = (*SOURCES, *CAPTURE, "tempo", "hold")
LIBRARY, SUFFIX = "library", ".npz"


def read_source(table: Table, system: System, start: Array, library: str, files: dict[str, bytes]) -> Act:
    """The act of a table [[acts]], checked; ``files`` gets the contents of those that it names."""
    given = [key for key in SOURCES if key in table]
    if len(given) > 1:
        raise table.error(f"give one of {', '.join(SOURCES)}, got {' and '.join(given)}", given[1])
    source = given[0] if given else "of"
    own = {"of": (), "csv": ("tempo", "hold"), "plan": ("tempo", "hold"), "motion": (*CAPTURE, "tempo", "hold")}[source]
    for key in (*CAPTURE, "tempo", "hold"):
        if key in table and key not in own:
            raise table.error(f"is not of an act of {'formulas' if source == 'of' else source!r}", key)
    names = [c.name for c in system.coordinates]
    if source == "csv":
        act: Act = _csv(table, names, files)
    elif source == "motion":
        act = _captured(table, system, start, files)
    elif source == "plan":
        act = _planned(table, names, library, files)
    else:
        of = table.table("of")
        of.only(names, "coordinate")
        act = {name: of.entries[name] for name in of}
    try:
        require_act(names, act, start, f"acts[{table.path[-1]}]")
    except ModelError as error:
        raise table.error(str(error), source) from None
    return act


def _csv(table: Table, known: Sequence[str], files: dict[str, bytes]) -> SampledAct:
    file, content = table.content("csv")
    files[table.text("csv")] = content
    columns = read_columns(file, content, known, "coordinate")
    if not columns.values:
        raise JobError("has the column t and no other; name coordinates", file=file, line=1)
    if abs(columns.t[0]) > 1e-9:
        raise JobError(
            f"must begin at t = 0, the act's own time, not at {columns.t[0]:g} s", file=file, line=columns.lines[0]
        )
    values = np.column_stack(list(columns.values.values()))
    return SampledAct(tuple(columns.values), columns.t / _tempo(table), values)


def _captured(table: Table, system: System, start: Array, files: dict[str, bytes]) -> SampledAct:
    """Poses within reach of the wires, as jobs that imitate have them."""
    recording = recording_of(table, files)
    markers = markers_of(table, system, recording)
    try:
        targets = retarget(system, recording, markers, start, positive(table, "travel", TRAVEL), facing_of(table))
        t, poses = postures(system, start, targets, manner_of(table))
    except (ModelError, ShapeError, ConvergenceError) as error:
        raise table.error(str(error), "motion", hint=error.hint) from None
    return SampledAct([c.name for c in system.coordinates], t, poses)


def _planned(table: Table, known: Sequence[str], library: str, files: dict[str, bytes]) -> SampledAct:
    """The coordinates of a saved plan that this system has, too."""
    name = f"{library}/{table.text('plan')}{SUFFIX}"
    path, content = _of_library(table, name)
    files[name] = content
    try:
        arrays, manifest = plan_file.read(Path(path), content)
    except (DamagedError, ModelError) as error:
        raise table.error(str(error), "plan", cause=error.cause, hint=error.hint) from None
    states = list(manifest.get("state_names", ()))
    shared = [name for name in known if name in states]
    if not shared:
        there = f"it has {', '.join(map(str, states))}" if states else "it has no names: save it with its step map"
        raise table.error(f"{path}: the plan has no coordinate of this system; {there}", "plan")
    t, x = arrays["t"], arrays["x"]
    if t.ndim != 1 or x.shape != (len(t), len(states)):
        raise table.error(f"{path}: its times, states and names do not fit together", "plan")
    values = x[:, [states.index(name) for name in shared]]
    try:
        return SampledAct(shared, (t - t[0]) / _tempo(table), values)
    except ModelError as error:
        raise table.error(f"{path}: {error}", "plan") from None


def _of_library(table: Table, name: str) -> tuple[str, bytes]:
    """A file of the library: its path and its content; the error tells what there is."""
    path = Path(table.file).parent / name
    if table.attached is None and not path.is_file():
        there = sorted(known.stem for known in path.parent.glob(f"*{SUFFIX}"))
        hint = f"There are {', '.join(there)}." if there else "Plan.save and `stepmap optimize` write such files."
        raise table.error(f"there is no {path}", "plan", hint=hint)
    return replace(table, entries={**table.entries, "plan": name}).content("plan")


def _tempo(table: Table) -> float:
    return positive(table, "tempo", 1.0)
