"""Memory of large arrays, kept while a search makes them again and again: fresh pages cost time.

    with kept.arrays():
        A = kept.empty((n, nx, nx))    # memory of an array that nobody has any more, where there is some of this size

An array owns its memory until it and all views of it are gone. Behind the ``with`` what is free goes back.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from stepmap.arrays import Array

LARGE = 1 << 17  # entries: of less the allocator keeps the memory itself


class _Store:
    """Memory that is free, by its size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Array]] | None = {}
        self._lock = threading.Lock()  # arrays may be let go of in any thread

    def empty(self, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        with self._lock:
            free = None if self._free is None else self._free.get(size)
            memory = free.pop() if free else np.empty(size)
        loan = _Loan(memory, shape)
        weakref.finalize(loan, self._back, memory).atexit = False
        return np.asarray(loan)

    def _back(self, memory: Array) -> None:
        with self._lock:
            if self._free is not None:
                self._free.setdefault(memory.size, []).append(memory)

    def close(self) -> None:
        with self._lock:
            self._free = None


class _Loan:
    """What an array lives on; it is gone when the last view of the array is."""

    def __init__(self, memory: Array, shape: tuple[int, ...]) -> None:
        self.__array_interface__ = {**memory.__array_interface__, "shape": shape, "strides": None}


_STORE: ContextVar[_Store | None] = ContextVar("kept arrays", default=None)


@contextmanager
def arrays() -> Iterator[None]:
    """Keeps memory of large arrays for the next ones; within another such block that does."""
    if _STORE.get() is not None:
        yield
        return
    store = _Store()
    token = _STORE.set(store)
    try:
        yield
    finally:
        _STORE.reset(token)
        store.close()


def empty(shape: tuple[int, ...]) -> Array:
    """np.empty, in memory that was kept where there is some."""
    store = _STORE.get()
    return np.empty(shape) if store is None or math.prod(shape) < LARGE else store.empty(shape)
