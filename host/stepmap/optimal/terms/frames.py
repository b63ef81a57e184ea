"""Positions of frames: what imitates a recorded motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from stepmap.arrays import numbers
from stepmap.errors import ModelError, ShapeError
from stepmap.mechanics.system import System
from stepmap.optimal.terms.residual import Residual, symbols
from stepmap.optimal.terms.squares import Squares
from stepmap.optimal.terms.term import BoundTerm
from stepmap.steps.layout import MechanicalLayout
from stepmap.steps.protocol import StepMap
from stepmap.text import did_you_mean


@dataclass(frozen=True, eq=False)
class Frames:
    """½ Σ weight · |position − target|² over the named frames, at every state of a trajectory, in the world's axes [m].

    ``targets`` are (N+1, frames, 3), or (frames, 3) at all times. ``weights`` are one number, one per frame, or any
    shape that goes with the targets; zero leaves a target out.
    """

    names: Sequence[str]
    targets: ArrayLike
    weights: ArrayLike = 1.0

    @staticmethod
    def example(step: StepMap, steps: int) -> Frames:
        """The last two frames of a mechanism, wanted somewhere else."""
        names = _system(step).frame_names[-2:]
        targets = np.random.default_rng(5).normal(size=(steps + 1, len(names), 3))
        return Frames(names, targets, weights=np.linspace(1.0, 3.0, len(names)))

    def on(self, step: StepMap) -> BoundTerm:
        system = _system(step)
        known, names = list(system.frame_names), [self.names] if isinstance(self.names, str) else list(self.names)
        for name in names:
            if name not in known:
                raise ModelError(
                    f"names: no frame is called {name!r}; {did_you_mean(name, known)}there are {', '.join(known)}"
                )
        targets = numbers(self.targets, "targets")
        if targets.ndim not in (2, 3) or targets.shape[-2:] != (len(names), 3):
            raise ShapeError(f"targets: expected (N+1, {len(names)}, 3) or ({len(names)}, 3), got {targets.shape}")
        if not np.isfinite(targets).all():
            raise ShapeError("targets: has entries that are not finite; give them a weight of 0 instead")
        weights = numbers(self.weights, "weights")
        weights = weights[:, None] if weights.shape == (len(names),) else weights
        try:
            weights = np.broadcast_to(weights, np.broadcast_shapes(weights.shape, targets.shape[-2:]))
        except ValueError:
            raise ShapeError(f"weights: {weights.shape} does not go with targets {targets.shape}") from None
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ModelError("weights: must be finite and not negative")
        at = symbols(step, data=3 * len(names))
        e = system.expressions
        picked = e.positions[:, [known.index(name) for name in names]]
        place = ca.Function("place", [e.q, e.parameters], [ca.vec(picked)])
        r = place(at.x[: e.q.numel()], at.parameters) - at.data
        rows = (np.ascontiguousarray(part.reshape(-1, 3 * len(names))) for part in (weights, targets))
        return Squares(step, Residual(step, at, r), *rows, end=True)


def _system(step: StepMap) -> System:
    system = getattr(step, "system", None)
    if not isinstance(system, System) or not isinstance(step.layout, MechanicalLayout):
        raise ModelError("step: frames are those of a mechanism; this map has none")
    return system
