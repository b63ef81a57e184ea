"""A model as JSON text, so that jobs and their recordings hold what was imported, and nothing that names a file.

A recording may come from anybody (docs/trust.md): what is read back has exactly the fields of the model, numbers that
are finite, and links whose parents stand before them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from typing import Any

from stepmap.descriptions.model import Model
from stepmap.errors import ModelError

FORMAT = "stepmap model 1"


def dump(model: Model) -> bytes:
    """The model without the folder it was read from."""
    plain = dataclasses.asdict(dataclasses.replace(model, file=model.file.replace("\\", "/").rpartition("/")[2]))
    return json.dumps({"format": FORMAT, **plain}, ensure_ascii=False, allow_nan=False).encode()


def load(content: bytes, file: str) -> Model:
    """Raises ModelError for what ``dump`` cannot have written."""
    try:
        data = json.loads(content)
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise ModelError(f"{file}: is not an imported model ({FORMAT})")
        model: Model = _made(Model, data, "model")
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, ModelError) else ModelError(f"{file}: is no imported model: {error}") from None
    _require_tree(model, file)
    return model


def _made(kind: Any, value: Any, where: str) -> Any:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        if not isinstance(value, dict) or set(value) != set(hints):
            raise ModelError(f"{where}: expected {', '.join(hints)}")
        return kind(**{name: _made(hint, value[name], f"{where}.{name}") for name, hint in hints.items()})  # type: ignore[operator]
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _made(parts[0], value, where)
    if origin is tuple:
        wanted = len(value) if isinstance(value, list) and parts[-1] is Ellipsis else len(parts)
        if not isinstance(value, list) or len(value) != wanted:
            raise ModelError(f"{where}: expected a list")
        kinds = [parts[0]] * wanted if parts[-1] is Ellipsis else parts
        return tuple(_made(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))
    if kind is str and isinstance(value, str):
        return value
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise ModelError(f"{where}: {value!r:.60} is not of the kind that stands there")


def _require_tree(model: Model, file: str) -> None:
    """Names that are referred to exist, parents before children."""
    known: set[str | None] = {None}
    for body in model.bodies:
        if body.parent not in known or body.name in known:
            raise ModelError(f"{file}: link {body.name!r} has no parent before it, or is there twice")
        known.add(body.name)
    joints = {joint.name for body in model.bodies for joint in body.joints}
    tendons = {tendon.name for tendon in model.tendons}
    points = [p for loop in model.loops for p in (loop.a, loop.b)] + [p for t in model.tendons for p in t.path]
    named = [n for f in model.followers for n in (f.joint, f.leader)] + [n for t in model.tendons for n, _ in t.joints]
    named += [motor.joint for motor in model.motors if motor.tendon not in tendons and motor.joint is not None]
    if any(point.body not in known for point in points) or any(name not in joints for name in named):
        raise ModelError(f"{file}: refers to a link or joint that it does not have")
    if any(len(follower.coefficients) < 2 for follower in model.followers):
        raise ModelError(f"{file}: a joint that follows another has two coefficients or more")
