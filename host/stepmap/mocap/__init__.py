"""Motion capture: recordings in BVH files, and what a mechanism has to do to look like the dancer."""

from stepmap.mocap.bvh import read_bvh
from stepmap.mocap.recording import Recording
from stepmap.mocap.retarget import Targets, retarget

__all__ = ["Recording", "Targets", "read_bvh", "retarget"]
