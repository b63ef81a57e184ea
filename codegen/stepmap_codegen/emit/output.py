"""What is written of a controller besides its program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepmap.arrays import Array
from stepmap_codegen.model.scalar import Form, Scalar
from stepmap_codegen.precision.signals import Signal


@dataclass(frozen=True)
class SelfTest:
    """Three ticks that a board does when it starts; for integers, the CRC-32 of all fields after them."""

    measurements: Array
    row: Array
    checksum: int | None


@dataclass(frozen=True)
class Output:
    """What is written besides the program itself."""

    scalar: Scalar
    form: Form
    digest: str  # of the model, 16 hexadecimal digits
    start: Array  # fields at the start
    test: SelfTest
    signals: Sequence[Signal]  # none for floating point
    variances: Array  # the largest that each covariance may become
