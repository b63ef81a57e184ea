"""Fixed point as tables for sm_rows_run: one row per instruction (sm_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence

from stepmap_codegen.emit.c_text import field_order, literal, wrapped
from stepmap_codegen.model.instructions import SILENT, Kind, Op, Operand, Selected, constants, slots
from stepmap_codegen.model.program import Block, Program

CUT = 0x80  # beside the number of the operation: bits that are lost are cut off
SHIFTED = {Op.ADD, Op.SUB, Op.ADD_FAST, Op.SUB_FAST, Op.MIN, Op.MAX, Op.GUARD, Op.TEST, Op.PICK}


class RowsWriter:
    """Prints a program: a table of constants that all blocks share, then a table and a function per block."""

    def __init__(self, program: Program, chosen: Sequence[Selected]) -> None:
        self.program, self.chosen = program, chosen
        self.constants = constants(chosen)
        self.place = {i: k for k, i in enumerate(field_order(program))}

    def text(self) -> str:
        out = []
        if self.constants:
            values = wrapped([literal(value) for value in self.constants])
            out += ["static const int32_t constants[] = {", values, "};", ""]
        for block, selected in zip(self.program.blocks, self.chosen, strict=True):
            out += self._block(block, selected)
        return "\n".join(out)

    def _block(self, block: Block, selected: Selected) -> list[str]:
        rows, work = self._rows(selected)
        name, base = f"rows_{block.name}", "constants" if self.constants else "0"
        result = "int" if block.guard else "void"
        run = f"sm_rows_run({name}, {len(rows)}U, c->all, {base}, work, &c->overflows)"
        return [
            *(f"static const sm_row {name}[] = {{", *(f"    {row}," for row in rows), "};", ""),
            f"{result} sm_{block.name}(sm_controller *c) {{",
            f"  int32_t work[{max(work, 1)}];",
            f"  return {run};" if block.guard else f"  (void){run};",
            *("}", ""),
        ]

    def _rows(self, selected: Selected) -> tuple[list[str], int]:
        """Rows of a block, and how many values they keep in between."""
        where, spare = slots(selected)
        rows = []
        for made in selected.instructions:
            to = 0 if made.op in SILENT else where[made.operation]
            amount = made.amount if made.op not in SHIFTED else min(made.right[0], 32) | min(made.right[1], 32) << 6
            amount |= made.bits << 6 if made.op is Op.MUL else 0
            rows.append(_row(made.op, to, self._code(made.a, where), self._code(made.b, where), amount, made.cut))
        stored = {store.field for store in selected.stores}
        moved = []
        for store in selected.stores:
            source = self._code(store.operand, where)
            if store.operand.kind is Kind.FIELD and store.operand.number in stored:  # read before any store happens
                rows.append(_row(Op.MOVE, spare, source, 0, 0))
                source, spare = spare, spare + 1
            to = Kind.FIELD.value << 14 | self.place[store.field]
            moved.append(_row(Op.MOVE, to, source, 0, max(min(store.right, 32), -31), store.cut))
        return [*rows, *moved], spare

    def _code(self, operand: Operand | None, where: dict[int, int]) -> int:
        """An operand as a row names it: two bits for the kind, fourteen for which."""
        if operand is None:
            return Kind.FIELD.value << 14  # not used, but readable
        if operand.kind is Kind.VALUE:
            return where[operand.number]
        known = operand.kind is Kind.FIELD
        index = self.place[operand.number] if known else self.constants.index(operand.number)
        space: int = operand.kind.value
        return space << 14 | index


def _row(op: Op, to: int, a: int, b: int, amount: int, cut: bool = False) -> str:
    return f"{{{op.value | CUT * cut}, {amount}, {to}, {a}, {b}}}"
