"""The stack a call needs at most: frames and calls from gcc, and for libraries from their machine code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stepmap.errors import ToolchainError

INDIRECT = "__indirect_call"  # what gcc writes for a call through a pointer
NOT_KNOWN = "name a function that was not inlined; on the host, one that calls no shared library"


@dataclass(frozen=True)
class Frame:
    """What one function puts on the stack, and what it calls on top of that."""

    bytes: int
    calls: frozenset[str] = frozenset()
    bounded: bool = True  # false where the size depends on data


def worst(frames: Mapping[str, Frame], entry: str) -> int:
    """Bytes on the deepest path of calls from ``entry``, its own frame included."""
    depth: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> int:
        if name in path:
            raise _unknown((*path, name), "calls itself", "write it as a loop")
        if name not in depth:
            frame = frames.get(name)
            if name == INDIRECT:
                raise _unknown((*path, name), "calls through a pointer", "call functions by their names")
            if frame is None:
                raise _unknown((*path, name), "is not known", NOT_KNOWN)
            if not frame.bounded:
                raise _unknown((*path, name), "has a frame whose size depends on data", "use arrays of constant size")
            depth[name] = frame.bytes + max((visit(callee, (*path, name)) for callee in sorted(frame.calls)), default=0)
        return depth[name]

    return visit(entry, ())


def _unknown(path: tuple[str, ...], what: str, remedy: str) -> ToolchainError:
    *callers, name = path
    subject = callers[-1] if name == INDIRECT else name
    return ToolchainError(
        f"no bound on the stack of {path[0]}: {subject} {what}",
        command=f"worst_stack({path[0]!r})",
        log=" -> ".join(path),
        remedy=remedy,
    )


NODE = re.compile(r'^node: \{ title: "(.+?)" label: "(.*)"')
EDGE = re.compile(r'^edge: \{ sourcename: "(.+?)" targetname: "(.+?)"')
SIZE = re.compile(r"\\n(\d+) bytes \(([a-z,]+)\)")


def compiled(graph: str) -> dict[str, Frame]:
    """Frames of sources, from the files that -fcallgraph-info=su writes; static functions are ``file:name``."""
    sizes: dict[str, tuple[int, bool]] = {}
    calls: dict[str, set[str]] = {}
    for line in graph.splitlines():
        node, edge = NODE.match(line), EDGE.match(line)
        size = SIZE.search(node[2]) if node else None
        if node and size:  # without a size it is defined elsewhere
            sizes[node[1]] = int(size[1]), size[2] != "dynamic"
        if edge:
            calls.setdefault(edge[1], set()).add(edge[2])
    return {name: Frame(size, frozenset(calls.get(name, ())), known) for name, (size, known) in sizes.items()}


LABEL = re.compile(r"^([0-9a-f]+) <(.+)>:$")
INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(\S+)(?:\t(.*))?$")
WORD = re.compile(r"^ *([0-9a-f]+):\t\.word\t0x([0-9a-f]+)", re.MULTILINE)
LITERAL = re.compile(r"r\d, \[pc, #\d+\]\t@ \(([0-9a-f]+) ")
DESTINATION = re.compile(r"<([^>+]+)(?:\+0x[0-9a-f]+)?>$")
JUMPS = ("b", "cb", "j", "tail", "call")  # how mnemonics of jumps begin, and of nothing else that names a destination
FINAL = ("b", "b.n", "b.w", "bx", "j", "jr", "jx", "ret", "ret.n", "tail", "udf")
PADDING = ("nop", "nop.n", "nop.w", ".word", ".short", ".byte", "unimp", "ill", "...")
SAVE = re.compile(r"^__riscv_save_(\d+)$")


def disassembled(listing: str, addresses: Mapping[str, int]) -> dict[str, Frame]:
    """Upper bounds on the frames of Thumb, RV32 or Xtensa code, from objdump's listing, for every name at an address.

    A frame is the sum of everything a function takes from the stack, on whichever path. Leaving a function for another
    label, by a jump or by running into it, is a call.
    """
    labels: list[tuple[int, str]] = []
    bodies: list[list[tuple[str, str]]] = []
    words = {int(at, 16): int(value, 16) for at, value in WORD.findall(listing)}
    for line in listing.splitlines():
        label, instruction = LABEL.match(line), INSTRUCTION.match(line)
        if label:
            labels.append((int(label[1], 16), label[2]))
            bodies.append([])
        elif instruction and bodies:
            bodies[-1].append(_resolved(instruction[1], instruction[2] or "", bodies[-1], words))
    following = [*(name for _, name in labels[1:]), None]
    found = {
        address: _frame(name, body, after)
        for (address, name), body, after in zip(labels, bodies, following, strict=True)
    }
    return {name: found[address] for name, address in addresses.items() if address in found}


def _resolved(mnemonic: str, operands: str, before: list[tuple[str, str]], words: Mapping[int, int]) -> tuple[str, str]:
    """An instruction; where a Cortex-M0 moves its stack pointer by a constant in a register, by that constant."""
    moved = re.match(r"sp, (r\d)$", operands) if mnemonic == "add" else None
    left = 0
    for earlier, given in reversed(before if moved else ()):
        if not moved or not given.startswith(f"{moved[1]}, "):
            continue
        literal, number = LITERAL.match(given), re.search(r", #(\d+)(?:\t|$)", given)
        if earlier == "lsls" and number:  # of a constant that is raised further up
            left += int(number[1])
        elif earlier == "movs" and number:
            return mnemonic, f"sp, #{int(number[1]) << left}"
        elif earlier == "ldr" and literal and int(literal[1], 16) in words:
            value = words[int(literal[1], 16)]
            return ("sub", f"sp, #{(1 << 32) - value}") if value >= 1 << 31 else (mnemonic, f"sp, #{value}")
        else:
            break
    return mnemonic, operands


def _frame(name: str, body: list[tuple[str, str]], following: str | None) -> Frame:
    size, bounded = 0, True
    calls: set[str] = set()
    for mnemonic, operands in body:
        taken = _taken(mnemonic, operands)
        bounded = bounded and taken is not None
        size += taken or 0
        if not mnemonic.startswith(JUMPS):
            continue
        destination = DESTINATION.search(operands)
        saves = SAVE.match(destination[1]) if destination else None
        if saves:  # stays on the stack after it returns
            size += 16 if int(saves[1]) < 4 else 64
        elif destination and destination[1] != name and not destination[1].startswith("__riscv_restore_"):
            calls.add(destination[1])
        elif destination is None and mnemonic in ("blx", "jalr", "callx0"):
            calls.add(INDIRECT)
    code = [line for line in body if line[0] not in PADDING]
    if following and code and not _final(*code[-1]):
        calls.add(following)
    return Frame(size, frozenset(calls), bounded)


def _final(mnemonic: str, operands: str) -> bool:
    """Whether control never goes on to the next instruction."""
    popped = mnemonic in ("pop", "pop.w", "ldmia.w") and operands.endswith("pc}")
    return mnemonic in FINAL or popped or operands.startswith("pc,")


def _taken(mnemonic: str, operands: str) -> int | None:
    """Bytes an instruction takes from the stack; None if that depends on data."""
    if mnemonic.startswith(("push", "vpush")) or (re.match(r"v?stmdb", mnemonic) and operands.startswith("sp!")):
        return _registers(operands[operands.index("{") + 1 : operands.index("}")].split(","))
    stored = re.search(r"\[sp, #-(\d+)\]!", operands)
    if stored:
        return int(stored[1])
    lowered = re.match(r"sp, (?:sp, )?#(\d+)", operands) if mnemonic.startswith("sub") else None
    lowered = lowered or (re.match(r"(?:sp,sp,|a1, a1, )-(\d+)", operands) if mnemonic in ("add", "addi") else None)
    if lowered:
        return int(lowered[1])
    # Xtensa's stack pointer is a1, which is a plain register on RISC-V: told apart by the blanks of the listing.
    changes = re.match(r"sp,|a1, ", operands) and mnemonic.startswith(("sub", "add", "mov", "mv"))
    raised = re.match(r"(?:sp,(?: ?sp,)? ?#?|a1, a1, )\d+", operands) and mnemonic.startswith("add")
    return None if changes and not raised else 0


def _registers(listed: Iterable[str]) -> int:
    """Bytes of a list of registers such as r4, lr, d8-d15."""
    total = 0
    for item in (text.strip() for text in listed):
        first, _, last = item.partition("-")
        count = int(last[1:]) - int(first[1:]) + 1 if last else 1
        total += count * (8 if first.startswith("d") else 4)
    return total
