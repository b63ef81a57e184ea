"""Floating point: one readable line per operation."""

from __future__ import annotations

import casadi as ca

from stepmap_codegen.emit.c_text import float_literal, member
from stepmap_codegen.model.program import SELECT, Block, Program, Role
from stepmap_codegen.model.scalar import Scalar

PART = 1000  # operations of a function of a tape
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


class TapeWriter(FloatWriter):
    """Prints a tape: one function, or several and one that calls them.

    Compilers give registers to the values of a whole function, and take half a minute for one of 25 000 operations.
    What one function leaves to the next is in an array of their caller, in places that are used again.
    """

    def functions(self) -> str:
        """All of them; the last has the tape's name."""
        if len(self.block.operations) <= PART or self.block.guard:
            return self.text(static=True)
        self._divide()
        bodies = [self._part(k) for k in range(self.parts)]
        name = self.block.name
        calls = "\n".join(f"  {name}_{k}(c, kept);" for k in range(self.parts))
        made = [
            f"static __attribute__((noinline)) void {name}_{k}(sm_controller *c, sm_real *kept) {{\n"
            f"  {lines}\n  (void)kept;\n}}\n"
            for k, lines in enumerate("\n  ".join(body) for body in bodies)
        ]
        return "\n".join(
            [*made, f"static void {name}(sm_controller *c) {{\n  sm_real kept[{max(self.room, 1)}];\n{calls}\n}}\n"]
        )

    def _divide(self) -> None:
        """Which part each operation is in, which parts need it, and where it waits for them."""
        operations = self.block.operations
        free = (ca.OP_CONST, ca.OP_INPUT)
        self.parts = -(-len(operations) // PART)
        self.part = [i // PART for i in range(len(operations))]
        self.last = list(self.part)
        for i, operation in enumerate(operations):
            for a in operation.arguments:
                self.last[a] = max(self.last[a], self.part[i])
        read = {operation.field for operation in operations if operation.code == ca.OP_INPUT}
        self.late = [store for store in self.block.stores if store.field in read]
        self.early: list[list[int]] = [[] for _ in range(self.parts)]
        for number, store in enumerate(self.block.stores):
            if store.field in read:  # whoever reads it comes first
                self.last[store.operation] = self.parts - 1
            else:
                self.early[self.part[store.operation]].append(number)
        self.waits = [i for i, o in enumerate(operations) if o.code not in free and self.last[i] > self.part[i]]
        self._places()

    def _places(self) -> None:
        self.place: dict[int, int] = {}
        self.room = 0
        unused: list[int] = []
        ending: list[list[int]] = [[] for _ in range(self.parts)]
        part = 0
        for i in self.waits:
            while part < self.part[i]:
                unused += ending[part]
                part += 1
            if not unused:
                unused.append(self.room)
                self.room += 1
            self.place[i] = unused.pop()
            ending[self.last[i]].append(self.place[i])

    def _part(self, number: int) -> list[str]:
        """The lines of one function."""
        operations, body = self.block.operations, list[str]()
        self.names = [""] * len(operations)
        self.lines = body

        def known(i: int) -> None:
            operation = operations[i]
            if self.names[i]:
                return
            if operation.code == ca.OP_CONST:
                self.names[i] = float_literal(operation.constant, self.scalar)
            elif operation.code == ca.OP_INPUT:
                self.names[i] = self._name(operation.field)
                body.append(f"const sm_real {self.names[i]} = {member(self.program, operation.field)};")
            elif self.part[i] < number:
                self.names[i] = f"t{i}"
                body.append(f"const sm_real t{i} = kept[{self.place[i]}];")
            else:
                for a in operation.arguments:
                    known(a)
                self.names[i] = f"t{i}"
                body.append(f"const sm_real t{i} = {self._expression(i)};")

        begin, end = number * PART, min((number + 1) * PART, len(operations))
        for i in range(begin, end):
            if operations[i].code not in (ca.OP_CONST, ca.OP_INPUT):
                known(i)
        stores = [self.block.stores[k] for k in self.early[number]]
        for store in [*stores, *(self.late if number == self.parts - 1 else [])]:
            known(store.operation)
            body.append(f"{member(self.program, store.field)} = {self.names[store.operation]};")
        body += [f"kept[{self.place[i]}] = t{i};" for i in self.waits if self.part[i] == number]
        return body
