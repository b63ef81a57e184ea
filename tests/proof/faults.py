"""Faults put into a generated controller, each of which the analyser must find."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.proof import tick


def _once(pattern: str, by: str) -> Callable[[str], str]:
    def seeded(text: str) -> str:
        made, count = re.subn(pattern, by, text, count=1)
        if count != 1:
            raise ValueError(f"nothing like {pattern} is in the controller: the fault was not put in")
        return made

    return seeded


def _wider(text: str) -> str:
    """Products in sums that are not checked saturate at 32 bits: all of them, as operands may be too short for one."""
    made, widened = text, 0
    for pair in re.findall(r"= (t\d+) [+-] (t\d+);", text):
        for name in pair:
            made, count = re.subn(rf"(int32_t {name} = sm_mul(?:_cut)?\(\w+, \w+, \d+), (?!32)\d+", r"\1, 32", made)
            widened += count
    if not widened:
        raise ValueError("no product is in a sum without a check: the fault was not put in")
    return made


FAULTS: dict[str, tuple[Callable[[str], str], str]] = {  # how it is put in, and what the analyser must say
    "a sum without a check": (_once(r"sm_add\((\w+), (\w+), &overflowed\)", r"\1 + \2"), "signed overflow"),
    "products held to too many bits": (_wider, "signed overflow"),
    "a shift by 32": (_once(r"\((\w+) >> 1\)", r"(\1 >> 32)"), "invalid RHS operand for shift"),
    "a product that does not fit": (_once(r"sm_mul_wide\((\w+), (\w+), \d+\)", r"sm_mul_wide(\1, \2, 20)"), "fits"),
    "a division by a field": (_once(r"sm_high_cut\((\w+), \w+\)", r"\1 / c->P[0]"), "division by zero"),
    "a field beyond the last": (_once(r"c->P_\w+ = (\d+);", r"c->all[SM_NFIELDS] = \1;"), "out of bounds"),
}


def found(name: str, generated: Path, folder: Path) -> tuple[str, ...]:
    """The alarms of the kind that a fault must raise, in a controller that has it."""
    seeded, expected = FAULTS[name]
    source = folder / "seeded.c"
    folder.mkdir(parents=True, exist_ok=True)
    source.write_text(seeded((generated / "controller.c").read_text()))
    return tuple(alarm for alarm in tick.prove(generated, folder, source).alarms if expected in alarm)


def all_found(generated: Path, folder: Path) -> dict[str, bool]:
    return {name: bool(found(name, generated, folder / name.replace(" ", "_"))) for name in FAULTS}
