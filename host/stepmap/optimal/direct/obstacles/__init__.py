"""Obstacles in a program: clearances at the nodes and in the middles of steps."""

from stepmap.optimal.direct.obstacles.rows import placed

__all__ = ["placed"]
