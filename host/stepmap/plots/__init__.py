"""Pictures of simulations and optimizations, drawn with matplotlib, which takes a while to import."""

from stepmap.plots.figures import coordinates, energy, forces, motion, overview
from stepmap.plots.optimum import commands, convergence, inputs, path, tracking
from stepmap.plots.style import FORMATS, render
from stepmap.plots.tree import tree

__all__ = [
    "FORMATS",
    "commands",
    "convergence",
    "coordinates",
    "energy",
    "forces",
    "inputs",
    "motion",
    "overview",
    "path",
    "render",
    "tracking",
    "tree",
]
