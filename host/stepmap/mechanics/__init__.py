"""Mechanisms: a tree of frames with masses, springs, forces, constraints and sensors."""

from stepmap.mechanics.builder import Builder
from stepmap.mechanics.from_data import from_tree
from stepmap.mechanics.system import System

__all__ = ["Builder", "System", "from_tree"]
