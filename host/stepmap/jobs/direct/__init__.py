"""Jobs of kind "direct": a motion from a start to a goal as a nonlinear program. docs/direct.md describes every key."""

from stepmap.jobs.direct.read import read

__all__ = ["read"]
