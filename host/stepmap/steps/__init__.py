"""Step maps: a mechanical system as x_next = f(x, u) with exact derivatives."""

from stepmap.steps.check import check_derivatives
from stepmap.steps.euler import EulerStep
from stepmap.steps.kinds import discretize, euler
from stepmap.steps.layout import Layout
from stepmap.steps.limits import InputLimits
from stepmap.steps.pointwise import PointwiseStep
from stepmap.steps.protocol import (
    Curvature,
    Event,
    LengthSensitivity,
    Linearization,
    SecondSensitivity,
    Sensitivity,
    StepMap,
    StepResult,
    Trajectory,
)
from stepmap.steps.variational import VariationalStep

__all__ = [
    "Curvature",
    "EulerStep",
    "Event",
    "InputLimits",
    "Layout",
    "LengthSensitivity",
    "Linearization",
    "PointwiseStep",
    "SecondSensitivity",
    "Sensitivity",
    "StepMap",
    "StepResult",
    "Trajectory",
    "VariationalStep",
    "check_derivatives",
    "discretize",
    "euler",
]
