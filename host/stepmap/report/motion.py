"""A mechanism that moves on a page: what is drawn, and where its frames are, as data."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.mechanics.system import System
from stepmap.report.charts import packed, thinned
from stepmap.wireframe.skeleton import Skeleton, normals, skeleton, slack
from stepmap.wireframe.view import View, choose

MOST_BYTES = 1_000_000  # of all layers
STEPS = 65535  # of a coordinate


@dataclass(frozen=True)
class Layer:
    """One motion: poses (times, nq), some of them not a number where nothing is known."""

    name: str
    role: str
    poses: Array
    shown: bool = True  # at first


@dataclass(frozen=True)
class Motion:
    """A mechanism over time, in layers such as plant, estimate and reference; the first one is followed by a trail."""

    system: System
    time: Array
    layers: Sequence[Layer]

    def data(self) -> dict[str, Any]:
        """What the page's script reads: positions on the page, in parts of the scene's size."""
        shape = skeleton(self.system)
        visible = shape.visible
        count = max(len(visible), 1)
        chosen = thinned(self.time, None, max(MOST_BYTES // (8 * count * len(self.layers)), 50))
        places = [_positions(self.system, layer.poses[chosen], visible) for layer in self.layers]
        everything = np.concatenate([p.reshape(-1, 3) for p in places])
        known = everything[np.isfinite(everything).all(axis=1)]
        view = choose(self.system, known if len(known) else np.zeros((1, 3)))
        turned = np.stack([view.right, view.top, view.toward], axis=-1)
        drawn = [p @ turned for p in places]
        low = (known @ turned).min(axis=0) if len(known) else np.zeros(3)
        span = float(max(np.ptp(known @ turned, axis=0).max(), 1e-6)) if len(known) else 1.0
        return {
            "time": packed(self.time[chosen]),
            "frames": len(visible),
            "low": list(map(float, low)),
            "span": span,
            "flat": view.labels is not None,
            "layers": [
                {"name": layer.name, "role": layer.role, "shown": layer.shown, "at": _quantized(p, low, span)}
                for layer, p in zip(self.layers, drawn, strict=True)
            ],
            "slack": _slack(self.system, self.layers[0].poses[chosen]),
            **_parts(self.system, shape, visible, view, self.layers[0].poses[:1]),
        }


def _positions(system: System, poses: Array, visible: Sequence[int]) -> Array:
    """World positions (times, frames, 3) of what is visible."""
    out = np.full((len(poses), len(visible), 3), np.nan)
    known = np.isfinite(poses).all(axis=1)
    if known.any():
        out[known] = system.positions(poses[known])[:, list(visible)]
    return out


def _quantized(places: Array, low: Array, span: float) -> str:
    """Little-endian uint16, 0 where nothing is known."""
    scaled = 1 + np.rint((places - low) / span * (STEPS - 1))
    kept = np.where(np.isfinite(scaled), scaled, 0.0).clip(0, STEPS).astype("<u2")
    return base64.b64encode(kept.tobytes()).decode()


def _slack(system: System, poses: Array) -> str | None:
    """By how much strings hang through, (times, strings); None where none ever does."""
    if not system.gap_names:
        return None
    loose = slack(system, np.nan_to_num(poses))
    return packed(loose) if loose.size and loose.max() > 1e-6 else None


def _parts(system: System, shape: Skeleton, visible: Sequence[int], view: View, first: Array) -> dict[str, Any]:
    place = {index: k for k, index in enumerate(visible)}
    heaviest = max((mass for _, mass in shape.masses), default=1.0)
    floors = []
    at = system.positions(first)[0] if np.isfinite(first).all() else np.zeros((len(system.frames), 3))
    for plane, normal in zip(shape.planes, view.project(normals(system, shape.planes)), strict=True):
        if np.linalg.norm(normal) > 0.99:
            floors.append([*map(float, view.project(at[plane])), *map(float, normal)])
    return {
        "links": [[place[a], place[b]] for a, b in shape.links],
        "strings": [[place[a], place[b]] for a, b in shape.strings],
        "springs": [[place[a], place[b]] for a, b in shape.springs],
        "masses": [
            [place[i], max(0.4, float(np.cbrt(mass / heaviest)))] for i, mass in shape.masses if i not in shape.carts
        ],
        "carts": [place[i] for i in shape.carts],
        "pivots": [place[i] for i in shape.pivots],
        "floors": floors,
    }
