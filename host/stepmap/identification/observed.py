"""What a run was: commands that were given and readings that came, tick by tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepmap.arrays import Array, numbers
from stepmap.errors import ModelError, ShapeError
from stepmap.steps import VariationalStep

AT_REST = 6.0  # standard deviations within which a channel's readings are noise alone


@dataclass(frozen=True, eq=False)
class Observed:
    """A run of N steps: inputs U (N, nu) as they were commanded, and readings Z (N+1, nz), in SI units.

    ``valid`` (N+1, nz) says which readings came; those that are not numbers did not. ``before`` is the input before
    the first tick, by default the first one. ``guess`` are states, (N+1, nx) or the first alone, near which the motion
    is searched for: estimates of a filter, for example.
    """

    dt: float
    U: Array
    Z: Array
    valid: NDArray[np.bool_] | None = None
    before: Array | None = None
    guess: Array | None = None
    name: str = "run"

    def __post_init__(self) -> None:
        U, Z = (np.array(value, dtype=float) for value in (self.U, self.Z))
        if U.ndim != 2 or Z.ndim != 2 or len(Z) != len(U) + 1:
            raise ShapeError(f"{self.name}: expected U (N, nu) and Z (N+1, nz), got shapes {U.shape} and {Z.shape}")
        if len(U) < 2:
            raise ModelError(f"{self.name}: has {len(U)} steps; nothing can be learnt from fewer than two")
        numbers(U, f"{self.name}: U")
        there = np.isfinite(Z)
        if self.valid is not None:
            if np.shape(self.valid) != Z.shape:
                raise ShapeError(f"{self.name}: expected valid {Z.shape}, got shape {np.shape(self.valid)}")
            there &= np.asarray(self.valid, dtype=bool)
        before = U[0] if self.before is None else np.asarray(self.before, dtype=float)
        if before.shape != U[0].shape:
            raise ShapeError(f"{self.name}: expected before {U[0].shape}, got shape {before.shape}")
        for key, value in (("U", U), ("Z", np.where(there, Z, 0.0)), ("valid", there), ("before", before)):
            object.__setattr__(self, key, value)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which readings came."""
        assert self.valid is not None  # made so at the start
        return self.valid

    @property
    def steps(self) -> int:
        return len(self.U)

    def fits(self, step: VariationalStep, sigma: Array) -> None:
        """Raises where this is no run of a step map, or nothing moves in it; ``sigma`` is the noise of each channel."""
        channels = [name for name, _ in step.system.sensor_channels]
        if not np.isclose(self.dt, step.dt, rtol=1e-9):
            raise ModelError(f"{self.name}: was recorded at dt = {self.dt:g} s, and the job's is {step.dt:g} s")
        if self.U.shape[1] != step.nu or self.Z.shape[1] != len(channels):
            raise ModelError(
                f"{self.name}: has {self.U.shape[1]} inputs and {self.Z.shape[1]} channels; the job has {step.nu} "
                f"({', '.join(step.input_names)}) and {len(channels)} ({', '.join(channels)}): is it of another job?"
            )
        for name, came in zip(channels, self.seen.T, strict=True):
            if not came.any():
                raise ModelError(f"{self.name}: no reading of channel {name!r} is valid")
        spread = [np.ptp(z[came]) for z, came in zip(self.Z.T, self.seen.T, strict=True)]
        if (np.ptp(self.U, axis=0) < 1e-9).all() and (np.array(spread) < AT_REST * 2 * sigma).all():
            raise ModelError(
                f"{self.name}: everything is at rest in it: no input changes, and no channel moves beyond its noise",
                hint="Give a run in which the mechanism moves.",
            )


def require_runs(runs: Observed | Sequence[Observed]) -> tuple[Observed, ...]:
    """The runs as a tuple; raises where there are none."""
    given = (runs,) if isinstance(runs, Observed) else tuple(runs)
    if not given:
        raise ModelError("runs: none are given")
    for one in given:
        if not isinstance(one, Observed):
            raise ModelError(f"runs: expected sm.Observed, got {type(one).__name__}")
    return given


def states_of(observed: Observed, nx: int) -> Array | None:
    """Guessed states (N+1, nx); None where only the first or none is given."""
    guess: ArrayLike | None = observed.guess
    if guess is None or np.ndim(guess) == 1:
        return None
    states = np.asarray(guess, dtype=float)
    if states.shape != (observed.steps + 1, nx):
        raise ShapeError(f"{observed.name}: expected guess {(observed.steps + 1, nx)}, got shape {states.shape}")
    return states
