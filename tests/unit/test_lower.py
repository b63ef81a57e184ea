"""Names of a mechanism as names in C, and commands within their limits."""

from __future__ import annotations

import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import ModelError
from stepmap_codegen import BlockRole, IntegerMachine, Noise, Plant, Role, Settings, saved
from stepmap_codegen.lower.controller import lower
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
    assert saved.unpack(saved.pack(made), made.plant, None).program == program
    with pytest.raises(ValueError, match="too many values"):
        program.block_of(BlockRole.UPDATE)
