"""A controller's program and its model as CasADi functions, and CasADi's own C of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import casadi as ca

from stepmap_codegen.lower.controller import Plant
from stepmap_codegen.lower.step_graph import StepGraph
from stepmap_codegen.model.program import Block, BlockRole, Program, Role

RULES: dict[int, Callable[..., ca.SX]] = {
    ca.OP_ADD: lambda a, b: a + b,
    ca.OP_SUB: lambda a, b: a - b,
    ca.OP_MUL: lambda a, b: a * b,
    ca.OP_SQ: lambda a: a**2,
    ca.OP_NEG: lambda a: -a,
    ca.OP_TWICE: lambda a: 2 * a,
    ca.OP_INV: lambda a: 1 / a,
    ca.OP_FMIN: ca.fmin,
    ca.OP_FMAX: ca.fmax,
    ca.OP_SIN: ca.sin,
    ca.OP_COS: ca.cos,
    ca.OP_SQRT: ca.sqrt,
    ca.OP_FABS: ca.fabs,
    ca.OP_SIGN: ca.sign,
}
GIVEN = (Role.STATE, Role.COVARIANCE, Role.MEASUREMENT, Role.SCHEDULE)
MADE = (Role.STATE, Role.COVARIANCE, Role.COMMAND, Role.INNOVATION, Role.VARIANCE)


def tick_function(program: Program) -> ca.Function:
    """A whole tick from the fields of GIVEN to those of MADE. Without gates: an SX function has no branches."""
    symbols = [ca.SX.sym(field.name) for field in program.fields]
    values = list(symbols)
    for block in program.blocks:
        run_block(block, values)
    given = [ca.vertcat(*(symbols[i] for i in program.of(role))) for role in GIVEN]
    made = [ca.vertcat(*(values[i] for i in program.of(role))) for role in MADE]
    return ca.Function("tick", given, ca.cse(made))


def map_function(plant: Plant) -> ca.Function:
    """x_next of x and u."""
    x, u = ca.SX.sym("x", plant.step.nx), ca.SX.sym("u", plant.step.nu)
    return ca.Function("map", [x, u], [ca.cse(ca.densify(StepGraph(plant.step, plant.settings.newton).map(x, u)[0]))])


def model_functions(plant: Plant, program: Program) -> list[ca.Function]:
    """What a filter in matrix form asks of a model; matrices are dense, and transposed: in C they lie row by row."""
    step, graph = plant.step, StepGraph(plant.step, plant.settings.newton)
    x, u = ca.SX.sym("x", step.nx), ca.SX.sym("u", step.nu)
    after, q, lam = graph.map(x, u)
    A = graph.linearization(x, u, q, lam)
    e = step.system.expressions
    read = ca.Function("read", [e.q, e.parameters], [e.readings, ca.jacobian(e.readings, e.q)])
    h, H = read(x[: graph.nq], ca.DM(step.system.parameter_values))
    H = ca.horzcat(H, ca.SX(H.shape[0], step.nx - graph.nq))
    values = [
        x[program.of(Role.STATE).index(i)] if f.role is Role.STATE else ca.SX(0) for i, f in enumerate(program.fields)
    ]
    run_block(program.blocks[program.block_of(BlockRole.PROJECTION)], values)
    return [
        ca.Function("step", [x, u], ca.cse([ca.densify(after), ca.densify(A.T)])),
        ca.Function("readings", [x], ca.cse([ca.densify(h), ca.densify(H.T)])),
        ca.Function("project", [x], [ca.vertcat(*values[: step.nd])]),
    ]


def run_block(block: Block, fields: list[ca.SX]) -> None:
    """A block on expressions, as if its gate held."""
    lines: list[ca.SX] = []
    for line in block.operations:
        if line.code == ca.OP_CONST:
            lines.append(ca.SX(line.constant))
        elif line.code == ca.OP_INPUT:
            lines.append(fields[line.field])
        else:
            lines.append(RULES[line.code](*(lines[a] for a in line.arguments)))
    for store in block.stores:
        fields[store.field] = lines[store.operation]


@dataclass(frozen=True)
class Call:
    """How C calls a function: a name and its pointers, arguments first."""

    name: str
    function: ca.Function
    arguments: Sequence[str]
    results: Sequence[str]


def write_functions(folder: Path, real: str, calls: Sequence[Call], prototypes: Mapping[str, str]) -> list[Path]:
    """functions.c by CasADi, and calls.c, which wraps each of them with the given prototype."""
    maker = ca.CodeGenerator("functions", {"casadi_real": real, "casadi_int": "int", "with_header": True})
    for call in calls:
        maker.add(call.function)
    maker.generate(f"{folder}/")
    out = ['#include "functions.h"', '#include "peer.h"', ""]
    for call in calls:
        f = call.function
        out += [f"{prototypes[call.name]} {{"]
        out += [f"  const casadi_real *arg[{f.sz_arg()}] = {{{', '.join(call.arguments)}}};"]
        out += [f"  casadi_real *res[{f.sz_res()}] = {{{', '.join(call.results)}}};"]
        out += [f"  int iw[{max(f.sz_iw(), 1)}];", f"  casadi_real w[{max(f.sz_w(), 1)}];"]
        out += [f"  (void){f.name()}(arg, res, iw, w, 0);", "}", ""]
    (folder / "calls.c").write_text("\n".join(out))
    return [folder / "functions.c", folder / "calls.c"]
