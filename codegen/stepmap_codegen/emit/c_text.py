"""How fields and numbers are written in C: what all printers share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.integer_machine import encode
from stepmap_codegen.model.program import Program, Role
from stepmap_codegen.model.scalar import Scalar

GROUPS = {
    Role.STATE: ("x", "SM_NX", "estimate"),
    Role.COVARIANCE: ("P", "SM_NP", "its covariance, lower triangle without what is always zero"),
    Role.MODE: ("mode", "SM_NMODE", "of gaps: 1 where closed, and what the test for slack remembers"),
    Role.MEASUREMENT: ("z", "SM_NZ", "measurements"),
    Role.COMMAND: ("u", "SM_NU", "commands"),
    Role.SCHEDULE: ("row", "SM_NROW", "reference and gains of this tick"),
    Role.INNOVATION: ("e", "SM_NZ", "innovations, for telemetry"),
    Role.VARIANCE: ("s", "SM_NZ", "innovation variances, for telemetry"),
    Role.WORK: ("w", "SM_NW", "matrices that loops go through"),
}
OPTIONAL = (Role.MODE, Role.WORK)


def groups(program: Program) -> dict[Role, tuple[str, str, str]]:
    """The groups of a program's fields; modes only where there are gaps, matrices where there are loops."""
    return {role: group for role, group in GROUPS.items() if role not in OPTIONAL or program.of(role)}


def field_order(program: Program) -> list[int]:
    """Fields in the order of the struct's memory."""
    return [i for role in GROUPS for i in program.of(role)]


def member(program: Program, index: int) -> str:
    """How a field is written in C."""
    field = program.fields[index]
    return f"c->w[{index - program.of(Role.WORK)[0]}]" if field.role is Role.WORK else f"c->{field.name}"


def joined(values: Sequence[object]) -> str:
    """Values of an initializer in one line; a single 0 where there are none, as C allows no empty one."""
    return ", ".join(str(value) for value in values) or "0"


def wrapped(items: Sequence[str], width: int = 116) -> str:
    """Items of an initializer in lines of at most ``width`` characters."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > width:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])


def scaled(formats: Formats | None, scalar: Scalar, field: int, value: float) -> str:
    """A value of a field as a literal."""
    if formats is None:
        return float_literal(value, scalar)
    return str(int(encode(np.array([value]), [formats.fields[field]], formats.word)[0]))


def literal(value: int) -> str:
    """An integer as a literal."""
    if value == -(1 << 31):
        return "INT32_MIN"
    return f"({value})" if value < 0 else str(value)


def float_literal(value: float, scalar: Scalar) -> str:
    """A number as a literal of its type, with enough digits to be read back as the same number."""
    text = f"{value:.9g}" if scalar is Scalar.FLOAT32 else f"{value:.17g}"
    if not any(c in text for c in ".e"):
        text += ".0"
    text += "F" if scalar is Scalar.FLOAT32 else ""
    return f"({text})" if value < 0 else text
