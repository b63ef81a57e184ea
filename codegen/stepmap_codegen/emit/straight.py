"""Fixed point as straight-line code: one readable line per instruction."""

from __future__ import annotations

from collections.abc import Sequence

from stepmap_codegen.emit.c_text import literal, member
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.instructions import SILENT, Instruction, Kind, Op, Operand, Selected, Stored
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
        stored = {s.operand.number: s.field for s in selected.stores if s.operand.kind is Kind.VALUE}
        for made in selected.instructions:
            if made.op not in SILENT:
                known = stored.get(made.operation)
                name = f"t{len(self.names)}" if known is None else f"next_{program.fields[known].name}"
                self.names[made.operation] = name

    def text(self) -> str:
        body = self._body()
        if any("&overflowed" in line for line in body):
            body = ["uint32_t overflowed = 0;", "sm_watch();", *body, "c->overflows += sm_noted(overflowed);"]
        if self.block.guard:
            body.append("return held;")
        result = "int" if self.block.guard else "void"
        if not body:
            body = ["(void)c;"]
        inner = "\n  ".join(body)
        return f"{result} sm_{self.block.name}(sm_controller *c) {{\n  {inner}\n}}\n"

    def _body(self) -> list[str]:
        out: list[str] = []
        needed = self._needed()
        shown = [m for m in self.selected.instructions if m.op is Op.GUARD or m.operation in needed or m.op in COUNTING]
        reads = {o.number for o, _ in self._operands(shown) if o.kind is Kind.FIELD}
        reads |= {store.operand.number for store in self.selected.stores if store.operand.kind is Kind.FIELD}
        left, done = list(self.selected.stores), set[int]()
        guarded, indent = self.block.guard is not None, ""
        for made in shown:
            lines = [line for o, _ in self._operands([made]) for line in self._load(o)]
            lines += self._instruction(made, made.operation in needed)
            out += [indent + line for line in lines]
            if made.op not in SILENT:
                done.add(made.operation)
            if made.op is Op.GUARD:
                guarded, indent = False, "  "
            if not guarded:  # a value that is stored at once need not be kept
                ready = [s for s in left if s.operand.kind is Kind.VALUE and s.operand.number in done]
                ready = [s for s in ready if s.field not in reads or s.field in self.loaded]
                left = [s for s in left if s not in ready]
                out += [indent + self._stored(store) for store in ready]
        out += [indent + line for store in left for line in self._load(store.operand)]
        out += [indent + self._stored(store) for store in left]
        return [*out, "}"] if indent else out

    def _operands(self, made: Sequence[Instruction]) -> list[tuple[Operand, int]]:
        """Operands of instructions that are not shifted out, with their shifts."""
        pairs = [pair for m in made for pair in zip((m.a, m.b), m.right, strict=True)]
        return [(operand, right) for operand, right in pairs if operand is not None and right < 32]

    def _stored(self, store: Stored) -> str:
        value = self._moved(self._name(store.operand), store.right, store.cut, store.fits)
        return f"{member(self.program, store.field)} = {value};"

    def _needed(self) -> set[int]:
        """Operations that something else is made of; an operand that is shifted out is not used."""
        stores = self.selected.stores
        used = {store.operand.number for store in stores if store.right < 32 and store.operand.kind is Kind.VALUE}
        for made in reversed(self.selected.instructions):
            if made.op is Op.GUARD or made.operation in used or made.op in COUNTING:
                used |= {o.number for o, _ in self._operands([made]) if o.kind is Kind.VALUE}
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
        x, y = (self._moved(name, right, made.cut) for name, right in zip((a, b), made.right, strict=True))
        if made.op is Op.TEST:
            self.test = f"{x} <= {y}"
            return []
        if made.op is Op.GUARD:
            return [f"const int held = {x} <= {y};", "if (held) {"]
        word = f"{self.formats.word}U"
        narrow = 32 - self.formats.word
        one = 1 << made.amount if made.op is Op.SIGN else 0  # amounts of others may be negative
        cut = "_cut" if made.cut else ""
        expression = {
            Op.ADD: f"sm_add({x}, {y}, &overflowed)",
            Op.SUB: f"sm_sub({x}, {y}, &overflowed)",
            Op.ADD_FAST: f"{x} + {y}",
            Op.SUB_FAST: f"{x} - {y}",
            Op.MIN: f"{x} < {y} ? {x} : {y}",
            Op.MAX: f"{x} > {y} ? {x} : {y}",
            Op.MUL: f"sm_mul{cut}({a}, {b}, {made.amount}, {made.bits}, &overflowed)",
            Op.MUL_WIDE: f"sm_mul_wide{cut}({a}, {b}, {made.amount})",
            Op.HIGH: f"sm_high{cut}({a}, {b})",
            Op.RECIPROCAL: f"sm_inverse({a}, {made.amount}, &overflowed)",
            Op.ROOT: f"sm_sqrt({a}, {made.amount}, {word}, &overflowed)",
            Op.SIN: self._moved(f"sm_sin({a}, {made.amount})", narrow),
            Op.COS: self._moved(f"sm_cos({a}, {made.amount})", narrow),
            Op.ABS: f"sm_abs({a}, &overflowed)",
            Op.PICK: f"{self.test} ? {x} : {y}",
            Op.SIGN: f"({a} > 0 ? {one} : {a} < 0 ? -{one} : 0)",
        }[made.op]
        if not needed:  # only its saturation counts
            return [f"(void){expression};"]
        return [f"const int32_t {self.names[made.operation]} = {expression}; /* Q{self.bits[made.operation]} */"]

    def _moved(self, text: str, right: int, cut: bool = False, fits: bool = False) -> str:
        if right == 0 or not text:
            return text
        if right >= 32:
            return "0"
        if right > 0:
            return f"({text} >> {right})" if cut else f"sm_right({text}, {right})"
        left = min(-right, self.formats.word - 1)
        return f"sm_left_fast({text}, {left})" if fits else f"sm_left({text}, {left}, &overflowed)"
