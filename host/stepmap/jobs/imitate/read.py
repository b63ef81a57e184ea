"""From a job file of kind "imitate" to its job."""

from __future__ import annotations

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError, ShapeError
from stepmap.jobs.imitate.job import ImitationJob
from stepmap.jobs.job import Solver
from stepmap.jobs.limits import read_limits
from stepmap.jobs.parts import SHARED, read_forces, read_start, read_system
from stepmap.jobs.reference import Reference
from stepmap.jobs.weights import Weights, channel_names, input_names, read_noise, read_weights, state_names
from stepmap.mechanics import System
from stepmap.mocap import read_bvh, retarget
from stepmap.mocap.bvh import UPS
from stepmap.mocap.names import PUPPET, puppet_markers
from stepmap.mocap.recording import Recording
from stepmap.mocap.rehearsal import Manner, Rehearsal, rehearse
from stepmap.mocap.retarget import Targets
from stepmap.optimal.terms import Tension
from stepmap.steps import discretize
from stepmap.toml.tables import Table

NEEDED = {
    "system": "its name in the catalog or its file, and its arguments",
    "imitate": 'motion = "dancer.bvh", the recording, relative to the job file',
}
OPTIONAL = ("time", "start", "weights", "solver", "noise")
KEYS = ("motion", "begin", "end", "up", "facing", "travel", "tempo", "lead", "response", "room", "effort")
TABLES = ("markers", "weights", "tension")
TRAVEL, ITERATIONS, TOLERANCE = 0.3, 60, 1e-6


def read(root: Table, name: str) -> ImitationJob:
    """The job of a document's outermost table."""
    root.only((*NEEDED, *OPTIONAL, *SHARED), "table")
    for table, why in NEEDED.items():
        if table not in root:
            raise root.error(f"the table [{table}] is missing: {why}")
    files: dict[str, bytes] = {}
    system = read_system(root.table("system"), files)
    settings = root.table("imitate")
    settings.only((*KEYS, *TABLES))
    recording = recording_of(settings, files)
    manner = manner_of(settings)
    markers = markers_of(settings, system, recording)
    start = _settled(root.table("start"), system)
    _frame_weights(settings, tuple(markers))
    _tension(settings)
    _solver(root.table("solver"))  # mistakes there are told before the work
    try:
        targets = retarget(system, recording, markers, start, positive(settings, "travel", TRAVEL), facing_of(settings))
        made = _rehearsed(root.table("time"), system, start, targets, manner)
    except (ModelError, ShapeError) as error:
        raise settings.error(str(error), hint=error.hint) from None
    return _job(root, name, system, files, start, (manner, targets, made))


def _job(
    root: Table,
    name: str,
    system: System,
    files: dict[str, bytes],
    start: Array,
    made: tuple[Manner, Targets, Rehearsal],
) -> ImitationJob:
    manner, targets, rehearsal = made
    settings, states, inputs = root.table("imitate"), state_names(system), input_names(system)
    hard, soft = read_limits(root.table("limits"), system, states, inputs)
    weights = read_weights(root.table("weights"), states, inputs)
    return ImitationJob(
        name=name,
        system=system,
        dt=rehearsal.dt,
        steps=rehearsal.steps,
        forces=read_forces(root.table("time")),
        pose=start,
        reference=Reference(rehearsal.poses, np.zeros((rehearsal.steps, len(system.inputs))), "legendre", ()),
        goal=False,
        rest=False,
        own_weights=_regulator(system) if weights is None else weights,
        controller=None,
        hard=hard,
        limits=soft,
        solver=_solver(root.table("solver")),
        noise=read_noise(root.table("noise"), states, channel_names(system)) if "noise" in root else None,
        root=root,
        files=files,
        targets=targets,
        rehearsal=rehearsal,
        manner=manner,
        frame_weights=_frame_weights(settings, targets.names),
        tension=_tension(settings),
        effort=settings.number("effort", 1e-3),
    )


def recording_of(settings: Table, files: dict[str, bytes]) -> Recording:
    """The recording that ``motion`` names, or the part of it from ``begin`` to ``end``."""
    settings.need("motion", "Name a BVH file, relative to the job file.")
    path, content = settings.content("motion")
    files[settings.text("motion")] = content
    up = settings.choice("up", UPS) if "up" in settings else ""
    recording = read_bvh(path, content, up)
    if "begin" not in settings:
        recording = recording.without_calibration()
    if "begin" in settings or "end" in settings:
        begin = settings.number("begin", 0.0, unit="seconds")
        end = settings.number("end", recording.duration, unit="seconds")
        try:
            recording = recording.between(begin, end)
        except ModelError as error:
            raise settings.error(str(error), "end" if "end" in settings else "begin") from None
    return recording


