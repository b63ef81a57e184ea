"""The controller of the suspended mass: float64 ≈ integer model = C on this machine."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap_codegen import BlockRole, Controller, FloatMachine, Form, IntegerMachine, Options, Role, decode, encode
from stepmap_codegen.model.float_machine import float_rule

# A SingleRunMachine is equal to an IntegerMachine: tests/property/test_programs.py
from stepmap_codegen.model.integer_single import SingleRunMachine
from stepmap_codegen.precision.ensemble import Ensemble, first_fields, simulate
from tests.sil.controllers import compare, library, outside, random_fields, suspended_mass

SUMS = (ca.OP_ADD, ca.OP_SUB)


def test_the_program_is_the_host_s_filter_and_law() -> None:
    """One tick against step, EKF and gains of the host; two Newton iterations leave 1e-11 at these speeds."""
    made, trajectory = suspended_mass()
    plant, program = made.plant, made.program
    x = trajectory.x[40] + 1e-3
    ekf = sm.ExtendedKalmanFilter(
        plant.step, plant.noise.process, np.diag(plant.noise.measurement), constraint_projection=False
    )
    z = x[:4] + np.array([3e-3, -2e-3, 1e-3, 4e-3])
    belief, _ = ekf.update(ekf.start(x, plant.noise.start), z)
    machine = FloatMachine(program, first_fields(program, plant, x[None]))
    machine.load(program.of(Role.MEASUREMENT), z[:, None])
    for number, block in enumerate(program.blocks):
        if block.role is BlockRole.UPDATE:
            assert machine.run(number).all()
    np.testing.assert_allclose(machine.fields[program.of(Role.STATE), 0], belief.x, rtol=0, atol=1e-15)
    u = np.array([0.1, 1.02])
    machine.fields[program.of(Role.COMMAND), 0] = u
    machine.run(program.block_of(BlockRole.PREDICT))
    after = ekf.predict(belief, u)
    np.testing.assert_allclose(machine.fields[program.of(Role.STATE), 0], after.x, rtol=0, atol=1e-9)
    for i in program.of(Role.COVARIANCE):
        place = program.fields[i].place
        assert machine.fields[i, 0] == pytest.approx(after.P[place], rel=1e-8, abs=1e-14)


def with_word(word: int) -> Controller:
    return suspended_mass()[0] if word == 32 else suspended_mass(Options(word=word, study=True))[0]


def load(machine: SingleRunMachine, fields: Sequence[int], values: Iterable[int]) -> None:
    for i, value in zip(fields, values, strict=True):
        machine.fields[i] = int(value)


@functools.cache
def deviation(word: int, ticks: int) -> float:
    """Largest distance of estimates [m] between integers of that word and float64, fed the same measurements.

    On the way: variances stay positive and nothing saturates inside the ranges.
    """
    made, trajectory = with_word(word), suspended_mass()[1]
    program, formats = made.program, made.formats
    assert formats is not None
    run = simulate(program, made.plant, trajectory, Ensemble(runs=2, seed=7, outlier_rate=0.0, gap_rate=0.0))
    exact = FloatMachine(program, run.start)
    integers = [SingleRunMachine(program, formats, v) for v in encode(run.start, formats.fields, word).T]
    fresh, estimate = outside(made), program.of(Role.STATE)[:4]
    variances = [i for i in program.of(Role.COVARIANCE) if len(set(program.fields[i].place or ())) == 1]
    worst = 0.0
    for z, row in zip(run.measurements[:ticks], run.schedule, strict=False):
        values = np.concatenate([z, np.tile(row[:, None], (1, 2))])
        exact.fields[fresh] = values
        given = encode(values, [formats.fields[i] for i in fresh], word)
        for integer, column in zip(integers, given.T, strict=True):
            load(integer, fresh, column)
        for block in range(len(program.blocks)):
            exact.run(block)
            for integer in integers:
                integer.run(block)
        fields = np.array([integer.fields for integer in integers]).T
        assert (fields[variances] > 0).all()
        decoded = decode(fields, formats.fields)
        worst = max(worst, float(np.abs(decoded[estimate] - exact.fields[estimate]).max()))
    assert not any(integer.saturations for integer in integers)
    return worst


def test_integers_follow_float64_over_ten_seconds() -> None:
    assert deviation(32, 300) < 1e-7


def test_shorter_words_lose_accuracy_gracefully() -> None:
    """8 bits less cost a factor of about 256, less where 32-bit words gave some away for cheap products."""
    errors = [deviation(word, 60) for word in (16, 24, 32)]
    assert errors[0] < 5e-3
    assert errors[1] < errors[0] / 50
    assert errors[2] < errors[1] / 20


def free_run() -> tuple[float, float]:
    """Largest distance [m] of the map from float64 over ten seconds without measurements, and from the string [m²]."""
    made, trajectory = suspended_mass()
    program, formats = made.program, made.formats
    assert formats is not None
    start = first_fields(program, made.plant, trajectory.x[:1])
    exact = FloatMachine(program, start)
    integer = SingleRunMachine(program, formats, encode(start, formats.fields, 32)[:, 0])
    state, command, covariance = (program.of(role) for role in (Role.STATE, Role.COMMAND, Role.COVARIANCE))
    predict, kept = program.block_of(BlockRole.PREDICT), [integer.fields[i] for i in covariance]
    distance = gap = 0.0
    for u in trajectory.u:
        load(integer, command, encode(u[:, None], [formats.fields[i] for i in command], 32)[:, 0])
        exact.fields[command] = decode(np.array(integer.fields)[:, None], formats.fields)[command]
        load(integer, covariance, kept)
        exact.fields[covariance] = start[covariance]
        integer.run(predict)
        exact.run(predict)
        x = decode(np.array(integer.fields)[:, None], formats.fields)[state, 0]
        distance = max(distance, float(np.abs(x - exact.fields[state, 0])[:4].max()))
        gap = max(gap, abs(float((x[0] - x[2]) ** 2 + (x[1] - 1.0) ** 2 - x[3] ** 2)))
    assert integer.saturations == 0
    return distance, gap


def test_the_map_runs_free_for_ten_seconds() -> None:
    """No measurement pulls it back: 1e-7 m, and 2e-8 m² off the string's length."""
    distance, gap = free_run()
    assert distance < 1e-7
    assert gap < 2e-8


