"""Robots as others describe them: URDF and MJCF are read into a System, and a System is written as URDF."""

from stepmap.descriptions.read import from_mjcf, from_urdf
from stepmap.descriptions.urdf_writer import to_urdf

__all__ = ["from_mjcf", "from_urdf", "to_urdf"]
