"""Metrics of several quantities in words, each unit told apart: metres are never added to radians."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepmap.units import plural, size

NAMED = 4  # quantities that are told one by one; of more each unit is told together

Entries = Mapping[str, Mapping[str, Any]]


def dynamic(summary: Mapping[str, Any]) -> Entries:
    """Coordinates that move by themselves, by name; none in a summary of an older version."""
    return {name: c for name, c in summary.get("coordinates", {}).items() if not c["kinematic"]}


def only_lengths(summary: Mapping[str, Any]) -> bool:
    """Whether one distance tells all: every coordinate that moves by itself is a length."""
    return all(c["unit"] == "m" for c in dynamic(summary).values()) and summary["tracking_rms_m"] is not None


def told(entries: Entries, metric: str, angles: str) -> str:
    """A metric of all quantities: "x 2.1 mm, theta 3.4 mrad"; of many, mean squares per unit: "6 angles 3.4 mrad"."""
    found = {name: entry for name, entry in entries.items() if entry[metric] is not None}
    if len(found) <= NAMED:
        return ", ".join(f"{name} {size(entry[metric], entry['unit'], angles)}" for name, entry in found.items())
    texts = []
    for unit, group in grouped(found).items():
        values = np.array([entry[metric] for entry in group.values()])
        together = values.max() if metric.endswith("_max") else np.sqrt(np.mean(values**2))
        texts.append(f"{len(group)} {plural(unit)} {size(float(together), unit, angles)}")
    return ", ".join(texts)


def grouped(entries: Entries) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Quantities by unit, in their order."""
    groups: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, entry in entries.items():
        groups.setdefault(entry["unit"], {})[name] = entry
    return groups


def length(entries: Entries, metric: str) -> float | None:
    """RMS length of the vector of all quantities, which are of one unit; None where one is not known."""
    values = [entry[metric] for entry in entries.values()]
    return None if not values or None in values else float(np.sqrt(np.sum(np.square(values))))
