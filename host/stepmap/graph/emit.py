"""Tape to C: a chain of small functions, because gcc's time grows faster than a function's length.

Values used only within a chunk are locals; those that cross into a later chunk live in a scratch array whose slots are
reused as soon as their last reader has passed. Sines and cosines of angles that need none themselves are made at the
head of a function, by one call for all: its first slots are theirs.

The text computes with ``real`` (runtime/real.h), a number or a vector of them, and has the same bits in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import casadi as ca

from stepmap.graph.tape import BINARY, UNARY, Operation, Tape

CHUNK = 400  # lines a C function: 250 to 500 compile fastest with gcc
FORMS = {  # where C for a vector of numbers is not what it is for one
    **UNARY,
    **BINARY,
    **{
        code: f"sm_{name}({{0}})"
        for code, name in {
            ca.OP_SIN: "sin",
            ca.OP_COS: "cos",
            ca.OP_TAN: "tan",
            ca.OP_SQRT: "sqrt",
            ca.OP_EXP: "exp",
            ca.OP_LOG: "log",
            ca.OP_ATAN: "atan",
            ca.OP_ASIN: "asin",
            ca.OP_ACOS: "acos",
            ca.OP_SINH: "sinh",
            ca.OP_COSH: "cosh",
            ca.OP_TANH: "tanh",
            ca.OP_FABS: "abs",
            ca.OP_SIGN: "sign",
            ca.OP_NOT: "not",
        }.items()
    },
    **{
        code: f"sm_{name}({{0}}, {{1}})"
        for code, name in {
            ca.OP_POW: "pow",
            ca.OP_CONSTPOW: "pow",
            ca.OP_ATAN2: "atan2",
            ca.OP_FMIN: "fmin",
            ca.OP_FMAX: "fmax",
            ca.OP_LT: "less",
            ca.OP_LE: "at_most",
            ca.OP_IF_ELSE_ZERO: "if",
        }.items()
    },
}
CALLED = {  # functions of runtime/functions.h
    ca.OP_TAN,
    ca.OP_EXP,
    ca.OP_LOG,
    ca.OP_ATAN,
    ca.OP_ASIN,
    ca.OP_ACOS,
    ca.OP_SINH,
    ca.OP_COSH,
    ca.OP_TANH,
    ca.OP_ATAN2,
}
SIGNATURE = "(const real *const *in, real *const *out, real *w)"


@dataclass(frozen=True)
class Emitted:
    """The C text of a tape: independent pieces to be compiled side by side, and the head that calls them."""

    chunks: tuple[str, ...]
    head: str
    scratch: int


def calls(tape: Tape) -> bool:
    """Whether it needs runtime/functions.h."""
    return any(operation.code in CALLED for operation in tape.operations)


def emit(tape: Tape, prefix: str) -> Emitted:
    """C functions that evaluate a tape; the head is ``<prefix><name>(in, out, w)``, arrays of pointers."""
    angles = _angles(tape)
    bounds = list(range(0, len(tape.operations), CHUNK)) or [0]
    chunk_of = [i // CHUNK for i in range(len(tape.operations))]
    slots, scratch = _crossing_slots(tape, chunk_of, angles)
    stores: list[list[str]] = [[] for _ in bounds]
    for store in tape.stores:
        # A store sits in the chunk that makes its value, so outputs never keep a scratch slot alive.
        chunk, value = chunk_of[store.value], _value(tape, store.value)
        if chunk < 0:
            chunk, value = 0, f"w[{slots[store.value]}]"
        stores[chunk].append(f"out[{store.output}][{store.position}] = {value};")
    names = [f"{prefix}{tape.name}_{i}" for i in range(len(bounds))]
    chunks = []
    for i, start in enumerate(bounds):
        stop = min(start + CHUNK, len(tape.operations))
        lines = list(_lines(tape, range(start, stop), slots, chunk_of))
        chunks.append(_function(names[i], [*lines, *stores[i]]))
    if angles:
        names.insert(0, f"{prefix}{tape.name}_angles")
        chunks.insert(0, _function(names[0], _angle_lines(tape, angles)))
    declarations = "".join(f"void {name}{SIGNATURE};\n" for name in names)
    calls = "".join(f"  {name}(in, out, w);\n" for name in names)
    head = f"{declarations}static void {prefix}{tape.name}{SIGNATURE} {{\n{calls}}}\n"
    return Emitted(tuple(chunks), head, scratch)


def _function(name: str, lines: Sequence[str]) -> str:
    body = "\n  ".join(lines)
    return f"void {name}{SIGNATURE} {{\n  (void)in, (void)out, (void)w;\n  {body}\n}}\n"


def _angles(tape: Tape) -> dict[int, list[int]]:
    """Lines that are sines or cosines of the same line, for lines that need neither."""
    needs: list[bool] = []
    found: dict[int, list[int]] = {}
    for i, operation in enumerate(tape.operations):
        turns = operation.code in (ca.OP_SIN, ca.OP_COS)
        if turns and not needs[operation.arguments[0]]:
            found.setdefault(operation.arguments[0], []).append(i)
        needs.append(turns or any(needs[argument] for argument in operation.arguments))
    return found


def _angle_lines(tape: Tape, angles: Mapping[int, Sequence[int]]) -> list[str]:
    """Sines and cosines of all angles in the first slots of the scratch: first the sines, then the cosines."""
    wanted = set(angles)
    for i in range(max(angles), -1, -1):
        if i in wanted:
            wanted.update(tape.operations[i].arguments)
    lines = list(_lines(tape, sorted(wanted), {}, [0] * len(tape.operations)))
    named = ", ".join(_value(tape, i) for i in angles)
    n = len(angles)
    return [*lines, f"const real angles[{n}] = {{{named}}};", f"sm_sincos_all(angles, w, w + {n}, {n});"]


def _crossing_slots(tape: Tape, chunk_of: list[int], angles: Mapping[int, Sequence[int]]) -> tuple[dict[int, int], int]:
    """Slots of the values that cross, and how many there are; sines and cosines are made before the first chunk."""
    count = 2 * len(angles)
    slots: dict[int, int] = {}
    for k, turned in enumerate(angles.values()):
        for i in turned:
            slots[i] = k if tape.operations[i].code == ca.OP_SIN else len(angles) + k
    made_before = set(slots)
    last_chunk: dict[int, int] = {}
    for i, operation in enumerate(tape.operations):
        for argument in operation.arguments if i not in made_before else ():
            last_chunk[argument] = chunk_of[i]
    releases: dict[int, list[int]] = {}
    free: list[int] = []
    chunk = -1
    for i, operation in enumerate(tape.operations):
        if chunk_of[i] != chunk:
            chunk = chunk_of[i]
            free.extend(releases.pop(chunk - 1, ()))
        crosses = last_chunk.get(i, chunk) > chunk and not _inline(operation) and i not in made_before
        if crosses:
            if not free:
                free.append(count)
                count += 1
            slots[i] = free.pop()
            releases.setdefault(last_chunk[i], []).append(slots[i])
    for i in made_before:
        chunk_of[i] = -1
    return slots, count


def _inline(operation: Operation) -> bool:
    """Constants and inputs are written where they are used."""
    return operation.code in (ca.OP_CONST, ca.OP_INPUT)


def _name(operation: Operation, index: int) -> str:
    if operation.code == ca.OP_CONST:
        text = repr(operation.constant)
        return f"({text})" if text.startswith("-") else text
    if operation.code == ca.OP_INPUT:
        return f"in[{operation.source[0]}][{operation.source[1]}]"
    return f"a{index}"


def _value(tape: Tape, i: int) -> str:
    """A line's value where nothing around it makes a constant a ``real``."""
    name = _name(tape.operations[i], i)
    return f"SM_OF({name})" if tape.operations[i].code == ca.OP_CONST else name


def _lines(tape: Tape, some: Sequence[int], slots: Mapping[int, int], chunk_of: Sequence[int]) -> Iterator[str]:
    loaded: set[int] = set()
    for i in some:
        operation = tape.operations[i]
        if _inline(operation) or chunk_of[i] < 0:
            continue
        for argument in operation.arguments:
            source = tape.operations[argument]
            if not _inline(source) and chunk_of[argument] != chunk_of[i] and argument not in loaded:
                loaded.add(argument)
                yield f"const real a{argument} = w[{slots[argument]}];"
        names = [_name(tape.operations[j], j) for j in operation.arguments]
        yield f"const real a{i} = {FORMS[operation.code].format(*names)};"
        if i in slots:
            yield f"w[{slots[i]}] = a{i};"
