"""Mechanisms: a tree of frames with masses, springs, forces, constraints and sensors."""

from stepmap.mechanics.builder import Builder
from stepmap.mechanics.system import System
from stepmap.mechanics.tree import from_tree

__all__ = ["Builder", "System", "from_tree"]
