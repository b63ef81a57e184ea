"""State estimation: the extended Kalman filter and whether to believe it."""

from stepmap.estimate.consistency import Consistency, consistency, nees
from stepmap.estimate.ekf import Belief, ExtendedKalmanFilter, Innovation

__all__ = ["Belief", "Consistency", "ExtendedKalmanFilter", "Innovation", "consistency", "nees"]
