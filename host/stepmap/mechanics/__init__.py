"""Mechanisms: a tree of frames with masses, springs, forces, constraints and sensors."""

from stepmap.mechanics.builder import Builder
from stepmap.mechanics.from_data import from_tree
from stepmap.mechanics.symbols.arithmetic import acos, asin, atan, atan2, cos, exp, log, sin, sqrt, tan, tanh
from stepmap.mechanics.system import System

__all__ = [
    "Builder",
    "System",
    "acos",
    "asin",
    "atan",
    "atan2",
    "cos",
    "exp",
    "from_tree",
    "log",
    "sin",
    "sqrt",
    "tan",
    "tanh",
]
