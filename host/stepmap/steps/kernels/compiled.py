"""Kernels: the arithmetic of a step map behind one small interface, compiled or evaluated."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable
from functools import cache, cached_property
from typing import Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ToolchainError
from stepmap.graph import compiler, library
from stepmap.graph.address import address as _address
from stepmap.graph.address import address_or_null as _at
from stepmap.graph.library import Order
from stepmap.steps.kernels import kept
from stepmap.steps.kernels.info import Info
from stepmap.steps.kernels.lanes import FEWEST, TWINS, Worth
from stepmap.steps.kernels.lanes import pointer as _pointer
from stepmap.steps.kernels.shares import alone, shared
from stepmap.steps.kernels.signatures import declare
from stepmap.steps.limits import InputBounds

ALIGNED = 64  # bytes: a vector of as many doubles as there are at most


class Kernel(Protocol):
    """Raw arithmetic on arrays that were checked before; outputs are meaningless unless status is OK.

    ``dt`` of whole trajectories has one length for all steps, or one per step.
    """

    def step(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]: ...
    def linearize(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array]: ...
    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]: ...
    def rollout(self, par: Array, dt: Array, x0: Array, U: Array) -> tuple[Info, Array, Array]: ...
    def rollout_many(self, par: Array, dt: Array, X0: Array, U: Array) -> tuple[Info, Array, Array, Array]: ...
    def project(
        self, par: Array, dt: Array, x0: Array, X: Array, U: Array, K: Array, within: InputBounds | None = None
    ) -> tuple[Info, Array, Array, Array]: ...
    def linearize_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array]: ...
    def curvature_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None, Z: Array
    ) -> tuple[Info, Array, Array, Array]: ...
    def sensitivity_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array, Array]: ...
    def parameters_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array, Array]: ...
    def second_sensitivity_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None, Z: Array, N: Array
    ) -> tuple[Info, Array]: ...


def choose(
    recipe: library.Recipe,
    sizes: tuple[int, int, int, int],
    evaluated: Callable[[], Kernel],
    sensitivities: tuple[Order, Order],
) -> Kernel:
    """The compiled kernel; without a C compiler the one on CasADi's evaluator, after saying so once."""
    return ready(CompiledKernel(recipe, sizes, evaluated, sensitivities), evaluated)


def ready(kernel: CompiledKernel, evaluated: Callable[[], Kernel]) -> Kernel:
    """The kernel with its first library loaded; the evaluated one where there is no compiler."""
    try:
        _ = kernel.first
    except ToolchainError:
        return _without_compiler(evaluated)
    return kernel


def _without_compiler(evaluated: Callable[[], Kernel]) -> Kernel:
    """The evaluated kernel where there is no compiler; called while a ToolchainError is handled."""
    if compiler.find() is not None:
        raise  # it was found and failed: that error goes on
    say_once()
    return evaluated()


@cache
def say_once() -> None:
    """Warns that there is no compiler, once per process."""
    warnings.warn(
        f"no C compiler found: models run through CasADi's evaluator, some hundred times slower. {compiler.REMEDY}",
        stacklevel=8,  # who called discretize
    )


