"""Tables [[obstacles]] and [[clear]]: shapes in the world, and which frames keep clear of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepmap.errors import StepmapError
from stepmap.geometry import Box, Capsule, HalfSpace, Heightmap, Mesh, Shape, Sphere
from stepmap.geometry.grids import mesh_file
from stepmap.jobs.direct import ground
from stepmap.optimal.terms.clearance import Clearance
from stepmap.toml.tables import Table

# kind: what makes it, keys it needs, keys it may have
KINDS: dict[str, tuple[Callable[..., Shape], tuple[str, ...], tuple[str, ...]]] = {
    "sphere": (Sphere, ("center", "radius"), ()),
    "capsule": (Capsule, ("a", "b", "radius"), ()),
    "box": (Box, ("size",), ("center", "rotation", "rounding")),
    "half_space": (HalfSpace, ("point", "normal"), ()),
    "heightmap": (Heightmap, (), ("spacing",)),
    "mesh": (Mesh, ("file",), ("spacing",)),
}


def read_clearances(root: Table, files: dict[str, bytes]) -> list[Clearance]:
    """What has to stay clear of the obstacles, all of them where none are named."""
    named = dict(read_obstacles(root, files))
    found = [_clearance(table, named) for table in root.tables("clear")]
    if named and not found:
        raise root.error("[[obstacles]] without [[clear]]: nothing says which frames keep clear of them")
    return found


def read_obstacles(root: Table, files: dict[str, bytes]) -> list[tuple[str, Shape]]:
    """Shapes of [[obstacles]] with their names."""
    return [_obstacle(table, files) for table in root.tables("obstacles")]


def _obstacle(table: Table, files: dict[str, bytes]) -> tuple[str, Shape]:
    table.need("kind", f"There are {', '.join(KINDS)}.")
    kind = table.choice("kind", list(KINDS))
    make, needed, optional = KINDS[kind]
    table.only(("kind", "name", *needed, *optional, *(ground.KEYS if kind == "heightmap" else ())))
    for key in needed:
        table.need(key, f"A {kind} has it.")
    given = {key: _value(table, key) for key in (*needed, *optional) if key in table and key != "file"}
    name = table.text("name") if "name" in table else f"{kind} {table.path[-1]}"
    first: tuple[Any, ...] = ()
    if kind == "heightmap":
        first = ground.read_ground(table, files)
    try:
        if kind == "mesh":
            first = _mesh(table, files)
        return name, make(*first, **given)
    except StepmapError as error:
        raise table.error(str(error), hint=error.hint) from None


def _value(table: Table, key: str) -> Any:
    return table.numbers(key, ()) if isinstance(table.entries[key], list) else table.number(key)


def _mesh(table: Table, files: dict[str, bytes]) -> tuple[Any, ...]:
    """Vertices and triangles of a mesh's file; that of a job that came with a recording is the attached one."""
    name, content = table.content("file")
    files[name] = content
    return mesh_file.parse(content, Path(name))


def _clearance(table: Table, named: dict[str, Shape]) -> Clearance:
    table.only(("frame", "radius", "centers", "margin", "obstacles"))
    for key in ("frame", "radius"):
        table.need(key, "Give the frame, or two for a capsule between them, and the radius [m] of what moves.")
    frame: Any = table.entries["frame"]
    wanted = table.entries.get("obstacles", list(named))
    if not isinstance(wanted, list) or not wanted:
        raise table.error("expected names of obstacles", "obstacles")
    for name in wanted:
        if name not in named:
            raise table.error(f"no obstacle is called {name!r}; there are {', '.join(named)}", "obstacles")
    try:
        return Clearance(
            tuple(frame) if isinstance(frame, list) else frame,
            _balls(table),
            [named[name] for name in wanted],
            table.number("margin", 0.0),
        )
    except StepmapError as error:
        raise table.error(str(error), hint=error.hint) from None


def _balls(table: Table) -> Any:
    """A radius, or balls of that radius around several places in the frame's axes."""
    radius = table.number("radius")
    if "centers" not in table:
        return radius
    if isinstance(table.entries["frame"], list):
        raise table.error("a capsule between two frames has none; name one frame", "centers")
    return [Sphere(center, radius) for center in table.rows("centers", 3)]
