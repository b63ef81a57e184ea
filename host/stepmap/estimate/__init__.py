"""State estimation: filters, found by name, and whether to believe them."""

from stepmap.estimate import registry
from stepmap.estimate.consistency import Consistency, consistency, nees
from stepmap.estimate.ekf import ExtendedKalmanFilter
from stepmap.estimate.measurement import MeasurementModel
from stepmap.estimate.particle import ParticleFilter, Particles
from stepmap.estimate.protocol import Belief, Filter, Innovation
from stepmap.estimate.runs import FilterRuns

__all__ = [
    "Belief",
    "Consistency",
    "ExtendedKalmanFilter",
    "Filter",
    "FilterRuns",
    "Innovation",
    "MeasurementModel",
    "ParticleFilter",
    "Particles",
    "consistency",
    "nees",
    "registry",
]
