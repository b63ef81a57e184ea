"""Triangles from files: STL, binary or text, and OBJ."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap.files import open_file

LARGEST = 256 * 1024 * 1024  # bytes
_HEAD, _FACE = 84, np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])


def read(path: Path) -> tuple[Array, Array]:
    """Vertices (n, 3) and triangles (m, 3) of a file; corners of an STL at the same place become one vertex."""
    _kind(path)
    try:
        with open_file(path, links=True) as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise ModelError(f"mesh file {path}: cannot be read ({error.strerror})") from None
    return parse(content, path)


def parse(content: bytes, path: Path) -> tuple[Array, Array]:
    """The same of what such a file holds; the path tells its kind and is for messages, nothing is read from it."""
    kind = _kind(path)
    if len(content) > LARGEST:
        raise ModelError(f"mesh file {path}: larger than {LARGEST // 1024**2} MiB")
    try:
        found = _obj(content) if kind == ".obj" else _stl(content)
    except (ValueError, IndexError) as error:
        raise ModelError(f"mesh file {path}: no {kind[1:].upper()} file ({error})") from None
    if not len(found[1]):
        raise ModelError(f"mesh file {path}: there is no triangle in it")
    return found


def _kind(path: Path) -> str:
    kind = path.suffix.lower()
    if kind not in (".stl", ".obj"):
        raise ModelError(f"mesh file {path}: expected a name that ends in .stl or .obj")
    return kind


def _stl(content: bytes) -> tuple[Array, Array]:
    count = int.from_bytes(content[80:_HEAD], "little") if len(content) >= _HEAD else -1
    if len(content) == _HEAD + count * _FACE.itemsize:
        corners = np.frombuffer(content, _FACE, count, _HEAD)["corners"].astype(float)
    else:
        lines = [line.split() for line in content.decode("ascii", errors="replace").splitlines()]
        if not lines or lines[0][:1] != ["solid"]:
            raise ValueError("neither its length nor its first word fits")
        corners = np.array([[float(e) for e in line[1:4]] for line in lines if line[:1] == ["vertex"]])
        corners = corners.reshape(-1, 3, 3)
    vertices, index = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    return vertices, index.reshape(-1, 3)


def _obj(content: bytes) -> tuple[Array, Array]:
    vertices: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    for line in content.decode("utf-8", errors="replace").splitlines():
        kind, *fields = line.split() or [""]
        if kind == "v":
            vertices.append([float(e) for e in fields[:3]])
        elif kind == "f":
            corners = [_place(field.split("/")[0], len(vertices)) for field in fields]
            faces += [(corners[0], b, c) for b, c in pairwise(corners[1:])]
    return np.array(vertices, dtype=float).reshape(-1, 3), np.array(faces, dtype=int).reshape(-1, 3)


def _place(text: str, count: int) -> int:
    """Indices count from 1, or with a minus back from the last."""
    number = int(text)
    return number - 1 if number > 0 else count + number
