"""Kernels: the arithmetic of a step map behind one small interface, compiled or interpreted."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ToolchainError
from stepmap.graph import compiler, library

OK, NOT_FINITE, SINGULAR, DIVERGED = 0, -1, -2, -3
_NOTHING = ctypes.c_double()  # what pointers to empty arrays point to


class Info(NamedTuple):
    """How a solve went; ``step`` is the step of a rollout that failed."""

    status: int
    iterations: int
    residual: float
    step: int = 0


class Kernel(Protocol):
    """Raw arithmetic on arrays that were checked before; outputs are meaningless unless status is OK."""

    def step(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]: ...
    def linearize(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array]: ...
    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]: ...
    def rollout(self, par: Array, dt: float, x0: Array, U: Array) -> tuple[Info, Array, Array]: ...
    def project(
        self, par: Array, dt: float, x0: Array, X: Array, U: Array, K: Array
    ) -> tuple[Info, Array, Array, Array]: ...
    def linearize_all(
        self, par: Array, dt: float, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array]: ...
    def curvature_all(
        self, par: Array, dt: float, X: Array, U: Array, Z: Array
    ) -> tuple[Info, Array, Array, Array]: ...
    def dynamics(
        self, par: Array, x: Array, u: Array, derivatives: bool
    ) -> tuple[Info, Array, Array, Array | None, Array | None]: ...


def choose(recipe: library.Recipe, nx: int, nu: int, nc: int, interpreted: Callable[[], Kernel]) -> Kernel:
    """The compiled kernel; without a C compiler the interpreted one, after saying so once."""
    kernel = CompiledKernel(recipe, nx, nu, nc, interpreted)
    try:
        _ = kernel.first
    except ToolchainError:
        return _without_compiler(interpreted)
    return kernel


def _without_compiler(interpreted: Callable[[], Kernel]) -> Kernel:
    """The interpreted kernel where there is no compiler; called while a ToolchainError is handled."""
    if compiler.find() is not None:
        raise  # it was found and failed: that error goes on
    say_once()
    return interpreted()


@cache
def say_once() -> None:
    """Warns that there is no compiler, once a process."""
    warnings.warn(
        f"no C compiler found: models run through CasADi's evaluator, some hundred times slower. {compiler.REMEDY}",
        stacklevel=6,
    )


class CompiledKernel:
    """A model's shared library. Workspaces belong to threads, so a kernel may be shared between them."""

    def __init__(
        self, recipe: library.Recipe, nx: int, nu: int, nc: int, interpreted: Callable[[], Kernel] | None = None
    ) -> None:
        self.recipe, self.nx, self.nu, self.nc = recipe, nx, nu, nc
        self.interpreted = interpreted
        self._local = threading.local()

    @cached_property
    def first(self) -> ctypes.CDLL:
        return _declare(library.load(self.recipe, curvature=False))

    @cached_property
    def second(self) -> ctypes.CDLL:
        """Built when second derivatives are first asked for: they are three quarters of the code."""
        return _declare(library.load(self.recipe, curvature=True))

    @cached_property
    def _substitute(self) -> Kernel | None:
        """Stands in for ``second`` where that was never built and there is no compiler any more."""
        try:
            _ = self.second
        except ToolchainError:
            if self.interpreted is None:
                raise
            return _without_compiler(self.interpreted)
        return None

    def _workspace(self, which: str) -> int:
        """Address of this thread's cleared workspace for a library."""
        try:
            return getattr(self._local, which)  # type: ignore[no-any-return]
        except AttributeError:
            memory = np.zeros(getattr(self, which).sm_workspace_bytes() // 8 + 1)
            setattr(self._local, which + "_memory", memory)
            setattr(self._local, which, memory.ctypes.data)
            return memory.ctypes.data

    def step(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]:
        nx, end = self.nx, self.nx + self.nc
        out = np.empty(end + 2)  # x, multipliers, info: finding one address instead of three
        at = _address(out)
        status = self.first.sm_step(
            self._workspace("first"), _at(par), dt, _at(x), _at(u), at, at + 8 * nx, at + 8 * end
        )
        return Info(status, int(out[end]), out[end + 1]), out[:nx], out[nx:end]

    def linearize(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array]:
        out, A, B, info = np.empty(self.nx), np.empty((self.nx, self.nx)), np.empty((self.nx, self.nu)), np.zeros(3)
        status = self.first.sm_linearize(
            self._workspace("first"), _at(par), dt, _at(x), _at(u), None, _at(out), _at(A), _at(B), _at(info)
        )
        return Info(status, int(info[0]), info[1]), out, A, B

    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]:
        if self._substitute is not None:
            return self._substitute.curvature(par, dt, x, u, z)
        nx, nu = self.nx, self.nu
        xx, xu, uu, info = np.empty((nx, nx)), np.empty((nx, nu)), np.empty((nu, nu)), np.zeros(3)
        status = self.second.sm_curvature(
            self._workspace("second"), _at(par), dt, _at(x), _at(u), None, _at(z), _at(xx), _at(xu), _at(uu), _at(info)
        )
        return Info(status, int(info[0]), info[1]), xx, xu, uu

    def rollout(self, par: Array, dt: float, x0: Array, U: Array) -> tuple[Info, Array, Array]:
        n = len(U)
        X, multipliers, info = np.empty((n + 1, self.nx)), np.empty((n, self.nc)), np.zeros(3)
        X[0] = x0
        status = self.first.sm_rollout(
            self._workspace("first"), _at(par), dt, n, _at(U), _at(X), _at(multipliers), _at(info)
        )
        return Info(status, int(info[0]), info[1], int(info[2])), X, multipliers

    def project(
        self, par: Array, dt: float, x0: Array, X: Array, U: Array, K: Array
    ) -> tuple[Info, Array, Array, Array]:
        n = len(U)
        states, inputs, multipliers = np.empty((n + 1, self.nx)), np.empty((n, self.nu)), np.empty((n, self.nc))
        states[0] = x0
        info = np.zeros(3)
        outputs = (_at(states), _at(inputs), _at(multipliers), _at(info))
        status = self.first.sm_project(self._workspace("first"), _at(par), dt, n, _at(X), _at(U), _at(K), *outputs)
        return Info(status, int(info[0]), info[1], int(info[2])), states, inputs, multipliers

    def linearize_all(
        self, par: Array, dt: float, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array]:
        n, nx, nu = len(U), self.nx, self.nu
        after, A, B, info = np.empty((n, nx)), np.empty((n, nx, nx)), np.empty((n, nx, nu)), np.zeros(3)
        outputs = (_at(after), _at(A), _at(B), _at(info))
        inputs = (_at(X), _at(U), _at(guess))
        status = self.first.sm_linearize_all(self._workspace("first"), _at(par), dt, n, *inputs, *outputs)
        return Info(status, int(info[0]), info[1], int(info[2])), after, A, B

    def curvature_all(self, par: Array, dt: float, X: Array, U: Array, Z: Array) -> tuple[Info, Array, Array, Array]:
        if self._substitute is not None:
            return self._substitute.curvature_all(par, dt, X, U, Z)
        n, nx, nu = len(U), self.nx, self.nu
        xx, xu, uu, info = np.empty((n, nx, nx)), np.empty((n, nx, nu)), np.empty((n, nu, nu)), np.zeros(3)
        outputs = (_at(xx), _at(xu), _at(uu), _at(info))
        inputs = (_at(X), _at(U), _at(Z))
        status = self.second.sm_curvature_all(self._workspace("second"), _at(par), dt, n, *inputs, *outputs)
        return Info(status, int(info[0]), info[1], int(info[2])), xx, xu, uu

    def dynamics(
        self, par: Array, x: Array, u: Array, derivatives: bool
    ) -> tuple[Info, Array, Array, Array | None, Array | None]:
        rate, multipliers, info = np.empty(self.nx), np.empty(self.nc), np.zeros(3)
        A = np.empty((self.nx, self.nx)) if derivatives else None
        B = np.empty((self.nx, self.nu)) if derivatives else None
        status = self.first.sm_dynamics(
            self._workspace("first"), _at(par), _at(x), _at(u), _at(rate), _at(multipliers), _at(A), _at(B), _at(info)
        )
        return Info(status, int(info[0]), info[1]), rate, multipliers, A, B