class CompiledKernel:
    """A model's shared libraries. Workspaces belong to threads, so a kernel may be shared between them.

    ``sizes`` are nx, ndx, nu and nc; ``sensitivities`` are the orders of the libraries that have first and second
    derivatives in dt.
    """

    def __init__(
        self,
        recipe: library.Recipe,
        sizes: tuple[int, int, int, int],
        evaluated: Callable[[], Kernel] | None = None,
        sensitivities: tuple[Order, Order] = (Order.EXTENDED, Order.EXTENDED),
    ) -> None:
        self.recipe, self.evaluated = recipe, evaluated
        self.sensitivities = tuple(order.value for order in sensitivities)  # names of libraries
        self.nx, self.ndx, self.nu, self.nc = sizes
        self._local = threading.local()
        self._worth = Worth(self.ndx)

    @cached_property
    def first(self) -> ctypes.CDLL:
        return declare(library.load(self.recipe, Order.FIRST))

    @cached_property
    def second(self) -> ctypes.CDLL:
        """Built when second derivatives are first asked for: they are three quarters of the code."""
        return declare(library.load(self.recipe, Order.SECOND))

    @cached_property
    def extended(self) -> ctypes.CDLL:
        return declare(library.load(self.recipe, Order.EXTENDED))

    @cached_property
    def parameters(self) -> ctypes.CDLL:
        return declare(library.load(self.recipe, Order.PARAMETERS))

    @cached_property
    def lanes(self) -> ctypes.CDLL | None:
        """The library for many points at once; None where there is none, or no compiler any more."""
        try:
            return None if self.recipe.many is None else declare(library.load(self.recipe.many, Order.FIRST))
        except ToolchainError:
            if compiler.find() is not None:
                raise
            return None

    def _caller(self, of: str, name: str, points: int, entries: int) -> Callable[..., int]:
        """A library's function for so many points, in lanes where that pays, with the workspaces of whoever calls."""
        scalar = getattr(self, of)
        many = of == "first" and name in TWINS and self.recipe.in_lanes and points >= FEWEST
        paid = many and ("lanes" in vars(self) or self._worth.after(points, entries))
        if not paid or self.lanes is None:
            return lambda *given: getattr(scalar, name)(self._workspace(of), *given)
        twin, single = TWINS[name]
        function, single_point = getattr(self.lanes, twin), _pointer(getattr(scalar, single))
        return lambda *given: function(self._workspace("lanes"), *given, single_point, self._workspace(of))

    def _substitute(self, name: str) -> Kernel | None:
        """Stands in for a library that was never built where there is no compiler any more."""
        if name in self.__dict__:
            return None
        try:
            getattr(self, name)
        except ToolchainError:
            if self.evaluated is None:
                raise
            return _without_compiler(self.evaluated)
        return None

    def _workspace(self, name: str) -> int:
        """Address of this thread's cleared workspace for a library."""
        try:
            return getattr(self._local, name)  # type: ignore[no-any-return]
        except AttributeError:
            memory = np.zeros(getattr(self, name).sm_workspace_bytes() // 8 + ALIGNED // 8)
            start = -(-memory.ctypes.data // ALIGNED) * ALIGNED
            setattr(self._local, name + "_memory", memory)
            setattr(self._local, name, start)
            return start

    # one step ---------------------------------------------------------------------------------------------------

    def step(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array]:
        nx, end = self.nx, self.nx + self.nc
        out = np.empty(end + 2)  # x, multipliers, info: finding one address instead of three
        at = _address(out)
        status = self.first.sm_step(
            self._workspace("first"), _at(par), dt, _at(x), _at(u), at, at + 8 * nx, at + 8 * end
        )
        return Info(status, int(out[end]), out[end + 1]), out[:nx], out[nx:end]

    def linearize(self, par: Array, dt: float, x: Array, u: Array) -> tuple[Info, Array, Array, Array]:
        ndx = self.ndx
        out, A, B, info = np.empty(self.nx), np.empty((ndx, ndx)), np.empty((ndx, self.nu)), np.zeros(3)
        status = self.first.sm_linearize(
            self._workspace("first"), _at(par), dt, _at(x), _at(u), None, _at(out), _at(A), _at(B), _at(info)
        )
        return Info(status, int(info[0]), info[1]), out, A, B

    def curvature(self, par: Array, dt: float, x: Array, u: Array, z: Array) -> tuple[Info, Array, Array, Array]:
        other = self._substitute("second")
        if other is not None:
            return other.curvature(par, dt, x, u, z)
        ndx, nu = self.ndx, self.nu
        xx, xu, uu, info = np.empty((ndx, ndx)), np.empty((ndx, nu)), np.empty((nu, nu)), np.zeros(3)
        work, outputs = self._workspace("second"), (_at(xx), _at(xu), _at(uu), _at(info))
        status = self.second.sm_curvature(work, _at(par), dt, _at(x), _at(u), None, _at(z), *outputs)
        return Info(status, int(info[0]), info[1]), xx, xu, uu

    # trajectories -----------------------------------------------------------------------------------------------

    def rollout(self, par: Array, dt: Array, x0: Array, U: Array) -> tuple[Info, Array, Array]:
        n = len(U)
        X, multipliers, info = np.empty((n + 1, self.nx)), np.empty((n, self.nc)), np.zeros(3)
        X[0] = x0
        status = self.first.sm_rollout(
            self._workspace("first"), _at(par), *_lengths(dt), n, _at(U), _at(X), _at(multipliers), _at(info)
        )
        return _info(status, info), X, multipliers

    def rollout_many(self, par: Array, dt: Array, X0: Array, U: Array) -> tuple[Info, Array, Array, Array]:
        m, n = len(X0), U.shape[-2]
        X, multipliers = np.empty((m, n + 1, self.nx)), np.empty((m, n, self.nc))
        done = np.empty(m, dtype=np.intc)
        X[:, 0] = X0
        apart = 0 if U.ndim == 2 else n * self.nu
        call = self._caller("first", "sm_rollout_many", m, n * self.ndx * (self.ndx + self.nu))

        def share(begin: int, end: int) -> Info:
            info = np.zeros(4)
            inputs = U if U.ndim == 2 else U[begin:end]
            outputs = (_at(X[begin:end]), _at(multipliers[begin:end]), done[begin:end].ctypes.data, _at(info))
            status = call(_at(par), *_lengths(dt), end - begin, n, apart, _at(inputs), *outputs)
            return _info(status, info)._replace(start=begin + int(info[3]))

        return shared(share, m, n * self.nx), X, multipliers, done

    def project(
        self, par: Array, dt: Array, x0: Array, X: Array, U: Array, K: Array, within: InputBounds | None = None
    ) -> tuple[Info, Array, Array, Array]:
        n = len(U)
        states, inputs, multipliers = np.empty((n + 1, self.nx)), np.empty((n, self.nu)), np.empty((n, self.nc))
        states[0] = x0
        info = np.zeros(3)
        outputs = (_at(states), _at(inputs), _at(multipliers), _at(info))
        work = self._workspace("first")
        packed, tied = (None, None) if within is None else (within.packed, within.tied.ctypes.data)
        status = self.first.sm_project(
            work, _at(par), *_lengths(dt), n, _at(X), _at(U), _at(K), _at(packed), tied, *outputs
        )
        return _info(status, info), states, inputs, multipliers

    def linearize_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array]:
        n, ndx, nu = len(U), self.ndx, self.nu
        out = np.empty((n, self.nx)), kept.empty((n, ndx, ndx)), kept.empty((n, ndx, nu))
        return self._points("first", "sm_linearize_all", par, dt, (X, U, guess), out), *out

    def curvature_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None, Z: Array
    ) -> tuple[Info, Array, Array, Array]:
        other = self._substitute("second")
        if other is not None:
            return other.curvature_all(par, dt, X, U, guess, Z)
        n, ndx, nu = len(U), self.ndx, self.nu
        out = kept.empty((n, ndx, ndx)), kept.empty((n, ndx, nu)), kept.empty((n, nu, nu))
        return self._points("second", "sm_curvature_all", par, dt, (X, U, guess, Z), out), *out

    def sensitivity_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array, Array]:
        other = self._substitute(self.sensitivities[0])
        if other is not None:
            return other.sensitivity_all(par, dt, X, U, guess)
        n, ns = len(U), self.ndx + self.nu + 1
        out = np.empty((n, self.nx)), np.empty((n, self.nc)), np.empty((n, self.ndx, ns)), np.empty((n, self.nc, ns))
        return self._points(self.sensitivities[0], "sm_sensitivity_all", par, dt, (X, U, guess), out), *out

    def parameters_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None
    ) -> tuple[Info, Array, Array, Array, Array]:
        other = self._substitute("parameters")
        if other is not None:
            return other.parameters_all(par, dt, X, U, guess)
        n, ndx = len(U), self.ndx
        out = tuple(np.empty((n, *s)) for s in ((self.nx,), (ndx, ndx), (ndx, self.nu), (ndx, len(par))))
        info = self._points("parameters", "sm_parameters_all", par, dt, (X, U, guess), out)
        return info, out[0], out[1], out[2], out[3]

    def second_sensitivity_all(
        self, par: Array, dt: Array, X: Array, U: Array, guess: Array | None, Z: Array, N: Array
    ) -> tuple[Info, Array]:
        other = self._substitute(self.sensitivities[1])
        if other is not None:
            return other.second_sensitivity_all(par, dt, X, U, guess, Z, N)
        ns = self.ndx + self.nu + 1
        out = (np.empty((len(U), ns, ns)),)
        return self._points(self.sensitivities[1], "sm_second_sensitivity_all", par, dt, (X, U, guess, Z, N), out), *out

    def _points(
        self, of: str, name: str, par: Array, dt: Array, given: tuple[Array | None, ...], out: tuple[Array, ...]
    ) -> Info:
        """Calls a function on all points, in shares side by side; each share has a workspace of its own."""
        points, work = len(out[0]), self.ndx * (self.ndx + self.nu)
        known = name == "sm_linearize_all" and given[2] is not None  # next states: little is left that lanes could save
        call = self._caller(of, name, points, 0 if known else work)
        if alone(points, work):  # without what shares cost: filters ask for one point at a time
            info = np.zeros(3)
            arrays = [None if part is None else _address(part) for part in given + out]
            return _info(call(_at(par), *_lengths(dt), points, *arrays, _at(info)), info)

        def share(begin: int, end: int) -> Info:
            info = np.zeros(3)
            arrays = [None if part is None else _at(part[begin:end]) for part in (*given, *out)]
            lengths = dt if len(dt) == 1 else dt[begin:end]
            status = call(_at(par), *_lengths(lengths), end - begin, *arrays, _at(info))
            found = _info(status, info)
            return found._replace(step=begin + found.step)

        return shared(share, points, work)


def _info(status: int, info: Array) -> Info:
    return Info(status, int(info[0]), info[1], int(info[2]))


def _lengths(dt: Array) -> tuple[int | None, int]:
    """Where lengths of steps are, and how far apart: 0 where all steps have the same."""
    return _at(dt), int(len(dt) > 1)
