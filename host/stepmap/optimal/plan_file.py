"""Plans on disk: one .npz with the arrays and a manifest that says what they are, written whole or not at all."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.archives import UNREADABLE, read_arrays
from stepmap.arrays import Array
from stepmap.errors import DamagedError, ModelError
from stepmap.files import write_whole
from stepmap.steps import kinds
from stepmap.steps.protocol import Event, StepMap, Trajectory

FORMAT = "stepmap-plan-1"
MANIFEST = "manifest"
ARRAYS = ("t", "x", "u", "gains", "x_ref", "u_ref")
LARGEST_MANIFEST = 4 * 1024 * 1024  # bytes


def pack(arrays: Mapping[str, Array], manifest: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> bytes:
    """The content of a plan's file; ``more`` are arrays beside those of the plan."""
    text = json.dumps({"format": FORMAT, **manifest}, allow_nan=False, ensure_ascii=False)
    out = io.BytesIO()
    content: dict[str, Any] = {**arrays, **(more or {}), MANIFEST: np.frombuffer(text.encode(), dtype=np.uint8)}
    np.savez(out, **content)
    return out.getvalue()


def write(path: Path, content: bytes) -> None:
    """Writes a plan's file, whole or not at all."""
    write_whole(path, content)


def read(path: Path, content: bytes | None = None) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and manifest of a plan's file; files from before manifests have an empty one.

    ``content`` is that of the file where it is known already; the path is then for messages.
    Raises DamagedError where it is damaged, or ModelError where it is something else.
    """
    manifest = _manifest(path, content)
    arrays = dict(_arrays(path, content, (*ARRAYS, "multipliers") if manifest.get("forces") else ARRAYS))
    for name, values in arrays.items():
        if values.dtype != np.float64 or not np.isfinite(values).all():
            raise DamagedError(f"{path}: {name} is not made of finite numbers")
    return arrays, manifest


def _arrays(path: Path, content: bytes | None, names: tuple[str, ...], **limits: int) -> Mapping[str, Array]:
    try:
        return read_arrays(path if content is None else content, names, **limits)
    except DamagedError as error:
        raise DamagedError(f"{path}: {error}") from None


def _manifest(path: Path, content: bytes | None) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path if content is None else io.BytesIO(content)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, *UNREADABLE) as error:
        raise DamagedError(f"{path}: it is no archive of arrays: {error}") from None
    missing = [name for name in ARRAYS if f"{name}.npy" not in names]
    if missing:
        raise ModelError(f"{path}: it is no plan; it has no {', '.join(missing)}")
    if f"{MANIFEST}.npy" not in names:
        return {}
    raw = _arrays(path, content, (MANIFEST,), largest=LARGEST_MANIFEST)[MANIFEST]
    try:
        found = json.loads(raw.astype(np.uint8).tobytes().decode())
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path}: its manifest cannot be read: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        told = found.get("format") if isinstance(found, dict) else None
        raise ModelError(f"{path}: expected a plan of format {FORMAT}, got {told!r}")
    return found


def require_for(step: StepMap, manifest: Mapping[str, Any], path: Path) -> None:
    """Raises ModelError where a plan was made for another step map than this, as far as its manifest tells."""
    for what, own in (("state", step.state_names), ("input", step.input_names)):
        names = manifest.get(f"{what}_names", own)
        if list(names) != list(own):
            raise ModelError(f"{path}: the plan is for {what}s {', '.join(map(str, names))}; this step map has others")
    if (dt := manifest.get("dt", step.dt)) != step.dt:
        raise ModelError(f"{path}: the plan is for dt = {dt} s; this step map has {step.dt} s")
    kind, own_kind = manifest.get("step", ""), kind_of(step)
    if kind and own_kind and kind != own_kind:
        raise ModelError(f"{path}: the plan is for a step of kind {kind!r}; this step map is one of kind {own_kind!r}")
    own_options = json.loads(json.dumps(getattr(step, "options", {})))  # as a manifest has them: no tuples
    for name, value in dict(manifest.get("options", {})).items():
        if own_options.get(name) != value:
            raise ModelError(f"{path}: the plan is for {name} = {value!r}; this step map has {own_options.get(name)!r}")


def kind_of(step: StepMap) -> str:
    """The kind of a step map, as ``stepmap.steps.kinds`` knows it; empty for one of a user's own."""
    return next((name for name, kind in kinds.OWN.items() if type(step) is kind), "")


def event_rows(events: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Events as plain data."""
    return [event._asdict() for event in events]


def events_from(rows: Any, path: Path) -> tuple[Event, ...]:
    """Events from plain data."""
    try:
        return tuple(Event(**row) for row in rows)
    except TypeError as error:
        raise DamagedError(f"{path}: its events cannot be read: {error}") from None


def mode_rows(path: Trajectory) -> list[list[Any]]:
    """Gaps closed at the ends of steps, as plain data: the first step of each mode, and its names."""
    return [[k, *mode] for k, mode in enumerate(path.modes) if k == 0 or mode != path.modes[k - 1]]


def modes_from(manifest: Mapping[str, Any], path: Path) -> tuple[tuple[str, ...], ...]:
    """Modes of all steps from plain data."""
    rows, steps = manifest.get("modes", []), manifest.get("steps", 0)
    try:
        begins = [int(row[0]) for row in rows]
        names = [tuple(str(name) for name in row[1:]) for row in rows]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise DamagedError(f"{path}: its modes cannot be read: {error}") from None
    if begins and (begins[0] != 0 or sorted(set(begins)) != begins or not begins[-1] < steps):
        raise DamagedError(f"{path}: its modes cannot be read: they begin at steps {begins}")
    ends = [*begins[1:], steps]
    return tuple(mode for mode, begin, end in zip(names, begins, ends, strict=False) for _ in range(end - begin))


def trajectory_of(
    arrays: Mapping[str, Array], events: tuple[Event, ...] = (), modes: tuple[tuple[str, ...], ...] = ()
) -> Trajectory:
    """The plan's trajectory."""
    return Trajectory(arrays["t"], arrays["x"], arrays["u"], arrays.get("multipliers"), events, modes)
