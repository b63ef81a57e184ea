"""Why a board ended a run: in which channel, at which tick, by how much, and what is most likely behind it.

The board reports its reason. The metrics follow from the recording: the bit-exact reference model runs through the
measurements again and gives every innovation, those too that the gate rejected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stepmap.units import small
from stepmap_codegen import Controller, Role
from stepmap_codegen.reference_loop import ReferenceLoop
from stepmap_hil.faults.spec import UPLOADS, Fault
from stepmap_hil.plant.mechanism import PlantErrors
from stepmap_hil.runs.fault_verdict import MOVING
from stepmap_hil.runs.filter_replay import stored
from stepmap_hil.runs.log import Row, Run
from stepmap_hil.wire import dialect
from stepmap_hil.wire.reasons import EXPLANATIONS, Reason

NIS_LIMIT, NIS_WINDOW, GATED_LIMIT, HOLD_S = 5.0, 16, 10, 0.2  # sm_supervisor_defaults
OWN_ENCODERS = "encoders"  # sensor of a board that measures itself (stepmap_hil.sensors.own_encoders)
RESTARTED = "the board restarted in the middle of the run"
MISSED = 0.03  # of all ticks; more in real time means that the computer is too slow
NEAR_S = 2.0  # after the begin of an injected fault, in which a stop may be its doing
EARLY_S = 1.0  # after the begin of a run, in which a stop may be due to the start
FAR = 0.5  # of a parameter: a plant that is farther from its model is the first suspect of those without a fault
OTHERS = 3.0  # times: a channel that is off by that much more than the others is off alone


@dataclass(frozen=True)
class Circumstances:
    """What is known about how a run was done."""

    mode: str
    plant: str  # simulated or real
    sensor: str
    board: str
    port: bool = False  # it is a board at a serial port
    believed_late: float = 0.0  # s, that the board makes up for
    late: float = 0.0  # s, that measurements were old
    faults: Sequence[Fault] = ()  # that happened, with the seconds for which they did
    errors: PlantErrors = field(default_factory=PlantErrors)

    @property
    def real_time(self) -> bool:
        return self.mode == "realtime"


class Suspect(NamedTuple):
    """A cause with how likely it is, 0 to 100, by what the run shows."""

    likely: float
    text: str


class _InnovationLoop(ReferenceLoop):
    """The reference model, which also keeps each channel's innovation in standard deviations."""

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.sigmas: dict[int, float] = {}

    def _update(self, number: int, bit: int) -> bool:
        block, formats = self.program.blocks[number], self.formats.blocks[number]
        roles = [field.role for field in self.program.fields]
        found = stored(block, self.machine.values(number), formats.operations, roles)
        variance = found.get(Role.VARIANCE, 0.0)
        if variance > 0:
            self.sigmas[bit] = found[Role.INNOVATION] / math.sqrt(variance)
        return super()._update(number, bit)


@dataclass(frozen=True)
class TickInnovations:
    """Innovations of one tick of the run."""

    row: Row
    sigmas: dict[int, float]  # innovation of each valid channel, in standard deviations
    nis: float  # mean normalized innovation squared, as the supervisor averages it


