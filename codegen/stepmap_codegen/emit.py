"""Program to C: one function a block, one readable line an operation."""

from __future__ import annotations

import casadi as ca

from stepmap.errors import RangeError
from stepmap_codegen.formats import BlockFormats, Formats, power_of_two
from stepmap_codegen.machine import constant
from stepmap_codegen.program import Block, Program, Role

GROUPS = {
    Role.STATE: ("x", "estimate"),
    Role.COVARIANCE: ("P", "its covariance"),
    Role.MEASUREMENT: ("z", "measurements"),
    Role.COMMAND: ("u", "commands"),
    Role.SCHEDULE: ("ref", "reference and gains of this tick"),
    Role.MONITOR: ("seen", "innovations, for telemetry"),
}


def member(program: Program, index: int) -> str:
    """How a field is written in C."""
    field = program.fields[index]
    group = GROUPS[field.role][0]
    return f"c->{group}.{field.name}"


def emit_header(program: Program, formats: Formats) -> str:
    out = ["#ifndef SM_CONTROLLER_H", "#define SM_CONTROLLER_H", "", "#include <stdint.h>", "", "typedef struct {"]
    for role, (group, what) in GROUPS.items():
        indices = program.of(role)
        if not indices:
            continue
        out.append(f"  struct {{ /* {what} */")
        for i in indices:
            field = program.fields[i]
            out.append(f"    int32_t {field.name}; /* {field.label} [{field.unit}] * 2^{formats.fields[i]} */")
        out.append(f"  }} {group};")
    out += ["  uint32_t lost; /* saturations so far */", "} sm_controller;", ""]
    for block in program.blocks:
        result = "int" if block.guard else "void"
        out.append(f"/* {block.summary}{'; 1 if taken, 0 if outside the gate' if block.guard else ''} */")
        out.append(f"{result} sm_{block.name}(sm_controller *c);")
    return "\n".join([*out, "", "#endif", ""])


def emit_source(program: Program, formats: Formats) -> str:
    if formats.word != 32:
        raise RangeError(
            f"word: C is written for 32 bits, got {formats.word}; shorter words are for studies in the model"
        )
    parts = ['#include "controller.h"', "", '#include "sm_fixed.h"', ""]
    for block, bits in zip(program.blocks, formats.blocks, strict=True):
        parts.append(_Writer(program, formats, block, bits).text())
    return "\n".join(parts)


class _Writer:
    def __init__(self, program: Program, formats: Formats, block: Block, bits: BlockFormats) -> None:
        self.program, self.formats, self.block, self.bits = program, formats, block, bits.lines
        self.word = formats.word
        self.name: dict[int, str] = {}

    def text(self) -> str:
        block = self.block
        body = []
        if any("lost" in line for line in self._all()):
            body.append("uint32_t lost = 0;")
        body += self._all()
        result = "int" if block.guard else "void"
        inner = "\n  ".join(body)
        return f"{result} sm_{block.name}(sm_controller *c) {{\n  {inner}\n}}\n"

    def _all(self) -> list[str]:
        self.name = {}
        out = []
        for i in range(len(self.block.lines)):
            out += self._line(i)
            guard = self.block.guard
            if guard and i == guard.after:
                out += self._guard()
        for store in self.block.stores:
            right = self.bits[store.line] - self.formats.fields[store.field]
            out.append(f"{member(self.program, store.field)} = {self._aligned(store.line, right)};")
        if any("&lost" in line for line in out):
            out.append("c->lost += lost;")
        if self.block.guard:
            out.append("return 1;")
        return out

    def _guard(self) -> list[str]:
        guard = self.block.guard
        assert guard is not None
        common = min(self.bits[guard.small], self.bits[guard.large])
        a, b = (self._aligned(k, self.bits[k] - common) for k in (guard.small, guard.large))
        return [f"if ({a} > {b}) {{", "  c->lost += lost;", "  return 0;", "}"]

    def _line(self, i: int) -> list[str]:
        line, f = self.block.lines[i], self.bits
        a = line.arguments
        if line.code == ca.OP_CONST:
            self.name[i] = _literal(constant(line.constant, f[i], self.word))
            return []
        if line.code == ca.OP_INPUT:
            return self._named(i, member(self.program, line.field))
        if line.code == ca.OP_TWICE:
            self.name[i] = self.name[a[0]]
            return []
        if line.code == ca.OP_NEG:
            return self._named(i, f"sm_sub(0, {self.name[a[0]]}, &lost)")
        if line.code == ca.OP_INV:
            base = 61 - f[a[0]] - f[i]
            return self._named(i, f"sm_reciprocal({self.name[a[0]]}, {base}, &lost)")
        if line.code in (ca.OP_MUL, ca.OP_SQ):
            return self._product(i)
        if line.code in (ca.OP_FMIN, ca.OP_FMAX):
            x, y = (self._aligned(k, f[k] - f[i]) for k in a)
            sign = "<" if line.code == ca.OP_FMIN else ">"
            return self._named(i, f"{x} {sign} {y} ? {x} : {y}")
        return self._sum(i)

    def _sum(self, i: int) -> list[str]:
        line, f = self.block.lines[i], self.bits
        rights = [f[k] - f[i] for k in line.arguments]
        x, y = (self._aligned(k, right) for k, right in zip(line.arguments, rights, strict=True))
        plus = line.code == ca.OP_ADD
        if min(rights) >= 1:  # both halved: the sum fits
            return self._named(i, f"{x} {'+' if plus else '-'} {y}")
        return self._named(i, f"sm_{'add' if plus else 'sub'}({x}, {y}, &lost)")

    def _product(self, i: int) -> list[str]:
        line, f, lines = self.block.lines[i], self.bits, self.block.lines
        x, y = line.arguments[0], line.arguments[-1]
        if line.code == ca.OP_MUL and power_of_two(lines[x]) is not None:
            self.name[i] = self.name[y]
            return []
        if line.code == ca.OP_MUL and power_of_two(lines[y]) is not None:
            self.name[i] = self.name[x]
            return []
        right = f[x] + f[y] - f[i]
        pair = f"{self.name[x]}, {self.name[y]}"
        if right > 62:
            return self._named(i, "0")
        if right == 32 and self.word == 32:
            return self._named(i, f"sm_high({pair})")
        if right >= self.word:
            return self._named(i, f"sm_mul_wide({pair}, {right})")
        return self._named(i, f"sm_mul({pair}, {right}, &lost)")

    def _aligned(self, k: int, right: int) -> str:
        if right == 0:
            return self.name[k]
        if right >= 32:
            return "0"
        if right > 0:
            return f"sm_right({self.name[k]}, {right})"
        return f"sm_left({self.name[k]}, {min(-right, 31)}, &lost)"

    def _named(self, i: int, expression: str) -> list[str]:
        self.name[i] = f"a{i}"
        return [f"const int32_t a{i} = {expression};"]


def _literal(value: int) -> str:
    return f"({value})" if value < 0 else str(value)
