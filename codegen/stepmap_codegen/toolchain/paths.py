"""The instructions a call takes at most: the longest path through its machine code, with what it calls. Arm and RISC-V.

Generated code has no loops and hardly a branch: guards, and what happens where a number saturates. Paths are followed
whatever the data are, so that a bound holds for all of them, also where no data take its path. Instructions that a
condition leaves out count, as they do in QEMU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepmap.errors import ToolchainError

LABEL = re.compile(r"^([0-9a-f]+) <(.+)>:$")
LINE = re.compile(r"^ *([0-9a-f]+):\t(\S+)(?:\t(.*))?$")
DESTINATION = re.compile(r"(?:^|[\s,])(?:0x)?([0-9a-f]+) <([^>]+)>")
SAVE = re.compile(r"^__riscv_save_\d+$")
CONDITIONS = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
BRANCH = re.compile(
    rf"^(?:b(?:{CONDITIONS})|cbn?z|b(?:eq|ne|lt|ge|le|gt)z|b(?:ltu|geu|gtu|leu)|b(?:eq|ne|lt|ge)i|b(?:ltu|geu)i|"
    r"b(?:all|nall|any|none|bc|bs|bci|bsi))$"
)
JUMP = ("b", "j", "tail")
CALL = ("bl", "jal", "call", "call0")
INDIRECT = ("blx", "jalr", "callx0", "tbb", "tbh", "jx", "jr")
RETURN = re.compile(rf"^(?:ret|bx(?P<bx>{CONDITIONS})?|(?:pop|ldmia)(?P<pop>{CONDITIONS})?)$")
# Turns of loops in libraries: a Cortex-M0+ divides 32 bits by 8 bits of the quotient in a turn.
LOOPS = {"__udivsi3": 4, "__aeabi_uidiv": 4}


@dataclass(frozen=True)
class _Node:
    """An instruction: where control goes next, and what it calls."""

    follows: tuple[int, ...]
    calls: str | None = None


@dataclass(frozen=True)
class _Line:
    address: int
    mnemonic: str
    operands: str


class Paths:
    """The functions of a program, from objdump's listing."""

    def __init__(self, listing: str, loops: Mapping[str, int] = LOOPS) -> None:
        self.loops = loops
        self.bodies: dict[str, list[_Line]] = {}
        self.starts: dict[int, str] = {}
        self.known: dict[str, int] = {}
        body: list[_Line] = []
        for line in listing.splitlines():
            label, found = LABEL.match(line), LINE.match(line)
            if label:
                body = self.bodies.setdefault(label[2], [])
                self.starts[int(label[1], 16)] = label[2]
            elif found and not found[2].startswith("."):
                mnemonic = re.sub(r"\.[nw]$", "", found[2])
                body.append(_Line(int(found[1], 16), mnemonic, found[3] or ""))

    def most(self, name: str, path: tuple[str, ...] = ()) -> int:
        """Instructions of a call at most, its own and those of what it calls; raises where there is no bound."""
        if name in path:
            raise self._unknown((*path, name), "calls itself", "write it as a loop")
        if name not in self.known:
            if name not in self.bodies:
                raise self._unknown((*path, name), "is not in the program", "name a function that was not inlined")
            self.known[name] = self._longest(name, self._graph(name, (*path, name)), (*path, name))
        return self.known[name]

    def _graph(self, name: str, path: tuple[str, ...]) -> dict[int, _Node]:
        lines = self.bodies[name]
        inside = {line.address for line in lines}
        nodes = {}
        for line, after in zip(lines, [*lines[1:], None], strict=True):
            following = None if after is None else after.address
            nodes[line.address] = self._node(line, following, inside, path)
        return nodes

    def _node(self, line: _Line, following: int | None, inside: set[int], path: tuple[str, ...]) -> _Node:
        """What an instruction does with control."""
        goes_on = () if following is None else (following,)
        found = DESTINATION.search(line.operands)
        returns = RETURN.match(line.mnemonic)
        to = int(found[1], 16) if found else -1
        called = None if found is None else self.starts.get(to, found[2].partition("+")[0])
        jumps = line.mnemonic in JUMP or BRANCH.match(line.mnemonic)
        if jumps and called == path[-1] and to not in inside:  # objdump takes what lies between for instructions
            raise self._unknown(path, "jumps into what its listing takes for one instruction", "take another target")
        if line.mnemonic in CALL and found:
            # Thumb of a Cortex-M0+ jumps far within a function by bl; only a call goes to where one begins.
            return _Node((to,)) if to in inside and to not in self.starts else _Node(goes_on, called)
        if jumps and found:
            rest = () if line.mnemonic in JUMP else goes_on
            return _Node((*rest, to)) if to in inside else _Node(rest, called)
        if self._leaves(line, returns):
            conditional = returns is not None and (returns["bx"] or returns["pop"])
            return _Node(goes_on if conditional else ())
        if line.mnemonic in INDIRECT or (line.mnemonic == "bx" and line.operands != "lr"):
            raise self._unknown(path, "jumps or calls through a register", "call functions by their names")
        return _Node(goes_on)

    @staticmethod
    def _leaves(line: _Line, returns: re.Match[str] | None) -> bool:
        """Whether an instruction ends a function: a return, or a register list with the program counter."""
        if line.mnemonic == "jr" and line.operands in ("t0", "ra"):  # of __riscv_save, which is called by t0
            return True
        if line.mnemonic == "ldr" and line.operands.startswith("pc, [sp]"):
            return True
        if returns is None:
            return False
        if line.mnemonic.startswith(("pop", "ldmia")):
            return line.operands.rstrip("}").endswith("pc")
        return line.mnemonic == "ret" or line.operands == "lr"

    def _longest(self, name: str, nodes: Mapping[int, _Node], path: tuple[str, ...]) -> int:
        entry = self.bodies[name][0].address
        weights: dict[int, int] = {}
        total: dict[int, int] = {}  # from an instruction to the end
        for part in _components(nodes, entry):
            for address in part:
                called = nodes[address].calls
                weights[address] = 1 + (0 if called is None else self.most(called, path))
            outside = [total[to] for a in part for to in nodes[a].follows if to not in part]
            inner = weights[part[0]]
            if len(part) > 1 or part[0] in nodes[part[0]].follows:
                inner = self._loop(name, part, weights, path)
            for address in part:
                total[address] = inner + max(outside, default=0)
        return total[entry]

    def _loop(self, name: str, part: Sequence[int], weights: Mapping[int, int], path: tuple[str, ...]) -> int:
        """Instructions of all turns of a loop: each takes no more than all that is in it."""
        if name not in self.loops:
            raise self._unknown(path, "has a loop whose turns are not known", "write it without one")
        return self.loops[name] * sum(weights[address] for address in part)

    def _unknown(self, path: tuple[str, ...], what: str, remedy: str) -> ToolchainError:
        return ToolchainError(
            f"no bound on the instructions of {path[0]}: {path[-1]} {what}",
            command=f"most_instructions({path[0]!r})",
            log=" -> ".join(path),
            remedy=remedy,
        )


def _components(nodes: Mapping[int, _Node], entry: int) -> list[list[int]]:
    """Strongly connected parts that are reached from the entry, each after those it leads to; Tarjan's, by a stack."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    parts: list[list[int]] = []
    work: list[tuple[int, int]] = [(entry, 0)]
    while work:
        address, child = work.pop()
        if child == 0:
            index[address] = low[address] = len(index)
            stack.append(address)
            on_stack.add(address)
        follows = nodes[address].follows
        while child < len(follows) and follows[child] in index:
            if follows[child] in on_stack:
                low[address] = min(low[address], index[follows[child]])
            child += 1
        if child < len(follows):
            work += [(address, child + 1), (follows[child], 0)]
            continue
        if low[address] == index[address]:
            at = stack.index(address)
            parts.append(stack[at:])
            on_stack -= set(stack[at:])
            del stack[at:]
        if work:
            parent = work[-1][0]
            low[parent] = min(low[parent], low[address])
    return parts
