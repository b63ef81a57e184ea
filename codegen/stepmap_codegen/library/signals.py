"""Signals of a library: states, measurements and commands by name, in its header, its README and its examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepmap_codegen.controller import Controller
from stepmap_codegen.model.program import Field, Role

KINDS = {"states": Role.STATE, "measurements": Role.MEASUREMENT, "commands": Role.COMMAND}
TICKS = 5  # of the examples


def fields(made: Controller, role: Role) -> Iterator[tuple[int, Field, int]]:
    """(index, field, fraction bits) of the signals of a role."""
    for k, i in enumerate(made.program.of(role)):
        yield k, made.program.fields[i], 0 if made.formats is None else made.formats.fields[i]


def listed(made: Controller) -> dict[str, list[dict[str, Any]]]:
    """Signals for programs that read stepmap.json."""
    known = {
        kind: [
            {"name": field.name, "label": field.label, "unit": field.unit, "bits": bits}
            for _, field, bits in fields(made, role)
        ]
        for kind, role in KINDS.items()
    }
    stream = made.plant.stream
    points = [] if stream is None else stream.quantities
    known["set_points"] = [{"name": q.name, "unit": q.unit, "low": q.low, "high": q.high} for q in points]
    return known


def enumerated(made: Controller, role: Role) -> str:
    """An enumeration with the indices of a role."""
    rows = []
    for k, field, bits in fields(made, role):
        unit = f" [{field.unit}]" if field.unit else ""
        scale = "" if made.formats is None else f", raw = value * 2^{bits}"
        rows.append(f"  LIB_{field.name} = {k}, /* {field.label.replace('*/', '* /')}{unit}{scale} */")
    return "\n".join(["enum {", *rows, "};", ""]) if rows else ""


def example_values(made: Controller, prefix: str) -> dict[str, str]:
    """Marks of the examples' templates."""
    measured = []
    for (_, field, _), value in zip(fields(made, Role.MEASUREMENT), made.output.test.measurements, strict=True):
        unit = f" [{field.unit}]" if field.unit else ""
        about = f"{field.label.replace('*/', '* /')}{unit}"
        measured.append(f"(void)lib_measure_si(&c, LIB_{field.name}, {float(f'{value:.6g}')!r}); /* {about} */")
    commands = len(made.program.of(Role.COMMAND))
    return {
        "TICKS": str(TICKS),
        "MEASURE": "\n".join(f"    {line}" for line in measured),
        "SHOWN": "lib_command_si" if commands else "lib_estimate_si",
        "COUNT": "LIB_COMMANDS" if commands else "LIB_STATES",
        "WHERETO": "to your motors" if commands else "the estimate",
        "SIGNALS": "\n".join(_rows(made, prefix)),
    }


def _rows(made: Controller, prefix: str) -> Iterator[str]:
    """Rows of the table in README.md."""
    for kind, role in KINDS.items():
        for _, field, bits in fields(made, role):
            scale = "" if made.formats is None else str(bits)
            yield f"| {field.label}, {kind[:-1]} | `{prefix.upper()}_{field.name}` | {field.unit} | {scale} |"
