"""Optimal trajectories and stabilizing gains for any step map."""

from stepmap.optimal.cost import SoftLimit, TrackingCost
from stepmap.optimal.homotopy import homotopy
from stepmap.optimal.lqr import Regulator, lqr, regulate
from stepmap.optimal.plan import Plan
from stepmap.optimal.problem import Iteration, Problem, Solution, Status
from stepmap.optimal.projection import optimize

__all__ = [
    "Iteration",
    "Plan",
    "Problem",
    "Regulator",
    "SoftLimit",
    "Solution",
    "Status",
    "TrackingCost",
    "homotopy",
    "lqr",
    "optimize",
    "regulate",
]
