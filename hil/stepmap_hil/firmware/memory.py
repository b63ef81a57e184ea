"""What a firmware takes of its chip: flash, RAM, the stack of the deepest path of calls, and a tick's instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stepmap.errors import ToolchainError
from stepmap_codegen.boards import BoardSpec
from stepmap_codegen.toolchain import Target, elf, tools
from stepmap_codegen.toolchain.paths import Paths
from stepmap_codegen.toolchain.stack import INDIRECT, Frame, compiled, disassembled, worst

CALLGRAPH = "-fcallgraph-info=su"  # what gcc needs to be told for `measure`
EXCEPTION, EXCEPTION_FPU = 36, 108  # bytes that an interrupt puts on the stack of a Cortex-M, with alignment
HANDLERS = ("tick_handler", "serial_handler")  # of equal priority: they do not interrupt each other
POINTERS = {"sm_link_send": "sm_loop.c:output", "sm_upload_take": "sm_select_check"}  # what they call
TICK = ("sm_update", "sm_state_feedback", "sm_predict")
NOT_IN_TICKS = ("sm_self_test",)  # has loops
SECTION = re.compile(r"^\.(text|data|bss|noinit)\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A function of the controller: its bytes, and the instructions of a call at most, with what it calls."""

    bytes: int
    instructions: int


@dataclass(frozen=True)
class Budget:
    """Bytes, and instructions of the controller."""

    flash_bytes: int
    ram_bytes: int
    """All that is not free, with the room for the stack."""
    stack_bytes: int | None
    """The most that is used of that room; None where it is not known."""
    tick_instructions: int | None = None
    """Of filter, feedback and prediction at most, whatever the data are; None where it is not known."""
    blocks: Mapping[str, Block] = field(default_factory=dict)
    """The functions of the controller."""


def measure(board: BoardSpec, target: Target, program: Path, objects: Path) -> Budget:
    """Of a program for an STM32 or for this computer, and of the call graphs beside its objects."""
    found = dict.fromkeys(("text", "data", "bss", "noinit"), 0)
    for name, size in SECTION.findall(tools.call(target, "size", "-A", "-d", program)):
        found[name] += int(size)
    stack = _stack(board, target, program, objects) if board.bare_chip else None
    flash, ram = found["text"] + found["data"], found["data"] + found["bss"] + found["noinit"]
    blocks = _blocks(target, program, objects) if board.bare_chip else {}
    tick = sum(blocks[name].instructions for name in TICK) if set(TICK) <= set(blocks) else None
    return Budget(flash, ram, stack, tick, blocks)


def _blocks(target: Target, program: Path, objects: Path) -> dict[str, Block]:
    """Functions that controller.c was compiled to; none where one has no bound, such as a loop over tables."""
    graphs = [path for path in objects.rglob("*.ci") if path.name.startswith("controller.")]
    named = compiled("".join(path.read_text(encoding="utf-8") for path in graphs))
    paths = Paths(elf.listing(target, program))
    try:
        return {
            function.name: Block(function.size, paths.most(function.name))
            for function in elf.functions(target, program)
            if function.name in named and function.name not in NOT_IN_TICKS
        }
    except ToolchainError:
        return {}


def _stack(board: BoardSpec, target: Target, program: Path, objects: Path) -> int:
    frames = compiled("".join(path.read_text(encoding="utf-8") for path in sorted(objects.rglob("*.ci"))))
    plain = {name.rpartition(":")[2] for name in frames}
    libraries = {f.name: f.address for f in elf.functions(target, program) if f.name not in plain}
    frames = _pointed(disassembled(elf.listing(target, program), libraries) | frames)
    exception = EXCEPTION_FPU if board.fpu else EXCEPTION
    return worst(frames, "start_handler") + exception + max(worst(frames, name) for name in HANDLERS)


def _pointed(frames: Mapping[str, Frame]) -> dict[str, Frame]:
    """Frames whose calls through pointers are those that the loop gives them."""
    known = dict(frames)
    for caller, callee in POINTERS.items():
        at = next((name for name in known if name == caller or name.endswith(f":{caller}")), None)
        to = next((name for name in known if name.endswith(callee)), None)
        if at is not None and to is not None:
            known[at] = replace(known[at], calls=known[at].calls - {INDIRECT} | {to})
    return known