def _at(array: Array | None) -> int | None:
    return None if array is None else _address(array)


def _address(array: Array) -> int:
    """Where the array is. from_buffer takes a third of the time of array.ctypes.data, but no empty or read-only one."""
    if not array.size:
        return ctypes.addressof(_NOTHING)
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except TypeError:
        return array.ctypes.data


def _declare(loaded: ctypes.CDLL) -> ctypes.CDLL:
    pointer, real = ctypes.c_void_p, ctypes.c_double
    head = [pointer, pointer, real]
    signatures: dict[str, list[Any]] = {
        "sm_step": [*head, *[pointer] * 5],
        "sm_linearize": [*head, *[pointer] * 7],
        "sm_curvature": [*head, *[pointer] * 8],
        "sm_rollout": [*head, ctypes.c_int, *[pointer] * 4],
        "sm_project": [*head, ctypes.c_int, *[pointer] * 7],
        "sm_linearize_all": [*head, ctypes.c_int, *[pointer] * 7],
        "sm_curvature_all": [*head, ctypes.c_int, *[pointer] * 7],
        "sm_dynamics": [pointer] * 9,
    }
    for name, arguments in signatures.items():
        if hasattr(loaded, name):
            getattr(loaded, name).argtypes = arguments
    loaded.sm_workspace_bytes.restype = ctypes.c_size_t
    return loaded
