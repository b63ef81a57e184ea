"""The controller of the suspended mass: float64 ≈ integer model = C on this machine."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import stepmap as sm
from stepmap_codegen import (
    FloatMachine,
    Formats,
    IntegerMachine,
    Noise,
    Plant,
    Program,
    Role,
    Settings,
    assign,
    decode,
    emit_header,
    emit_source,
    encode,
    lower,
)
from stepmap_codegen.emit import GROUPS
from stepmap_codegen.ranges import Recording, Tube, first_fields, simulate
from tests import problems

CORE = Path(__file__).parents[2] / "firmware" / "core"
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-shared", "-fPIC"]


class Made(NamedTuple):
    plant: Plant
    program: Program
    solution: sm.Solution
    tube: Recording


@functools.cache
def made() -> Made:
    problem = problems.figure_eight(300)
    solution = sm.optimize(problem).require()
    step = problem.step
    assert isinstance(step, sm.VariationalStep)
    process = np.diag([1e-3] * 4 + [2e-3] * 2 + [2e-2] * 2) ** 2
    plant = Plant(step, Noise(process, np.full(4, 1e-4), process), solution.gains, Settings())
    program = lower(plant)
    return Made(plant, program, solution, simulate(program, plant, solution.trajectory, Tube()))


def formats(word: int = 32) -> Formats:
    machine = made().tube.machine
    return assign(made().program, machine.seen_fields, machine.seen, word)


def test_the_program_is_the_host_s_filter_and_law() -> None:
    """One tick against step, EKF and gains of the host; two Newton iterations leave 1e-11 at these speeds."""
    plant, program, solution, _ = made()
    x = solution.trajectory.x[40] + 1e-3
    ekf = sm.ExtendedKalmanFilter(plant.step, plant.noise.process, np.diag(plant.noise.measurement), put_back=False)
    z = x[:4] + np.array([3e-3, -2e-3, 1e-3, 4e-3])
    belief, _ = ekf.update(ekf.start(x, plant.noise.start), z)
    machine = FloatMachine(program, first_fields(program, plant, x[None]))
    machine.load(program.of(Role.MEASUREMENT), z[:, None])
    for number, block in enumerate(program.blocks):
        if block.name.startswith("update"):
            assert machine.run(number).all()
    np.testing.assert_allclose(machine.fields[program.of(Role.STATE), 0], belief.x, rtol=0, atol=1e-15)
    u = np.array([0.1, 1.02])
    machine.fields[program.of(Role.COMMAND), 0] = u
    machine.run(len(program.blocks) - 1)
    after = ekf.predict(belief, u)
    np.testing.assert_allclose(machine.fields[program.of(Role.STATE), 0], after.x, rtol=0, atol=1e-9)
    for i in program.of(Role.COVARIANCE):
        row, column = (int(part) for part in program.fields[i].name.split("_")[1:])
        assert machine.fields[i, 0] == pytest.approx(after.P[row, column], rel=1e-8, abs=1e-14)


def deviation(word: int, ticks: int) -> float:
    """Largest distance of estimates [m] between integers of that word and float64, fed the same measurements.

    On the way: variances stay positive and nothing saturates inside the ranges.
    """
    plant, program, solution, _ = made()
    run = simulate(program, plant, solution.trajectory, Tube(runs=2, seed=7, jump_rate=0.0))
    bits = formats(word)
    exact = FloatMachine(program, run.start)
    integer = IntegerMachine(program, bits, encode(run.start, bits.fields, word))
    outside = [*program.of(Role.MEASUREMENT), *program.of(Role.SCHEDULE)]
    estimate = program.of(Role.STATE)[:4]
    variances = [i for i in program.of(Role.COVARIANCE) if len(set(program.fields[i].name.split("_")[1:])) == 1]
    worst = 0.0
    for z, row in zip(run.measurements[:ticks], run.schedule, strict=False):
        values = np.concatenate([z, np.tile(row[:, None], (1, 2))])
        exact.fields[outside] = values
        integer.fields[outside] = encode(values, [bits.fields[i] for i in outside], word)
        for block in range(len(program.blocks)):
            exact.run(block)
            integer.run(block)
        assert (integer.fields[variances] > 0).all()
        decoded = decode(integer.fields, bits.fields)
        worst = max(worst, float(np.abs(decoded[estimate] - exact.fields[estimate]).max()))
    assert not integer.saturations.any()
    return worst


def test_integers_follow_float64_over_ten_seconds() -> None:
    assert deviation(32, 300) < 1e-7


def test_shorter_words_lose_accuracy_gracefully() -> None:
    """8 bits less cost a factor of about 256, less where 32-bit words gave up to six away for cheap products."""
    errors = [deviation(word, 60) for word in (16, 24, 32)]
    assert errors[0] < 5e-3
    assert errors[1] < errors[0] / 50
    assert errors[2] < errors[1] / 20


@functools.cache
def library(folder: Path) -> ctypes.CDLL:
    bits = formats()
    (folder / "controller.h").write_text(emit_header(made().program, bits))
    (folder / "controller.c").write_text(emit_source(made().program, bits))
    sources = [str(folder / "controller.c"), str(CORE / "sm_fixed.c")]
    built = folder / "controller.so"
    trap = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    subprocess.run(["gcc", *FLAGS, *trap, f"-I{CORE}", "-o", str(built), *sources], check=True)
    return ctypes.CDLL(str(built))


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 8.0, 1e3])
def test_c_equals_the_integer_model_bit_for_bit(scale: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Random fields inside the ranges and far beyond: values, gates and saturation counts, with shifts trapped."""
    program, bits, runs = made().program, formats(), 400
    loaded = library(tmp_path_factory.getbasetemp())
    rng = np.random.default_rng(3)
    sizes = np.minimum(scale * made().tube.machine.seen_fields * 2.0 ** np.array(bits.fields), 2.0**31 - 1)
    fields = np.rint(rng.uniform(-1, 1, (len(sizes), runs)) * sizes[:, None]).astype(np.int64)
    model = IntegerMachine(program, bits, fields)
    held = [model.run(block) for block in range(len(program.blocks))]
    order = [i for role in GROUPS for i in program.of(role)]
    memory = np.zeros(len(order) + 1, dtype=np.int32)
    for run in range(runs):
        memory[:-1], memory[-1] = fields[order, run], 0
        for number, block in enumerate(program.blocks):
            taken = getattr(loaded, f"sm_{block.name}")(memory.ctypes.data_as(ctypes.c_void_p))
            assert block.guard is None or taken == held[number][run]
        np.testing.assert_array_equal(memory[:-1], model.fields[order, run])
        assert memory[-1] == model.saturations[run]
