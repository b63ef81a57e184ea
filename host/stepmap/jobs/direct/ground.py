"""The ground of an obstacle "heightmap": arrays of a file, or a formula over a rectangle."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from stepmap.arrays import Array
from stepmap.formula import FUNCTIONS, Formula, FormulaError, parse
from stepmap.toml.tables import Table

KEYS = ("file", "x", "y", "height", "let")
MOST_NODES = 2000  # along one side


def read_ground(table: Table, files: dict[str, bytes]) -> tuple[Array, Array, Array]:
    """x, y and z of a heightmap; ``files`` collects the content of a file that is named."""
    if ("file" in table) == ("height" in table):
        raise table.error('a heightmap has either file, an .npz with x, y and z, or x, y and height = "a formula"')
    if "file" in table:
        for key in KEYS[1:]:
            if key in table:
                raise table.error("belongs to a height by a formula; leave it out beside file", key)
        return _saved(table, files)
    x, y = (_side(table, axis) for axis in "xy")
    return x, y, _heights(table, *np.meshgrid(x, y, indexing="ij"))


def _saved(table: Table, files: dict[str, bytes]) -> tuple[Any, ...]:
    name, content = table.content("file")
    files[name] = content
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return tuple(arrays[axis] for axis in "xyz")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise table.error(f"expected an .npz with arrays x, y and z: {error}", "file") from None


def _side(table: Table, axis: str) -> Array:
    """Evenly spaced places along x or y."""
    table.need(axis, "Write for example x = { low = 0.0, high = 36.0, nodes = 55 }.")
    side = table.table(axis)
    side.only(("low", "high", "nodes"))
    for key in ("low", "high", "nodes"):
        side.need(key, "A side has low and high [m], and how many nodes there are from one to the other.")
    low, high, count = side.number("low"), side.number("high"), side.whole("nodes")
    if not low < high:
        raise side.error(f"low ({low:g}) must be below high ({high:g})")
    if not 2 <= count <= MOST_NODES:
        raise side.error(f"expected 2 to {MOST_NODES} nodes, got {count}", "nodes")
    return np.linspace(low, high, count)


def _heights(table: Table, x: Array, y: Array) -> Array:
    """z(x, y) by a formula, with the help of those in ``let``."""
    words: dict[str, Formula] = {"x": lambda t: x, "y": lambda t: y}
    let = table.table("let")
    for name in let:
        if not name.isidentifier() or name in ("t", "pi", *words, *FUNCTIONS):
            raise let.error("cannot name a formula: take letters, digits and _, and no name that formulas know", name)
        words[name] = _fixed(_evaluated(let, name, words, x))
    return _evaluated(table, "height", words, x)


def _evaluated(table: Table, key: str, words: dict[str, Formula], like: Array) -> Array:
    try:
        return parse(table.text(key), words)(np.zeros_like(like))
    except FormulaError as error:
        raise table.error(str(error).replace("at t = 0 s", "somewhere on the ground"), key) from None


def _fixed(values: Array) -> Formula:
    return lambda t: values
