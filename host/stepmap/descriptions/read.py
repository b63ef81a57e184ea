"""What the public API reads descriptions with."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from stepmap.descriptions import mjcf, urdf
from stepmap.descriptions.assemble import assemble
from stepmap.mechanics import System


def from_urdf(
    path: str | os.PathLike[str],
    *,
    floating: bool = False,
    motors: Sequence[str] | None = None,
    meshes: bool = True,
    gravity: float = 9.81,
) -> System:
    """The system of a URDF; ``system.left_out`` lists what of the file it does not have.

    The root link is fixed to the world, or moves freely (``floating``: a free joint called ``root``). Joints with an
    effort in their <limit> have an input ``<joint>.motor`` with that bound; ``motors`` names others. Joints that mimic
    are tied to those they follow. Meshes have to be there, unless ``meshes`` is False; masses do not come from them.
    A ModelError names file and line.
    """
    chosen = None if motors is None else tuple(motors)
    return assemble(urdf.read(path, floating=floating, motors=chosen, meshes=meshes, gravity=gravity))


def left_out(file: str, system: System) -> str:
    """What of a description a system does not have, as one message."""
    return f"{file}: not carried over: " + "; ".join(system.left_out)


def from_file(path: str) -> Callable[..., System]:
    """The function of a .urdf or .xml file that makes its system, with the arguments that can be chosen."""
    described = path.lower().endswith(".urdf")

    def of_urdf(floating: bool = False, meshes: bool = True, gravity: float = 9.81) -> System:
        return from_urdf(path, floating=floating, meshes=meshes, gravity=gravity)

    def of_mjcf() -> System:
        return from_mjcf(path)

    return of_urdf if described else of_mjcf


def from_mjcf(path: str | os.PathLike[str]) -> System:
    """The system of an MJCF file, as MuJoCo compiles it; ``system.left_out`` lists what of the file it does not have.

    Carried are bodies with their inertias, hinges, slides, balls and free joints with ranges, damping, springs and
    armature, connections and welds as loops, tendons, and actuators without memory as inputs.
    """
    return assemble(mjcf.read(path))
