"""A robot that walks: its feet strike the ground, its masses and frictions are its own, and it may fall.

Whoever holds it lets it go where the plan begins, in motion. Readings and efforts are those of the leg that stands: a
landing exchanges them, as its wiring or its host does, once the board has been told. Until then its foot switches cut
the motors, unless they are not wired so: what drove the step before would lift the foot again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.jobs import Job
from stepmap.jobs.gaits.board import GaitOnBoard
from stepmap.jobs.system import source_of
from stepmap.steps.protocol import Event
from stepmap.walking.standing import standing
from stepmap.walking.walk import ARMED, TIPPED, Walk
from stepmap.walking.walk import Plant as Feet
from stepmap_codegen.emit.encoders import Encoder
from stepmap_codegen.emit.motors import Axis
from stepmap_hil.plant.mechanism import Plant, PlantErrors, WalkedStep

REST = 1e-6  # s: what is left of a step after a landing, at least


@dataclass
class _Contact:
    """The last landing, while the board does not know of it."""

    age: float = 0.0  # s
    pending: bool = False
    late: bool = False  # it has been told since the last cycle
    efforts: Array | None = None  # from those of the board to those in names after it: T⁻ᵀ, or none at all


class WalkingPlant(Plant):
    """The robot of a gait; coordinates are those of the mechanism on its stance foot."""

    def __init__(
        self, job: Job, axes: Sequence[Axis], errors: PlantErrors, encoders: Sequence[Encoder], goal: int
    ) -> None:
        assert isinstance(job, GaitOnBoard)
        if encoders:
            raise ModelError("[board]: a robot that walks is measured by its host; leave out measure")
        self.job, self.errors, self.axes, self.encoders = job, errors, axes, ()
        source = source_of(job)
        for name in errors.system:
            if name not in source.arguments and name not in {p.name for p in job.system.parameters}:
                raise ModelError(f"plant: system {job.system.name!r} takes no {name!r}")
        self.whole = source.make(**errors.system)
        self.gait, self.standing = job, standing(self.whole, job.closed, job.whole.pose)
        self.system = self.standing
        self.free = list(self.standing.free)
        self.nd, self.nk, self.nf = len(self.free), 0, len(self.whole.inputs)
        self.kinematic, self.motors = [], []
        self._feet: dict[float, Feet] = {}
        self.n = len(self.whole.coordinates)
        self.x = np.zeros(2 * self.n)
        self.x[: self.n] = self.standing.pose(job.pose)
        self.pose = job.pose
        self.time = self.since = self._released = 0.0
        self.half = ARMED * job.cycle_steps * job.dt
        self.enabled = False
        self.goal = goal  # steps
        self.held = True
        self.fell = ""
        self.walked: list[WalkedStep] = []
        self._walk, self._unknown = Walk(), Walk()
        self._contact = _Contact()

    def put(self, x: Array) -> None:
        """Holds it in the pose of a state of the board, whose momenta it gets when it is let go."""
        free = self.free
        pose = self.standing.pose(x[: self.nd])
        M = self.whole.mass_matrix(pose)
        v = np.linalg.solve(self.job.system.mass_matrix(x[: self.nd]), x[self.nd :])  # as fast as the plan
        self.x = np.concatenate([pose, M[:, free] @ v])

    @property
    def finished(self) -> bool:
        return bool(self.fell) or len(self.walked) >= self.goal

    def release(self) -> None:
        """Lets it go."""
        self.held, self._released = False, self.time

    @property
    def coordinates(self) -> Array:
        pose: Array = self.x[: self.n][self.free]
        return pose

    @property
    def counts(self) -> list[int]:
        return []

    @property
    def motor_encoders(self) -> list[int]:
        return []

    def readings(self) -> Array:
        return np.asarray(self.system.readings(self.coordinates), dtype=float)

    @property
    def contact(self) -> tuple[int, float]:
        """Bits of the feet that have come down since the board was told, and how long ago [s]."""
        return int(self._contact.pending), self._contact.age if self._contact.pending else 0.0

    def told(self) -> None:
        """The board knows of the last landing: efforts are in the names after it.

        Forces of the ground are means about a node, so those of the next cycle are half of the efforts before.
        """
        self._contact = _Contact(late=self._contact.pending)

    def advance(self, efforts: Sequence[int], enabled: bool, seconds: float) -> None:
        """Lets time pass with efforts in per mille."""
        self.enabled = enabled
        self.time += seconds
        if self.held or self.fell:
            return
        given = [float(e) if enabled else 0.0 for e in efforts]
        u = np.array([e / axis.effort_per_unit for e, axis in zip(given, self.axes, strict=False)])
        if self._contact.efforts is not None:
            u = self._contact.efforts @ u
        if self._contact.pending:
            self._contact.age += seconds
        try:
            self._move(u, seconds)
        except ConvergenceError as error:
            self._fall(str(error))
        if not self.fell and np.abs(self.coordinates).max() > TIPPED:
            self._fall(f"tipped over after {len(self.walked)} steps")

    def _feet_at(self, dt: float) -> Feet:
        key = round(dt, 9)
        if key not in self._feet:
            job = self.gait
            self._feet[key] = Feet(job.renaming, job.closed, job.contact, self.whole, key)
        return self._feet[key]

    def _move(self, u: Array, seconds: float) -> None:
        feet, armed = self._feet_at(seconds), self.since >= self.half
        late = self._contact.pending or self._contact.late
        x, landed = feet.step(self.x, u, armed, self._unknown if late else self._walk)
        self._contact.late = False
        self.since += seconds
        if landed is None:
            self.x = x
            if not armed:
                self._walk.low = min(self._walk.low, feet.height(x))
            return
        rest = seconds - landed
        T = feet.renaming.matrix(x[: self.n])
        taken = np.zeros((self.nd, self.nf)) if self.errors.cut else np.linalg.inv(T.T)[np.ix_(self.free, self.free)]
        self._contact = _Contact(rest, True, efforts=taken)
        self._stepped(self.time - rest)
        renamed = feet.renamed(x)
        held = [i for i in range(self.n) if i not in self.free]
        renamed[held] = self.standing.held  # where it stands does not matter
        self.since = rest
        again = self._contact.efforts @ u
        self.x = renamed
        if rest > REST:
            moved = feet.stance.rollout(renamed, again[None], dt=[rest])
            assert moved.multipliers is not None
            feet.judge(self._unknown, moved.multipliers[0])
            self.x = moved.x[-1]

    def _stepped(self, time: float) -> None:
        made, late = self._walk, self._unknown
        begun = self.walked[-1].time if self.walked else self._released
        unknown = late.normal if np.isfinite(late.normal) else made.normal  # the first step has no foot before it
        low = made.low if np.isfinite(made.low) else 0.0
        self.walked.append(WalkedStep(time, time - begun, made.normal, made.cone, unknown, late.cone, low))
        self._walk, self._unknown = Walk(), Walk()

    def _fall(self, why: str) -> None:
        self.fell = f"step {len(self.walked) + 1}: {why}"

    def take_events(self) -> list[Event]:
        return []  # of gaps; steps are ``walked``

    def strike(self, speed: float) -> None:
        raise ModelError("blow: a robot that walks has no string; leave this fault out")


def plant_of(
    job: Job, axes: Sequence[Axis], start: Array, errors: PlantErrors, encoders: Sequence[Encoder], steps: int
) -> Plant:
    """The simulated robot of a job, whose plan begins in a state ``start`` of the board; ``steps`` are to be walked."""
    if not isinstance(job, GaitOnBoard):
        return Plant(job, axes, errors, encoders)
    made = WalkingPlant(job, axes, errors, encoders, steps)
    made.put(start)
    return made
