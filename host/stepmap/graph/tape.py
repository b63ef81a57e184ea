"""A CasADi SX function as a straight-line tape in single-assignment form."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from stepmap.errors import StepmapError

UNARY = {
    ca.OP_NEG: "-{0}",
    ca.OP_SQ: "{0} * {0}",
    ca.OP_TWICE: "2 * {0}",
    ca.OP_INV: "1 / {0}",
    ca.OP_SIN: "sin({0})",
    ca.OP_COS: "cos({0})",
    ca.OP_TAN: "tan({0})",
    ca.OP_SQRT: "sqrt({0})",
    ca.OP_EXP: "exp({0})",
    ca.OP_LOG: "log({0})",
    ca.OP_ATAN: "atan({0})",
    ca.OP_ASIN: "asin({0})",
    ca.OP_ACOS: "acos({0})",
    ca.OP_SINH: "sinh({0})",
    ca.OP_COSH: "cosh({0})",
    ca.OP_TANH: "tanh({0})",
    ca.OP_FABS: "fabs({0})",
    ca.OP_SIGN: "({0} > 0 ? 1.0 : {0} < 0 ? -1.0 : {0})",  # the slope of a spring along one axis, √x²
    ca.OP_NOT: "({0} == 0 ? 1.0 : 0.0)",
    ca.OP_ASSIGN: "{0}",
}
BINARY = {
    ca.OP_ADD: "{0} + {1}",
    ca.OP_SUB: "{0} - {1}",
    ca.OP_MUL: "{0} * {1}",
    ca.OP_DIV: "{0} / {1}",
    ca.OP_POW: "pow({0}, {1})",
    ca.OP_CONSTPOW: "pow({0}, {1})",
    ca.OP_ATAN2: "atan2({0}, {1})",
    ca.OP_FMIN: "fmin({0}, {1})",
    ca.OP_FMAX: "fmax({0}, {1})",
    ca.OP_LT: "({0} < {1} ? 1.0 : 0.0)",  # these are slopes of the two before
    ca.OP_LE: "({0} <= {1} ? 1.0 : 0.0)",
    ca.OP_IF_ELSE_ZERO: "({0} != 0 ? {1} : 0.0)",
}


@dataclass(frozen=True)
class Operation:
    """One line of the tape: its value is used by later lines under its position."""

    code: int  # a CasADi operation, OP_CONST or OP_INPUT
    arguments: tuple[int, ...]  # positions of earlier lines
    constant: float = 0.0
    source: tuple[int, int] = (0, 0)  # OP_INPUT: argument and entry


@dataclass(frozen=True)
class Store:
    """An output entry: which line's value goes where (output, position in its row-major dense array)."""

    value: int
    output: int
    position: int


@dataclass(frozen=True)
class Tape:
    name: str
    input_sizes: tuple[int, ...]
    output_sizes: tuple[int, ...]  # dense
    operations: tuple[Operation, ...]
    stores: tuple[Store, ...]


def record(function: ca.Function) -> Tape:
    """The tape of a function whose outputs are transposed matrices (stored order = row-major order)."""
    operations: list[Operation] = []
    stores: list[Store] = []
    where: dict[int, int] = {}  # work slot -> line that holds its present value
    dense = [_dense_positions(function.sparsity_out(i)) for i in range(function.n_out())]
    for k in range(function.n_instructions()):
        code = function.instruction_id(k)
        reads, writes = function.instruction_input(k), function.instruction_output(k)
        if code == ca.OP_OUTPUT:
            stores.append(Store(where[reads[0]], writes[0], dense[writes[0]][writes[1]]))
            continue
        if code == ca.OP_CONST:
            line = Operation(code, (), constant=function.instruction_constant(k))
        elif code == ca.OP_INPUT:
            line = Operation(code, (), source=(reads[0], reads[1]))
        elif code in UNARY:
            line = Operation(code, (where[reads[0]],))
        elif code in BINARY:
            line = Operation(code, (where[reads[0]], where[reads[1]]))
        else:
            raise StepmapError(f"{function.name()}: operation {code} of CasADi has no C form yet")
        where[writes[0]] = len(operations)
        operations.append(line)
    return Tape(
        name=function.name(),
        input_sizes=tuple(function.numel_in(i) for i in range(function.n_in())),
        output_sizes=tuple(function.numel_out(i) for i in range(function.n_out())),
        operations=tuple(operations),
        stores=tuple(stores),
    )


def _dense_positions(sparsity: ca.Sparsity) -> list[int]:
    rows = sparsity.size1()
    return [column * rows + row for row, column in zip(*sparsity.get_triplet(), strict=True)]
