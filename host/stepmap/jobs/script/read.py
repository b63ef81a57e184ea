"""From a job file of kind "script" to its job."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import NoReturn

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import JobError, ModelError, ShapeError
from stepmap.jobs.job import Solver
from stepmap.jobs.limits import read_limits
from stepmap.jobs.parts import SHARED, read_forces, read_start, read_system, read_time
from stepmap.jobs.reference import Reference
from stepmap.jobs.script import checks
from stepmap.jobs.script.job import BLEND, ScriptJob
from stepmap.jobs.script.sources import KEYS, LIBRARY, read_source
from stepmap.jobs.weights import channel_names, input_names, read_controller, read_noise, read_weights, state_names
from stepmap.mechanics import System
from stepmap.optimal.switching_times.acts import Act, poses
from stepmap.optimal.switching_times.sampled import SampledAct
from stepmap.optimal.switching_times.windows import require_times
from stepmap.toml.tables import Table

NEEDED = {
    "system": "its name in the catalog or its file, and its arguments",
    "time": "dt, and duration or steps",
    "acts": "one [[acts]] or more, each with formulas of its local time in [acts.of]",
    "weights": "[weights.state] and [weights.input]",
}
OPTIONAL = ("start", "script", "solver", "noise")
GIVE, REACH = 0.1, 0.1  # s; m or rad


def read(root: Table, name: str) -> ScriptJob:
    """The job of a document's outermost table."""
    root.only((*NEEDED, *OPTIONAL, *SHARED), "table")
    for table, why in NEEDED.items():
        if table not in root:
            raise root.error(f"the table [{table}] is missing: {why}")
    files: dict[str, bytes] = {}
    system = read_system(root.table("system"), files)
    dt, steps = read_time(root.table("time"))
    pose = read_start(root.table("start"), system)
    states, inputs = state_names(system), input_names(system)
    settings = root.table("script")
    settings.only(("blend", "library", "acceleration", "reach"))
    blend = settings.number("blend", BLEND, unit="seconds")
    library = settings.text("library") if "library" in settings else LIBRARY
    acts = _acts(root.tables("acts"), system, pose, library, files)
    t = dt * np.arange(steps + 1)
    try:
        require_times(acts.at, acts.give, blend, steps * dt)
    except ModelError as error:
        raise root.error(str(error), "acts") from None
    written = poses([c.name for c in system.coordinates], acts.acts, pose, blend, t, acts.at)
    _require_playable(acts, checks.Play(system, acts.acts, acts.at, blend, t, written), settings)
    weights = read_weights(root.table("weights"), states, inputs)
    hard, soft = read_limits(root.table("limits"), system, states, inputs)
    return ScriptJob(
        name=name,
        system=system,
        dt=dt,
        steps=steps,
        forces=read_forces(root.table("time")),
        pose=pose,
        reference=Reference(written, np.zeros((steps, len(system.inputs))), "legendre", acts.named),
        goal=False,
        rest=False,
        own_weights=weights,
        controller=read_controller(root.table("weights"), states, inputs),
        hard=hard,
        limits=soft,
        solver=_solver(root.table("solver")),
        noise=read_noise(root.table("noise"), states, channel_names(system)) if "noise" in root else None,
        root=root,
        files=files,
        acts=acts.acts,
        act_names=acts.names,
        at=acts.at,
        give=acts.give,
        blend=blend,
    )


def _solver(table: Table) -> Solver:
    table.only(("max_iterations", "tolerance"))
    usual = Solver()
    return Solver(
        max_iterations=table.whole("max_iterations", usual.max_iterations),
        tolerance=table.number("tolerance", usual.tolerance),
    )


@dataclass(frozen=True)
class _Acts:
    tables: tuple[Table, ...]
    names: tuple[str, ...]
    acts: tuple[Act, ...]
    at: tuple[float, ...]
    give: tuple[float, ...]

    @property
    def named(self) -> tuple[str, ...]:
        """Coordinates that any of them names."""
        each = (act.names if isinstance(act, SampledAct) else tuple(act) for act in self.acts)
        return tuple(dict.fromkeys(chain.from_iterable(each)))


def _acts(tables: list[Table], system: System, pose: Array, library: str, files: dict[str, bytes]) -> _Acts:
    """Acts in their order; all but the first have a written begin."""
    names, acts, at, give = [], [], [], []
    for number, table in enumerate(tables):
        name = table.text("name") if "name" in table else f"act {number}"
        if name in names:
            raise table.error(f"two acts are called {name!r}", "name")
        names.append(name)
        try:
            table.only(("name", "at", "give", *KEYS))
            acts.append(read_source(table, system, pose, library, files))
            if number:
                table.need("at", "Give the time at which the act is to begin [s].")
                at.append(table.number("at", unit="seconds"))
                give.append(table.number("give", GIVE, unit="seconds"))
            for key in ("at", "give"):
                if number == 0 and key in table:
                    raise table.error("the first act begins with the play", key, hint="Leave it out.")
        except JobError as error:
            _raise_of(name, error)
    if not tables:
        raise ModelError("acts: there is none")
    return _Acts(tuple(tables), tuple(names), tuple(acts), tuple(at), tuple(give))


def _raise_of(name: str, error: JobError) -> NoReturn:
    """The same error with the act's name."""
    where = f"{error.file}:" if error.line is None else f"{error.file}:{error.line}:"
    said = str(error).removeprefix(where).strip()
    raise JobError(
        f"act {name!r}: {said}", file=error.file, line=error.line, cause=error.cause, hint=error.hint
    ) from None


def _require_playable(acts: _Acts, play: checks.Play, settings: Table) -> None:
    """Raises at the first act that ends too soon, jumps, or asks for what cannot be reached."""
    allowed = {}
    for key, usual in (("acceleration", None), ("reach", REACH)):
        allowed[key] = settings.number(key) if key in settings else usual
        if key in settings and not settings.number(key) > 0:
            raise settings.error(f"must be positive, got {settings.number(key):g}", key)
    held = [table.flag("hold") if "hold" in table else False for table in acts.tables]
    doubts = chain(
        checks.finite(play),
        checks.lasting(play, held),
        checks.reachable(play, allowed["reach"] or REACH),
        checks.smooth(play, allowed["acceleration"]),
    )
    try:
        doubt = next(doubts, None)
    except ShapeError as error:
        raise settings.error(str(error)) from None
    if doubt is not None:
        table = acts.tables[doubt.act]
        _raise_of(acts.names[doubt.act], table.error(doubt.text, hint=doubt.hint))
