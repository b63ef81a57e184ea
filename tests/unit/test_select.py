"""Operations that the catalog does not have, or hardly: roots, magnitudes, signs; and the program in floating point."""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.errors import RangeError
from stepmap_codegen import (
    Controller,
    FloatMachine,
    Form,
    Formats,
    IntegerMachine,
    Noise,
    Options,
    Plant,
    Program,
    Role,
    Scalar,
    Settings,
    decode,
    design,
    encode,
)
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.emit.header import emit_header
from stepmap_codegen.emit.output import Output, SelfTest
from stepmap_codegen.emit.source import emit_source
from stepmap_codegen.lower.controller import make_block
from stepmap_codegen.model.instructions import Kind, Op, select
from stepmap_codegen.model.program import Block, BlockRole, Field
from stepmap_codegen.precision.assign import assign
from stepmap_codegen.precision.ensemble import Ensemble
from stepmap_codegen.precision.ranges import MARGIN, Ranges, interval_bounds
from tests.sil.controllers import compare, holding, library, random_fields, rewritten

# A mass on a spring with a damper beside it -------------------------------------------------------------------------


@functools.cache
def spring() -> Controller:
    """A bob on a spring, pushed sideways: lengths are roots, directions reciprocals of them."""
    b = sm.Builder("bob_on_a_spring")
    x = b.coordinate("x", unit="m", low=-1.0, high=1.0)
    y = b.coordinate("y", unit="m", low=-1.0, high=1.0)
    force = b.input("force", unit="N", low=-5.0, high=5.0)
    hook, bob = b.world.ty(1.0, name="hook"), b.world.tx(x).ty(y, name="bob")
    b.mass(bob, 0.5)
    b.gravity((0, -9.81, 0))
    b.spring(hook, bob, stiffness=40.0, length=0.6)
    b.damper(hook, bob, 0.5)
    b.drive(x, force)
    b.marker(bob, axes="xy")
    step, ticks = sm.discretize(b.build(), 0.02), 40
    rest, u = step.equilibrium(None)
    trajectory = sm.Trajectory(0.02 * np.arange(ticks + 1), np.tile(rest, (ticks + 1, 1)), np.tile(u, (ticks, 1)))
    gains = sm.lqr(step, trajectory, np.eye(4), np.eye(1), np.eye(4))
    process = np.diag(np.full(4, 1e-3)) ** 2
    plant = Plant(step, Noise(process, np.full(2, 1e-4), process), gains, Settings())
    return design(plant, trajectory, Options(ensemble=Ensemble(runs=16, outlier=0.05)))


def instructions(made: Controller) -> Counter[Op]:
    assert made.formats is not None
    pairs = zip(made.program.blocks, made.formats.blocks, strict=True)
    return Counter(i.op for block, bits in pairs for i in select(block, made.formats, bits).instructions)


@pytest.mark.parametrize("form", Form)
def test_c_of_springs_equals_the_model(form: Form, tmp_path: Path) -> None:
    made = spring()
    assert instructions(made)[Op.ROOT] >= 2
    assert instructions(made)[Op.RECIPROCAL] >= 2
    loaded = library(rewritten(made, Scalar.FIXED32, form), tmp_path)
    for seed, scale in enumerate((0.1, 1.0, 30.0)):
        compare(made, loaded, random_fields(made, scale, 200, seed))


def test_springs_round_no_more_than_the_noise() -> None:
    made = spring()
    errors = {s.name: s.error for s in made.signals}
    assert max(errors[f"x_{name}"] for name in made.plant.step.state_names) < 1e-6  # of noise of 1e-3
    assert made.formats is not None
    machine = IntegerMachine(
        made.program, made.formats, encode(made.recording.snapshots, made.formats.fields, made.formats.word)
    )
    for block in range(len(made.program.blocks)):
        machine.run(block)
    assert not machine.saturations.any()


# A program made by hand ---------------------------------------------------------------------------------------------


ROLES = {"update_a": BlockRole.UPDATE, "state_feedback": BlockRole.STATE_FEEDBACK, "predict": BlockRole.PREDICT}


