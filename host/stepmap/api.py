"""The public API: what ``import stepmap as sm`` offers as ``sm.…``."""

from stepmap import systems
from stepmap.errors import ConvergenceError, JobError, ModelError, ShapeError, StepmapError, ToolchainError
from stepmap.estimate import Belief, ExtendedKalmanFilter
from stepmap.mechanics import Builder, System, from_tree
from stepmap.optimal import (
    Plan,
    Problem,
    Regulator,
    SoftLimit,
    Solution,
    TrackingCost,
    homotopy,
    lqr,
    optimize,
    regulate,
)
from stepmap.steps import (
    Curvature,
    EulerStep,
    Linearization,
    StepMap,
    StepResult,
    Trajectory,
    VariationalStep,
    check_derivatives,
    discretize,
    euler,
)

__all__ = [
    "Belief",
    "Builder",
    "ConvergenceError",
    "Curvature",
    "EulerStep",
    "ExtendedKalmanFilter",
    "JobError",
    "Linearization",
    "ModelError",
    "Plan",
    "Problem",
    "Regulator",
    "ShapeError",
    "SoftLimit",
    "Solution",
    "StepMap",
    "StepResult",
    "StepmapError",
    "System",
    "ToolchainError",
    "TrackingCost",
    "Trajectory",
    "VariationalStep",
    "check_derivatives",
    "discretize",
    "euler",
    "from_tree",
    "homotopy",
    "lqr",
    "optimize",
    "regulate",
    "systems",
]
