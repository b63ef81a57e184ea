"""How much flash and RAM a controller takes, before anything is compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca

from stepmap.errors import ModelError, RangeError
from stepmap.mechanics import System
from stepmap_codegen import boards
from stepmap_codegen.boards import KIB, BoardSpec, Runs
from stepmap_codegen.emit import wire_limits as wire
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.instructions import Op, Selected, constants, select, slots
from stepmap_codegen.model.program import Block, Program, Role
from stepmap_codegen.model.scalar import Form, Scalar

FIRMWARE_FLASH = 23 * KIB  # everything but the controller and its schedule: link, supervisor, store, ports
FIRMWARE_STACK = 1300  # below the controller's: loop and interrupts
# Bytes of Thumb-2 code at -Os, fitted to every block of the catalog's controllers on a Cortex-M3; test_size.py
# compares them with the compiler. Constants and what is kept on the stack are in them.
STRAIGHT = {
    Op.ADD: 10,
    Op.SUB: 10,
    Op.ADD_FAST: 6,
    Op.SUB_FAST: 6,
    Op.MIN: 13,
    Op.MAX: 13,
    Op.MUL: 19,
    Op.MUL_WIDE: 10,
    Op.HIGH: 6,
    Op.RECIPROCAL: 23,
    Op.ROOT: 23,
    Op.SIN: 20,
    Op.COS: 20,
    Op.ABS: 12,
    Op.SIGN: 10,
    Op.MOVE: 9,
    Op.GUARD: 24,
    Op.TEST: 4,
    Op.PICK: 6,
}
SHIFT, STORE = 5, 5
ROW, CONSTANT, CALL = 10, 4, 40  # of tables: a row, a constant, and the function around a block's
LINK = 12  # of a chain: calling one of its blocks and looking at what it says
ROW_LOOP = 1000  # the loop over rows
PRIMITIVES, WAVES = 750, 200  # start, self-test and what is called; sine and cosine


@dataclass(frozen=True)
class _Float:
    """Bytes of operations in floating point, of what is always linked, and of the library's sine and cosine."""

    add: float
    mul: float
    div: float
    other: float
    always: int
    waves: int
    waves_stack: int


SOFT = {
    Scalar.FLOAT32: _Float(add=8, mul=9.5, div=25, other=4, always=1950, waves=4650, waves_stack=500),
    Scalar.FLOAT64: _Float(add=9, mul=17, div=47, other=5, always=2850, waves=5250, waves_stack=730),
}
HARD = _Float(add=4.2, mul=4.2, div=4, other=4, always=450, waves=4150, waves_stack=440)  # float32 with an FPU
LOOPS, STEP = 1100, 60  # loops over matrices, and a call of one with its tables
FRAME, LOOP_FRAME = 80, 108  # stack of functions besides the values that are alive; of the loop over rows
STRAIGHT_FRAME = 24  # of fixed point as straight-line code: most of what is alive at the end is stored before
LARGE = 48  # states from which on straight-line code takes minutes to compile: 28 have 60 000 operations, 80 600 000
REGISTERS = 24  # of an FPU that hold values


@dataclass(frozen=True)
class Estimate:
    """Bytes, estimated: code, schedule, memory of the controller, and stack of its largest function."""

    code: int
    schedule: int
    ram: int
    stack: int


def estimate(
    program: Program, formats: Formats | None, scalar: Scalar, form: Form, rows: int, *, fpu: bool = False
) -> Estimate:
    """Sizes of a controller in one form, on a Cortex-M; ``fpu``: one that computes float32 itself."""
    width = 8 if scalar is Scalar.FLOAT64 else 4
    schedule = rows * len(program.of(Role.SCHEDULE)) * width + 64
    ram = len(program.fields) * width + 4
    if formats is None:
        code, stack = _floating(program, scalar, fpu)
        return Estimate(code, schedule, ram, stack)
    chosen = [select(block, formats, bits) for block, bits in zip(program.blocks, formats.blocks, strict=True)]
    alive = max(slots(made)[1] for made in chosen)
    links = LINK * sum(map(len, program.chains.values()))
    waves = WAVES if any(i.op in (Op.SIN, Op.COS) for made in chosen for i in made.instructions) else 0
    if form is Form.ROWS:
        count = sum(len(made.instructions) + len(made.stores) for made in chosen)
        tables = ROW * count + CONSTANT * len(constants(chosen)) + CALL * len(chosen) + links
        return Estimate(tables + ROW_LOOP + PRIMITIVES + waves, schedule, ram, 4 * alive + LOOP_FRAME)
    code = sum(map(_straight, chosen)) + PRIMITIVES + waves + links
    return Estimate(code, schedule, ram, 4 * alive + STRAIGHT_FRAME)