def by_hand() -> Program:
    """Every operation once: what it computes means nothing."""
    roles = (Role.STATE, Role.COVARIANCE, Role.MEASUREMENT, Role.COMMAND, Role.SCHEDULE, Role.INNOVATION, Role.VARIANCE)
    names = ("x_a", "P_0_0", "z_a", "u_a", "xr_a", "e_a", "s_a")
    fields = tuple(Field(name, role, label=name) for name, role in zip(names, roles, strict=True))
    s = {name: ca.SX.sym(name) for name in names}
    at = {name: i for i, name in enumerate(names)}

    def block(name: str, outputs: dict[str, ca.SX], guard: tuple[ca.SX, ca.SX] | None = None) -> Block:
        made = make_block(
            name, ROLES[name], name, [(at[k], v) for k, v in s.items()], [(at[k], v) for k, v in outputs.items()], guard
        )
        return replace(made, channel=0) if made.role is BlockRole.UPDATE else made

    error, scale = s["z_a"] - s["x_a"], s["P_0_0"] * s["P_0_0"] + 0.25
    update = block(
        "update_a",
        {"x_a": s["x_a"] + error * s["P_0_0"] / scale, "e_a": error, "s_a": scale},
        (ca.fabs(error), 4 * ca.sqrt(scale)),
    )
    feedback = block(
        "state_feedback",
        {"u_a": ca.fmax(ca.fmin(s["xr_a"] - 2 * ca.sign(s["x_a"]) * ca.sqrt(ca.fabs(s["x_a"])), 1.0), -1.0)},
    )
    moved = ca.sin(s["x_a"]) * 0.5 + ca.cos(3 * s["u_a"]) / 4 - ca.fabs(s["x_a"]) * 0.3
    predict = block("predict", {"x_a": moved, "P_0_0": s["P_0_0"] ** 2 / (1 + ca.fabs(s["P_0_0"]))})
    return Program("by_hand", 0.01, fields, (update, feedback, predict))


def ranges_of(program: Program, fields: np.ndarray) -> Ranges:
    machine = FloatMachine(program, fields)
    machine.load(range(len(program.fields)), fields)
    for number in range(len(program.blocks)):
        machine.run(number)
    found = machine.magnitudes()
    sizes = MARGIN * np.maximum(np.abs(found.low), np.abs(found.high))
    bounds = [interval_bounds(block, sizes) for block in program.blocks]
    none = (False,) * len(program.fields)
    return Ranges(found.low, found.high, found.least, none, found.seen, bounds, fields)


class HandMade:
    """What ``compare`` and ``library`` need of a controller."""

    def __init__(self, form: Form) -> None:
        self.program = by_hand()
        rng = np.random.default_rng(2)
        self.samples = rng.uniform(-2, 2, (len(self.program.fields), 300))
        self.ranges = ranges_of(self.program, self.samples)
        self.formats: Formats = assign(self.program, self.ranges)
        start = np.concatenate([self.samples[:2, :1], np.zeros((5, 1))])  # estimate and covariance
        machine = IntegerMachine(self.program, self.formats, encode(start, self.formats.fields, 32))
        for block in 3 * [0, 1, 2]:
            machine.run(block)
        after = machine.fields[field_order(self.program), 0].astype("<i4")
        test = SelfTest(np.zeros(1), np.zeros(1), zlib.crc32(after.tobytes()))
        self.output = Output(Scalar.FIXED32, form, "00" * 8, start[:, 0], test, [], np.ones(1))

    def files(self) -> dict[str, bytes]:
        made = (self.program, self.formats, self.output)
        return {"controller.h": emit_header(*made).encode(), "controller.c": emit_source(*made).encode()}


@pytest.mark.parametrize("form", Form)
def test_every_operation_in_c_equals_the_model(form: Form, tmp_path: Path) -> None:
    made = HandMade(form)
    found = instructions(made)  # type: ignore[arg-type]
    for op in (Op.ABS, Op.SIGN, Op.ROOT, Op.RECIPROCAL, Op.SIN, Op.COS, Op.MIN, Op.MAX, Op.GUARD):
        assert found[op] >= 1, op
    loaded = library(made, tmp_path)  # type: ignore[arg-type]
    for seed, scale in enumerate((1e-6, 0.3, 1.0, 30.0)):
        compare(made, loaded, random_fields(made, scale, 300, seed))  # type: ignore[arg-type]


def test_every_operation_is_near_float64() -> None:
    """One tick from the samples; roots near zero are steep: 1e-9 becomes √1e-9."""
    made = HandMade(Form.STRAIGHT)
    words = encode(made.samples, made.formats.fields, 32)
    integer = IntegerMachine(made.program, made.formats, words)
    exact = FloatMachine(made.program, decode(words, made.formats.fields))
    for number in range(len(made.program.blocks)):
        same = integer.run(number) == exact.run(number)
        exact.fields[:, ~same] = decode(integer.fields, made.formats.fields)[:, ~same]
    assert not integer.saturations.any()
    np.testing.assert_allclose(decode(integer.fields, made.formats.fields), exact.fields, rtol=0, atol=5e-5)


