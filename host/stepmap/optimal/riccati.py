"""Linear-quadratic problems along a trajectory: the C of runtime/lq.c, or the same in numpy without a compiler."""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import dataclass
from functools import cache as once
from typing import Any, Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap.graph import cache, compiler
from stepmap.graph.address import address_or_null as _at


@dataclass(frozen=True)
class Quadratic:
    """min Σ q z + r v + ½ (zᵀQz + 2 zᵀSv + vᵀRv) + ½ part (zᵀ xx z + 2 zᵀ xu v + vᵀ uu v)  with z' = A z + B v.

    Q, R and S are one matrix, or one per step; S, the linear terms and the added curvature may be left out. The end
    has ``terminal`` and, times part, ``terminal_bend``.
    """

    A: Array  # (n, nx, nx)
    B: Array  # (n, nx, nu)
    Q: Array
    R: Array
    terminal: Array
    q: Array | None = None  # (n+1, nx)
    r: Array | None = None  # (n, nu)
    bend: tuple[Array, Array, Array] | None = None  # xx, xu, uu, each (n, …)
    S: Array | None = None  # (nx, nu)
    terminal_bend: Array | None = None  # (nx, nx)

    def __post_init__(self) -> None:
        # C reads these by address: a transposed or broadcast view must not get there.
        for name in ("A", "B", "Q", "R", "terminal", "q", "r", "S", "terminal_bend"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _whole(value))
        if self.bend is not None:
            xx, xu, uu = map(_whole, self.bend)
            object.__setattr__(self, "bend", (xx, xu, uu))

    def end(self, part: float) -> Array:
        """Second derivative at the end, with a part of the added curvature."""
        return self.terminal if self.terminal_bend is None else self.terminal + part * self.terminal_bend


class Recursions(Protocol):
    """Backward and forward passes; arrays are C-ordered float64, time first."""

    def backward(self, lq: Quadratic, part: float = 0.0) -> tuple[int, Array, Array, Array]:
        """(status, K, f, P0); status is 0, or k+1 where the problem at step k is not positive definite."""

    def forward(self, A: Array, B: Array, K: Array, f: Array) -> tuple[Array, Array]: ...
    def adjoint(self, A: Array, B: Array, K: Array, q: Array, r: Array) -> Array: ...


@once
def recursions() -> Recursions:
    """The compiled recursions, or those in numpy where there is no compiler."""
    source = compiler.RUNTIME / "lq.c"
    name = hashlib.sha256(source.read_bytes() + compiler.identity().encode()).hexdigest()[:32]
    path = cache.folder() / f"lq-{name}.so"
    if not cache.valid(path):
        if compiler.find() is None:
            return NumpyRecursions()
        with cache.only_one(path):
            if not cache.valid(path):
                compiler.build({}, path, unit="lq.c")
    return CompiledRecursions(ctypes.CDLL(str(path)))


