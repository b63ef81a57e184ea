"""Jobs of kind "plan": a motion from pose to pose among obstacles. docs/choreography.md describes every key."""

from stepmap.jobs.plans.read import read

__all__ = ["read"]
