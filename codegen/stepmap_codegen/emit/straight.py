"""Fixed point as straight-line code: one readable line per instruction."""

from __future__ import annotations

from stepmap_codegen.emit.c_text import literal, member
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.instructions import SILENT, Instruction, Kind, Op, Operand, Selected
from stepmap_codegen.model.program import Block, Program

COUNTING = {Op.ADD, Op.SUB, Op.MUL, Op.RECIPROCAL, Op.ROOT, Op.ABS}  # may saturate, which is counted


class StraightWriter:
    """Prints the function of one block."""

    def __init__(self, program: Program, formats: Formats, block: Block, selected: Selected) -> None:
        self.program, self.formats, self.block, self.selected = program, formats, block, selected
        self.bits = formats.blocks[program.blocks.index(block)].operations
        self.names: dict[int, str] = {}
        self.loaded: set[int] = set()
        self.test = ""  # of the selection that is being printed
        stored = {operand.number: field for field, operand, _ in selected.stores if operand.kind is Kind.VALUE}
        for made in selected.instructions:
            if made.op not in SILENT:
                known = stored.get(made.operation)
                name = f"t{len(self.names)}" if known is None else f"next_{program.fields[known].name}"
                self.names[made.operation] = name

    def text(self) -> str:
        body = self._body()
        if any("&overflows" in line for line in body):
            body = ["uint32_t overflows = 0;", *body, "c->overflows += overflows;"]
        else:
            body = [line for line in body if line != "  c->overflows += overflows;"]
        if self.block.guard:
            body.append("return 1;")
        result = "int" if self.block.guard else "void"
        if not body:
            body = ["(void)c;"]
        inner = "\n  ".join(body)
        return f"{result} sm_{self.block.name}(sm_controller *c) {{\n  {inner}\n}}\n"

    def _body(self) -> list[str]:
        out: list[str] = []
        needed = self._needed()
        for made in self.selected.instructions:
            if made.op is Op.GUARD or made.operation in needed or made.op in COUNTING:
                for operand, right in zip((made.a, made.b), made.right, strict=True):
                    out += self._load(operand) if right < 32 else []
                out += self._instruction(made, made.operation in needed)
        for _, operand, _ in self.selected.stores:
            out += self._load(operand)
        for field, operand, right in self.selected.stores:
            out.append(f"{member(self.program, field)} = {self._moved(self._name(operand), right)};")
        return out

    def _needed(self) -> set[int]:
        """Operations that something else is made of; an operand that is shifted out is not used."""
        used = {
            operand.number for _, operand, right in self.selected.stores if right < 32 and operand.kind is Kind.VALUE
        }
        for made in reversed(self.selected.instructions):
            if made.op is Op.GUARD or made.operation in used or made.op in COUNTING:
                pairs = zip((made.a, made.b), made.right, strict=True)
                used |= {o.number for o, right in pairs if o is not None and o.kind is Kind.VALUE and right < 32}
        return used

    def _load(self, operand: Operand | None) -> list[str]:
        if operand is None or operand.kind is not Kind.FIELD or operand.number in self.loaded:
            return []
        self.loaded.add(operand.number)
        name, bits = self.program.fields[operand.number].name, self.formats.fields[operand.number]
        return [f"const int32_t {name} = {member(self.program, operand.number)}; /* Q{bits} */"]

    def _name(self, operand: Operand) -> str:
        if operand.kind is Kind.CONSTANT:
            return literal(operand.number)
        if operand.kind is Kind.FIELD:
            return self.program.fields[operand.number].name
        return self.names[operand.number]

    def _instruction(self, made: Instruction, needed: bool) -> list[str]:
        a = self._name(made.a)
        b = self._name(made.b) if made.b is not None else ""
        x, y = (self._moved(name, right) for name, right in zip((a, b), made.right, strict=True))
        if made.op is Op.TEST:
            self.test = f"{x} <= {y}"
            return []
        if made.op is Op.GUARD:
            return [f"if ({x} > {y}) {{", "  c->overflows += overflows;", "  return 0;", "}"]
        word = f"{self.formats.word}U"
        narrow = 32 - self.formats.word
        one = 1 << made.amount if made.op is Op.SIGN else 0  # amounts of others may be negative
        expression = {
            Op.ADD: f"sm_add({x}, {y}, &overflows)",
            Op.SUB: f"sm_sub({x}, {y}, &overflows)",
            Op.ADD_FAST: f"{x} + {y}",
            Op.SUB_FAST: f"{x} - {y}",
            Op.MIN: f"{x} < {y} ? {x} : {y}",
            Op.MAX: f"{x} > {y} ? {x} : {y}",
            Op.MUL: f"sm_mul({a}, {b}, {made.amount}, &overflows)",
            Op.MUL_WIDE: f"sm_mul_wide({a}, {b}, {made.amount})",
            Op.HIGH: f"sm_high({a}, {b})",
            Op.RECIPROCAL: f"sm_reciprocal({a}, {made.amount}, {word}, &overflows)",
            Op.ROOT: f"sm_sqrt({a}, {made.amount}, {word}, &overflows)",
            Op.SIN: self._moved(f"sm_sin({a}, {made.amount})", narrow),
            Op.COS: self._moved(f"sm_cos({a}, {made.amount})", narrow),
            Op.ABS: f"sm_abs({a}, &overflows)",
            Op.PICK: f"{self.test} ? {x} : {y}",
            Op.SIGN: f"({a} > 0 ? {one} : {a} < 0 ? -{one} : 0)",
        }[made.op]
        if not needed:  # only its saturation counts
            return [f"(void){expression};"]
        return [f"const int32_t {self.names[made.operation]} = {expression}; /* Q{self.bits[made.operation]} */"]

    def _moved(self, text: str, right: int) -> str:
        if right == 0 or not text:
            return text
        if right >= 32:
            return "0"
        return f"sm_right({text}, {right})" if right > 0 else f"sm_left({text}, {min(-right, 31)}, &overflows)"
