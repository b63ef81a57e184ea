"""Bit-exact reference model: the integer model of a controller, tick by tick as the firmware's loop runs it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepmap.arrays import Array
from stepmap_codegen import Controller, Role, encode
from stepmap_codegen.emit.motors import delay_samples
from stepmap_codegen.lower import landing
from stepmap_codegen.model import nearest
from stepmap_codegen.model.integer_single import SingleRunMachine
from stepmap_codegen.model.program import BlockRole
from stepmap_codegen.stream.follower import Follower, raw_limits

CONTACT_BIT = 12  # of the bits of a measurement: channels are below


class ReferenceLoop:
    """Estimates and commands of a board from its measurements, bit for bit."""

    def __init__(self, controller: Controller) -> None:
        if controller.formats is None:
            raise ValueError("controller: floating point differs between processors; generate fixed32")
        self.controller = controller
        self.program, self.formats = controller.program, controller.formats
        start = encode(controller.output.start, self.formats.fields, 32)
        self.machine = SingleRunMachine(self.program, self.formats, start)
        self.feedback = self.program.block_of(BlockRole.STATE_FEEDBACK)
        self.predict = self.program.blocks_of(BlockRole.PREDICT)
        self.channels, self.commands = self.program.of(Role.MEASUREMENT), self.program.of(Role.COMMAND)
        self.states, self.schedule = self.program.of(Role.STATE), self.program.of(Role.SCHEDULE)
        self.low = [self._raw(i, self.program.fields[i].low) for i in self.commands]
        self.high = [self._raw(i, self.program.fields[i].high) for i in self.commands]
        self.steps = [
            min(round(self._max_step(k) * 2.0 ** self.formats.fields[i]), 2**31 - 1)
            for k, i in enumerate(self.commands)
        ]
        self.applied = self._first_commands()
        self.input_history = [
            list(self.applied) for _ in range(delay_samples(controller.sensor_delay, self.program.period))
        ]
        self.follower = self._follower(controller)
        self.tick = 0
        self.walk = None if controller.plant.gait is None else Walking(controller, start)
        self.modes: list[int] = []  # of gaps, raw values, with the last estimate

    def step(
        self,
        valid: int,
        raw: Sequence[int],
        *,
        follow: bool,
        running: bool,
        hold: bool = False,
        set_point: Sequence[int] | None = None,
        lost: bool = False,
    ) -> tuple[list[int], list[int], int]:
        """(estimate, command, accepted channels) after one tick with the raw values of a measurement.

        ``follow``: commands follow the schedule; ``running``: ticks advance it; ``hold``: armed, forces hold the start.
        ``set_point``: raw values of the last that came since the tick before; ``lost``: none has come for too long.
        """
        machine, program = self.machine, self.program
        self._load(self.channels, raw)
        if self.walk is not None:
            self.walk.begin(machine.fields, valid, raw, running=running)
        accepted = 0
        for number, block in enumerate(program.blocks):
            if block.channel is not None:
                if valid >> block.channel & 1 and self._update(number, block.channel):
                    accepted |= 1 << block.channel
            elif block.role in (BlockRole.LANDING, BlockRole.PROJECTION) or (
                block.role is BlockRole.SLACK_TEST and all(valid >> channel & 1 for channel in block.needs)
            ):
                machine.run(number)
        estimate = [machine.fields[i] for i in self.states]
        hold = hold and not running and self.walk is None
        if running:
            self._state_feedback(self._row(follow, set_point, lost))
            self.tick += 1
        elif hold and self.forces:
            self._state_feedback(self.hold_row)
        self.modes = [machine.fields[i] for i in self.program.of(Role.MODE)]
        for k, i in enumerate(self.commands):
            force = program.fields[i].moves is None
            if follow or (hold and force):
                self.applied[k] = self._limited(k, machine.fields[i])
            elif force:
                self.applied[k] = 0
        self.input_history.append(list(self.applied))
        self._predict(self.input_history.pop(0))
        return estimate, list(self.applied), accepted

    def _update(self, number: int, bit: int) -> bool:
        """Runs the update of a channel; False where the gate rejected it."""
        return self.machine.run(number)

    @property
    def forces(self) -> list[int]:
        """Commands that are forces, by their place among the commands."""
        return [k for k, i in enumerate(self.commands) if self.program.fields[i].moves is None]

    @property
    def hold_row(self) -> Array:
        """The row of the schedule from arming to run; the first one where it has none of its own."""
        schedule = self.controller.schedule
        return schedule.rows[0] if schedule.hold is None else schedule.hold

    def _row(self, follow: bool, set_point: Sequence[int] | None, lost: bool) -> Array:
        """The schedule entry of this tick; after the last one, with streamed set-points in it."""
        rows = self.controller.schedule.rows
        if self.walk is not None:
            chosen: Array = rows[self.walk.choose(self.machine.fields)]
            return chosen
        k, last = self.tick + len(self.input_history), len(rows) - 1
        planned: Array = rows[min(k, last)]
        if self.follower is None:
            return planned
        if set_point is not None:
            self.follower.take(set_point)
        self.follower.step(moves=follow and k >= last, lost=lost)
        step = self.controller.plant.step
        return np.array(self.follower.reference(step.nx + step.nu)) if k >= last else planned

    def _follower(self, controller: Controller) -> Follower | None:
        stream, schedule = controller.plant.stream, controller.schedule
        if stream is None or schedule.tangent is None:
            return None
        bits = [schedule.fractions[state] for state in stream.states]
        limits = raw_limits(stream, bits, self.program.period)
        return Follower(limits, stream.states, schedule.rows[-1], schedule.tangent, self.formats.word)

    def _state_feedback(self, row: Array) -> None:
        """State feedback from the state predicted with the commands that were input_history since the sample."""
        fields = self.machine.fields
        before = list(fields)
        for command in self.input_history:
            self._predict(command)
        self._load(self.schedule, [int(v) for v in row])
        self.machine.run(self.feedback)
        wanted = [fields[i] for i in self.commands]
        fields[:] = before
        self._load(self.commands, wanted)

    def _predict(self, command: Sequence[int]) -> None:
        self._load(self.commands, command)
        for number in self.predict:
            self.machine.run(number)

    def _load(self, fields: Sequence[int], raw: Sequence[int]) -> None:
        """Sets fields; more raw values than there are fields are ignored."""
        for field, value in zip(fields, raw, strict=False):
            self.machine.fields[field] = value

    def _limited(self, k: int, wanted: int) -> int:
        inside = max(self.low[k], min(self.high[k], wanted))
        return max(self.applied[k] - self.steps[k], min(self.applied[k] + self.steps[k], inside))

    def _max_step(self, k: int) -> float:
        field = self.program.fields[self.commands[k]]
        if field.moves is not None:
            return self.controller.axes[k].speed * self.program.period
        return 2 * max(abs(field.low or 0.0), abs(field.high or 0.0))

    def _raw(self, field: int, value: float | None) -> int:
        return int(encode(np.array([value or 0.0]), [self.formats.fields[field]], 32)[0])

    def _first_commands(self) -> list[int]:
        """Commands as of arming: kinematic ones are where the estimate is, forces those that hold the start."""
        made = [self._position(i) for i in self.commands]
        if self.forces:
            before = list(self.machine.fields)
            self._load(self.schedule, [int(v) for v in self.hold_row])
            self.machine.run(self.feedback)
            self.applied = [0] * len(made)
            for k in self.forces:
                made[k] = self._limited(k, self.machine.fields[self.commands[k]])
            self.machine.fields[:] = before
        return made

    def _position(self, field: int) -> int:
        """The estimate of the state that a kinematic command sets, in the command's format; 0 for a force."""
        moves = self.program.fields[field].moves
        if moves is None:
            return 0
        state = self.states[moves[0]]
        right = self.formats.fields[state] - self.formats.fields[field]
        raw = self.machine.fields[state]
        return (raw + (1 << (right - 1))) >> right if right > 0 else raw << -right


