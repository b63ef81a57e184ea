"""Identification: what recorded runs say about a model, and about what lies between it and the robot."""

from stepmap.identification.identify import Check, Identification, check, identify
from stepmap.identification.observed import Observed
from stepmap.identification.told import Untold

__all__ = ["Check", "Identification", "Observed", "Untold", "check", "identify"]
