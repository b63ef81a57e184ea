"""Tuning of the feedback along a plan: a sweep of two factors on its weights, and what each would do."""

from stepmap.jobs.tuning.choose import choose
from stepmap.jobs.tuning.sweep import Plant, Point, Sweep, sweep

__all__ = ["Plant", "Point", "Sweep", "choose", "sweep"]