class CompiledRecursions:
    def __init__(self, loaded: ctypes.CDLL) -> None:
        loaded.lq_scratch.restype = ctypes.c_size_t
        pointer, size, stride = ctypes.c_void_p, ctypes.c_int, ctypes.c_ssize_t
        tail: list[Any] = [pointer, pointer, pointer, ctypes.c_double, *[pointer] * 8]
        weights: list[Any] = [pointer, stride] * 3
        loaded.lq_backward.argtypes = [size, size, size, pointer, pointer, *weights, *tail]
        loaded.lq_forward.argtypes = [*[size] * 3, *[pointer] * 6]
        loaded.lq_adjoint.argtypes = [*[size] * 3, *[pointer] * 6]
        self.lib = loaded

    def backward(self, lq: Quadratic, part: float = 0.0) -> tuple[int, Array, Array, Array]:
        n, nx, nu = lq.B.shape
        K, f, P0 = np.empty((n, nu, nx)), np.empty((n, nu)), np.empty((nx, nx))
        scratch, live = np.empty(self.lib.lq_scratch(nx, nu)), np.empty(nx, dtype=np.intc)
        end = _whole(lq.end(part))
        weights = (e for M in (lq.Q, lq.R, lq.S) for e in (_at(M), 0 if M is None or M.ndim == 2 else M[0].size))
        status = self.lib.lq_backward(
            n, nx, nu, _at(lq.A), _at(lq.B), *weights, _at(end), _at(lq.q), _at(lq.r),
            part, *map(_at, lq.bend or (None,) * 3), _at(K), _at(f), _at(P0), _at(scratch), live.ctypes.data,
        )  # fmt: skip
        return -status, K, f, P0

    def forward(self, A: Array, B: Array, K: Array, f: Array) -> tuple[Array, Array]:
        n, nx, nu = B.shape
        A, B, K, f = map(_whole, (A, B, K, f))
        z, v = np.empty((n + 1, nx)), np.empty((n, nu))
        self.lib.lq_forward(n, nx, nu, _at(A), _at(B), _at(K), _at(f), _at(z), _at(v))
        return z, v

    def adjoint(self, A: Array, B: Array, K: Array, q: Array, r: Array) -> Array:
        n, nx, nu = B.shape
        A, B, K, q, r = map(_whole, (A, B, K, q, r))
        s = np.empty((n + 1, nx))
        self.lib.lq_adjoint(n, nx, nu, _at(A), _at(B), _at(K), _at(q), _at(r), _at(s))
        return s


class NumpyRecursions:
    """The textbook form, also what the tests hold the C against."""

    def backward(self, lq: Quadratic, part: float = 0.0) -> tuple[int, Array, Array, Array]:
        A, B = lq.A, lq.B
        n, nx, nu = B.shape
        K, f = np.empty((n, nu, nx)), np.empty((n, nu))
        P, p = lq.end(part), np.zeros(nx) if lq.q is None else lq.q[n]
        for k in reversed(range(n)):
            Qk, Rk = (M if M.ndim == 2 else M[k] for M in (lq.Q, lq.R))
            xx, xu, uu = (0.0, np.zeros((nx, nu)), 0.0) if lq.bend is None else (part * M[k] for M in lq.bend)
            S = 0.0 if lq.S is None else (lq.S if lq.S.ndim == 2 else lq.S[k]).T
            G = B[k].T @ P @ A[k] + xu.T + S
            H = Rk + uu + B[k].T @ P @ B[k]
            h = B[k].T @ p + (0.0 if lq.r is None else lq.r[k])
            try:
                L = np.linalg.cholesky((H + H.T) / 2)
            except np.linalg.LinAlgError:
                return k + 1, K, f, P
            if not np.isfinite(L).all():
                return k + 1, K, f, P
            K[k], f[k] = np.linalg.solve(H, G), np.linalg.solve(H, h)
            P = Qk + xx + A[k].T @ P @ A[k] - G.T @ K[k]
            P = (P + P.T) / 2
            p = A[k].T @ p - G.T @ f[k] + (0.0 if lq.q is None else lq.q[k])
        return 0, K, f, P

    def forward(self, A: Array, B: Array, K: Array, f: Array) -> tuple[Array, Array]:
        n, nx, nu = B.shape
        z, v = np.zeros((n + 1, nx)), np.empty((n, nu))
        for k in range(n):
            v[k] = -K[k] @ z[k] - f[k]
            z[k + 1] = A[k] @ z[k] + B[k] @ v[k]
        return z, v

    def adjoint(self, A: Array, B: Array, K: Array, q: Array, r: Array) -> Array:
        s = np.array(q)
        for k in reversed(range(len(B))):
            s[k] = q[k] - K[k].T @ r[k] + (A[k] - B[k] @ K[k]).T @ s[k + 1]
        return s


def _whole(array: Array) -> Array:
    """As C reads it by address."""
    return np.ascontiguousarray(array, dtype=float)
