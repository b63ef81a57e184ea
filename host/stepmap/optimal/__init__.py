"""Optimal trajectories and stabilizing gains for any step map."""

from stepmap.optimal.composite import Cost
from stepmap.optimal.cost import SoftLimit, TrackingCost
from stepmap.optimal.design import DesignStudy, Surrogate, design_study
from stepmap.optimal.direct import DirectSolution, Phase, direct
from stepmap.optimal.events.relaxed import Relaxation, optimize_relaxed
from stepmap.optimal.homotopy import homotopy
from stepmap.optimal.lqr import Regulator, lqr, regulate
from stepmap.optimal.objective import Bend, Expansion, Objective
from stepmap.optimal.plan import Plan
from stepmap.optimal.problem import Iteration, Problem, Solution, Status
from stepmap.optimal.projection import optimize
from stepmap.optimal.switching_times import SampledAct, script, switching
from stepmap.optimal.terms import Clearance, Expression, Frames, Limits, SpeedChange, Tension, Track

__all__ = [
    "Bend",
    "Clearance",
    "Cost",
    "DesignStudy",
    "DirectSolution",
    "Expansion",
    "Expression",
    "Frames",
    "Iteration",
    "Limits",
    "Objective",
    "Phase",
    "Plan",
    "Problem",
    "Regulator",
    "Relaxation",
    "SampledAct",
    "SoftLimit",
    "Solution",
    "SpeedChange",
    "Status",
    "Surrogate",
    "Tension",
    "Track",
    "TrackingCost",
    "design_study",
    "direct",
    "homotopy",
    "lqr",
    "optimize",
    "optimize_relaxed",
    "regulate",
    "script",
    "switching",
]