class Diagnosis:
    """What a run shows about its end."""

    def __init__(self, controller: Controller, run: Run, reason: Reason, noticed: float | None = None) -> None:
        self.controller, self.run, self.reason = controller, run, reason
        self.channels = [name for name, _ in controller.plant.step.system.sensor_channels]
        running = [k for k, row in enumerate(run.rows) if row.running]
        ended = [k for k in running if run.rows[k].state not in MOVING]
        self.last = ended[0] if ended else len(run.rows) - 1
        self.start = run.rows[running[0]].time if running else 0.0
        self.row = run.rows[self.last]
        # A board in fault, or one that has restarted, reports no further tick.
        self.time = (self.row.time if ended or noticed is None else noticed) - self.start
        self.reference = None if controller.formats is None else _InnovationLoop(controller)
        self.ticks = list(self._replay())

    def _replay(self) -> Iterator[TickInnovations]:
        follow, armed = dialect.value("STEPMAP_STATE_RUNNING"), dialect.value("STEPMAP_STATE_ARMED")
        mean = 1.0
        for row in self.run.rows[: self.last + 1] if self.reference is not None else ():
            assert self.reference is not None
            self.reference.sigmas = {}
            valid = row.valid if row.measured else 0
            told = self.run.followed.get(row.tick) if row.running else None
            _, _, taken = self.reference.step(
                valid,
                row.words,
                follow=row.state == follow,
                running=row.running,
                hold=row.state == armed,
                set_point=None if told is None else self.run.set_points.get(told.sequence),
                lost=told is not None and told.state == dialect.value("STEPMAP_STREAM_HOLDING"),
            )
            used = [s**2 for bit, s in self.reference.sigmas.items() if taken >> bit & 1]
            mean += (sum(used) / len(used) - mean) / NIS_WINDOW if used else 0.0
            yield TickInnovations(row, dict(self.reference.sigmas), mean)

    def recent(self, count: int = NIS_WINDOW) -> list[TickInnovations]:
        return self.ticks[-count:]

    def metrics(self) -> str:
        """The metrics behind the reason; empty where there are none."""
        found = {
            Reason.GATED: self._gated,
            Reason.INNOVATION: self._innovation,
            Reason.COVARIANCE: self._covariance,
            Reason.HOLD_EXPIRED: self._unseen,
            Reason.NO_MEASUREMENT: self._unseen,
            Reason.MOTOR_FOLLOWING: self._following,
        }.get(self.reason)
        return found() if found is not None and self.ticks else ""

    def _gated(self) -> str:
        gate = self.controller.plant.settings.gate or math.inf
        last = self.ticks[-1]
        out = {k: s for k, s in last.sigmas.items() if abs(s) > gate}
        named = ", ".join(f"{self.channels[k]} {s:+.3g} σ" for k, s in sorted(out.items(), key=lambda p: -abs(p[1])))
        return f"{named or 'no channel'} (gate {gate:g} σ), the last of {GATED_LIMIT} measurements in a row"

    def _innovation(self) -> str:
        worst, size = self.worst()
        now = self.ticks[-1].sigmas.get(worst, math.nan)
        return (
            f"mean squared innovation {self.ticks[-1].nis:.2g} σ² (limit {NIS_LIMIT:g}, 1 is expected); largest in "
            f"{self.channels[worst]}, {now:+.2g} σ now and {size:.2g} σ RMS over {NIS_WINDOW} ticks"
        )

    def worst(self) -> tuple[int, float]:
        """The channel with the largest innovations of late, and their RMS in standard deviations."""
        sizes = self.sizes()
        k = max(sizes, key=lambda k: sizes[k], default=0)
        return k, sizes.get(k, math.nan)

    def sizes(self) -> dict[int, float]:
        seen: dict[int, list[float]] = {}
        for tick in self.recent():
            for k, s in tick.sigmas.items():
                seen.setdefault(k, []).append(s)
        return {k: float(np.sqrt(np.mean(np.square(values)))) for k, values in seen.items()}

    def _covariance(self) -> str:
        assert self.reference is not None
        program, output = self.controller.program, self.controller.output
        names = self.controller.plant.step.state_names
        most, text = -1.0, ""
        for k, i in enumerate(program.of(Role.COVARIANCE)):
            place = program.fields[i].place
            limit = float(output.variances[k])
            if place is None or place[0] != place[1] or limit <= 0:
                continue
            variance = float(self.reference.machine.fields[i]) * 2.0 ** -self.reference.formats.fields[i]
            if variance / limit > most:
                most = variance / limit
                text = f"{names[place[0]]} ± {math.sqrt(max(variance, 0.0)):.2g} (limit {math.sqrt(limit):.2g})"
        return text

    def _unseen(self) -> str:
        moving = [tick.row for tick in self.ticks if tick.row.running]
        used = [row.time for row in moving if row.taken]
        since = self.row.time - (used[-1] if used else self.start)
        gated = sum(bool(row.valid) and not row.taken for row in moving if not used or row.time > used[-1])
        kept_out = f", {gated} were implausible" if gated else ""
        return f"no channel was taken for {since:.2f} s (limit {HOLD_S:g} s){kept_out}"

    def _following(self) -> str:
        step = self.controller.plant.step
        commands = self.controller.program.of(Role.COMMAND)
        fraction = [0 if self.controller.formats is None else self.controller.formats.fields[i] for i in commands]
        found = []
        robot = np.array(self.row.coordinates)[step.layout["rho"]]
        first = len(step.system.inputs)  # forces come before positions
        for k, coordinate in enumerate(step.system.kinematic):
            limit = self.controller.axes[first + k].following_limit
            off = self.row.command[first + k] * 2.0 ** -fraction[first + k] - robot[k]
            shown = small(coordinate.unit)
            text = f"{coordinate.name} {shown.factor * off:+.3g} {shown.symbol}".rstrip()
            found.append(
                (abs(off) / limit, f"{text} from its command (a motor may be {shown.text(limit)} behind its target)")
            )
        return max(found)[1] if found else ""


