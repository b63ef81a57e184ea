"""Grasps: contacts that stay in their friction cones, and forces that only pull."""

from stepmap.optimal.grasps.co_contraction import Held, co_contract
from stepmap.optimal.grasps.grip import Grip, GripForces, grip_forces

__all__ = ["Grip", "GripForces", "Held", "co_contract", "grip_forces"]
