"""The digest that names a model: boards report it, and take schedules of no other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from stepmap.arrays import Array
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.loops import packed
from stepmap_codegen.model.program import Program, Role
from stepmap_codegen.model.scalar import Scalar

HASHED_NAMES = {"constraint_projection": "put_back", "state_feedback": "law"}
"""Blocks by the names that the model hash knows: a new name of a function leaves boards and formats.json valid."""


def model_digest(
    program: Program, formats: Formats | None, scalar: Scalar, start: Array, stream: Mapping[str, Any] | None = None
) -> str:
    """What names a model: 16 hexadecimal digits of the program, its formats, and where its filter starts.

    So do the limits of streamed set-points, where there are some. Gains and references are not in it.
    """
    first = [round(float(start[i]), 9) + 0.0 for i in program.of(Role.STATE)]  # another machine rounds it differently
    first += [float(f"{start[i]:.6g}") for i in program.of(Role.COVARIANCE)]
    content: Mapping[str, Any] = {
        "name": program.name,
        "period": program.period.hex(),
        "start": first,
        "scalar": scalar.value,
        "fields": [(f.name, f.role.value) for f in program.fields],
        "blocks": [
            (
                HASHED_NAMES.get(block.name, block.name),
                [(op.code, op.arguments, op.constant.hex(), op.field) for op in block.operations],
                [(store.field, store.operation) for store in block.stores],
                None if block.guard is None else (block.guard.after, block.guard.small, block.guard.large),
                *([block.chain] if block.chain else []),
                *([[packed(step, program.tapes) for step in block.steps]] if block.steps else []),
            )
            for block in (*program.blocks, *program.tapes)
        ],
        "formats": None if formats is None else (formats.word, formats.fields, [b.packed() for b in formats.blocks]),
    }
    content = content if stream is None else {**content, "stream": stream}
    return sha256(json.dumps(content).encode()).hexdigest()[:16]