def diagnose(controller: Controller, run: Run, how: Circumstances) -> None:
    """Adds metrics to why the board ended a run, and names suspects; leaves other runs as they are."""
    if run.stop is None or not run.rows:
        return
    reason = Reason[run.stop.reason.upper()]
    found = Diagnosis(controller, run, reason, run.stop.time)
    meaning = RESTARTED if reason is Reason.BOOTED else EXPLANATIONS[reason].meaning
    metrics = found.metrics()
    at = f"at tick {found.row.tick} ({found.time:.2f} s)"
    run.ended = f"{run.stop.state}: {meaning} {at}{f': {metrics}' if metrics else ''}"
    run.suspects = [suspect.text for suspect in sorted(suspects(found, how), key=lambda s: -s.likely)]


FILTER = (Reason.GATED, Reason.INNOVATION, Reason.COVARIANCE)
SIGHT = (Reason.HOLD_EXPIRED, Reason.NO_MEASUREMENT, Reason.COVARIANCE)
CLOCK = (*FILTER, *SIGHT, Reason.MOTOR_FOLLOWING, Reason.LINK_LOST, Reason.OVERRUN)


def suspects(found: Diagnosis, how: Circumstances) -> list[Suspect]:
    """What may be behind the end of a run, by what it shows; nothing where a stop was commanded."""
    if found.reason is Reason.STOP_COMMAND:
        return []
    made = [*_injected(found, how), *_deadlines(found, how)]
    if found.reason in FILTER:
        made += [*_latency(found, how), *_start(found, how), *_one_channel(found, how), *_differences(found, how)]
    if found.reason in SIGHT:
        made += _missing(found)
    remedy = _remedy(found.reason, how)
    if remedy:
        made.append(Suspect(10, f"otherwise: {remedy}" if made else remedy))
    return made


def _remedy(reason: Reason, how: Circumstances) -> str:
    """What to do where nothing else is known, as far as there is such a thing in this run."""
    if reason is Reason.BOOTED:
        return "see that its supply holds, and what its watchdog says (stepmap monitor)"
    if how.plant == "simulated" and reason is Reason.INNOVATION:
        return "compare mass, lengths and noise of the job with the plant in [bench]"
    if how.sensor == OWN_ENCODERS and how.plant == "real" and reason is Reason.GATED:
        return "check the encoders' cables, the direction they count in, and counts_per_unit in [board.encoders]"
    if how.sensor != "kinect" and reason is Reason.GATED:  # no tracker that could be on the wrong object
        return "compare noise and gate of the job with how far the plant is from its model"
    return EXPLANATIONS[reason].remedy


def _injected(found: Diagnosis, how: Circumstances) -> Iterator[Suspect]:
    for fault in how.faults:
        after = found.time - fault.at
        if fault.kind not in UPLOADS and -found.controller.program.period <= after <= fault.seconds + NEAR_S:
            where = f" in {', '.join(fault.channels)}" if fault.channels else ""
            since = f"{max(after, 0.0):.2f} s before"
            yield Suspect(100 - min(after, NEAR_S), f"the injected fault {fault.kind}{where}, which began {since}")


