"""Tape to C: a chain of small functions, because gcc's time grows faster than a function's length.

Values used only within a chunk are locals; those that cross into a later chunk live in a scratch array whose slots are
reused as soon as their last reader has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import casadi as ca

from stepmap.graph.tape import BINARY, UNARY, Operation, Tape

CHUNK = 400  # lines a C function: 250 to 500 compile fastest with gcc


@dataclass(frozen=True)
class Emitted:
    """The C text of a tape: independent pieces to be compiled side by side, and the head that calls them."""

    chunks: tuple[str, ...]
    head: str
    scratch: int


def emit(tape: Tape, prefix: str) -> Emitted:
    """C functions that evaluate a tape; the head is ``<prefix><name>(in, out, w)``, arrays of pointers."""
    bounds = list(range(0, len(tape.operations), CHUNK)) or [0]
    chunk_of = [i // CHUNK for i in range(len(tape.operations))]
    slots, scratch = _crossing_slots(tape, chunk_of)
    stores: list[list[str]] = [[] for _ in bounds]
    for store in tape.stores:
        # A store sits in the chunk that makes its value, so outputs never keep a scratch slot alive.
        name = _name(tape.operations[store.value], store.value)
        stores[chunk_of[store.value]].append(f"out[{store.output}][{store.position}] = {name};")
    names = [f"{prefix}{tape.name}_{i}" for i in range(len(bounds))]
    signature = "(const double *const *in, double *const *out, double *w)"
    chunks = []
    for i, start in enumerate(bounds):
        lines = list(_lines(tape, start, min(start + CHUNK, len(tape.operations)), slots, chunk_of))
        body = "\n  ".join([*lines, *stores[i]])
        chunks.append(f"void {names[i]}{signature} {{\n  (void)in, (void)out, (void)w;\n  {body}\n}}\n")
    declarations = "".join(f"void {name}{signature};\n" for name in names)
    calls = "".join(f"  {name}(in, out, w);\n" for name in names)
    head = f"{declarations}static void {prefix}{tape.name}{signature} {{\n{calls}}}\n"
    return Emitted(tuple(chunks), head, scratch)


def _crossing_slots(tape: Tape, chunk_of: Sequence[int]) -> tuple[dict[int, int], int]:
    last_chunk: dict[int, int] = {}
    for i, operation in enumerate(tape.operations):
        for argument in operation.arguments:
            last_chunk[argument] = chunk_of[i]
    releases: dict[int, list[int]] = {}
    slots: dict[int, int] = {}
    free: list[int] = []
    count = 0
    chunk = -1
    for i, operation in enumerate(tape.operations):
        if chunk_of[i] != chunk:
            chunk = chunk_of[i]
            free.extend(releases.pop(chunk - 1, ()))
        crosses = last_chunk.get(i, chunk) > chunk and not _inline(operation)
        if crosses:
            if not free:
                free.append(count)
                count += 1
            slots[i] = free.pop()
            releases.setdefault(last_chunk[i], []).append(slots[i])
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


def _lines(tape: Tape, start: int, stop: int, slots: dict[int, int], chunk_of: Sequence[int]) -> Iterator[str]:
    loaded: set[int] = set()
    for i in range(start, stop):
        operation = tape.operations[i]
        if _inline(operation):
            continue
        for argument in operation.arguments:
            source = tape.operations[argument]
            if not _inline(source) and chunk_of[argument] != chunk_of[i] and argument not in loaded:
                loaded.add(argument)
                yield f"const double a{argument} = w[{slots[argument]}];"
        names = [_name(tape.operations[j], j) for j in operation.arguments]
        form = UNARY.get(operation.code) or BINARY[operation.code]
        yield f"const double a{i} = {form.format(*names)};"
        if i in slots:
            yield f"w[{slots[i]}] = a{i};"