def _straight(made: Selected) -> int:
    shifts = sum(right != 0 for i in made.instructions for right in i.right) + sum(s.right != 0 for s in made.stores)
    return sum(STRAIGHT[i.op] for i in made.instructions) + SHIFT * shifts + STORE * len(made.stores)


def _floating(program: Program, scalar: Scalar, fpu: bool) -> tuple[int, int]:
    """(code, stack) of floating point."""
    cost = HARD if fpu and scalar is Scalar.FLOAT32 else SOFT[scalar]
    straight = [*(block for block in program.blocks if not block.steps), *program.tapes]
    kinds = sum((block.counts() for block in straight), Counter[str]())
    moves = sum(len(block.stores) + sum(op.code == ca.OP_INPUT for op in block.operations) for block in straight)
    code = cost.add * kinds["add"] + cost.mul * kinds["mul"] + cost.div * kinds["div"]
    code += 8 * (kinds["clamp"] + kinds["sincos"] + kinds["sqrt"]) + cost.other * moves + cost.always
    code += LINK * sum(map(len, program.chains.values()))
    code += LOOPS + STEP * sum(len(block.steps) for block in program.blocks) if program.tapes else 0
    alive = max(max(map(_alive, straight)) - (REGISTERS if cost is HARD else 0), 0)
    stack = alive * (8 if scalar is Scalar.FLOAT64 else 4) * 4 // 3 + FRAME
    if kinds["sincos"]:
        code, stack = code + cost.waves, stack + cost.waves_stack
    return round(code), stack


def _alive(block: Block) -> int:
    """How many values of a block are needed at the same time, at most; constants are none."""
    last = {a: i for i, operation in enumerate(block.operations) for a in operation.arguments}
    last |= {store.operation: len(block.operations) for store in block.stores}
    ends = Counter(last.values())
    most = count = 0
    for i, operation in enumerate(block.operations):
        count += operation.code != ca.OP_CONST and i in last
        most = max(most, count)
        count -= ends[i]
    return most


def forms(scalar: Scalar, word: int, wanted: Form | None) -> list[Form]:
    """The forms to try, best first; raises ModelError where the one that is wanted does not exist."""
    if wanted is Form.LOOPS:
        if scalar is Scalar.FIXED32:
            raise ModelError("form: loops are for float32 and float64; leave it out, or write straight or rows")
        return [wanted]
    if scalar is Scalar.FIXED32 and word == 32:
        return [Form.STRAIGHT, Form.ROWS] if wanted is None else [wanted]
    if wanted is Form.ROWS:
        raise ModelError("form: rows are for fixed32 with words of 32 bits; leave it out, or write straight")
    return [Form.STRAIGHT]


def preferred(scalar: Scalar, states: int, wanted: Form | None) -> Form | None:
    """The form that is wanted; of large models in floating point loops, where nothing else is."""
    return Form.LOOPS if wanted is None and scalar is not Scalar.FIXED32 and states >= LARGE else wanted


def choose(
    program: Program, formats: Formats | None, scalar: Scalar, form: Form | None, rows: int, board: str | None
) -> tuple[Form, Estimate]:
    """The form to write, and its size; raises RangeError with advice where no form fits the board."""
    possible = forms(scalar, 32 if formats is None else formats.word, form)
    spec = None if board is None else _spec(board)
    fpu = spec is not None and spec.fpu
    sizes = [(f, estimate(program, formats, scalar, f, rows, fpu=fpu)) for f in possible]
    if spec is None:
        return sizes[0]
    for f, s in sizes:
        if _fits(s, spec):
            return f, s
    least = min((s for _, s in sizes), key=lambda s: s.code)
    tables = Form.ROWS not in possible and formats is not None and formats.word == 32
    rows_fit = tables and _fits(estimate(program, formats, scalar, Form.ROWS, rows), spec)
    raise _too_large(program, least, spec, rows_fit=rows_fit)


