"""The program a controller runs: named fields, and straight-line blocks that read and write them.

A block is a tape in single-assignment form. Its only control flow is a guard: where a comparison fails, the block ends
and none of its stores happen. Blocks of one chain are alternatives: the first whose guard holds is the only one that
stores. Everything downstream, float or integer, Python or C, executes these same operations. In floating point a block
may have steps in place of operations: tapes that it calls, and loops over matrices between them (loops.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import casadi as ca

from stepmap.errors import ModelError
from stepmap.graph.tape import BINARY, UNARY
from stepmap_codegen.model.loops import Call, Observe, Step

SELECT = 1000
"""An operation beside those of CasADi: (small, large, yes, no) is yes where small ≤ large, else no.

Both sides are computed: it is for numbers. Whole steps of which one is taken are blocks of a chain."""


class Role(Enum):
    """What a field is to the outside."""

    STATE = "estimate"
    COVARIANCE = "covariance"
    MODE = "mode"  # of gaps: whether they are closed, and what tests for it remember; of a gait: where it is
    MEASUREMENT = "measurement"
    COMMAND = "command"
    SCHEDULE = "schedule"
    INNOVATION = "innovation"  # written for telemetry, never read back, like the next
    VARIANCE = "innovation variance"
    WORK = "work"  # matrices that loops go through; nothing reads them in the next tick


@dataclass(frozen=True)
class Field:
    """A number that lives between blocks."""

    name: str
    role: Role
    unit: str = ""
    low: float | None = None
    high: float | None = None
    label: str = ""  # what it is called in the mechanism
    place: tuple[int, int] | None = None  # row and column, for entries of matrices
    start: float = 0.0  # of a mode
    rate: float | None = None  # of a command: the largest change per tick, where that decides how large others become
    rounded: bool = False  # products on the way to it are rounded, not cut: a cut would turn a quaternion for ever
    moves: tuple[int, int] | None = None  # kinematic commands: the state they set, the channel that measures it or −1


@dataclass(frozen=True)
class Operation:
    """One operation: a CasADi code; OP_CONST has a constant, OP_INPUT a field."""

    code: int
    arguments: tuple[int, ...] = ()
    constant: float = 0.0
    field: int = -1

    def describe(self, program: Program) -> tuple[str, str]:
        """(operation, what it is applied to), for people."""
        if self.code == ca.OP_CONST:
            return "constant", f"{self.constant:.6g}"
        if self.code == ca.OP_INPUT:
            return "field", program.fields[self.field].name
        if self.code == SELECT:
            return "a <= b ? c : d", ", ".join(str(k) for k in self.arguments)
        form = UNARY.get(self.code) or BINARY[self.code]
        return form.format("a", "b"), ", ".join(str(k) for k in self.arguments)


@dataclass(frozen=True)
class Guard:
    """The block goes on after operation ``after`` only where the value of ``small`` is at most that of ``large``."""

    after: int
    small: int
    large: int


@dataclass(frozen=True)
class Store:
    """At the end of the block, an operation's value becomes a field."""

    field: int
    operation: int


class BlockRole(Enum):
    """What a block does in a tick."""

    LANDING = "landing"  # first, where a foot has come down: renames the estimate
    SLACK_TEST = "slack_test"  # before the updates: whether a gap that is taken for closed has opened
    UPDATE = "update"  # filter update with one measurement channel
    PROJECTION = "projection"  # moves the estimate onto the constraints
    STATE_FEEDBACK = "state_feedback"
    PREDICT = "predict"

    @property
    def words(self) -> str:
        """For people who have not seen the code."""
        return {
            "landing": "the landing",
            "slack_test": "the test for slack",
            "update": "the filter's update",
            "projection": "the constraint projection",
            "state_feedback": "the state feedback",
            "predict": "the prediction of the next tick",
        }[self.value]


