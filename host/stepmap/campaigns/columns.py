"""Columns of a campaign's table: what a trial came to, and what it was made with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Value: TypeAlias = float | int | bool | str
Row: TypeAlias = Mapping[str, Any]
"""What a trial came to, by column; columns that are not there have no value."""

OK, REASON = "ok", "reason"
"""In every table: whether the trial could be made, and why not."""


@dataclass(frozen=True)
class Column:
    """A column of results: its name, unit, type and meaning; reports show those that are ``shown``."""

    name: str
    about: str
    unit: str = ""
    type: Literal["number", "whole", "text", "flag"] = "number"
    shown: bool = False
    expected: float | None = None  # where there is a value that the mean should have

    @property
    def label(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name
