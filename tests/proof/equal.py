"""The inline primitives that the analyser reads equal those of the firmware, for all numbers and every shift.

    python -m tests.proof.equal

For each pair z3 is asked for numbers where one is not defined, or where the two differ in what they return or note.
Shifts and word lengths are constants in generated code; each is asked for by itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import z3

from tests.proof.eva import CORE, MODELS
from tests.proof.symbolic import Number, Place, Pointer, Program, call, parse

TIMEOUT = 60_000  # ms of a question
EVERY = [(right, bits) for right in range(1, 32) for bits in range(33 - right, 33)]


@dataclass(frozen=True)
class Primitive:
    """Its name, the bits of its first arguments, the constants it is called with, and whether it notes overflow."""

    name: str
    numbers: tuple[int, ...]
    constants: tuple[tuple[int, ...], ...] = ((),)
    notes: bool = False
    fits: bool = False  # equal only where the result fits, which the analyser shows of every call


PRIMITIVES = (
    Primitive("sm_limit", (64,), notes=True),
    Primitive("sm_right", (32,), tuple((n,) for n in range(1, 32))),
    Primitive("sm_left", (32,), tuple((n,) for n in range(32)), notes=True),
    Primitive("sm_left_fast", (32,), tuple((n,) for n in range(32)), fits=True),
    Primitive("sm_add", (32, 32), notes=True),
    Primitive("sm_sub", (32, 32), notes=True),
    Primitive("sm_abs", (32,), notes=True),
    Primitive("sm_high", (32, 32)),
    Primitive("sm_high_cut", (32, 32)),
    Primitive("sm_mul", (32, 32), tuple(EVERY), notes=True),
    Primitive("sm_mul_cut", (32, 32), tuple(EVERY), notes=True),
    Primitive("sm_mul_wide", (32, 32), tuple((n,) for n in range(1, 63)), fits=True),
    Primitive("sm_mul_wide_cut", (32, 32), tuple((n,) for n in range(1, 63)), fits=True),
)
DEFINED = (Primitive("sm_quadrants", (32,), tuple((n,) for n in range(-30, 63))),)  # the analyser has its contract only


def wrong(one: Primitive, real: Program, model: Program | None) -> Iterator[str]:
    """Cases where a primitive of the firmware is not defined, or is not the analyser's; none where all is well."""
    for constants in one.constants:
        said = _differs(one, constants, real, model)
        if said:
            yield f"{one.name}{constants}: {said}"


def _differs(one: Primitive, constants: Sequence[int], real: Program, model: Program | None) -> str:
    """What is wrong at these constants, with an example; empty where nothing is."""
    for program in (real, model):
        if program is not None:
            program.forget()
    numbers = [Number(z3.BitVec(f"n{i}", bits), True) for i, bits in enumerate(one.numbers)]
    value, noted = _called(one, numbers, constants, real)
    solver = z3.SolverFor("QF_BV")
    solver.set("timeout", TIMEOUT)
    solver.add(*real.known)
    duties = list(real.duties)
    if model is not None:
        model.products = real.products
        other, other_noted = _called(one, numbers, constants, model)
        solver.add(*model.known)
        duties += [(f"{what} in the analyser's", duty) for what, duty in model.duties]
        if one.fits:
            solver.add(*model.narrowed)
        else:
            duties += [("the analyser's loses bits", kept) for kept in model.narrowed]
        duties += [("result", value.bits == other.bits), ("note", noted == other_noted)]
    said = solver.check(z3.Not(z3.And(*(duty for _, duty in duties))))
    if said == z3.unsat:
        return ""
    if said == z3.unknown:
        return "z3 found no answer"
    example = solver.model()
    broken = [what for what, duty in duties if z3.is_false(example.eval(duty, model_completion=True))]
    at = ", ".join(f"{n.bits} = {example.eval(n.bits, model_completion=True).as_signed_long()}" for n in numbers)
    return f"{', '.join(broken)} at {at}"


def _called(
    one: Primitive, numbers: Sequence[Number], constants: Sequence[int], program: Program
) -> tuple[Number, z3.BitVecRef]:
    """What a primitive returns, and what is noted after it."""
    note = Number(z3.BitVec("noted", 32), False)
    given: list[Number | Pointer] = [*numbers, *(Number(z3.BitVecVal(n, 32), True) for n in constants)]
    if one.notes:
        given.append(Pointer("note"))
    value, after = call(program, one.name, given, Place(z3.BoolVal(True), {"note": note}))
    left = after.cells["note"]
    assert isinstance(left, Number)
    return value, left.bits


def counted_zeros() -> bool:
    """Whether the contract of __builtin_clz in builtins.h is that of gcc: zeros before the first one of v, v not 0."""
    v, zeros = z3.BitVecs("v zeros", 32)
    solver = z3.Solver()
    first = z3.LShR(v, 31 - zeros) == 1
    promised = z3.If(z3.ULE(v, 0x7FFFFFFF), z3.And(zeros >= 1, zeros <= 31), zeros == 0)
    solver.add(v != 0, z3.ULE(zeros, 31), first, z3.Not(promised))
    return bool(solver.check() == z3.unsat)


def check(header: Path = CORE / "sm_fixed.h") -> tuple[int, list[str]]:
    """How many cases were looked at, and what is wrong with some."""
    real, model = parse(header), parse(MODELS / "sm_fixed.h", [MODELS])
    said = [] if counted_zeros() else ["__builtin_clz: its contract is not gcc's"]
    for one in PRIMITIVES:
        said += wrong(one, real, model)
    for one in DEFINED:
        said += wrong(one, real, None)
    return sum(len(one.constants) for one in (*PRIMITIVES, *DEFINED)) + 1, said


if __name__ == "__main__":
    begin = time.process_time()
    cases, found = check()
    print(f"{cases} cases, {len(found)} wrong, {time.process_time() - begin:.0f} s", *found, sep="\n")
    sys.exit(bool(found))
