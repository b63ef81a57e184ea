"""Archives of arrays (.npz) that may come from elsewhere: plain numbers of a bounded size, or an error."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from stepmap.errors import DamagedError

LARGEST = 256 * 1024 * 1024  # bytes of all arrays, unpacked
KINDS = "biuf"  # of numbers: nothing that runs when it is read
UNREADABLE = (ValueError, TypeError, LookupError, EOFError, OverflowError, RuntimeError, SyntaxError, MemoryError)
"""What zipfile and numpy raise; numpy reads a header as an expression of Python, which may be nested too deeply."""


def read_arrays(
    source: Path | bytes, names: tuple[str, ...], *, largest: int = LARGEST
) -> Mapping[str, np.ndarray[Any, Any]]:
    """Arrays of an archive by name. Raises DamagedError where it is none, or would not fit into ``largest`` bytes."""
    try:
        with zipfile.ZipFile(source if isinstance(source, Path) else io.BytesIO(source)) as archive:
            sizes = {name: archive.getinfo(f"{name}.npy").file_size for name in names}
            if sum(sizes.values()) > largest:
                raise DamagedError(f"its arrays have {sum(sizes.values())} bytes, more than the {largest} that may be")
            return {name: _read(archive, name, size) for name, size in sizes.items()}
    except (zipfile.BadZipFile, zlib.error, *UNREADABLE) as error:
        raise DamagedError(f"it is no archive of arrays: {error}") from None


def _read(archive: zipfile.ZipFile, name: str, size: int) -> np.ndarray[Any, Any]:
    """One array; zipfile gives no more than ``size`` bytes of it, whatever is packed."""
    with archive.open(f"{name}.npy") as file:
        content = io.BytesIO(file.read(size))
    shape, kind = _header(content)
    left = size - content.tell()
    if kind.kind not in KINDS or prod(shape) * kind.itemsize != left:
        raise ValueError(f"{name} says it is {kind} of shape {shape}, and has {left} bytes")
    content.seek(0)
    made: np.ndarray[Any, Any] = np.lib.format.read_array(content, allow_pickle=False)
    return made


def _header(content: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(content)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = reader(content)
    return shape, kind
