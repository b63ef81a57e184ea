"""The compiled kernel of a step with events, which also tells them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from stepmap.arrays import Array
from stepmap.graph.address import address
from stepmap.steps.kernels.compiled import CompiledKernel, Kernel
from stepmap.steps.kernels.info import Info

WIDTH = 7  # numbers of an entry of the runtime's log
Found = TypeVar("Found")


class Entry(NamedTuple):
    """An event as the runtime tells it."""

    step: int
    row: int
    release: bool
    time: float  # since the step's begin
    impulse: float
    energy: float
    force: float  # that a release would have taken, on average over a step; of an impact, its tangential impulse


class Log(NamedTuple):
    entries: tuple[Entry, ...]
    closed: Array  # (steps, rows): gaps closed at the end of each step


class Point(NamedTuple):
    dt: float
    x: Array
    u: Array


class RecordingKernel(Kernel, Protocol):
    """A kernel that tells the events of a call."""

    def recorded(self, call: Callable[[], Found], steps: int, expected: Array | None = None) -> tuple[Found, Log]: ...
    def frozen(
        self, par: Array, about: Point, at: Point, other: Array | None = None
    ) -> tuple[Info, Array, Array, Array, Array]: ...


class EventKernel(CompiledKernel):
    """The library of events.c. Its log belongs to the workspace of the thread that calls."""

    def recorded(self, call: Callable[[], Found], steps: int, expected: Array | None = None) -> tuple[Found, Log]:
        """What a call of step, rollout or project returns, and the events of its steps.

        ``expected`` are the tallies of a reference (told.tallies), by which project switches its feedback.
        """
        library, work = self.first, self._workspace("first")
        capacity = 16 + 4 * steps
        while True:
            log, modes = np.empty((capacity, WIDTH)), np.zeros((steps, self.nc), dtype=np.uint8)
            library.sm_record(ctypes.c_void_p(work), ctypes.c_void_p(address(log)), capacity, modes.ctypes.data_as(_P))
            if expected is not None:
                library.sm_expect(ctypes.c_void_p(work), expected.ctypes.data_as(_P))
            try:
                found = call()
                count = library.sm_recorded(ctypes.c_void_p(work))
            finally:
                library.sm_record(ctypes.c_void_p(work), None, 0, None)
            if count <= capacity:
                return found, Log(tuple(_entry(row) for row in log[:count]), modes.view(bool))
            capacity = count

    def frozen(
        self, par: Array, about: Point, at: Point, other: Array | None = None
    ) -> tuple[Info, Array, Array, Array, Array]:
        """The next state, forces and their derivatives by (x, u, dt) at a point, with the events of ``about``.

        ``other`` are values of the kernel's parameters at that point, where they are not those of ``about``.
        """
        after, forces, info = np.empty(self.nx), np.empty(self.nc), np.zeros(3)
        columns = self.ndx + self.nu + 1
        Y, M = np.empty((self.ndx, columns)), np.empty((self.nc, columns))
        arguments: list[ctypes.c_void_p | ctypes.c_double] = [_P(self._workspace("first"))]
        for values, point in ((par, about), (par if other is None else other, at)):
            arguments += [_P(address(values)), ctypes.c_double(point.dt), _P(address(point.x)), _P(address(point.u))]
        status = self.first.sm_frozen(*arguments, *(_P(address(part)) for part in (after, forces, Y, M, info)))
        return Info(status, int(info[0]), info[1]), after, forces, Y, M


_P = ctypes.c_void_p


def _entry(row: Array) -> Entry:
    return Entry(int(row[0]), int(row[1]), row[2] == 2, *(float(value) for value in row[3:]))
