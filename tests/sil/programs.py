"""Random programs of every operation, formats for them, and their C in each form on this machine."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap_codegen import FloatMachine, Form, Formats, Program, Role, Scalar, encode
from stepmap_codegen.emit.c_text import field_order
from stepmap_codegen.emit.header import emit_header
from stepmap_codegen.emit.output import Output, SelfTest
from stepmap_codegen.emit.source import emit_source
from stepmap_codegen.model.float_machine import FLOAT, float_rule
from stepmap_codegen.model.formats import BlockFormats
from stepmap_codegen.model.integers import Ints, limit
from stepmap_codegen.model.program import SELECT, Block, BlockRole, Field, Guard, Operation, Store
from stepmap_codegen.precision.assign import assign
from stepmap_codegen.precision.ranges import MARGIN, Ranges, interval_bounds
from tests.sil.controllers import CORE, STRICT, TRAP

# The least that a controller has. Blocks read and write all of them, whatever their roles.
FIELDS = (
    *(Field(f"x_{k}", Role.STATE) for k in range(4)),
    Field("P_0_0", Role.COVARIANCE, place=(0, 0)),
    Field("z_a", Role.MEASUREMENT),
    Field("u_a", Role.COMMAND, low=-1.0, high=1.0),
    Field("xr_0", Role.SCHEDULE),
    Field("e_a", Role.INNOVATION),
    Field("s_a", Role.VARIANCE),
)
NAMED = {
    "update_a": BlockRole.UPDATE,
    "state_feedback": BlockRole.STATE_FEEDBACK,
    "predict": BlockRole.PREDICT,
}  # that a controller must have
CHAINED = 0.6  # of the blocks that a controller need not have, about as many are in chains
BINARY = (ca.OP_ADD, ca.OP_SUB, ca.OP_MUL, ca.OP_FMIN, ca.OP_FMAX)
LARGEST = 1e6  # of a line in the samples
SAMPLES = 48
NumberTypes = {Scalar.FIXED32: np.int32, Scalar.FLOAT32: np.float32, Scalar.FLOAT64: np.float64}


# Programs -------------------------------------------------------------------------------------------------------------


def random_program(seeds: Sequence[int]) -> tuple[Program, Array]:
    """A program of one block a seed, some of them in chains, and fields at which every line of it is finite."""
    rng = np.random.default_rng(seeds)
    sizes = 10.0 ** rng.uniform(-2, 2, (len(FIELDS), 1))
    samples = sizes * rng.uniform(-1, 1, (len(FIELDS), SAMPLES))
    names = [*NAMED, *(f"block_{k}" for k in range(len(seeds)))]
    chains = _random_chains(rng, len(seeds))
    blocks = []
    for k, seed in enumerate(seeds):
        chain = chains[k]
        open_ended = k + 1 < len(seeds) and chains[k + 1] == chain
        block = _Drawing(np.random.default_rng(seed), samples).block(names[k], guarded=bool(chain) and open_ended)
        blocks.append(replace(block, chain=chain))
    return Program("random", 0.01, FIELDS, tuple(blocks)), samples


def _random_chains(rng: np.random.Generator, count: int) -> list[str]:
    """The chain of each block: none, or one of two or three that follow each other."""
    chains = [""] * count
    k = len(NAMED)
    while k < count:
        length = int(rng.integers(2, 4)) if rng.random() < CHAINED else 1
        if length > 1:
            chains[k : k + length] = [f"chain_{k}"] * len(chains[k : k + length])
        k += length
    return chains


class _Drawing:
    """One block, drawn line by line; each is tried at the samples first."""

    def __init__(self, rng: np.random.Generator, samples: Array) -> None:
        self.rng, self.samples = rng, samples
        self.operations: list[Operation] = []
        self.values: list[Array] = []

    def block(self, name: str, *, guarded: bool) -> Block:
        for field in self.rng.permutation(len(FIELDS))[: self.rng.integers(2, 7)]:
            self._add(Operation(ca.OP_INPUT, field=int(field)))
        for _ in range(self.rng.integers(1, 3)):
            self._add(Operation(ca.OP_CONST, constant=self._constant()))
        for _ in range(self.rng.integers(0, 13)):
            self._operation()
        guard = self._guard() if self.rng.random() < 0.4 or guarded else None
        count = int(self.rng.integers(1, 6))
        targets = self.rng.permutation(len(FIELDS))[:count]
        if self.rng.random() < 0.5:  # fields that are read, so that some are exchanged
            read = [line.field for line in self.operations if line.code == ca.OP_INPUT]
            targets = self.rng.permutation(read)[:count]
        stores = [Store(int(field), int(self.rng.integers(len(self.operations)))) for field in targets]
        role = NAMED.get(name, BlockRole.STATE_FEEDBACK)  # more blocks than a tick has, called by name alone
        channel = 0 if role is BlockRole.UPDATE else None
        lines = tuple(self.operations)
        return _without_dead_lines(Block(name, role, "drawn at random", lines, tuple(stores), guard, channel))

    def _constant(self) -> float:
        kinds = (2.0 ** self.rng.integers(-3, 4), self.rng.uniform(-4, 4), self.rng.normal() * 1e-3, 0.0)
        return float(self.rng.choice(kinds))

    def _operation(self) -> None:
        for _ in range(8):  # where one is not defined at the samples, another
            code = int(self.rng.choice(list(FLOAT)))
            count = 4 if code == SELECT else 2 if code in BINARY else 1
            arguments = tuple(int(a) for a in self.rng.integers(len(self.operations), size=count))
            if count == 2 and self.rng.random() < 0.3:
                constants = [i for i, line in enumerate(self.operations) if line.code == ca.OP_CONST]
                arguments = (int(self.rng.choice(constants)), arguments[1])
            if self._add(Operation(code, arguments)):
                return

    def _add(self, line: Operation) -> bool:
        if line.code == ca.OP_INPUT:
            value = self.samples[line.field]
        elif line.code == ca.OP_CONST:
            value = np.full(self.samples.shape[1], line.constant)
        else:
            with np.errstate(all="ignore"):
                value = float_rule(line.code)(*(self.values[a] for a in line.arguments))
        fine = bool(np.isfinite(value).all() and np.abs(value).max() < LARGEST)
        if fine:
            self.operations.append(line)
            self.values.append(value)
        return fine

    def _guard(self) -> Guard:
        small, large = (int(k) for k in self.rng.integers(len(self.operations), size=2))
        return Guard(int(self.rng.integers(max(small, large), len(self.operations))), small, large)


def _without_dead_lines(block: Block) -> Block:
    """A block as lowering makes it: every line is used."""
    needed = {store.operation for store in block.stores}
    if block.guard:
        needed |= {block.guard.small, block.guard.large}
    for i in reversed(range(len(block.operations))):
        if i in needed:
            needed |= set(block.operations[i].arguments)
    kept = sorted(needed)
    place = {old: new for new, old in enumerate(kept)}
    lines = [block.operations[i] for i in kept]
    lines = [Operation(x.code, tuple(place[a] for a in x.arguments), x.constant, x.field) for x in lines]
    guard = block.guard
    if guard:
        after = max(place[i] for i in kept if i <= guard.after)
        guard = Guard(after, place[guard.small], place[guard.large])
    stores = tuple(Store(store.field, place[store.operation]) for store in block.stores)
    return replace(block, operations=tuple(lines), stores=stores, guard=guard)


def vectors(formats: Formats, samples: Array, seed: int, count: int) -> Ints:
    """Fields near the samples, and anywhere in their words, the ends included."""
    rng = np.random.default_rng(seed)
    chosen = samples[:, rng.integers(samples.shape[1], size=count)] * rng.uniform(0.5, 1.0, (len(samples), count))
    near = encode(chosen, formats.fields, formats.word)
    top = limit(formats.word)
    anywhere = rng.integers(-top - 1, top + 1, size=near.shape)
    ends = rng.choice([-top - 1, -top, -1, 0, 1, top], size=near.shape)
    kind = np.arange(count) % 4
    return np.where(kind < 2, near, np.where(kind == 2, anywhere, np.where(rng.random(near.shape) < 0.5, ends, near)))


def random_formats(program: Program, samples: Array, word: int, seed: int) -> Formats:
    """Formats by the rules of controllers; some lines hold less than they become, some far more."""
    rng = np.random.default_rng(seed)
    low, high, least = samples.min(axis=1), samples.max(axis=1), np.abs(samples).min(axis=1)
    sizes = MARGIN * np.maximum(np.abs(low), np.abs(high))
    declared = (False,) * len(program.fields)
    made = []
    for number, block in enumerate(program.blocks):
        size = np.abs(FloatMachine(program, samples).values(number)).max(axis=1)
        seen = size * 2.0 ** rng.choice([-4, 0, 0, 0, 8], len(size))
        ranges = Ranges(low, high, least, declared, [seen], [interval_bounds(block, sizes)], samples)
        alone = replace(program, blocks=(block,))  # fields that another block left need not suit this one
        with np.errstate(all="ignore"):
            made.append(assign(alone, ranges, word, study=True))
    drawn = [_randomly_cut(rng, formats.blocks[0], block) for formats, block in zip(made, program.blocks, strict=True)]
    return Formats(word, made[0].fields, tuple(drawn))


def _randomly_cut(rng: np.random.Generator, bits: BlockFormats, block: Block) -> BlockFormats:
    """Any operation and store cut or rounded, whatever that costs."""
    cut, stores = (
        frozenset(int(i) for i in np.flatnonzero(rng.random(count) < 0.5))
        for count in (len(block.operations), len(block.stores))
    )
    return replace(bits, cut=cut, cut_stores=stores)


# C --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compiled:
    """The C of a program; blocks run on fields in the program's order, one call a run."""

    library: ctypes.CDLL
    program: Program
    scalar: Scalar

    def run(
        self, block: Block, fields: Array, valid: int | None = None, chain: bool = False
    ) -> tuple[Array, Array, Array]:
        """(fields, guards, saturations) after a block, its whole chain, or sm_update where ``valid`` is given.

        Of a chain, ``block`` is the last: whether anything was stored is known where that has a guard.
        """
        kind = NumberTypes[self.scalar]
        order = field_order(self.program)
        record = np.dtype([("all", kind, (len(order),)), ("overflows", "<u4")], align=True)
        memory = np.zeros(fields.shape[1], record)
        memory["all"] = fields[order].T
        function = getattr(self.library, f"sm_{block.chain if chain else block.name}" if valid is None else "sm_update")
        more = () if valid is None else (ctypes.c_uint32(valid),)
        base = memory.ctypes.data
        held = [function(ctypes.c_void_p(base + k * record.itemsize), *more) for k in range(len(memory))]
        after = np.empty(fields.shape, kind)
        after[order] = memory["all"].T
        guards = np.array(held, dtype=bool) if block.guard or valid is not None else np.ones(len(held), bool)
        return after, guards, memory["overflows"].astype(np.int64)


