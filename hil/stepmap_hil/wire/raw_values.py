"""Raw values of messages and numbers in SI units, by the formats in ``signals.json`` of a generated controller."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError

FORMAT = "stepmap-controller-1"
AGE, ROW = "walk_age", "walk_row"  # fields of robots that walk
CLOSED = "mode_"  # begin the names of fields that are 1 where a gap is closed


@dataclass(frozen=True)
class SignalCodec:
    """Encodes and decodes the signals of a controller: its fields by role, and their formats."""

    system: str
    model: bytes
    scalar: str
    period: float
    fields: dict[str, list[dict[str, Any]]]  # by role: name, label, unit, bits
    axes: tuple[dict[str, float], ...]

    @classmethod
    def read(cls, folder: Path) -> SignalCodec:
        """Of a folder of generated code."""
        path = folder / "signals.json"
        try:
            return cls.parse(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{path} cannot be read ({error}); run stepmap generate again") from None

    @classmethod
    def parse(cls, document: dict[str, Any]) -> SignalCodec:
        if document.get("format") != FORMAT:
            raise ValueError(f"it is not of the format {FORMAT}")
        fields: dict[str, list[dict[str, Any]]] = {}
        for field in document["fields"]:
            fields.setdefault(field["role"], []).append(field)
        known = {field["label"]: field for field in document["fields"] if field["role"] == "schedule"}
        for quantity in document.get("stream", {}).get("quantities", ()):  # in the formats of their references
            entry = {**known[f"reference of {quantity['name']}"], **quantity, "label": quantity["name"]}
            fields.setdefault("set_point", []).append(entry)
        model, axes = bytes.fromhex(document["model"]), tuple(document["axes"])
        return cls(document["system"], model, document["scalar"], document["period"], fields, axes)

    def names(self, role: str) -> list[str]:
        return [field["label"] for field in self.fields.get(role, [])]

    @property
    def contact_age(self) -> Callable[[float], int] | None:
        """How an age [s] of a contact is sent, behind the channels of a measurement; None where nothing walks."""
        known = [field for field in self.fields.get("mode", []) if field["name"] == AGE]
        if not known:
            return None
        if self.scalar != "fixed32":
            return lambda age: int(np.array(age, "<f4").view("<i4"))
        return lambda age: min(round(age * 2.0 ** known[0]["bits"]), 2**31 - 1)

    def row_of(self, modes: Sequence[int]) -> int | None:
        """The row of the schedule that a robot which walks followed; None of all others."""
        found = zip(self.fields.get("mode", []), self.decode("mode", modes), strict=False)
        return next((round(v) for one, v in found if one["name"] == ROW), None)

    def closed(self, modes: Sequence[int]) -> dict[str, bool]:
        """Which gaps a filter takes for closed, by name; empty for a controller without gaps, or without values."""
        if not modes:
            return {}
        found = zip(self.fields["mode"], self.decode("mode", modes), strict=True)
        return {one["name"].removeprefix(CLOSED): bool(v > 0.5) for one, v in found if one["name"].startswith(CLOSED)}

    def encode(self, role: str, values: Array | Sequence[float]) -> list[int]:
        """Raw values of numbers; those too large for their format saturate."""
        if self.scalar != "fixed32":
            return [int(value) for value in np.asarray(values, "<f4").view("<i4")]
        bits = np.array([field["bits"] for field in self.fields[role]], dtype=float)
        top = 2.0**31 - 1
        return [int(value) for value in np.clip(np.rint(np.asarray(values) * 2.0**bits), -top, top)]

    def decode(self, role: str, raw: Sequence[int]) -> Array:
        """Numbers of raw values; more than there are fields are ignored."""
        known = self.fields.get(role, [])
        used = np.array(raw[: len(known)], dtype="<i4")
        if self.scalar != "fixed32":
            return used.view("<f4").astype(float)
        bits = np.array([field["bits"] for field in known], dtype=float)
        scaled: Array = used * 2.0**-bits
        return scaled