def plant_deviation() -> float:
    """Largest distance [m] in ten seconds of two plants with the same noise, under integers and under float64."""
    made, trajectory = suspended_mass()
    program, formats, step = made.program, made.formats, made.plant.step
    assert formats is not None
    rng = np.random.default_rng(5)
    start = first_fields(program, made.plant, trajectory.x[:1])
    exact = FloatMachine(program, start)
    integer = SingleRunMachine(program, formats, encode(start, formats.fields, 32)[:, 0])
    fresh, command = outside(made), program.of(Role.COMMAND)
    one = other = trajectory.x[0]
    worst = 0.0
    for row in made.schedule.values()[:-1]:
        noise, push = rng.normal(0.0, 0.01, 4), rng.normal(0.0, 5e-4, step.nx) * (np.arange(step.nx) // 2 == 2)
        exact.fields[fresh, 0] = np.concatenate([one[:4] + noise, row])
        values = np.concatenate([other[:4] + noise, row])[:, None]
        load(integer, fresh, encode(values, [formats.fields[i] for i in fresh], 32)[:, 0])
        for block in range(len(program.blocks)):
            exact.run(block)
            integer.run(block)
        one = step.step(one + push, exact.fields[command, 0]).x
        other = step.step(other + push, decode(np.array(integer.fields)[:, None], formats.fields)[command, 0]).x
        worst = max(worst, float(np.abs(one - other)[:4].max()))
    assert integer.saturations == 0
    return worst


def test_the_plant_under_integer_control_goes_where_it_goes_under_float64() -> None:
    assert plant_deviation() < 1e-6


def test_three_times_the_range_saturates_and_never_wraps() -> None:
    """Every line is what its arguments make it, or its format's limit on the same side; commands stay in theirs."""
    made, _ = suspended_mass()
    program, formats = made.program, made.formats
    assert formats is not None
    fields = made.recording.snapshots[:, 96:128].copy()
    beyond = [*program.of(Role.STATE), *program.of(Role.MEASUREMENT)]
    fields[beyond] = 3.0 * made.ranges.sizes[beyond, None] * np.sign(fields[beyond])
    integer = IntegerMachine(program, formats, encode(fields, formats.fields, 32))
    for number, block in enumerate(program.blocks):
        values, _ = integer.values(number)
        bits = formats.blocks[number].operations
        decoded = decode(values, bits)
        for i, line in enumerate(block.operations):
            if line.code in (ca.OP_CONST, ca.OP_INPUT):
                continue
            with np.errstate(divide="ignore"):
                ideal = float_rule(line.code)(*(decoded[a] for a in line.arguments))
            top = 2.0 ** (formats.blocks[number].bits.get(i, 32) - 1 - bits[i])
            coarse = max([2.0 ** -bits[i], *(2.0 ** -bits[a] for a in line.arguments if line.code in SUMS)])
            slack = 2 * coarse + 2.0**-28 * np.abs(np.clip(ideal, -top, top))
            if line.code in (ca.OP_MUL, ca.OP_SQ):  # bits below the upper word stay where a product saturates
                right = bits[line.arguments[0]] + bits[line.arguments[-1]] - bits[i]
                slack = slack + np.where(np.abs(ideal) > top - slack, 2.0 ** (32 - right - bits[i]), 0.0)
            assert (np.abs(decoded[i] - np.clip(ideal, -top, top)) <= slack).all(), (block.name, i)
        integer.run(number)
    assert (integer.saturations > 0).all()
    commands = decode(integer.fields, formats.fields)[program.of(Role.COMMAND)]
    for field, command in zip((program.fields[i] for i in program.of(Role.COMMAND)), commands, strict=True):
        assert field.low is not None
        assert field.high is not None
        assert (command >= field.low - 1e-8).all()
        assert (command <= field.high + 1e-8).all()


@pytest.mark.parametrize("seed", [3, 5, 7, 11])
def test_runs_that_the_design_never_saw_do_not_saturate(seed: int) -> None:
    """Other draws of start errors, noise, jumps and gaps: every tick from float64's fields, all of them in integers."""
    made, trajectory = suspended_mass()
    program, formats = made.program, made.formats
    assert formats is not None
    for ensemble in (Ensemble(seed=seed), Ensemble(runs=256, seed=seed, start=1.3, ticks=10)):
        run = simulate(program, made.plant, trajectory, ensemble)
        integer = IntegerMachine(program, formats, encode(run.snapshots, formats.fields, 32))
        for block in range(len(program.blocks)):
            integer.run(block)
        assert not integer.saturations.any()


@pytest.mark.parametrize("form", [Form.STRAIGHT, Form.ROWS])
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 8.0, 1e3])
def test_c_equals_the_integer_model_bit_for_bit(
    scale: float, form: Form, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Random fields inside the ranges and far beyond: values, gates and saturation counts, with shifts trapped."""
    made, _ = suspended_mass(Options(form=form))
    compare(made, built(form, tmp_path_factory.getbasetemp()), random_fields(made, scale, 400, 3))


@functools.cache
def built(form: Form, base: Path) -> ctypes.CDLL:
    folder = base / form.value
    folder.mkdir()
    return library(suspended_mass(Options(form=form))[0], folder)


@pytest.mark.parametrize("word", [16, 24])
def test_c_of_shorter_words_equals_the_model(word: int, tmp_path: Path) -> None:
    made = with_word(word)
    loaded = library(made, tmp_path)
    for scale in (0.3, 1.0, 8.0):
        compare(made, loaded, random_fields(made, scale, 200, word))
