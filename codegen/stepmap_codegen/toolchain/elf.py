"""What binary tools say about objects and programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from stepmap_codegen.toolchain import tools
from stepmap_codegen.toolchain.targets import Target

SYMBOL = re.compile(r"^ *\d+: ([0-9a-f]+) +(\w+) FUNC +\w+ +\w+ +(\d+) (\S+)$", re.MULTILINE)


class Sizes(NamedTuple):
    """Bytes of code and constants, of variables with a first value, and of variables that begin as zero."""

    text: int
    data: int
    bss: int


@dataclass(frozen=True)
class Function:
    name: str
    address: int
    size: int


def sizes(target: Target, files: Sequence[Path]) -> list[Sizes]:
    rows = [line.split() for line in tools.call(target, "size", *files).splitlines()[1:]]
    return [Sizes(int(row[0]), int(row[1]), int(row[2])) for row in rows]


def functions(target: Target, program: Path) -> list[Function]:
    """Every function that was linked, by address; several may share one."""
    table = tools.call(target, "readelf", "--symbols", "--wide", program)
    thumb = 1 if target.tool("").startswith("arm") else 0  # lowest bit of an address; on Xtensa a part of it
    found = [(int(at, 16) & ~thumb, int(size, 0), section, name) for at, size, section, name in SYMBOL.findall(table)]
    found.sort()
    starts = sorted({(section, at) for at, _, section, _ in found})
    room = {first: second[1] - first[1] for first, second in pairwise(starts) if first[0] == second[0]}
    # Some assembly of libraries does not give its size: it ends where the next function begins.
    return [Function(name, at, size or room.get((section, at), 0)) for at, size, section, name in found]


def listing(target: Target, program: Path) -> str:
    """The program's instructions."""
    return tools.call(target, "objdump", "--disassemble", "--no-show-raw-insn", program)
