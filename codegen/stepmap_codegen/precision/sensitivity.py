"""How much what a block stores depends on each of its operations: by the adjoint of the block, at simulated fields."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap_codegen.model.command_rates import CommandRates
from stepmap_codegen.model.float_machine import FloatMachine
from stepmap_codegen.model.program import SELECT, Block, Program

Slopes = tuple[Array | float, ...]
SLOPES: dict[int, Callable[..., Slopes]] = {  # of (value, arguments…): derivatives with respect to each argument
    ca.OP_ADD: lambda v, a, b: (1.0, 1.0),
    ca.OP_SUB: lambda v, a, b: (1.0, -1.0),
    ca.OP_MUL: lambda v, a, b: (b, a),
    ca.OP_SQ: lambda v, a: (2 * a,),
    ca.OP_NEG: lambda v, a: (-1.0,),
    ca.OP_TWICE: lambda v, a: (2.0,),
    ca.OP_INV: lambda v, a: (-v * v,),
    ca.OP_SIN: lambda v, a: (np.cos(a),),
    ca.OP_COS: lambda v, a: (-np.sin(a),),
    ca.OP_SQRT: lambda v, a: (0.5 / np.maximum(v, 1e-9),),
    ca.OP_FMIN: lambda v, a, b: (np.where(a <= b, 1.0, 0.0), np.where(a <= b, 0.0, 1.0)),
    ca.OP_FMAX: lambda v, a, b: (np.where(a >= b, 1.0, 0.0), np.where(a >= b, 0.0, 1.0)),
    ca.OP_FABS: lambda v, a: (np.sign(a),),
    ca.OP_SIGN: lambda v, a: (0.0,),
    SELECT: lambda v, a, b, yes, no: (0.0, 0.0, np.where(a <= b, 1.0, 0.0), np.where(a <= b, 0.0, 1.0)),
}


def sensitivities(program: Program, fields: Array, scales: Array) -> list[Array]:
    """For every operation of every block: the largest |∂(field stored)/∂operation| · scale of the field."""
    machine, rates, found = FloatMachine(program, fields), CommandRates(program), []
    for number, block in enumerate(program.blocks):
        values, before = machine.values(number), machine.fields.copy()
        held = machine.run(number)
        rates.apply(number, before, machine.fields)
        if block.chain and held.any():  # where another block of its chain is taken, it may be far from what it is for
            values = values[:, held]
        found.append(_adjoint(block, values, scales))
    return found


def _adjoint(block: Block, values: Array, scales: Array) -> Array:
    runs, outputs = values.shape[1], len(block.stores)
    slopes: list[Array | None] = [None] * len(block.operations)
    for k, store in enumerate(block.stores):
        seed = slopes[store.operation]
        if seed is None:
            seed = slopes[store.operation] = np.zeros((outputs, runs))
        seed[k] += scales[store.field]
    worst = np.zeros(len(block.operations))
    for i in reversed(range(len(block.operations))):
        mine = slopes[i]
        if mine is None:
            continue
        worst[i] = float(np.abs(mine).max())
        slopes[i] = None  # memory
        operation = block.operations[i]
        if not operation.arguments or operation.code not in SLOPES:
            continue
        for a, slope in zip(
            operation.arguments,
            SLOPES[operation.code](values[i], *(values[a] for a in operation.arguments)),
            strict=True,
        ):
            if block.operations[a].code in (ca.OP_CONST, ca.OP_INPUT):
                continue
            known = slopes[a]
            slopes[a] = mine * slope if known is None else known + mine * slope
    return worst
