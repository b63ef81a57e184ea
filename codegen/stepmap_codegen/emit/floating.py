"""Floating point: one readable line per operation."""

from __future__ import annotations

import casadi as ca

from stepmap_codegen.emit.c_text import float_literal, member
from stepmap_codegen.model.program import SELECT, Block, Program, Role
from stepmap_codegen.model.scalar import Scalar

FLOAT_CALLS = {ca.OP_SIN: "sin", ca.OP_COS: "cos", ca.OP_SQRT: "sqrt", ca.OP_FABS: "fabs"}


class FloatWriter:
    """Prints the function of one block."""

    def __init__(self, program: Program, block: Block, scalar: Scalar) -> None:
        self.program, self.block, self.scalar = program, block, scalar
        self.names: list[str] = []

    def text(self, *, static: bool = False) -> str:
        """``static``: without sm_ and known in its file alone, as what steps call."""
        stored = {store.operation: self._name(store.field) for store in self.block.stores}
        used = {a for operation in self.block.operations for a in operation.arguments}
        used |= {store.operation for store in self.block.stores}
        used |= set() if self.block.guard is None else {self.block.guard.small, self.block.guard.large}
        body: list[str] = []
        for i, operation in enumerate(self.block.operations):
            if operation.code == ca.OP_CONST:
                self.names.append(float_literal(operation.constant, self.scalar))
            elif operation.code == ca.OP_INPUT:
                self.names.append(self._name(operation.field))
                if i not in used:  # what is stored where it came from
                    continue
                body.append(f"const sm_real {self.names[i]} = {member(self.program, operation.field)};")
            else:
                self.names.append(f"next_{stored[i]}" if i in stored else f"t{i}")
                body.append(f"const sm_real {self.names[i]} = {self._expression(i)};")
            guard = self.block.guard
            if guard and i == guard.after:
                test = f"{self.names[guard.small]} <= {self.names[guard.large]}"
                body += [f"if (!({test})) {{", "  return 0;", "}"]  # a NaN is outside
        body += [f"{member(self.program, store.field)} = {self.names[store.operation]};" for store in self.block.stores]
        if self.block.guard:
            body.append("return 1;")
        inner = "\n  ".join(body or ["(void)c;"])
        result = "int" if self.block.guard else "void"
        start = f"static {result} {self.block.name}" if static else f"{result} sm_{self.block.name}"
        return f"{start}(sm_controller *c) {{\n  {inner}\n}}\n"

    def _name(self, field: int) -> str:
        known = self.program.fields[field]
        return known.name if known.role is not Role.WORK else f"w{field}"

    def _expression(self, i: int) -> str:
        operation = self.block.operations[i]
        a = [self.names[k] for k in operation.arguments]
        if operation.code in FLOAT_CALLS:
            suffix = "f" if self.scalar is Scalar.FLOAT32 else ""
            return f"{FLOAT_CALLS[operation.code]}{suffix}({a[0]})"
        one, two = float_literal(1.0, self.scalar), float_literal(2.0, self.scalar)
        zero = float_literal(0.0, self.scalar)
        pattern = {
            ca.OP_ADD: "{0} + {1}",
            ca.OP_SUB: "{0} - {1}",
            ca.OP_MUL: "{0} * {1}",
            ca.OP_SQ: "{0} * {0}",
            ca.OP_NEG: "-{0}",
            ca.OP_TWICE: f"{two} * {{0}}",
            ca.OP_INV: f"{one} / {{0}}",
            ca.OP_FMIN: "{0} < {1} ? {0} : {1}",
            ca.OP_FMAX: "{0} > {1} ? {0} : {1}",
            SELECT: "{0} <= {1} ? {2} : {3}",
            ca.OP_SIGN: f"({{0}} > {zero} ? {one} : {{0}} < {zero} ? -{one} : {zero})",
        }[operation.code]
        return pattern.format(*a)
