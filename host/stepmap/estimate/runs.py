"""The extended Kalman filter over whole runs, compiled: one run per lane of a vector.

It is predict and update of ``ExtendedKalmanFilter`` up to rounding, for midpoint steps of mechanisms whose states are
plain vectors. A run has the same bits alone and among others, on every processor.
"""

from __future__ import annotations

import ctypes
import math
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from stepmap.arrays import Array
from stepmap.errors import ToolchainError
from stepmap.estimate.protocol import Innovation
from stepmap.graph import compiler, library
from stepmap.graph.address import address_or_null
from stepmap.graph.function import GraphFunction
from stepmap.graph.library import Order, Recipe
from stepmap.steps.kernels.compiled import ALIGNED, CompiledKernel
from stepmap.steps.kernels.info import OK, Info
from stepmap.steps.kernels.lanes import pointer
from stepmap.steps.kernels.shares import shared
from stepmap.steps.midpoint_functions import ModelFunctions
from stepmap.steps.variational import VariationalStep


class FilterRuns(NamedTuple):
    """What a filter made of runs of N measurements."""

    x: Array  # (..., N, nx): estimates, each after its update
    P: Array  # (..., ndx, ndx) after the last update, or of all, (..., N, ndx, ndx)
    innovation: Innovation | None  # arrays (..., N, nz), where asked for


class SensedFunctions:
    """Those of a midpoint step, and its readings with their slopes in q̄."""

    def __init__(self, functions: ModelFunctions) -> None:
        self.functions = functions

    @property
    def sense(self) -> GraphFunction:
        e = self.functions.e
        return GraphFunction("sense", (e.q, e.parameters), (("z", e.readings), ("H", ca.jacobian(e.readings, e.q))))

    @property
    def model(self) -> ca.Function:
        e, own = self.functions.e, self.functions.model
        given = [e.q, e.v, e.u, e.parameters]
        return ca.Function("sensed", given, [*own(*given), e.readings])

    def of(self, order: Order) -> tuple[GraphFunction, ...]:
        return (*self.functions.of(order), self.sense)


@dataclass(frozen=True, eq=False)
class CompiledFilter:
    """The library of filter_lanes.c for a step, with the scalar one that it falls back on."""

    step: VariationalStep

    @classmethod
    def of(cls, step: Any) -> CompiledFilter | None:
        """None where there is none for this step, or no compiler."""
        if type(step) is not VariationalStep or not step.layout.plain or step.system.senses_rates:
            return None
        made = cls(step)
        try:
            return made if isinstance(step.kernel, CompiledKernel) and made.library else None
        except ToolchainError:
            if compiler.find() is not None:
                raise
            return None

    @property
    def recipe(self) -> Recipe:
        defines = {**self.kernel.recipe.defines, "CHANNELS": len(self.step.system.sensor_channels)}
        return Recipe("filter_lanes.c", SensedFunctions(self.step.functions), defines, lanes=True)

    @cached_property
    def library(self) -> ctypes.CDLL:
        loaded = library.load(self.recipe, Order.FIRST)
        at, real, size, step_size = ctypes.c_void_p, ctypes.c_double, ctypes.c_int, ctypes.c_ssize_t
        loaded.sm_filter_bytes.restype = ctypes.c_size_t
        head: list[Any] = [at, at, real, size, size, at, at, step_size]
        loaded.sm_filter_lanes.argtypes = [*head, *[at] * 4, real, size, *[at] * 8]
        return loaded

    @property
    def kernel(self) -> CompiledKernel:
        kernel = self.step.kernel
        assert isinstance(kernel, CompiledKernel)
        return kernel

    @cached_property
    def _local(self) -> threading.local:
        return threading.local()

    def _workspace(self) -> int:
        """Address of this thread's cleared workspace."""
        if not hasattr(self._local, "at"):
            memory = np.zeros(self.library.sm_filter_bytes() // 8 + ALIGNED // 8)
            self._local.memory, self._local.at = memory, -(-memory.ctypes.data // ALIGNED) * ALIGNED
        return int(self._local.at)

    def run(
        self,
        start: tuple[Array, Array],
        U: Array,
        Z: Array,
        noise: tuple[Array, Array],
        options: tuple[float | None, bool, bool, bool],
    ) -> FilterRuns | None:
        """Runs (m) from x (m, nx) and P under U (N, nu) or (m, N, nu); None where one cannot go through.

        ``noise`` is Q and the channels' variances, ``options`` are gate, constraint projection, whether all covariances
        and whether innovations are told.
        """
        X0, last = np.ascontiguousarray(start[0]), np.array(start[1])
        (m, n), ndx = Z.shape[:2], self.step.ndx
        gate, projection, every, told = options
        x = np.empty((m, n, self.step.nx))
        P = np.empty((m, n, ndx, ndx)) if every else None
        shape = Z.shape if told else (m, 0)
        residual, variance, used = np.empty(shape), np.empty(shape), np.empty(shape, np.uint8)
        common = U.ndim == 2
        at, scalar = address_or_null, pointer(self.kernel.first.sm_linearize)

        def share(begin: int, end: int) -> Info:
            info = np.zeros(4)
            tells = [used[begin:end].ctypes.data if told else None, at(info)]
            outputs = [at(e if e is None else e[begin:end]) for e in (x, P, residual, variance)]
            head = self._workspace(), at(self.step.parameter_values), self.step.dt, end - begin, n
            first = at(X0[begin:end]), at(last[begin:end])
            inputs = 0 if common else n * self.step.nu, at(U if common else U[begin:end])
            given = at(Z[begin:end]), at(noise[0]), at(noise[1]), math.inf if gate is None else gate, projection
            fallback = scalar, self.kernel._workspace("first")
            status = self.library.sm_filter_lanes(*head, *first, *inputs, *given, *outputs, *tells, *fallback)
            return Info(status, 0, 0.0, int(info[2]), begin + int(info[3]))

        if shared(share, m, n * ndx * ndx).status != OK:
            return None
        seen = Innovation(residual, variance, used == 1, used == 2) if told else None
        return FilterRuns(x, last if P is None else P, seen)