def test_an_operation_without_a_form_is_refused() -> None:
    a = ca.SX.sym("a")
    field = Field("x_a", Role.STATE)
    program = Program(
        "p", 0.01, (field,), (make_block("predict", BlockRole.PREDICT, "", [(0, a)], [(0, ca.exp(a))], None),)
    )
    with pytest.raises(RangeError, match="of CasADi has no form in generated controllers"):
        ranges_of(program, np.ones((1, 3)))
    lines = len(program.blocks[0].operations)
    known = Ranges(*np.ones((3, 1)), (False,), [np.ones(lines)], [np.ones(lines)], np.ones((1, 3)))
    with pytest.raises(RangeError, match=r"of CasADi has no form|block 'predict': exp\(x\) has no fixed-point form"):
        assign(program, known)


def test_constants_and_factors_of_two_cost_nothing() -> None:
    """Twice, half and a quarter only move the point."""
    a = ca.SX.sym("a")
    fields = (Field("x_a", Role.STATE), Field("u_a", Role.COMMAND))
    program = Program(
        "p",
        0.01,
        fields,
        (make_block("state_feedback", BlockRole.STATE_FEEDBACK, "", [(0, a)], [(1, 8 * (0.25 * (2 * a)))], None),),
    )
    formats = assign(program, ranges_of(program, np.linspace(-1, 1, 6).reshape(2, 3)))
    chosen = select(program.blocks[0], formats, formats.blocks[0])
    assert chosen.instructions == ()
    assert [store.operand.kind for store in chosen.stores] == [Kind.FIELD]


# Floating point -----------------------------------------------------------------------------------------------------

C_TYPES = {Scalar.FLOAT32: np.float32, Scalar.FLOAT64: np.float64}


def float_ticks(made: Controller, loaded: ctypes.CDLL, scalar: Scalar) -> tuple[np.ndarray, np.ndarray]:
    """Fields after one tick from every snapshot, in the model and in C; gates must decide alike."""
    program, dtype = made.program, C_TYPES[scalar]
    snapshots = made.recording.snapshots
    model = FloatMachine(program, snapshots, dtype)
    held = [model.run(number) for number in range(len(program.blocks))]
    order = field_order(program)
    memory = np.zeros(len(order) + 1, dtype=dtype)
    found = np.empty_like(model.fields)
    for run in range(snapshots.shape[1]):
        memory[:-1] = snapshots[order, run]
        for number, block in enumerate(program.blocks):
            taken = getattr(loaded, f"sm_{block.name}")(memory.ctypes.data_as(ctypes.c_void_p))
            assert block.guard is None or taken == held[number][run]
        found[order, run] = memory[:-1]
    return model.fields, found


@pytest.mark.parametrize("scalar", C_TYPES)
@pytest.mark.parametrize("name", ["spring", "suspended_mass"])
def test_floating_point_without_sines_is_the_model_bit_for_bit(name: str, scalar: Scalar, tmp_path: Path) -> None:
    """Sums, products, quotients and roots are rounded correctly by both, in the same order."""
    made = spring() if name == "spring" else holding(name)[0]
    expected, found = float_ticks(made, library(rewritten(made, scalar), tmp_path), scalar)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("scalar", "tolerance"), [(Scalar.FLOAT32, 2e-6), (Scalar.FLOAT64, 1e-14)])
@pytest.mark.parametrize("name", ["cart_pendulum", "double_pendulum"])
def test_floating_point_with_sines_is_near_the_model(
    name: str, scalar: Scalar, tolerance: float, tmp_path: Path
) -> None:
    """A sine may differ by a unit of the last place, 1.2e-7 or 2.2e-16; relative to each field's range."""
    made, _ = holding(name)
    expected, found = float_ticks(made, library(rewritten(made, scalar), tmp_path), scalar)
    sizes = np.maximum(made.ranges.sizes, 1e-9)[:, None]
    assert np.abs((found - expected) / sizes).max() < tolerance


@pytest.mark.parametrize("scalar", C_TYPES)
def test_floating_point_passes_its_own_test(scalar: Scalar, tmp_path: Path) -> None:
    loaded = library(rewritten(spring(), scalar), tmp_path)
    memory = np.zeros(len(spring().program.fields) + 2, dtype=C_TYPES[scalar])
    assert loaded.sm_self_test(memory.ctypes.data_as(ctypes.c_void_p)) == 0
