"""Controllers whose states hold a unit quaternion: the filter in the tangent space, the law on the difference."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.estimate.consistency import consistency, nees
from stepmap.estimate.measurement import measurement_model
from stepmap_codegen import Noise, Options, Plant, Role, Settings, design, encode
from stepmap_codegen.controller import Design
from stepmap_codegen.model.float_machine import FloatMachine
from stepmap_codegen.model.integer_single import SingleRunMachine
from stepmap_codegen.model.program import SELECT, BlockRole
from stepmap_codegen.precision.ensemble import Ensemble
from stepmap_codegen.toolchain import TARGETS, Target
from tests.pages import ROOT
from tests.sil import ticks
from tests.sil.controllers import TRAP, compare, library, random_fields

PROCESS, FIRST = np.repeat([1e-3, 1e-3], 3), np.repeat([0.03, 0.01], 3)
SIGMA = np.repeat([0.01, 0.02, 0.02], 3)
QUATERNION = ["x_hub_w", "x_hub_x", "x_hub_y", "x_hub_z"]
on_chips = pytest.mark.parametrize(
    "target", [pytest.param(TARGETS[name], id=name) for name in ("cortex-m3", "cortex-m4f")]
)


@functools.cache
def satellite() -> tuple[Design, sm.Trajectory]:
    """A satellite that turns by about two radians in 60 ticks."""
    step = jobs.load(ROOT / "examples" / "turning" / "satellite.toml").step
    torque = 0.09 * np.sin(np.linspace(0, 2 * np.pi, 60))[:, None] * [1.0, -0.6, 0.8]
    path = step.rollout(step.from_velocity({}, {"hub": (0.3, 0.5, -0.4)}), torque)
    gains = sm.lqr(step, path, 10 * np.eye(6), 10 * np.eye(3), 10 * np.eye(6))
    noise = Noise(np.diag(PROCESS**2), SIGMA**2, np.diag(FIRST**2))
    made = design(Plant(step, noise, gains, Settings()), path, Options(ensemble=Ensemble(runs=16)))
    return made, path


def test_quaternions_have_a_bit_for_one() -> None:
    """±1 declared and a margin of 2 is Q1.30: in Q0.31 there is no 1."""
    made, _ = satellite()
    assert made.formats is not None
    bits = {s.name: s.fraction for s in made.signals}
    assert [bits[name] for name in QUATERNION] == [30] * 4
    assert (made.plant.step.nx, made.plant.step.ndx) == (7, 6)
    assert made.schedule.rows.shape[1] == 7 + 3 + 3 * 6  # references as stored, gains in the tangent space
    feedback = made.program.blocks[made.program.block_of(BlockRole.STATE_FEEDBACK)]
    assert sum(op.code == SELECT for op in feedback.operations) == 1  # the sign of w


def test_c_equals_the_integer_model(tmp_path: Path) -> None:
    made, _ = satellite()
    loaded = library(made, tmp_path, [*TRAP, "-O0"])
    for seed, scale in enumerate((0.3, 1.0, 30.0)):
        compare(made, loaded, random_fields(made, scale, 60, seed))


@on_chips
def test_c_on_a_chip_equals_the_integer_model(target: Target, tmp_path: Path) -> None:
    made, _ = satellite()
    built = ticks.build_ticks(made, target, tmp_path, ("-Os",))
    ticks.compare(made, built, *ticks.vectors(made, 200, seed=3))


def test_quaternions_stay_unit_in_integers() -> None:
    """300 predictions of a body that turns by more than a turn.

    |q| − 1: four squares and three sums in Q3.28, which margin and headroom ask for, are rounded by 2⁻²⁹ at most and
    halved, 3.5 · 2⁻²⁹; the product with q adds 2⁻²⁹ along q at most: 4.5 · 2⁻²⁹ = 8.4e-9.
    """
    made, path = satellite()
    program, formats = made.program, made.formats
    assert formats is not None
    fields = np.zeros(len(program.fields))
    fields[program.of(Role.STATE)] = path.x[0]
    machine = SingleRunMachine(program, formats, encode(fields, formats.fields, formats.word))
    (predict,) = program.blocks_of(BlockRole.PREDICT)
    step, x, units = made.plant.step, path.x[0], 2.0 ** -np.array(formats.fields, dtype=float)
    for _ in range(300):
        machine.run(predict)
        for i in program.of(Role.COVARIANCE):
            machine.fields[i] = 0  # it would grow without measurements
        x = step.step(x, np.zeros(3)).x
        estimate = (np.array(machine.fields) * units)[program.of(Role.STATE)]
        assert abs(np.linalg.norm(estimate[:4]) - 1) < 8.4e-9
    # Rounding of q is a random walk, 4e-9 √300 ≈ 1e-7 rad. An error of p turns the body for the rest of the time, at
    # 1/J = 3 by 0.15 per tick: Σ 0.15 · 1e-9 √k ≈ 1e-6 rad.
    assert np.abs(step.layout.difference(x, estimate)[:3]).max() < 1e-5


def test_the_law_takes_the_shorter_way() -> None:
    """A reference −q is the same attitude: the command must be the one of q, to rounding."""
    made, path = satellite()
    program = made.program
    feedback, states = program.block_of(BlockRole.STATE_FEEDBACK), program.of(Role.STATE)
    commands = []
    for sign in (1.0, -1.0):
        fields = np.zeros((len(program.fields), 1))
        fields[states, 0] = made.plant.step.layout.retract(path.x[10], [0.02, -0.01, 0.03, 0.001, 0.0, -0.002])
        row = np.array(made.schedule.values()[10])
        row[:4] *= sign
        fields[program.of(Role.SCHEDULE), 0] = row
        machine = FloatMachine(program, fields)
        machine.run(feedback)
        commands.append(machine.fields[program.of(Role.COMMAND), 0])
    np.testing.assert_allclose(commands[0], commands[1], rtol=1e-12)
    off = made.plant.step.layout.difference(path.x[10], fields[states, 0])
    expected = path.u[10] - made.plant.gains[10] @ off
    np.testing.assert_allclose(commands[0], expected, rtol=0, atol=1e-6)  # the schedule is rounded to its formats


def test_filter_of_the_program_is_consistent() -> None:
    """NEES of 200 runs in its 95 % band after 40 ticks, in the tangent space."""
    made, path = satellite()
    program, step, runs = made.program, made.plant.step, 200
    rng, model = np.random.default_rng(8), measurement_model(step)
    x = np.tile(path.x[0], (runs, 1))
    fields = np.zeros((len(program.fields), runs))
    fields[program.of(Role.STATE)] = step.layout.retract(x, FIRST * rng.standard_normal((runs, 6))).T
    for i in program.of(Role.COVARIANCE):
        fields[i] = made.plant.noise.start[program.fields[i].place]
    machine = FloatMachine(program, fields)
    updates = program.blocks_of(BlockRole.UPDATE)
    for k in range(40):
        machine.load(program.of(Role.MEASUREMENT), (model.readings(x) + SIGMA * rng.standard_normal((runs, 9))).T)
        for number in updates:
            machine.run(number)
        estimate, P = machine.fields[program.of(Role.STATE)].T, np.zeros((runs, 6, 6))
        for i in program.of(Role.COVARIANCE):
            r, c = program.fields[i].place or (0, 0)
            P[:, r, c] = P[:, c, r] = machine.fields[i]
        machine.load(program.of(Role.COMMAND), np.tile(path.u[k][:, None], runs))
        machine.run(program.block_of(BlockRole.PREDICT))
        if k < 39:
            moved = step.linearize_many(x, np.tile(path.u[k], (runs, 1)))[0]
            x = step.layout.retract(moved, PROCESS * rng.standard_normal((runs, 6)))
    found = consistency(nees(step.layout.difference(step.layout.normalize(estimate), x), P), 6)
    assert found.ok, str(found)