@dataclass(frozen=True)
class Block:
    """One function of the generated C; its name is for people and for C, its role for programs."""

    name: str
    role: BlockRole
    summary: str
    operations: tuple[Operation, ...]
    stores: tuple[Store, ...]
    guard: Guard | None = None
    channel: int | None = None  # of an update: its place among the measurements
    needs: tuple[int, ...] = ()  # of a slack test: channels without which it is left out
    chain: str = ""  # of blocks with one name here, in order, the first whose guard holds is the only one that stores
    steps: tuple[Step, ...] = ()  # in place of operations

    @property
    def may_refuse(self) -> bool:
        """Whether it can end before its stores: its function then says whether it did not."""
        return self.guard is not None or any(isinstance(one, Observe) and one.gate is not None for one in self.steps)

    def counts(self) -> Counter[str]:
        """How many operations of each kind; constants and loads are free."""
        if self.steps:
            return sum((step.counts() for step in self.steps), Counter())
        names = {
            ca.OP_ADD: "add",
            ca.OP_SUB: "add",
            ca.OP_NEG: "add",
            ca.OP_TWICE: "add",
            ca.OP_MUL: "mul",
            ca.OP_SQ: "mul",
            ca.OP_DIV: "div",
            ca.OP_INV: "div",
            ca.OP_SQRT: "sqrt",
            ca.OP_SIN: "sincos",
            ca.OP_COS: "sincos",
            ca.OP_FMIN: "clamp",
            ca.OP_FMAX: "clamp",
            ca.OP_FABS: "add",
            ca.OP_SIGN: "add",
            SELECT: "clamp",
        }
        free = (ca.OP_CONST, ca.OP_INPUT)
        return Counter(names.get(op.code, "other") for op in self.operations if op.code not in free)


@dataclass(frozen=True)
class Program:
    """A controller: what it keeps, and its blocks in the order of a tick."""

    name: str
    period: float  # [s]
    fields: tuple[Field, ...]
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        for name, numbers in self.chains.items():
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                raise ModelError(f"chain {name!r}: its blocks must follow each other")
            open_ended = [self.blocks[i].name for i in numbers[:-1] if self.blocks[i].guard is None]
            if open_ended:
                raise ModelError(f"chain {name!r}: {open_ended[0]!r} has no guard, so no block after it could ever run")
            if any(block.name == name for block in self.blocks):
                raise ModelError(f"chain {name!r}: a block has the same name, which both would have in C")

    @cached_property
    def chains(self) -> dict[str, list[int]]:
        """Positions of the blocks of every chain."""
        found: dict[str, list[int]] = {}
        for i, block in enumerate(self.blocks):
            if block.chain:
                found.setdefault(block.chain, []).append(i)
        return found

    @cached_property
    def tapes(self) -> tuple[Block, ...]:
        """What steps of blocks call, each once."""
        called = {step.tape.name: step.tape for block in self.blocks for step in block.steps if isinstance(step, Call)}
        return tuple(called.values())

    def index(self, name: str) -> int:
        return next(i for i, field in enumerate(self.fields) if field.name == name)

    def of(self, role: Role) -> list[int]:
        """Indices of the fields of a role."""
        return [i for i, field in enumerate(self.fields) if field.role is role]

    def blocks_of(self, role: BlockRole) -> list[int]:
        """Positions of the blocks of a role in the tick; updates are in the order of their channels."""
        return [i for i, block in enumerate(self.blocks) if block.role is role]

    def block_of(self, role: BlockRole) -> int:
        """Position of the only block of a role; ValueError where there is none, or another."""
        (only,) = self.blocks_of(role)
        return only

    def purpose(self, number: int, operation: int) -> str:
        """What an operation of a block is for, in words: its block, and the first signal that depends on it."""
        block = self.blocks[number]
        later = {operation}
        for k in range(operation + 1, len(block.operations)):
            if later & set(block.operations[k].arguments):
                later.add(k)
        fed = [self.fields[store.field] for store in block.stores if store.operation in later]
        at = "" if block.channel is None else f" with {self.fields[self.of(Role.MEASUREMENT)[block.channel]].label}"
        if not fed:
            return f"{block.role.words}{at}"
        best = min(fed, key=lambda field: field.role not in (Role.STATE, Role.COMMAND))
        unit = f" [{best.unit}]" if best.unit else ""
        return f"{block.role.words}{at}, on its way to {best.label}{unit}"

    def counts(self) -> Counter[str]:
        """Operations of a whole tick by kind."""
        return sum((block.counts() for block in self.blocks), Counter())
