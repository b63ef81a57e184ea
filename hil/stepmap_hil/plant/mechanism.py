"""The robot and its mechanism, simulated with a finer step and with what the model does not know."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import stepmap as sm
from stepmap.arrays import Array
from stepmap.errors import ConvergenceError, ModelError
from stepmap.jobs import Job
from stepmap.jobs.system import source_of
from stepmap.mechanics.sensors import CoordinateSensor
from stepmap.steps.protocol import Event
from stepmap_codegen.emit.encoders import Encoder
from stepmap_codegen.emit.motors import Axis
from stepmap_hil.plant.motors import Motor, MotorErrors, wrapped

TOUCH = 1e-9  # of h: a gap so far from closed is closed


@dataclass(frozen=True)
class PlantErrors:
    """How the plant differs from its model."""

    system: Mapping[str, Any] = field(default_factory=dict)  # arguments of the system, such as mass or damping
    start: Mapping[str, float] = field(default_factory=dict)  # added to the start of coordinates
    offsets: Mapping[str, float] = field(default_factory=dict)  # added to kinematic coordinates, such as a length
    motor: MotorErrors = field(default_factory=MotorErrors)
    step: float = 0.002  # s, of the simulation, at most
    cut: bool = True  # foot switches of a robot that walks cut its motors until the board knows of a landing

    def differences(self, units: Sequence[str]) -> list[str]:
        """What the model does not know, for people; ``units`` are those of the coordinates that motors move."""
        texts = [f"{name} = {value:g}" for name, value in self.system.items() if isinstance(value, int | float)]
        texts += [f"start of {name} {value:+g}" for name, value in self.start.items()]
        texts += [f"{name} {value:+g}" for name, value in self.offsets.items()]
        texts += [] if self.cut else ["foot switches that do not cut the motors"]
        if units:
            m = self.motor
            backlash = " or ".join(f"{m.backlash:g} {unit}".rstrip() for unit in dict.fromkeys(units))
            texts.append(
                f"motors with {m.time_constant_factor:g} times the time constant, {m.gain_factor:g} times the gain, "
                f"{backlash} of backlash"
            )
        return texts


class WalkedStep(NamedTuple):
    """A step that a robot has made, judged: a fall is not the only failure."""

    time: float  # s, of the plant, when the foot came down
    length: float  # s, since the foot before
    normal: float  # N, the least the ground has pushed with, from when the board knew of the foot before
    cone: float  # largest |tangent|/normal force since then, and in the impact at the end
    unknown_normal: float  # N, the same from the foot before to when the board knew of it: efforts are old ones
    unknown_cone: float
    low: float  # m, least height of the swing foot before the middle of the step


class Plant:
    """Motors and mechanism; time passes when ``advance`` is called."""

    def __init__(self, job: Job, axes: Sequence[Axis], errors: PlantErrors, encoders: Sequence[Encoder] = ()) -> None:
        self.job, self.errors, self.axes, self.encoders = job, errors, axes, encoders
        source = source_of(job)
        for name in errors.system:
            if name not in source.arguments and name not in {p.name for p in job.system.parameters}:
                raise ModelError(f"plant: system {job.system.name!r} takes no {name!r}")
        self.system = source.make(**errors.system)
        self._steps: dict[float, sm.VariationalStep] = {}
        full = self._moved(job.pose)
        robot = [c.name for c in self.system.kinematic]  # the mechanism hangs from where it is
        self.pose = self.system.satisfy_constraints(full, robot)
        step = self._step(0.001)
        self.nd, self.nk, self.nf = step.nd, step.nk, len(self.system.inputs)
        self.kinematic = [c.name for c in self.system.kinematic]
        holding = step.holding_forces(self.pose)  # until the board is armed somebody holds it still
        self.forces = np.zeros(self.nf) if holding is None else holding
        offsets = np.array([errors.offsets.get(name, 0.0) for name in self.kinematic])
        self.offsets = offsets
        rho = self.pose[len(self.system.dynamic) :] - offsets
        self.motors = [
            Motor(axis, errors.motor, float(start)) for axis, start in zip(axes[self.nf :], rho, strict=True)
        ]
        self.x = step.rest(self.pose, self.forces)
        self._first_readings = np.asarray(self.system.readings(self.pose), dtype=float)
        self._dt = 0.001
        self.time = 0.0
        self.enabled = False
        self._events: list[Event] = []
        self._closed = self._touching()

    def _moved(self, pose: Array) -> Array:
        """A pose with the errors of the start and the offsets; a ball turns about its axes by hub.rx and so on."""
        tangent, full = self.system.tangent, self.system.configuration(pose)
        places = {name: i for i, (name, _) in enumerate(tangent.entries)}
        for kind, given in (("start", self.errors.start), ("offsets", self.errors.offsets)):
            for name, value in given.items():
                if name not in places:
                    raise ModelError(f"plant.{kind}: {self.system.name!r} has no coordinate {name!r}")
                full = tangent.retract(full, value * np.eye(tangent.nv)[places[name]])
        return full

    def _step(self, dt: float) -> sm.VariationalStep:
        key = round(dt, 9)
        if key not in self._steps:
            self._steps[key] = sm.discretize(self.system, key)
        return self._steps[key]

    @property
    def contact(self) -> tuple[int, float]:
        """Bits of feet that have come down since the board was told, and how long ago [s]; of robots that walk."""
        return 0, 0.0

    fell = ""  # why a robot that walks has fallen
    walked: Sequence[WalkedStep] = ()

    @property
    def finished(self) -> bool:
        """Whether a robot that walks has made its steps, or has fallen."""
        return False

    def told(self) -> None:
        """The board has been told of them."""

    def release(self) -> None:
        """Whoever holds the robot lets it go."""

    @property
    def coordinates(self) -> Array:
        """q̄ now."""
        return self._step(self._dt).layout.pose(self.x)

    @property
    def counts(self) -> list[int]:
        """What the board's encoders show: those of the motors or, where the board measures, one per channel."""
        if not self.encoders:
            return [motor.counts for motor in self.motors]
        made = []
        for k, encoder in enumerate(self.encoders):
            motor = self._motor_of(encoder)
            moved = (self.readings()[k] - self._first_readings[k]) * encoder.counts_per_unit
            made.append(motor.counts if motor is not None else wrapped(math.floor(moved) + self.errors.motor.zero))
        return made

    @property
    def motor_encoders(self) -> list[int]:
        """The encoder of each motor, by its number."""
        if not self.encoders:
            return list(range(len(self.motors)))
        owners = [self._motor_of(encoder) for encoder in self.encoders]
        return [owners.index(motor) for motor in self.motors]

    def _motor_of(self, encoder: Encoder) -> Motor | None:
        """The motor that an encoder sits on; None for one on a coordinate of the mechanism."""
        sensor = next(s for s in self.system.sensors if s.name == encoder.channel)
        name = sensor.coordinate.name if isinstance(sensor, CoordinateSensor) else ""
        return self.motors[self.kinematic.index(name)] if name in self.kinematic else None

    def readings(self) -> Array:
        """Readings of perfect sensors."""
        velocity = self._step(self._dt).velocity(self.x) if self.system.senses_rates else None
        return np.asarray(self.system.readings(self.coordinates, velocity), dtype=float)

    def advance(self, efforts: Sequence[int], enabled: bool, seconds: float) -> None:
        """Lets time pass with efforts in per mille; without power motors run out."""
        self.enabled = enabled
        count = max(1, int(np.ceil(seconds / self.errors.step - 1e-9)))
        dt = seconds / count
        step = self._step(dt)
        if round(dt, 9) != round(self._dt, 9):
            self._convert(step)
        for _ in range(count):
            given = [float(e) if enabled else 0.0 for e in efforts]
            forces = [e / axis.effort_per_unit for e, axis in zip(given, self.axes[: self.nf], strict=False)]
            loads = [motor.advance(e, dt) for motor, e in zip(self.motors, given[self.nf :], strict=False)]
            u = np.concatenate([np.array(forces, dtype=float), np.array(loads) + self.offsets])
            try:
                moved = step.step(self.x, u)
            except ConvergenceError as error:
                raise ModelError(f"the plant cannot go on at {self.time:.3f} s: {error}") from error
            self.x = moved.x
            self._note(moved.events, moved.modes)
            self.time += dt

    def _touching(self) -> set[str]:
        """Gaps that are closed."""
        h = self.system.residuals(self.coordinates)
        names = self.system.constraint_names
        return {name for name in self.system.gap_names if h[names.index(name)] >= -TOUCH}

    def _note(self, events: Sequence[Event], modes: Collection[str]) -> None:
        """Keeps the events of a step; one that a blow has opened was open when the step began, and is added."""
        for event in events:
            if (event.kind == "release") == (event.name in self._closed):
                self._events.append(event._replace(time=self.time + event.time))
                self._closed ^= {event.name}
        for name in sorted(self._closed ^ set(modes)):
            kind = "release" if name in self._closed else "impact"
            self._events.append(Event(self.time, 0, name, kind))
        self._closed = set(modes)

    def take_events(self) -> list[Event]:
        """Gaps that have opened and closed since they were taken last, with times of the plant."""
        events, self._events = self._events, []
        return events

    def strike(self, speed: float) -> None:
        """A blow that would open the first gap at that speed [m/s]: an impulse against its force."""
        step, system, pose = self._step(self._dt), self.system, self.coordinates
        gap = system.constraint_names.index(system.gap_names[0])
        slope = system.residuals_slope(pose)[gap, : self.nd]
        velocity = np.zeros(self.nd + self.nk)
        velocity[: self.nd] = np.linalg.solve(system.mass_matrix(pose)[: self.nd, : self.nd], slope)
        self.x[step.layout["p"]] -= speed / system.gap_velocities(pose, velocity)[gap] * slope

    def _convert(self, step: sm.VariationalStep) -> None:
        """The same motion in the state of another step: pose and velocity stay.

        What p has besides the momentum of this velocity is half a step's impulse of the constraints, which grows with
        the step.
        """
        old, momentum = self._step(self._dt), step.layout["p"]
        moving = step.from_velocity(self.coordinates, old.velocity(self.x), instant=True)
        moving[momentum] += step.dt / old.dt * (self.x[momentum] - moving[momentum])
        self.x = moving
        self._dt = round(step.dt, 9)
