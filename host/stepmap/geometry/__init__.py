"""Shapes of obstacles and moving parts, one per file, with signed distances as expressions and as arrays."""

from stepmap.geometry.box import Box
from stepmap.geometry.capsule import Capsule
from stepmap.geometry.clearances import Clearances
from stepmap.geometry.half_space import HalfSpace
from stepmap.geometry.heightmap import Heightmap
from stepmap.geometry.mesh import Mesh
from stepmap.geometry.shape import Gridded, Shape
from stepmap.geometry.sphere import Sphere

__all__ = [
    "Box",
    "Capsule",
    "Clearances",
    "Gridded",
    "HalfSpace",
    "Heightmap",
    "Mesh",
    "Shape",
    "Sphere",
]