class Walking:
    """What firmware/core/sm_walk.c does for a robot that walks: landings, and the row nearest to the pose."""

    def __init__(self, controller: Controller, start: Array) -> None:
        program, formats, schedule = controller.program, controller.formats, controller.schedule
        assert formats is not None  # of the integer model
        states, rows = program.of(Role.STATE), program.of(Role.SCHEDULE)
        self.pose = states[: len(states) // 2]
        self.of_pose = [formats.fields[i] for i in self.pose]
        self.of_row = [formats.fields[i] for i in rows[: len(self.pose)]]
        self.schedule = schedule
        self.channels = len(program.of(Role.MEASUREMENT))
        kept = (Role.STATE, Role.COVARIANCE, Role.MODE)
        self.start = {i: int(start[i]) for role in kept for i in program.of(role)}
        modes = program.of(Role.MODE)
        (self.contact,) = [i for i in modes if program.fields[i].name.startswith("contact_")]
        self.age, self.row_field = program.index(landing.AGE), program.index(landing.ROW)
        self.one, self.row_one = (1 << formats.fields[i] for i in (self.contact, self.row_field))
        self.row: int | None = None
        self.landed = self.was_running = False

    def begin(self, fields: list[int], valid: int, raw: Sequence[int], *, running: bool) -> None:
        """A tick with the bits of a measurement; before a run, and as it begins, the estimate is at the start."""
        if not running or not self.was_running:
            self.row = None
            for i, value in self.start.items():
                fields[i] = value
        self.was_running = running
        touched = bool(valid >> CONTACT_BIT & 1) and running
        self.landed = touched and self.row is not None and self.row >= self.schedule.gait // 2
        if self.landed:
            fields[self.contact] = self.one
            fields[self.age] = int(raw[self.channels])

    def choose(self, fields: list[int]) -> int:
        """The row of this tick, which its field tells."""
        expected = 0 if self.landed or self.row is None else self.row + 1
        pose = [fields[i] for i in self.pose]
        self.row = nearest.nearest(pose, self.schedule.rows, expected, self.of_pose, self.of_row)
        self.landed = False
        fields[self.row_field] = self.row * self.row_one
        return self.row