def manner_of(settings: Table) -> Manner:
    """How the motion is to be imitated."""
    usual = Manner()
    tempo = positive(settings, "tempo", 1.0) if "tempo" in settings else None
    lead = settings.number("lead", unit="seconds") if "lead" in settings else None
    if lead is not None and lead < 0:
        raise settings.error(f"must not be negative, got {lead:g}", "lead")
    return Manner(positive(settings, "response", usual.response), positive(settings, "room", usual.room), lead, tempo)


def markers_of(settings: Table, system: System, recording: Recording) -> dict[str, str]:
    """The joint of each frame: a puppet's by their usual names, with those of the job in their place."""
    own = settings.table("markers")
    own.only(system.frame_names, "frame")
    given = {name: own.text(name) for name in own}
    for name, joint in given.items():
        try:
            recording.of([joint])
        except ModelError as error:
            raise own.error(str(error), name) from None
    if set(PUPPET) <= set(system.frame_names):
        try:
            usual = puppet_markers(recording.names, given)
        except ModelError as error:
            raise settings.error(str(error), "motion", hint=error.hint) from None
        return usual | given
    if not given:
        raise settings.error(
            "which joint is which frame is known for marionettes alone",
            hint='Name frames and joints in the table markers, as in tip = "LeftHand".',
        )
    return given


def _rehearsed(time: Table, system: System, start: Array, targets: Targets, manner: Manner) -> Rehearsal:
    time.only(("dt", "steps", "forces"))
    if "dt" in time and "steps" in time:
        raise time.error("give dt [s] or steps, or neither: the motion has a duration of its own")
    dt = positive(time, "dt", 0.0) if "dt" in time else None
    steps = time.whole("steps") if "steps" in time else None
    if steps is not None and steps < 5:
        raise time.error(f"must be 5 at least, got {steps}", "steps")
    return rehearse(system, start, targets, manner, dt, steps)


def _frame_weights(settings: Table, names: tuple[str, ...]) -> tuple[float, ...]:
    """Of each marked frame, beside a usual one."""
    table = settings.table("weights")
    table.only(names, "frame")
    found = {name: table.number(name) for name in table}
    for name, weight in found.items():
        if weight < 0:
            raise table.error(f"must not be negative, got {weight:g}", name)
    return tuple(found.get(name, PUPPET[name][2] if name in PUPPET else 1.0) for name in names)


def _tension(settings: Table) -> Tension | None:
    if "tension" not in settings:
        return None
    table = settings.table("tension")
    table.only(("low", "high", "weight"))
    try:
        low, high = table.number("low", -np.inf), table.number("high", np.inf)
        return Tension(low=low, high=high, weight=table.number("weight", 1.0))
    except ModelError as error:
        raise table.error(str(error)) from None


def _settled(table: Table, system: System) -> Array:
    """The equilibrium next to the start pose."""
    pose = read_start(table, system)
    if not system.kinematic:
        return pose
    step = discretize(system, 0.01)
    try:
        return np.asarray(step.layout.pose(step.equilibrium(pose)[0]))
    except (ConvergenceError, ModelError) as error:
        raise table.error(str(error)) from None


def _regulator(system: System) -> Weights:
    """Usual weights of the gains: places count most, robots move softly."""
    nv, nd, nk = system.tangent.nv, system.tangent.nd, len(system.kinematic)
    state = np.concatenate([np.full(nd, 10.0), np.full(nv - nd, 1.0), np.full(nd, 1.0), np.full(nk, 1.0)])
    inputs = np.full(len(system.inputs) + nk, 10.0)
    return Weights(state, inputs, state)


def facing_of(settings: Table) -> Array | None:
    """Where the dancer looks first; None where it is not said."""
    if "facing" not in settings:
        return None
    facing = np.array(settings.numbers("facing", ()))
    if facing.shape != (3,):
        raise settings.error("must be a direction of three numbers, like [0, 1, 0]", "facing")
    return facing


def positive(table: Table, key: str, usual: float) -> float:
    """A number above 0."""
    value = table.number(key, usual)
    if not value > 0:
        raise table.error(f"must be positive, got {value:g}", key)
    return value


def _solver(table: Table) -> Solver:
    table.only(("max_iterations", "tolerance"))
    iterations, tolerance = table.whole("max_iterations", ITERATIONS), table.number("tolerance", TOLERANCE)
    for key, value in (("max_iterations", iterations), ("tolerance", tolerance)):
        if value < 0:
            raise table.error(f"must not be negative, got {value:g}", key)
    return Solver(max_iterations=iterations, tolerance=tolerance)
