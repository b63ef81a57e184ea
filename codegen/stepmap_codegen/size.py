"""How much flash and RAM a controller takes, before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from stepmap.errors import RangeError
from stepmap_codegen.emit import Form, Scalar
from stepmap_codegen.formats import Formats
from stepmap_codegen.program import Program, Role
from stepmap_codegen.select import Op, Selected, select, slots

KIB = 1024


@dataclass(frozen=True)
class Memory:
    """What a board has, in bytes."""

    flash: int
    ram: int
    bank: int  # room for an uploaded schedule; 0: it is part of the image
    fpu: bool = False


BOARDS = {
    "stm32f100": Memory(128 * KIB, 8 * KIB, 0),
    "stm32f405": Memory(1024 * KIB, 128 * KIB, 128 * KIB, fpu=True),
    "esp32": Memory(1024 * KIB, 320 * KIB, 64 * KIB, fpu=True),
    "esp32c3": Memory(1024 * KIB, 320 * KIB, 64 * KIB),
    "native": Memory(1 << 30, 1 << 30, 1 << 20, fpu=True),
}
# Thumb-2 code at -Os, measured on the catalog (make bench): bytes an instruction.
STRAIGHT = {Op.MUL: 24, Op.MUL_WIDE: 20, Op.HIGH: 12, Op.RECIPROCAL: 16, Op.ROOT: 16, Op.SIN: 22, Op.COS: 26}
OTHERS = 12
ROW = 10
ROW_LOOP = 900  # the loop and its primitives
PRIMITIVES = 700
FIRMWARE = Memory(24 * KIB, 5 * KIB, 0)  # everything else: link, supervisor, store, ports
SPILL = 4  # stack bytes of a value that is alive


@dataclass(frozen=True)
class Estimate:
    """Bytes, estimated: code, schedule, memory of the controller, and stack of its largest function."""

    code: int
    schedule: int
    ram: int
    stack: int


def estimate(program: Program, formats: Formats | None, scalar: Scalar, form: Form, rows: int) -> Estimate:
    """Sizes of a controller in one form."""
    width = 8 if scalar is Scalar.FLOAT64 else 4
    schedule = rows * len(program.of(Role.SCHEDULE)) * width + 64
    ram = len(program.fields) * width + 4
    if formats is None:
        lines = sum(sum(block.counts().values()) for block in program.blocks)
        alive = max(len(block.lines) for block in program.blocks) // 8
        return Estimate(lines * (10 if width == 4 else 14) + PRIMITIVES, schedule, ram, alive * width + 64)
    chosen = [select(block, formats, bits) for block, bits in zip(program.blocks, formats.blocks, strict=True)]
    work = max(slots(made)[1] for made in chosen) * SPILL + 64
    if form is Form.ROWS:
        count = sum(len(made.instructions) + len(made.stores) for made in chosen)
        return Estimate(count * ROW + ROW_LOOP + PRIMITIVES, schedule, ram, work)
    return Estimate(sum(map(_straight, chosen)) + PRIMITIVES, schedule, ram, work)


def _straight(made: Selected) -> int:
    return sum(STRAIGHT.get(i.op, OTHERS) for i in made.instructions) + 10 * len(made.stores)


def choose(
    program: Program, formats: Formats | None, scalar: Scalar, form: Form | None, rows: int, board: str | None
) -> tuple[Form, Estimate]:
    """The form to write, and its size; raises RangeError with advice where no form fits the board."""
    if formats is None or formats.word != 32:
        if form is Form.ROWS:
            raise RangeError("form: rows are for fixed32 with words of 32 bits; leave it out, or write straight")
        forms = [Form.STRAIGHT]
    else:
        forms = [form] if form is not None else [Form.STRAIGHT, Form.ROWS]
    sizes = [(f, estimate(program, formats, scalar, f, rows)) for f in forms]
    if board is None:
        return sizes[0]
    memory = _memory(board)
    for f, s in sizes:
        if _fits(s, memory):
            return f, s
    f, s = min(sizes, key=lambda pair: pair[1].code)
    raise RangeError(_advice(program, f, s, board, memory))


def _memory(board: str) -> Memory:
    if board not in BOARDS:
        raise RangeError(f"board: there is no {board!r}; there are {', '.join(BOARDS)}")
    return BOARDS[board]


def needs(s: Estimate, memory: Memory) -> tuple[int, int]:
    """(flash, RAM) of a whole firmware with this controller."""
    image = 0 if memory.bank else s.schedule
    return s.code + image + FIRMWARE.flash, s.ram + s.stack + FIRMWARE.ram


def _fits(s: Estimate, memory: Memory) -> bool:
    flash, ram = needs(s, memory)
    return flash <= memory.flash and ram <= memory.ram and s.schedule <= (memory.bank or memory.flash)


def _advice(program: Program, form: Form, s: Estimate, board: str, memory: Memory) -> str:
    flash, ram = needs(s, memory)
    asked = []
    if s.schedule > (memory.bank or memory.flash) or (flash > memory.flash and not memory.bank and s.schedule > s.code):
        asked.append("a shorter horizon or a longer time step (fewer rows in the schedule)")
    if flash > memory.flash and form is Form.STRAIGHT:
        asked.append("tables instead of straight-line code (--form rows)")
    larger = [name for name, m in BOARDS.items() if name != "native" and _fits(s, m)]
    asked.append(f"a larger board ({', '.join(larger)})" if larger else "a system with fewer coordinates")
    return (
        f"{program.name} does not fit {board}: about {flash / KIB:.0f} KiB of flash ({s.code / KIB:.0f} code, "
        f"{s.schedule / KIB:.0f} schedule) and {ram / KIB:.1f} KiB of RAM, and there are {memory.flash / KIB:.0f} and "
        f"{memory.ram / KIB:.0f}; use {', or '.join(asked)}"
    )
