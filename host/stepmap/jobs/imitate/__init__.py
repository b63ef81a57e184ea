"""Jobs of kind "imitate": a mechanism does what a dancer did. docs/imitation.md describes every key."""

from stepmap.jobs.imitate.read import read

__all__ = ["read"]