def require_counts(
    system: System, board: str | None, job: str = "", encoders: int | None = None, *, walks: bool = False
) -> None:
    """Raises ModelError where a system has more than messages carry, or needs more than the board has.

    ``encoders`` are those that its job needs; None: one per kinematic coordinate. ``walks``: of a robot with contacts.
    """
    wire.require(system, walks=walks)
    if board is None:
        return
    spec, whose = _spec(board), f"job {job!r}: " if job else ""
    commands, needed = wire.commands(system), len(system.kinematic) if encoders is None else encoders
    if commands > spec.motors:
        raise ModelError(
            f"{whose}system {system.name!r} has {commands} commands, and {board} has {spec.motors} motors",
            cause="There is one command per force and one per kinematic coordinate.",
            hint=f"Use a system with fewer inputs{_others(lambda other: other.motors >= commands)}.",
        )
    if needed > spec.encoders:
        raise ModelError(
            f"{whose}system {system.name!r} needs {needed} encoders, and {board} has {spec.encoders}",
            cause='Every kinematic coordinate has an encoder, and with measure = "encoders" every channel.',
            hint=f"Measure less{_others(lambda other: other.encoders >= needed)}.",
        )


def _others(enough: Callable[[BoardSpec], bool]) -> str:
    """Boards that have enough, as the end of a hint."""
    names = [name for name, spec in boards.catalog().items() if enough(spec)]
    return f", or a board with more: {', '.join(names)}" if names else "; no board has more"


def _spec(board: str) -> BoardSpec:
    known = boards.catalog()
    if board not in known:
        raise RangeError(f"board: there is no {board!r}", hint=f"There are {', '.join(known)}.")
    return known[board]


def needs(s: Estimate, board: BoardSpec) -> tuple[int, int]:
    """(flash, RAM) of a whole firmware with this controller, as ``stepmap build`` counts them.

    The image always has a schedule of its own, also where another can be uploaded; all room for the stack is taken.
    """
    stack = max(board.stack_bytes, s.stack + FIRMWARE_STACK)
    return s.code + s.schedule + FIRMWARE_FLASH, s.ram + stack + board.fixed_ram_bytes


def _fits(s: Estimate, board: BoardSpec) -> bool:
    flash, ram = needs(s, board)
    return flash <= board.flash_bytes and ram <= board.ram_bytes and s.schedule <= _schedule_limit(board)


def _schedule_limit(board: BoardSpec) -> int:
    """Bytes that a schedule may have: a bank's, or as many as the image."""
    return board.bank_bytes or board.flash_bytes


def _too_large(program: Program, s: Estimate, board: BoardSpec, *, rows_fit: bool) -> RangeError:
    flash, ram = needs(s, board)
    asked = []
    if s.schedule > _schedule_limit(board) or (flash > board.flash_bytes and s.schedule > s.code):
        asked.append("a shorter horizon or a longer time step (fewer rows in the schedule)")
    if rows_fit:
        asked.append("tables instead of straight-line code (--form rows)")
    larger = [b.name for b in boards.catalog().values() if b.runs is not Runs.PROCESS and _fits(s, b)]
    if larger:
        asked.append(f"a larger board ({', '.join(larger)})")
    bank = f", and a bank of {board.bank_bytes / KIB:.0f} for the schedule" if board.bank_bytes else ""
    return RangeError(
        f"{program.name} does not fit {board.name}",
        cause=f"It needs about {flash / KIB:.0f} KiB of flash ({s.code / KIB:.0f} code, {s.schedule / KIB:.0f} "
        f"schedule) and {ram / KIB:.1f} KiB of RAM; there are {board.flash_bytes / KIB:.0f} and "
        f"{board.ram_bytes / KIB:.0f}{bank}.",
        hint=f"Use {', or '.join(asked or ['a system with fewer coordinates'])}.",
    )
