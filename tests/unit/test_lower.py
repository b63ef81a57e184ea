"""Names of a mechanism as names in C, commands within their limits, and the parts a program is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import ModelError
from stepmap.estimate import registry
from stepmap.steps.variational import Forces
from stepmap_codegen import BlockRole, IntegerMachine, Noise, Plant, Role, Settings, saved
from stepmap_codegen.lower import ekf
from stepmap_codegen.lower.controller import lower
from stepmap_codegen.lower.equation_graph import EquationGraph
from stepmap_codegen.lower.parts import FilterParts, Model
from stepmap_codegen.lower.step import lower_step
from stepmap_codegen.model.float_machine import FloatMachine
from tests.mechanisms import case, in_motion
from tests.rotor import Rotor
from tests.sil.controllers import random_fields, suspended_mass


def plant(*names: str) -> Plant:
    b = sm.Builder("boxes")
    for name in names:
        x = b.coordinate(name, unit="m", low=-1, high=1)
        b.mass(b.world.tx(x), 1.0)
        b.drive(x, b.input(f"force on {name}", low=-1, high=1))
        b.encoder(x)
    step = sm.discretize(b.build(), 0.02)
    n = step.nx
    return Plant(
        step, Noise(np.eye(n) * 1e-6, np.full(len(names), 1e-6), np.eye(n) * 1e-6), np.zeros((2, 2, n)), Settings()
    )


def test_two_names_that_are_one_in_c_are_refused() -> None:
    with pytest.raises(ModelError, match=r"'a_b' and 'a\.b' would both be called 'x_a_b' in C; rename one"):
        lower(plant("a.b", "a_b"))


def test_names_that_look_like_ours_are_fine() -> None:
    program = lower(plant("a", "a_next"))
    assert len({field.name for field in program.fields}) == len(program.fields)


def test_commands_never_leave_their_limits() -> None:
    """Whatever the estimate: limits are rounded inwards where feedback is computed more coarsely than its command."""
    made, _ = suspended_mass()
    program, formats = made.program, made.formats
    assert formats is not None
    machine = IntegerMachine(program, formats, random_fields(made, 100.0, 2000, 4))
    machine.run(program.block_of(BlockRole.STATE_FEEDBACK))
    for i in program.of(Role.COMMAND):
        field, unit = program.fields[i], 2.0 ** -formats.fields[i]
        assert field.low is not None
        assert field.high is not None
        assert machine.fields[i].min() * unit >= field.low
        assert machine.fields[i].max() * unit <= field.high


def test_blocks_say_what_they_are() -> None:
    """By role and channel; nothing has to be read from their names."""
    made, _ = suspended_mass()
    program = made.program
    updates = [program.blocks[i] for i in program.blocks_of(BlockRole.UPDATE)]
    channels = [program.fields[i].name.removeprefix("z_") for i in program.of(Role.MEASUREMENT)]
    assert [block.channel for block in updates] == list(range(len(channels)))
    assert [block.name for block in updates] == [f"update_{channel}" for channel in channels]
    assert all(block.channel is None for block in program.blocks if block not in updates)
    others = (BlockRole.PROJECTION, BlockRole.STATE_FEEDBACK, BlockRole.PREDICT)
    assert [program.blocks[program.block_of(role)].name for role in others] == [
        "constraint_projection",
        "state_feedback",
        "predict",
    ]
    assert saved.unpack(saved.pack(made), made.plant).program == program
    with pytest.raises(ValueError, match="too many values"):
        program.block_of(BlockRole.UPDATE)


# steps from their equations -------------------------------------------------------------------------------------


def numeric(*outputs: ca.SX, of: tuple[ca.SX, ca.SX]) -> Callable[[np.ndarray, np.ndarray], list[np.ndarray]]:
    evaluate = ca.Function("at", list(of), [ca.densify(out) for out in outputs])
    return lambda x, u: [np.asarray(value) for value in evaluate.call([x, u])]


@pytest.mark.parametrize("forces", ["held", "left"])
@pytest.mark.parametrize("name", ["cart_pendulum", "suspended_mass", "double_pendulum", "planar_arm"])
def test_the_equations_of_a_midpoint_step_give_what_its_own_lowering_gives(name: str, forces: Forces) -> None:
    """Next state and A, to rounding; both take the same Newton steps."""
    step = sm.discretize(sm.systems.get(name), 0.01, forces=forces)
    x, u = in_motion(step, step.system.satisfy_constraints(sm.systems.example(name)))
    special = lower_step(step, 2)
    generic = EquationGraph(step, 2)
    after, z = generic.map(special.x, special.u)
    A = generic.linearization(special.x, special.u, z)
    ours = numeric(after, A, of=(special.x, special.u))(x, u)
    theirs = numeric(special.after, special.A, of=(special.x, special.u))(x, u)
    exact = step.linearize(x, u)
    for a, b, true in zip(ours, theirs, (exact.x[:, None], exact.A), strict=True):
        assert a == pytest.approx(b, rel=1e-10, abs=1e-12 * np.abs(true).max())
        assert a == pytest.approx(true, rel=1e-7, abs=1e-7 * np.abs(true).max())


@pytest.mark.parametrize("name", ["cart_pendulum", "suspended_mass"])
def test_an_euler_step_is_lowered_from_its_equations(name: str) -> None:
    """A kind without a lowering of its own: the program's prediction is the map, its covariance goes through A."""
    made = case(name)
    step, (x, u) = made.euler, made.euler_point
    n, nz = step.nx, len(step.system.sensor_channels)
    noise = Noise(1e-6 * np.eye(n), np.full(nz, 1e-6), 1e-6 * np.eye(n))
    program = lower(Plant(step, noise, np.ones((1, step.nu, n)), Settings()))  # type: ignore[arg-type]
    assert [program.fields[i].label for i in program.of(Role.STATE)] == list(step.layout.names)
    assert [program.fields[i].unit for i in program.of(Role.STATE)] == list(step.layout.units)
    machine = FloatMachine(program, np.zeros((len(program.fields), 1)))
    machine.load(program.of(Role.STATE), x[:, None])
    machine.load(program.of(Role.COMMAND), u[:, None])
    for i in program.of(Role.COVARIANCE):
        place = program.fields[i].place
        machine.load([i], np.full((1, 1), 1e-4 if place is not None and place[0] == place[1] else 0.0))
    machine.run(program.block_of(BlockRole.PREDICT))
    at = step.linearize(x, u)
    assert machine.fields[program.of(Role.STATE), 0] == pytest.approx(at.x, rel=1e-10, abs=1e-12)
    P = 1e-4 * at.A @ at.A.T + noise.process
    for i in program.of(Role.COVARIANCE):
        place = program.fields[i].place
        assert place is not None
        assert machine.fields[i, 0] == pytest.approx(P[place], rel=1e-9, abs=1e-15)
    assert {program.fields[i].moves for i in program.of(Role.COMMAND)} == {None}  # accelerations set no coordinate


def test_a_step_without_equations_is_refused() -> None:
    with pytest.raises(ModelError, match="Rotor has no equations to generate code from"):
        lower_step(Rotor(), 2)


def test_a_filter_without_a_lowering_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.OWN, "slow", sm.ExtendedKalmanFilter)
    made = plant("a", "b")
    with pytest.raises(ModelError, match=r"no code can be generated for the filter 'slow'.*such as 'ekf'"):
        lower(replace(made, settings=Settings(filter="slow")))


def test_a_filter_brings_its_own_lowering(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that another package registered, with a function ``lower``: here one without a gate."""

    class Open(sm.ExtendedKalmanFilter):
        @staticmethod
        def lower(model: Model, noise: Noise, gate: float | None) -> FilterParts:
            return ekf.lower(model, noise, None)

    monkeypatch.setitem(registry.OWN, "open", Open)
    made = plant("a", "b")
    program = lower(replace(made, settings=Settings(filter="open")))
    assert [program.blocks[i].guard for i in program.blocks_of(BlockRole.UPDATE)] == [None, None]
    assert program == lower(replace(made, settings=Settings(gate=None)))
