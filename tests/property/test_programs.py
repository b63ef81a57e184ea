"""Any program, whatever it reads and writes: integer model = C in both forms, bit for bit = float machine, rounded."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap_codegen import FloatMachine, Form, Formats, IntegerMachine, Program, Scalar, decode, encode
from stepmap_codegen.model.float_machine import FLOAT
from stepmap_codegen.model.formats import BlockFormats, power_of_two
from stepmap_codegen.model.integer_single import SingleRunMachine
from stepmap_codegen.model.integers import Flags, Ints
from stepmap_codegen.model.program import SELECT, Block, BlockRole, Guard, Operation, Store
from tests.sil import programs
from tests.sil.programs import FIELDS, Compiled, compiled, random_formats, random_program

VECTORS = 40
DRAW = (Phase.explicit, Phase.generate)  # a seed has nothing to shrink; a failure lists its block
seeds = st.lists(st.integers(0, 2**32 - 1), min_size=24, max_size=24, unique=True)


# Fields that are exchanged --------------------------------------------------------------------------------------------


def load(field: int) -> Operation:
    return Operation(ca.OP_INPUT, field=field)


def exchanging() -> Program:
    """Blocks that write fields they read: two exchanged, doubled on the way, three in a circle behind a guard."""
    exchanged = (Store(0, 1), Store(1, 0))
    swap = Block("update_a", BlockRole.UPDATE, "exchanges two fields", (load(0), load(1)), exchanged, channel=0)
    lines = (
        load(0),
        load(1),
        Operation(ca.OP_TWICE, (0,)),
        Operation(ca.OP_CONST, constant=4.0),
        Operation(ca.OP_MUL, (3, 1)),
    )
    doubled = Block(
        "state_feedback",
        BlockRole.STATE_FEEDBACK,
        "exchanges multiples",
        lines,
        (Store(0, 4), Store(1, 2), Store(2, 0)),
    )
    circle = (load(0), load(1), load(2))
    stores = (Store(0, 1), Store(1, 2), Store(2, 0))
    turned = Block("predict", BlockRole.PREDICT, "moves three fields on", circle, stores, Guard(2, 0, 1))
    return Program("exchanging", 0.01, FIELDS, (swap, doubled, turned))


EXCHANGED = {"update_a": (3.0, 1.0, 2.0), "state_feedback": (12.0, 2.0, 1.0), "predict": (3.0, 2.0, 1.0)}  # of 1, 3, 2


def small_formats(program: Program) -> Formats:
    """The same format for all fields; of lines, what follows from it."""
    blocks = []
    for block in program.blocks:
        bits: list[int] = []
        for line in block.operations:
            factor = {ca.OP_TWICE: 1, ca.OP_MUL: 2}.get(line.code, 0)
            bits.append(20 - factor)
        blocks.append(BlockFormats(tuple(bits)))
    return Formats(32, (20,) * len(program.fields), tuple(blocks))


@pytest.mark.parametrize("number", range(3), ids=list(EXCHANGED))
def test_fields_are_exchanged_at_once(number: int) -> None:
    program = exchanging()
    formats, expected = small_formats(program), EXCHANGED[program.blocks[number].name]
    fields = np.zeros((len(FIELDS), 1))
    fields[:3, 0] = 1.0, 3.0, 2.0
    floats = FloatMachine(program, fields)
    floats.run(number)
    integers = IntegerMachine(program, formats, encode(fields, formats.fields, 32))
    integers.run(number)
    assert tuple(floats.fields[:3, 0]) == expected
    assert tuple(decode(integers.fields, formats.fields)[:3, 0]) == expected


@pytest.mark.parametrize("form", ["straight", "rows", "float32", "float64"])
def test_fields_are_exchanged_at_once_in_c(form: str, tmp_path: Path) -> None:
    program = exchanging()
    fixed = form in ("straight", "rows")
    formats = small_formats(program) if fixed else None
    built = compiled(
        program, formats, Scalar.FIXED32 if fixed else Scalar(form), Form(form) if fixed else Form.STRAIGHT, tmp_path
    )
    fields = np.zeros((len(FIELDS), 1))
    fields[:3, 0] = 1.0, 3.0, 2.0
    for block in program.blocks:
        given = fields if formats is None else encode(fields, formats.fields, 32)
        after = built.run(block, given)[0]
        found = after if formats is None else decode(after, formats.fields)
        assert tuple(found[:3, 0]) == EXCHANGED[block.name]


def test_what_was_read_stays_what_it_was() -> None:
    """Values of lines are no windows into the fields, which the block then changes."""
    program = exchanging()
    formats = small_formats(program)
    fields = encode(np.ones((len(FIELDS), 1)), formats.fields, 32)
    fields[1] *= 3
    machine = IntegerMachine(program, formats, fields)
    values, _ = machine.values(0)
    machine.run(0)
    assert [int(value[0]) for value in values] == [1 << 20, 3 << 20]


# Chains ---------------------------------------------------------------------------------------------------------------


def alternatives(guarded: bool) -> Program:
    """x ≤ 1: doubled; else x ≤ 3: becomes −½, where the first guard would hold; else becomes 9."""

    def block(name: str, limit: float, becomes: float | None) -> Block:
        lines = [load(0), Operation(ca.OP_CONST, constant=limit)]
        lines.append(Operation(ca.OP_TWICE, (0,)) if becomes is None else Operation(ca.OP_CONST, constant=becomes))
        if name == "last" and not guarded:
            return Block(name, BlockRole.PREDICT, "else", (lines[2],), (Store(0, 0),), chain="predict")
        guard = Guard(1, 0, 1)
        return Block(name, BlockRole.PREDICT, "one of three", tuple(lines), (Store(0, 2),), guard, chain="predict")

    small = Operation(ca.OP_CONST, constant=0.5)
    update = Block("update_a", BlockRole.UPDATE, "sets a field", (small,), (Store(1, 0),), channel=0)
    feedback = Block("state_feedback", BlockRole.STATE_FEEDBACK, "sets a field", (small,), (Store(2, 0),))
    chain = (block("first", 1.0, None), block("second", 3.0, -0.5), block("last", 4.0, 9.0))
    return Program("alternatives", 0.01, FIELDS, (update, feedback, *chain))


CASES = {0.75: (1.5, 0), 2.0: (-0.5, 1), 3.5: (9.0, 2), 5.0: (9.0, 2)}  # x before: x after, and which block stores


@pytest.mark.parametrize("guarded", [False, True], ids=["else", "guarded"])
def test_of_a_chain_one_block_stores(guarded: bool, tmp_path: Path) -> None:
    """In both machines on arrays, in that of a single run and in C of every kind; a second time as the first."""
    program = alternatives(guarded)
    formats = Formats(32, (20,) * len(FIELDS), tuple(_small(block) for block in program.blocks))
    fields = np.zeros((len(FIELDS), len(CASES)))
    fields[0] = list(CASES)
    expected = [x if guarded and x > 4 else after for x, (after, _) in CASES.items()]
    chosen = [-1 if guarded and x > 4 else number for x, (_, number) in CASES.items()]
    raw = encode(fields, formats.fields, 32)
    alone = [SingleRunMachine(program, formats, column) for column in raw.T]
    floats, integers = FloatMachine(program, fields), IntegerMachine(program, formats, raw)
    for machine, before in ((floats, fields), (integers, raw)):
        for _ in range(2):
            machine.fields[0] = before[0]
            held = np.array([machine.run(number) for number in program.chains["predict"]])
        assert [list(np.flatnonzero(column)) for column in held.T] == [[k] if k >= 0 else [] for k in chosen]
    np.testing.assert_array_equal(floats.fields[0], expected)
    np.testing.assert_array_equal(decode(integers.fields, formats.fields)[0], expected)
    for machine, after in zip(alone, expected, strict=True):
        for number in program.chains["predict"]:
            machine.run(number)
        assert machine.fields[0] == after * 2.0**20
    for form in ("straight", "rows", "float32", "float64"):
        fixed = form in ("straight", "rows")
        scalar, how = (Scalar.FIXED32, Form(form)) if fixed else (Scalar(form), Form.STRAIGHT)
        c = compiled(program, formats if fixed else None, scalar, how, tmp_path / form)
        after, taken, _ = c.run(program.blocks[-1], raw if fixed else fields, chain=True)
        np.testing.assert_array_equal(decode(after, formats.fields)[0] if fixed else after[0], expected)
        np.testing.assert_array_equal(taken, [k >= 0 for k in chosen])


def _small(block: Block) -> BlockFormats:
    return BlockFormats(tuple(19 if line.code == ca.OP_TWICE else 20 for line in block.operations))


def test_ranges_of_a_chain_are_of_the_blocks_that_run() -> None:
    """Where an earlier block was taken, nothing of a later one counts, whatever its lines would be."""
    fields = np.zeros((len(FIELDS), 2))
    fields[0] = 0.75, 2.0
    machine = FloatMachine(alternatives(guarded=False), fields)
    for number in range(len(machine.program.blocks)):
        machine.run(number)
    seen = machine.magnitudes().seen
    np.testing.assert_array_equal(seen[2], [2.0, 1.0, 1.5])
    np.testing.assert_array_equal(seen[3], [2.0, 3.0, 0.5])
    np.testing.assert_array_equal(seen[4], [0.0])


BROKEN = [
    (lambda b: (b[2], b[0], b[3], b[1], b[4]), "must follow each other"),
    (lambda b: (*b[:2], replace(b[2], guard=None), *b[3:]), "'first' has no guard"),
    (lambda b: (*b, replace(b[0], name="predict")), "a block has the same name"),
]


@pytest.mark.parametrize(("change", "why"), BROKEN)
def test_a_chain_that_cannot_be_is_refused(change: Callable[..., tuple[Block, ...]], why: str) -> None:
    made = alternatives(guarded=False)
    with pytest.raises(ModelError, match=f"chain 'predict': .*{why}"):
        replace(made, blocks=change(made.blocks))


# Random programs ------------------------------------------------------------------------------------------------------


def vectors(formats: Formats, samples: Array, seed: int) -> Ints:
    return programs.vectors(formats, samples, seed, VECTORS)


@settings(max_examples=3, phases=DRAW)
@given(seeds=seeds, word=st.sampled_from([32, 32, 24, 16]))
def test_integers_are_the_same_in_the_model_and_in_c(seeds: Sequence[int], word: int) -> None:
    """After each of 24 blocks and of their chains: fields, guards, saturations; as straight-line code and tables."""
    program, samples = random_program(seeds)
    formats = random_formats(program, samples, word, seeds[0])
    forms = [Form.STRAIGHT, Form.ROWS] if word == 32 else [Form.STRAIGHT]
    with tempfile.TemporaryDirectory(prefix="stepmap-programs-") as name:
        built = [compiled(program, formats, Scalar.FIXED32, form, Path(name) / form.value) for form in forms]
        model = IntegerMachine(_unchained(program), formats, vectors(formats, samples, seeds[1]))
        for number, block in enumerate(program.blocks):
            before = model.fields.copy()
            lost = model.saturations.copy()
            held = model.run(number)
            for c in built:
                _same(program, block, c.run(block, before), (model.fields, held, model.saturations - lost))
        for numbers in program.chains.values():
            last, before = program.blocks[numbers[-1]], vectors(formats, samples, seeds[numbers[0]])
            chained = IntegerMachine(program, formats, before)
            taken = np.any([chained.run(i) for i in numbers], axis=0)
            for c in built:
                _same(program, last, c.run(last, before, chain=True), (chained.fields, taken, chained.saturations))
        _same_measured(program, formats, built, vectors(formats, samples, seeds[2]))


@settings(max_examples=10, phases=DRAW)
@given(seeds=seeds, word=st.sampled_from([32, 24, 16]))
def test_one_run_is_the_same_on_plain_integers(seeds: Sequence[int], word: int) -> None:
    """What is written out for a single run, against the model on arrays: lines, fields, guards and saturations."""
    program, samples = random_program(seeds)
    formats = random_formats(program, samples, word, seeds[0])
    before = vectors(formats, samples, seeds[1])
    many = IntegerMachine(program, formats, before)
    alone = [SingleRunMachine(program, formats, column) for column in before.T]
    for number, block in enumerate(program.blocks):
        lines = [np.broadcast_to(values, (VECTORS,)) for values in many.values(number)[0]]
        assert [machine.values(number) for machine in alone] == np.array(lines).T.tolist(), _listing(program, block)
        held = many.run(number)
        assert [machine.run(number) for machine in alone] == held.tolist(), _listing(program, block)
        assert [machine.fields for machine in alone] == many.fields.T.tolist(), _listing(program, block)
        assert [machine.saturations for machine in alone] == many.saturations.tolist(), _listing(program, block)


def _unchained(program: Program) -> Program:
    """The same blocks, each for itself."""
    return replace(program, blocks=tuple(replace(block, chain="") for block in program.blocks))


def _same(program: Program, block: Block, result: Sequence[Array], expected: tuple[Ints, Flags, Ints]) -> None:
    for what, found, wanted in zip(("fields", "guard", "saturations"), result, expected, strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg=f"{what} after {_listing(program, block)}")


def _same_measured(program: Program, formats: Formats, built: Sequence[Compiled], before: Ints) -> None:
    """sm_update: a measurement that is not there leaves everything as it was, like one outside the gate."""
    number = program.block_of(BlockRole.UPDATE)
    for valid in (0, 1):
        model = IntegerMachine(program, formats, before)
        held = model.run(number, np.full(before.shape[1], bool(valid)))
        for c in built:
            fields, taken, lost = c.run(program.blocks[number], before, valid)
            np.testing.assert_array_equal(fields, model.fields)
            np.testing.assert_array_equal(taken, held)
            np.testing.assert_array_equal(lost, model.saturations)


@settings(max_examples=20, phases=DRAW)
@given(seeds=seeds, word=st.sampled_from([32, 24, 16]))
def test_integers_are_the_floats_within_rounding(seeds: Sequence[int], word: int) -> None:
    """Where nothing saturates, no field is further from float64 than the rounding of every line allows."""
    program, samples = random_program(seeds)
    program = _unchained(program)  # a comparison that rounding turns would put machines into different blocks
    formats = random_formats(program, samples, word, seeds[0])
    model = IntegerMachine(program, formats, vectors(formats, samples, seeds[1]))
    compared = 0
    for number, block in enumerate(program.blocks):
        exact = FloatMachine(program, decode(model.fields, formats.fields))
        lost = model.saturations.copy()
        bits = np.array(formats.blocks[number].operations)[:, None]
        with np.errstate(all="ignore"):
            values = exact.values(number)
            wide = 1.0 + np.array([i in formats.blocks[number].cut for i in range(len(bits))])[:, None]
            errors = rounding(block, values, wide * 2.0**-bits)
            held, expected = model.run(number), exact.run(number)
            found = decode(model.fields, formats.fields)
        fine = (model.saturations == lost) & np.isfinite(values).all(axis=0) & np.isfinite(errors).all(axis=0)
        if block.guard:
            common = 2.0 ** -bits[[block.guard.small, block.guard.large]].min()
            fine &= _sure(values, errors, block.guard, common)
        np.testing.assert_array_equal(held[fine], expected[fine], err_msg=_listing(program, block))
        tolerance = np.zeros(found.shape)  # of fields that are not stored
        for store in block.stores:
            tolerance[store.field] = errors[store.operation] + 2.0 ** -formats.fields[store.field]
        with np.errstate(invalid="ignore"):
            gap = np.where(fine, np.abs(found - exact.fields), 0.0)
        assert (gap <= np.where(fine, tolerance, 0.0)).all(), _listing(program, block)
        compared += int((fine & held).sum())
    assert compared > VECTORS  # not all of it was excluded


@settings(max_examples=2, phases=DRAW)
@given(seeds=seeds, scalar=st.sampled_from([Scalar.FLOAT32, Scalar.FLOAT64]))
def test_floating_point_in_c_is_the_float_machine(seeds: Sequence[int], scalar: Scalar) -> None:
    program, samples = random_program(seeds)
    program = _unchained(program)
    unit = 2.0**-22 if scalar is Scalar.FLOAT32 else 2.0**-50
    fields = samples.astype(np.float32).astype(float)  # the same numbers in both
    with tempfile.TemporaryDirectory(prefix="stepmap-programs-") as name:
        c = compiled(program, None, scalar, Form.STRAIGHT, Path(name))
        for number, block in enumerate(program.blocks):
            machine = FloatMachine(program, fields)
            values = machine.values(number)
            errors = rounding(block, values, unit * np.abs(values))
            held = machine.run(number)
            found, taken, _ = c.run(block, fields)
            fine = np.isfinite(errors).all(axis=0)
            if block.guard:
                fine &= _sure(values, errors, block.guard, 0.0)
            np.testing.assert_array_equal(taken[fine], held[fine], err_msg=_listing(program, block))
            tolerance = np.zeros(found.shape)
            for store in block.stores:
                tolerance[store.field] = errors[store.operation]
            gap = np.where(fine, np.abs(found - machine.fields), 0.0)
            assert (gap <= tolerance).all(), _listing(program, block)


def test_random_programs_have_everything() -> None:
    """Every operation, guards that hold and that do not, exchanges, saturations, and lines that are aliases."""
    found: set[object] = set()
    for k in range(8):
        drawn = [int(s) for s in np.random.default_rng(k).integers(2**32, size=24)]
        program, samples = random_program(drawn)
        formats = random_formats(program, samples, 32, k)
        model = IntegerMachine(program, formats, vectors(formats, samples, k))
        for number, block in enumerate(program.blocks):
            found |= {line.code for line in block.operations}
            found |= {"chain"} if block.chain else set()
            found |= {"guard holds" if held else "guard does not hold" for held in model.run(number) if block.guard}
            plain = {i: line.field for i, line in enumerate(block.operations) if line.code == ca.OP_INPUT}
            moved = {(plain[store.operation], store.field) for store in block.stores if store.operation in plain}
            found |= {"exchange" for a, b in moved if a != b and (b, a) in moved}
            products = [line for line in block.operations if line.code == ca.OP_MUL]
            found |= {
                "alias" for p in products if any(power_of_two(block.operations[a]) is not None for a in p.arguments)
            }
        found |= {"saturation" for lost in model.saturations if lost}
    wanted = {*FLOAT, ca.OP_INPUT, ca.OP_CONST}
    assert found >= {*wanted, "guard holds", "guard does not hold", "exchange", "alias", "saturation", "chain"}


# How far rounding may go ----------------------------------------------------------------------------------------------


def rounding(block: Block, values: Array, unit: Array) -> Array:
    """A bound on the error of every line (lines, runs) around exact ``values``, each rounded to its ``unit``.

    What is rounded: both operands of a sum, half a unit each; everything else once. Slopes are those of calculus;
    infinite where a sign or a reciprocal is not certain. 2^−48 of a value is for float64 itself.
    """
    errors = np.zeros(values.shape)
    for i, line in enumerate(block.operations):
        v = values[i]
        if line.code == ca.OP_INPUT:
            continue
        if line.code == ca.OP_CONST:
            errors[i] = unit[i]
            continue
        a = [values[k] for k in line.arguments]
        e = [errors[k] for k in line.arguments]
        if line.code == SELECT:  # both sides are compared at the coarser of their units
            common = np.maximum(*(unit[k] for k in line.arguments[:2]))
            with np.errstate(invalid="ignore"):  # two infinities
                sure = np.abs(a[0] - a[1]) > e[0] + e[1] + common
            errors[i] = np.where(sure, np.maximum(e[2], e[3]), np.inf) + unit[i]
            continue
        errors[i] = _propagated(line.code, v, a, e) + unit[i] + 2.0**-48 * np.abs(v)
    return errors


def _propagated(code: int, v: Array, a: Sequence[Array], e: Sequence[Array]) -> Array:
    if code in (ca.OP_ADD, ca.OP_SUB):
        return e[0] + e[1]
    if code in (ca.OP_FMIN, ca.OP_FMAX):
        return np.maximum(e[0], e[1])
    if code == ca.OP_MUL:
        return np.abs(a[0]) * e[1] + np.abs(a[1]) * e[0] + e[0] * e[1]
    if code == ca.OP_SQ:
        return 2 * np.abs(a[0]) * e[0] + e[0] ** 2
    if code == ca.OP_TWICE:
        return 2 * e[0]
    if code == ca.OP_INV:
        left = np.abs(a[0]) - e[0]
        return np.where(left > 0, e[0] / (np.abs(a[0]) * np.maximum(left, 1e-300)) + 2.0**-30 * np.abs(v), np.inf)
    if code == ca.OP_SQRT:
        return np.sqrt(a[0] + e[0]) - np.sqrt(np.maximum(a[0] - e[0], 0)) + 2.0**-30 * v
    if code in (ca.OP_SIN, ca.OP_COS):
        return e[0] + 2.0**-32 * np.abs(a[0]) + 2.0**-28
    if code == ca.OP_SIGN:
        return np.where(np.abs(a[0]) > e[0], 0.0, np.inf)
    assert code in (ca.OP_NEG, ca.OP_FABS)
    return e[0]


def _sure(values: Array, errors: Array, guard: Guard, unit: float) -> Flags:
    """Where rounding cannot turn the comparison."""
    with np.errstate(invalid="ignore"):  # two infinities
        gap = np.abs(values[guard.small] - values[guard.large])
    sure: Flags = gap > errors[guard.small] + errors[guard.large] + unit
    return sure


def _listing(program: Program, block: Block) -> str:
    lines = [f"  {i}: {' '.join(line.describe(program))}" for i, line in enumerate(block.operations)]
    stores = [f"  {program.fields[store.field].name} = {store.operation}" for store in block.stores]
    return "\n".join([f"block {block.name}, {block.guard}", *lines, *stores])
