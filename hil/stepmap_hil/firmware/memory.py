"""What a firmware takes of its chip: flash, RAM, and the stack of the deepest path of calls, interrupts included."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stepmap_codegen.boards import BoardSpec
from stepmap_codegen.toolchain import Target, elf, tools
from stepmap_codegen.toolchain.stack import INDIRECT, Frame, compiled, disassembled, worst

CALLGRAPH = "-fcallgraph-info=su"  # what gcc needs to be told for `measure`
EXCEPTION, EXCEPTION_FPU = 36, 108  # bytes that an interrupt puts on the stack of a Cortex-M, with alignment
HANDLERS = ("tick_handler", "serial_handler")  # of equal priority: they do not interrupt each other
POINTERS = {"sm_link_send": "sm_loop.c:output", "sm_upload_take": "sm_select_check"}  # what they call
SECTION = re.compile(r"^\.(text|data|bss|noinit)\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Budget:
    """Bytes."""

    flash_bytes: int
    ram_bytes: int
    """All that is not free, with the room for the stack."""
    stack_bytes: int | None
    """The most that is used of that room; None where it is not known."""


def measure(board: BoardSpec, target: Target, program: Path, objects: Path) -> Budget:
    """Of a program for an STM32 or for this computer, and of the call graphs beside its objects."""
    found = dict.fromkeys(("text", "data", "bss", "noinit"), 0)
    for name, size in SECTION.findall(tools.call(target, "size", "-A", "-d", program)):
        found[name] += int(size)
    stack = _stack(board, target, program, objects) if board.bare_chip else None
    return Budget(found["text"] + found["data"], found["data"] + found["bss"] + found["noinit"], stack)


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