def written(program: Program, formats: Formats | None, scalar: Scalar, form: Form, folder: Path) -> list[Path]:
    """The C of a program in a folder; all sources that it is compiled from."""
    folder.mkdir(parents=True, exist_ok=True)
    zeros = np.zeros(len(program.fields))
    test = SelfTest(np.zeros(1), np.zeros(1), None)
    output = Output(scalar, form, "0" * 16, zeros, test, [], np.ones(1))
    (folder / "controller.h").write_text(emit_header(program, formats, output))
    (folder / "controller.c").write_text(emit_source(program, formats, output))
    return [folder / "controller.c", *(CORE / f"{name}.c" for name in ("sm_fixed", "sm_rows", "sm_schedule"))]


def compiled(program: Program, formats: Formats | None, scalar: Scalar, form: Form, folder: Path) -> Compiled:
    """Compiled with every warning an error and undefined behaviour trapped."""
    sources = written(program, formats, scalar, form, folder)
    made = folder / "controller.so"
    flags = [*STRICT, *TRAP, "-O1", "-ffp-contract=off", "-shared", "-fPIC", f"-I{CORE}", f"-I{folder}"]
    subprocess.run(["gcc", *flags, "-o", made, *sources, "-lm"], check=True)
    return Compiled(ctypes.CDLL(str(made)), program, scalar)