def _deadlines(found: Diagnosis, how: Circumstances) -> Iterator[Suspect]:
    missed, ticks = found.run.misses, sum(row.running for row in found.run.rows[: found.last + 1])
    if not how.real_time or not missed or found.reason not in CLOCK:
        return
    likely = 90.0 if missed > MISSED * ticks else 30.0
    yield Suspect(likely, f"{missed} deadlines were missed in {ticks} ticks: {too_slow(how)}")


def too_slow(how: Circumstances) -> str:
    """What helps where the computer does not keep up, and is not done already."""
    ways = []
    if how.plant == "simulated":
        ways += ["--sensor gaussian"] * (how.sensor not in ("gaussian", OWN_ENCODERS))
        ways += ["--board native"] * (how.board != "native" and not how.port)
        ways += ["--mode lockstep"] * how.real_time
    *most, last = [*ways, "end other programs"] if how.real_time else [*ways, "a faster computer"]
    return f"this computer is too busy for real time; try {', '.join(most)}{' or ' * bool(most)}{last}"


def _latency(found: Diagnosis, how: Circumstances) -> Iterator[Suspect]:
    if abs(how.late - how.believed_late) > 0.1 * found.controller.program.period:
        yield Suspect(
            80,
            f"measurements are {1e3 * how.late:.0f} ms old, and the board takes {1e3 * how.believed_late:.0f} ms; "
            f"set sensor_delay = {how.late:g} in [board] of the job",
        )


def _start(found: Diagnosis, how: Circumstances) -> Iterator[Suspect]:
    if found.time < EARLY_S and how.errors.start:
        given = ", ".join(f"{name} {value:+g}" for name, value in how.errors.start.items())
        yield Suspect(60, f"the plant starts away from the plan: plant.start in [bench] ({given})")
    elif found.time < EARLY_S and how.plant == "real":
        yield Suspect(60, "the robot stood away from where the plan begins")


def _one_channel(found: Diagnosis, how: Circumstances) -> Iterator[Suspect]:
    sizes = sorted(found.sizes().items(), key=lambda pair: -pair[1])
    if len(sizes) > 1 and sizes[0][1] > OTHERS * sizes[1][1]:
        name = found.channels[sizes[0][0]]
        exact = how.plant == "simulated" and how.sensor in ("gaussian", OWN_ENCODERS) and not how.faults
        if exact:  # what it measures is as the job says
            yield Suspect(40, f"{name} alone disagrees: something acts there that [noise.process] does not allow for")
            return
        yield Suspect(55, f"{name} alone disagrees: its tracker or encoder, its calibration, or its noise in the job")


def _missing(found: Diagnosis) -> Iterator[Suspect]:
    rows = [tick.row for tick in found.recent()]
    together: dict[tuple[bool, ...], list[str]] = {}  # by the ticks at which they were missing
    for k, name in enumerate(found.channels):
        unseen = tuple(not (row.measured and row.valid >> k & 1) for row in rows)
        together.setdefault(unseen, []).append(name)
    for unseen, names in together.items():
        if 4 * sum(unseen) > len(rows):
            yield Suspect(
                70,
                f"{_all_of(names, found.channels)} missing in {sum(unseen)} of the last {len(rows)} ticks: occluded, "
                "or lost on the line",
            )


def _all_of(names: Sequence[str], channels: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} was"
    return "all channels were" if len(names) == len(channels) else f"{', '.join(names)} were"


def _differences(found: Diagnosis, how: Circumstances) -> Iterator[Suspect]:
    """What the plant of the bench does that the model does not know."""
    known = {p.name: p.value for p in found.controller.plant.step.system.parameters}
    given = [
        f"{name} {value:g}{f' instead of {known[name]:g}' if name in known else ''}"
        for name, value in how.errors.system.items()
        if isinstance(value, int | float)
    ]
    far = [abs(value / known[name] - 1) for name, value in how.errors.system.items() if known.get(name)]
    given += [f"{name} {value:+g}" for name, value in how.errors.offsets.items()]
    if how.plant == "simulated" and given:
        likely = 75.0 if max(far, default=0.0) > FAR else 50.0
        yield Suspect(likely, f"the plant differs from the model as plant in [bench] says: {', '.join(given)}")
