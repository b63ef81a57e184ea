"""The last ticks of a board as sparklines, and how far innovations are from what a filter expects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.columns import Columns
from rich.table import Table
from rich.text import Text

from stepmap.arrays import Array
from stepmap.cli.output import grid
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.raw_values import SignalCodec

LENGTH = 24  # ticks
LEVELS = "▁▂▃▄▅▆▇█"
ROLES = ("estimate", "command", "innovation")
UNUSUAL, RARE = 3.0, 5.0  # standard deviations of an innovation
EXPECTED_LARGEST = 5.0  # standard deviations at the top of an innovation's sparkline


def sparkline(values: Sequence[float] | Array, low: float | None = None, high: float | None = None) -> str:
    """A character per value, by default from the least to the largest of them; a blank where there is none."""
    known = np.array(values, dtype=float)
    there = known[np.isfinite(known)]
    if not there.size:
        return " " * len(known)
    bottom, top = (there.min() if low is None else low), (there.max() if high is None else high)
    if not top > bottom:
        return "".join(LEVELS[0] if np.isfinite(value) else " " for value in known)
    at = np.clip((known - bottom) / (top - bottom) * len(LEVELS), 0, len(LEVELS) - 1)
    return "".join(LEVELS[int(level)] if np.isfinite(level) else " " for level in at)


@dataclass
class History:
    """Numbers of the last ticks, by role; ``sigma`` are standard deviations that innovations should have, or None."""

    codec: SignalCodec
    sigma: Array | None = None
    rows: dict[str, deque[Array]] = field(default_factory=lambda: {role: deque(maxlen=LENGTH) for role in ROLES})
    taken: int = 0

    def add(self, tick: Message) -> None:
        """One tick more; of a tick without a measurement there are no innovations."""
        self.taken = tick.taken
        for role in ROLES:
            raw = getattr(tick, role)
            count = len(self.codec.fields.get(role, []))
            values = self.codec.decode(role, raw)
            self.rows[role].append(values if len(values) == count else np.full(count, np.nan))

    def columns(self) -> Columns:
        """Estimate, command and innovations beside each other, as many as fit."""
        return Columns([self._table(role) for role in ROLES if self.codec.fields.get(role)], padding=(0, 3))

    def _table(self, role: str) -> Table:
        if role == "innovation" and self.sigma is not None:
            return grid(("innovation/σ", "", ""), list(self._innovations(self.sigma)))
        return grid((role, "", ""), list(self._signals(role)))

    def _signals(self, role: str) -> Iterator[tuple[str, str, Text]]:
        known = np.array(self.rows[role])
        for i, one in enumerate(self.codec.fields[role]):
            value = f"{known[-1, i]:.4g} {one['unit']}".rstrip() if np.isfinite(known[-1, i]) else "–"
            yield one["label"].removeprefix("innovation of "), value, Text(sparkline(known[:, i]), "cyan")

    def _innovations(self, sigma: Array) -> Iterator[tuple[str, Text, Text]]:
        known = np.array(self.rows["innovation"]) / sigma
        for i, one in enumerate(self.codec.fields["innovation"]):
            value, label = known[-1, i], one["label"].removeprefix("innovation of ")
            if not np.isfinite(value):
                yield label, Text("–", "dim"), Text(sparkline(known[:, i]))
                continue
            style = "green" if abs(value) < UNUSUAL else "yellow" if abs(value) < RARE else "red"
            gated = "" if self.taken >> i & 1 else " left out"
            line = sparkline(np.abs(known[:, i]), 0.0, EXPECTED_LARGEST)
            yield label, Text(f"{value:+.1f}{gated}", style), Text(line, style)
