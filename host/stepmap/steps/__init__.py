"""Step maps: a mechanical system as x_next = f(x, u) with exact derivatives."""

from stepmap.steps.check import check_derivatives
from stepmap.steps.euler import EulerStep, euler
from stepmap.steps.protocol import Curvature, Linearization, StepMap, StepResult, Trajectory
from stepmap.steps.variational import VariationalStep, discretize

__all__ = [
    "Curvature",
    "EulerStep",
    "Linearization",
    "StepMap",
    "StepResult",
    "Trajectory",
    "VariationalStep",
    "check_derivatives",
    "discretize",
    "euler",
]
