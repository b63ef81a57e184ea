"""What generated C computes with, and the form it is written in."""

from __future__ import annotations

from enum import Enum


class Scalar(Enum):
    """What the C computes with."""

    FIXED32 = "fixed32"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


class Form(Enum):
    """Straight-line code; tables that one loop walks over, smaller and slower; loops over matrices of large models."""

    STRAIGHT = "straight"
    ROWS = "rows"
    LOOPS = "loops"
