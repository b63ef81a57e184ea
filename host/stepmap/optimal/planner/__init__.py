"""Motions from pose to pose among obstacles: an expansive-space tree, then smoothing by the projection operator."""

from stepmap.optimal.planner.search import PlannedMotion, plan

__all__ = ["PlannedMotion", "plan"]
