"""Tables [[obstacles]] and [[clear]]: shapes in the world, and which frames keep clear of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepmap.errors import StepmapError
from stepmap.geometry import Box, Capsule, HalfSpace, Heightmap, Mesh, Shape, Sphere
from stepmap.optimal.terms.clearance import Clearance
from stepmap.toml.tables import Table

# kind: what makes it, keys it needs, keys it may have
KINDS: dict[str, tuple[Callable[..., Shape], tuple[str, ...], tuple[str, ...]]] = {
    "sphere": (Sphere, ("center", "radius"), ()),
    "capsule": (Capsule, ("a", "b", "radius"), ()),
    "box": (Box, ("size",), ("center", "rotation", "rounding")),
    "half_space": (HalfSpace, ("point", "normal"), ()),
    "heightmap": (Heightmap, ("file",), ("spacing",)),
    "mesh": (Mesh, ("file",), ("spacing",)),
}


def read_clearances(root: Table, files: dict[str, bytes]) -> list[Clearance]:
    """What has to stay clear of the obstacles, all of them where none are named."""
    named = dict(_obstacle(table, files) for table in root.tables("obstacles"))
    found = [_clearance(table, named) for table in root.tables("clear")]
    if named and not found:
        raise root.error("[[obstacles]] without [[clear]]: nothing says which frames keep clear of them")
    return found


def _obstacle(table: Table, files: dict[str, bytes]) -> tuple[str, Shape]:
    table.need("kind", f"There are {', '.join(KINDS)}.")
    make, needed, optional = KINDS[table.choice("kind", list(KINDS))]
    table.only(("kind", "name", *needed, *optional))
    for key in needed:
        table.need(key, f"A {table.text('kind')} has it.")
    given = {key: _value(table, key) for key in (*needed, *optional) if key in table and key != "file"}
    name = table.text("name") if "name" in table else f"{table.text('kind')} {table.path[-1]}"
    try:
        return name, make(*_from_file(table, files), **given) if "file" in table else make(**given)
    except StepmapError as error:
        raise table.error(str(error), hint=error.hint) from None


def _value(table: Table, key: str) -> Any:
    return table.numbers(key, ()) if isinstance(table.entries[key], list) else table.number(key)


def _from_file(table: Table, files: dict[str, bytes]) -> tuple[Any, ...]:
    """Arrays of a heightmap, an .npz with x, y and z; or the name of a mesh's file."""
    name, content = table.content("file")
    files[name] = content
    if table.text("kind") == "mesh":
        return (name,)
    import io

    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return tuple(arrays[axis] for axis in "xyz")
    except (OSError, ValueError, KeyError) as error:
        raise table.error(f"expected an .npz with arrays x, y and z: {error}", "file") from None


def _clearance(table: Table, named: dict[str, Shape]) -> Clearance:
    table.only(("frame", "radius", "margin", "obstacles"))
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
            table.number("radius"),
            [named[name] for name in wanted],
            table.number("margin", 0.0),
        )
    except StepmapError as error:
        raise table.error(str(error), hint=error.hint) from None
