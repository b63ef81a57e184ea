"""The compiled kernel of a step with balls: midpoint.c with ball.h; in dt and by parameters the equations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from stepmap.arrays import Array
from stepmap.graph.library import Recipe
from stepmap.steps.kernels.compiled import CompiledKernel, Kernel
from stepmap.steps.kernels.info import Info

if TYPE_CHECKING:
    from stepmap.steps.variational import VariationalStep


class BallKernel(CompiledKernel):
    """A CompiledKernel whose sensitivities, in dt, by parameters and of constraint forces, are those of another."""

    def __init__(
        self,
        recipe: Recipe,
        sizes: tuple[int, int, int, int],
        evaluated: Callable[[], Kernel],
        from_equations: Callable[[], Kernel],
    ) -> None:
        super().__init__(recipe, sizes, evaluated)
        self.from_equations = from_equations

    @cached_property
    def _other(self) -> Kernel:
        return self.from_equations()

    def sensitivity_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array, Array]:
        return self._other.sensitivity_all(par, dt, X, U, guess)

    def parameters_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array, Array]:
        return self._other.parameters_all(par, dt, X, U, guess)

    def second_sensitivity_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None, Z: Array, N: Array
    ) -> tuple[Info, Array]:
        return self._other.second_sensitivity_all(par, dt, X, U, guess, Z, N)


def ball_kernel(step: VariationalStep) -> BallKernel:
    """The kernel of a step with balls and held forces."""
    active = step.functions.active
    defines = {
        "ND": step.nd,
        "NK": step.nk,
        "NU": len(step.system.inputs),
        "NC": step.nc,
        "NA": len(active),
        "NP": len(step.system.parameters),
        "ACTIVE": _listed(active),
        "FORCES_LEFT": step.left,
        **ball_defines(step),
    }
    recipe = Recipe("midpoint.c", step.functions, defines)
    sizes = step.nx, step.ndx, step.nu, step.nc
    return BallKernel(recipe, sizes, step.evaluated, step.from_equations)


def ball_defines(step: VariationalStep) -> dict[str, object]:
    """What the runtime has to know of the balls of a system."""
    tangent = step.system.tangent
    stored, places = tangent.ordinary
    at = dict(zip(places.tolist(), stored.tolist(), strict=True))
    above, below = ((*part, 0.0, 0.0, 0.0, 0.0)[:4] for part in (step.map.above, step.map.below))
    return {
        "SM_BALLS": 1,
        "NB": len(tangent.balls),
        "BALL_STORED": _listed([s for s, _ in tangent.balls]),
        "BALL_TANGENT": _listed([t for _, t in tangent.balls]),
        "STORED_AT": _listed([at.get(i, -1) for i in range(tangent.nv)]),
        "PHI_ABOVE": _listed(above),
        "PHI_BELOW": _listed(below),
    }


def _listed(values: object) -> str:
    return "{" + ", ".join(map(str, values)) + "}"  # type: ignore[call-overload]
