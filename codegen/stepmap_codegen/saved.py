"""A controller as a file, so that a later command need not design it again: docs/fixed-point.md.

An archive of arrays (.npz) with the floats to the last bit, and one text in JSON with everything else. It is read from
a stage's folder, whose manifest has told that no byte of it has changed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from stepmap.archives import read_arrays
from stepmap.arrays import Array
from stepmap.errors import DamagedError, ModelError
from stepmap_codegen.controller import Controller
from stepmap_codegen.emit import schedule
from stepmap_codegen.emit.encoders import Encoder
from stepmap_codegen.emit.motors import Axis
from stepmap_codegen.emit.output import Output, SelfTest
from stepmap_codegen.emit.size import Estimate
from stepmap_codegen.lower.controller import Plant
from stepmap_codegen.model.formats import BlockFormats, Formats
from stepmap_codegen.model.loops import packed, unpacked
from stepmap_codegen.model.program import Block, BlockRole, Field, Guard, Operation, Program, Role, Store
from stepmap_codegen.model.scalar import Form, Scalar
from stepmap_codegen.precision import pinned as pinning
from stepmap_codegen.precision.pinned import PinnedFormats
from stepmap_codegen.precision.signals import Signal

FILE = "controller.npz"
FORMAT = "stepmap-saved-controller-6"
ARRAYS = ("gains", "start", "measurements", "row", "variances")
BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)


def pack(made: Controller) -> bytes:
    """The file's content. Archives name no dates, so the same controller gives the same bytes."""
    out, test = made.output, made.output.test
    document = {
        "format": FORMAT,
        "program": _program(made.program),
        "formats": None if made.formats is None else _formats(made.formats),
        "scalar": out.scalar.value,
        "form": out.form.value,
        "digest": out.digest,
        "checksum": test.checksum,
        "signals": [asdict(signal) for signal in out.signals],
        "estimate": asdict(made.estimate),
        "axes": [asdict(axis) for axis in made.axes],
        "encoders": [asdict(encoder) for encoder in made.encoders],
        "sensor_delay": made.sensor_delay,
        "map_error": dict(made.map_error),
        "state_sizes": dict(made.state_sizes),
        "pinned": None if made.pinned is None else [made.pinned.source, made.formats_file()],
    }
    arrays: dict[str, Array] = {
        "gains": made.plant.gains,
        "start": out.start,
        "measurements": test.measurements,
        "row": test.row,
        "variances": out.variances,
        "document": np.frombuffer(json.dumps(document).encode(), np.uint8),
        "schedule": np.frombuffer(made.schedule.pack(), np.uint8),
    }
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    return packed.getvalue()


def unpack(content: bytes, plant: Plant) -> Controller:
    """The controller that was packed; ``plant`` is that of the job it is of.

    Raises DamagedError where the content is none.
    """
    arrays = read_arrays(content, (*ARRAYS, "document", "schedule"))
    try:
        document = json.loads(arrays["document"].tobytes())
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {FORMAT!r}")
        return _controller(document, arrays, plant)
    except (*BROKEN, ModelError) as error:
        raise DamagedError(f"it is no controller: {error}") from error


def _controller(document: Mapping[str, Any], arrays: Mapping[str, Array], plant: Plant) -> Controller:
    program, formats = _read_program(document["program"]), _read_formats(document["formats"])
    test = SelfTest(arrays["measurements"], arrays["row"], document["checksum"])
    listed = [Signal(**signal) for signal in document["signals"]]
    scalar, form = Scalar(document["scalar"]), Form(document["form"])
    return Controller(
        plant=replace(plant, gains=arrays["gains"]),
        program=program,
        formats=formats,
        schedule=schedule.unpack(arrays["schedule"].tobytes()),
        output=Output(scalar, form, document["digest"], arrays["start"], test, listed, arrays["variances"]),
        estimate=Estimate(**document["estimate"]),
        axes=[Axis(**axis) for axis in document["axes"]],
        sensor_delay=document["sensor_delay"],
        encoders=[Encoder(**encoder) for encoder in document["encoders"]],
        map_error=document["map_error"],
        state_sizes=document["state_sizes"],
        pinned=_read_pinned(document["pinned"]),
    )


def _program(program: Program) -> dict[str, Any]:
    return {
        "name": program.name,
        "period": program.period,
        "fields": [asdict(field) | {"role": field.role.value} for field in program.fields],
        "tapes": [_packed_block(program, tape) for tape in program.tapes],
        "blocks": [_packed_block(program, block) for block in program.blocks],
    }


def _packed_block(program: Program, block: Block) -> dict[str, Any]:
    return {
        "name": block.name,
        "role": block.role.value,
        "channel": block.channel,
        "summary": block.summary,
        "operations": [[op.code, op.arguments, op.constant, op.field] for op in block.operations],
        "stores": [[store.field, store.operation] for store in block.stores],
        "needs": block.needs,
        "chain": block.chain,
        "guard": None if block.guard is None else asdict(block.guard),
        "steps": [packed(step, program.tapes) for step in block.steps],
    }


def _read_program(document: Mapping[str, Any]) -> Program:
    fields = tuple(_field(entry) for entry in document["fields"])
    tapes = [_block(entry, ()) for entry in document["tapes"]]
    blocks = tuple(_block(entry, tapes) for entry in document["blocks"])
    return Program(document["name"], document["period"], fields, blocks)


def _field(entry: Mapping[str, Any]) -> Field:
    pairs = {name: None if entry[name] is None else _pair(entry[name]) for name in ("place", "moves")}
    return Field(**{**entry, "role": Role(entry["role"]), **pairs})


def _pair(values: Sequence[int]) -> tuple[int, int]:
    one, other = values
    return one, other


def _block(entry: Mapping[str, Any], tapes: Sequence[Block]) -> Block:
    operations = tuple(Operation(code, tuple(of), constant, field) for code, of, constant, field in entry["operations"])
    stores = tuple(Store(field, operation) for field, operation in entry["stores"])
    guard = None if entry["guard"] is None else Guard(**entry["guard"])
    role = BlockRole(entry["role"])
    return Block(
        entry["name"],
        role,
        entry["summary"],
        operations,
        stores,
        guard,
        entry["channel"],
        tuple(entry["needs"]),
        entry["chain"],
        tuple(unpacked(step, tapes) for step in entry["steps"]),
    )


def _read_pinned(packed: Sequence[str] | None) -> PinnedFormats | None:
    if packed is None:
        return None
    source, text = packed
    return pinning.unpack(text.encode(), source)


def _formats(formats: Formats) -> dict[str, Any]:
    return {"word": formats.word, "fields": formats.fields, "blocks": [block.packed() for block in formats.blocks]}


def _read_formats(document: Mapping[str, Any] | None) -> Formats | None:
    if document is None:
        return None
    blocks = tuple(BlockFormats.unpacked(block) for block in document["blocks"])
    return Formats(document["word"], tuple(document["fields"]), blocks)
