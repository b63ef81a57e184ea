"""What a published figure is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress: TypeAlias = Callable[[float, str], None]
"""Told how far the work is, 0 to 1, and what is being done."""


@dataclass(frozen=True)
class Published:
    """A figure of a paper, made anew: the picture, its numbers, and what had to be assumed."""

    title: str
    source: str
    caption: str
    figure: Figure
    rows: Sequence[dict[str, Any]]  # its numbers, for the JSON file
    key_figures: Sequence[tuple[str, str]]
    assumptions: Sequence[str] = field(default=())
    animation: bytes = b""  # the same in motion, as GIF
