"""Linear-quadratic problems along a trajectory: the C of runtime/lq.c, or the same in numpy without a compiler."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache as once
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from stepmap.arrays import Array
from stepmap.graph import cache, compiler
from stepmap.graph.address import address_or_null as _at
from stepmap.steps.layout import Copied
from stepmap.steps.limits import Box


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
    copied: Copied | None = None  # what is known of A and B; the added curvature then has nothing of v

    def __post_init__(self) -> None:
        # C reads these by address: a transposed or broadcast view must not get there.
        for name in ("A", "B", "Q", "R", "terminal", "q", "r", "S", "terminal_bend"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _whole(value))
        if self.bend is not None:
            xx, xu, uu = map(_whole, self.bend)
            object.__setattr__(self, "bend", (xx, xu, uu))

    @cached_property
    def compact(self) -> Copied | None:
        """What is known of A and B where no weight couples rates of kinematic coordinates with anything else."""
        known = self.copied
        if known is None:
            return None
        rest = known.without_rates
        square = (M[..., rest:, :rest].any() for M in (self.Q, self.terminal, self.terminal_bend) if M is not None)
        return None if any(square) or (self.S is not None and self.S[..., rest:, :].any()) else known

    def end(self, part: float) -> Array:
        """Second derivative at the end, with a part of the added curvature."""
        return self.terminal if self.terminal_bend is None else self.terminal + part * self.terminal_bend


UNKNOWN = Copied(-1, 0)  # as C is told that nothing is known
COINS_FROM = 6  # pass from which a change of the set is made or not by the toss of a coin, as in lq.c


class Limited(NamedTuple):
    """The minimizer of a problem with bounds on v: gains and feed-forward, z, v, and where inputs are at a bound.

    ``at`` is (N, nu): 0 for a free input, ±1 at high or low, ±2 at a bound that moves with the state (Box). ``passes``
    is negative where the set had not settled; then v may be outside.
    """

    status: int
    K: Array
    f: Array
    z: Array
    v: Array
    at: Array
    passes: int


class Recursions(Protocol):
    """Backward and forward passes; arrays are C-ordered float64, time first."""

    def backward(self, lq: Quadratic, part: float = 0.0) -> tuple[int, Array, Array, Array]:
        """(status, K, f, P0); status is 0, or k+1 where the problem at step k is not positive definite."""

    def limited(self, lq: Quadratic, part: float, box: Box, at: Array, passes: int) -> Limited:
        """The minimizer within bounds, by passes that hold a set of inputs, beginning with ``at``."""

    def forward(self, A: Array, B: Array, K: Array, f: Array, copied: Copied | None = None) -> tuple[Array, Array]: ...
    def adjoint(self, A: Array, B: Array, K: Array, q: Array, r: Array) -> Array: ...


@once
def recursions() -> Recursions:
    """The compiled recursions, or those in numpy where there is no compiler."""
    sources = b"".join(source.read_bytes() for source in sorted(compiler.RUNTIME.glob("lq*")))
    name = hashlib.sha256(sources + compiler.identity().encode()).hexdigest()[:32]
    path = cache.folder() / f"lq-{name}.so"
    if not cache.valid(path):
        if compiler.find() is None:
            return NumpyRecursions()
        with cache.only_one(path):
            if not cache.valid(path):
                compiler.build({}, path, unit="lq.c")
    return CompiledRecursions(ctypes.CDLL(str(path)))


class _Problem(ctypes.Structure):
    """struct quadratic of lq_compact.h; arrays must live as long as it."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("n", "nx", "nu", "nd", "nk")),
        ("part", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("A", "B", "Q", "R", "S")),
        *((name, ctypes.c_ssize_t) for name in ("Qs", "Rs", "Ss")),
        *((name, ctypes.c_void_p) for name in ("terminal", "q", "r", "xx", "xu", "uu")),
    )


class CompiledRecursions:
    def __init__(self, loaded: ctypes.CDLL) -> None:
        loaded.lq_scratch.restype = ctypes.c_size_t
        pointer, size = ctypes.c_void_p, ctypes.c_int
        problem: Any = ctypes.POINTER(_Problem)
        loaded.lq_backward.argtypes = [problem, *[pointer] * 5]
        loaded.lq_limited.argtypes = [problem, *[pointer] * 6, size, *[pointer] * 10]
        loaded.lq_forward.argtypes = [problem, *[pointer] * 4]
        loaded.lq_adjoint.argtypes = [*[size] * 3, *[pointer] * 6]
        self.lib = loaded

    def backward(self, lq: Quadratic, part: float = 0.0) -> tuple[int, Array, Array, Array]:
        n, nx, nu = lq.B.shape
        K, f, P0 = np.empty((n, nu, nx)), np.empty((n, nu)), np.empty((nx, nx))
        scratch, live = np.empty(_scratch(self.lib, lq)), np.empty(nx + nu, dtype=np.intc)
        end = _whole(lq.end(part))
        outputs = _at(K), _at(f), _at(P0), _at(scratch), live.ctypes.data
        status = self.lib.lq_backward(_problem(lq, end, part), *outputs)
        return -status, K, f, P0

    def limited(self, lq: Quadratic, part: float, box: Box, at: Array, passes: int) -> Limited:
        n, nx, nu = lq.B.shape
        K, f, z, v = np.empty((n, nu, nx)), np.empty((n, nu)), np.empty((n + 1, nx)), np.empty((n, nu))
        scratch, reals = np.empty(_scratch(self.lib, lq)), np.empty(n * nu * (nx + 3))
        integers, taken = np.empty(nx + nu + n * nu, dtype=np.intc), np.zeros(1, dtype=np.intc)
        held = np.array(at, dtype=np.intc, order="C")
        end, bounds, tied = _whole(lq.end(part)), [_whole(bound) for bound in box[:5]], box.tied.astype(np.intc)
        status = self.lib.lq_limited(
            _problem(lq, end, part), *map(_at, bounds), tied.ctypes.data, passes, held.ctypes.data,
            _at(K), _at(f), _at(z), _at(v), taken.ctypes.data,
            _at(scratch), integers.ctypes.data, _at(reals), integers[nx + nu :].ctypes.data,
        )  # fmt: skip
        return Limited(-status, K, f, z, v, held, int(taken[0]))

    def forward(self, A: Array, B: Array, K: Array, f: Array, copied: Copied | None = None) -> tuple[Array, Array]:
        n, nx, nu = B.shape
        A, B, K, f = map(_whole, (A, B, K, f))
        z, v = np.empty((n + 1, nx)), np.empty((n, nu))
        if copied is not None and K[..., copied.without_rates :].any():  # the cost couples rates and inputs
            copied = None
        problem = _Problem(n, nx, nu, *(copied or UNKNOWN), A=_at(A), B=_at(B))
        self.lib.lq_forward(problem, _at(K), _at(f), _at(z), _at(v))
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
        n, nx, nu = lq.B.shape
        status, K, f, P, _ = self._hold(lq, part, np.zeros((n, nu), dtype=bool), np.zeros((n, nu, nx + 1)))
        return status, K, f, P

    def _hold(self, lq: Quadratic, part: float, held: Array, rows: Array) -> tuple[int, Array, Array, Array, Array]:
        """A pass in which the inputs ``held`` have the ``rows`` of [K f]; the last result are their multipliers."""
        A, B = lq.A, lq.B
        n, nx, nu = B.shape
        gains, push = np.array(rows), np.zeros((n, nu, nx + 1))
        P, p = lq.end(part), np.zeros(nx) if lq.q is None else lq.q[n]
        for k in reversed(range(n)):
            Qk, Rk = (M if M.ndim == 2 else M[k] for M in (lq.Q, lq.R))
            xx, xu, uu = (0.0, np.zeros((nx, nu)), 0.0) if lq.bend is None else (part * M[k] for M in lq.bend)
            S = 0.0 if lq.S is None else (lq.S if lq.S.ndim == 2 else lq.S[k]).T
            H = Rk + uu + B[k].T @ P @ B[k]
            h = B[k].T @ p + (0.0 if lq.r is None else lq.r[k])
            G = np.column_stack([B[k].T @ P @ A[k] + xu.T + S, h])
            free = np.flatnonzero(~held[k])
            own = H[np.ix_(free, free)]
            try:
                bad = not np.isfinite(np.linalg.cholesky((own + own.T) / 2)).all()
            except np.linalg.LinAlgError:
                bad = True
            if bad:
                return k + 1, gains[:, :, :nx], gains[:, :, nx], P, push
            Kf = np.where(held[k][:, None], rows[k], 0.0)
            Kf[free] = np.linalg.solve(own, (G - H @ Kf)[free])
            gains[k], push[k] = Kf, G - H @ Kf
            more = G[:, :nx].T @ Kf + Kf[:, :nx].T @ np.where(held[k][:, None], push[k], 0.0)
            P = Qk + xx + A[k].T @ P @ A[k] - more[:, :nx]
            P = (P + P.T) / 2
            p = A[k].T @ p - more[:, nx] + (0.0 if lq.q is None else lq.q[k])
        return 0, gains[:, :, :nx], gains[:, :, nx], P, push

    def limited(self, lq: Quadratic, part: float, box: Box, at: Array, passes: int) -> Limited:
        n, nx, nu = lq.B.shape
        at, z, v, settled, turn = np.array(at), np.zeros((n + 1, nx)), np.zeros((n, nu)), False, 0
        coins = _coins()
        while not settled and turn < passes:
            turn += 1
            rows = np.zeros((n, nu, nx + 1))
            for i in np.flatnonzero(box.tied >= 0):
                rows[np.abs(at[:, i]) == 2, i, box.tied[i]] = -1.0
            rows[:, :, nx] = -np.select(
                [at == 2, at == 1, at == -1, at == -2], [box.rate_high, *box[1::-1], box.rate_low]
            )
            status, K, f, _, push = self._hold(lq, part, at != 0, rows)
            if status:
                return Limited(status, K, f, z, v, at, turn)
            z, v = self.forward(lq.A, lq.B, K, f)
            pull = np.einsum("kij,kj->ki", push[..., :nx], z[:-1]) + push[..., nx]
            after = _placed(box, at, z, v, np.where(at != 0, pull, 0.0))
            settled = bool((after == at).all())
            if not settled and turn < passes:
                at = after if turn < COINS_FROM else self._tossed(at, after, coins)
        return Limited(0, K, f, z, v, at.astype(np.intc), turn if settled else -turn)

    def _tossed(self, at: Array, after: Array, coins: Iterator[int]) -> Array:
        """Each change made or not: whole sets that are exchanged again and again may come back to where they were."""
        kept = [(k, i) for k, i in np.argwhere(after != at) if next(coins)]
        for k, i in kept:
            after[k, i] = at[k, i]
        return after

    def forward(self, A: Array, B: Array, K: Array, f: Array, copied: Copied | None = None) -> tuple[Array, Array]:
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


def _coins() -> Iterator[int]:
    """The coins of lq.c."""
    state = 1
    while True:
        state = (state * 1664525 + 1013904223) % 2**32
        yield state >> 31


def _placed(box: Box, at: Array, z: Array, v: Array, pull: Array) -> Array:
    """Where inputs belong after a pass: those that left their bounds at them, those pulled inwards free."""
    moved = np.where(box.tied >= 0, z[:-1, box.tied], 0.0)
    rates = box.tied >= 0
    rate_high, rate_low = (np.where(rates, b + moved, e) for b, e in ((box.rate_high, np.inf), (box.rate_low, -np.inf)))
    least = 1e-12 * np.abs(pull).max(initial=0.0)
    inwards = ((at > 0) & (pull > least)) | ((at < 0) & (pull < -least))
    above = ~inwards & (at >= 0) & (v > np.minimum(box.high, rate_high) + box.slack)
    below = ~inwards & (at <= 0) & (v < np.maximum(box.low, rate_low) - box.slack)
    high, low = np.where(rate_high < box.high, 2, 1), np.where(rate_low > box.low, -2, -1)
    return np.select([inwards, above, below], [0, high, low], at)


def _problem(lq: Quadratic, end: Array, part: float) -> _Problem:
    """What all backward passes take; ``end`` must live as long as the call."""
    n, nx, nu = lq.B.shape
    weights = lq.Q, lq.R, lq.S
    strides = (0 if M is None or M.ndim == 2 else M[0].size for M in weights)
    bend = map(_at, lq.bend or (None,) * 3)
    arrays = *map(_at, (lq.A, lq.B, *weights)), *strides, _at(end), _at(lq.q), _at(lq.r), *bend
    return _Problem(n, nx, nu, *(lq.compact or UNKNOWN), part, *arrays)


def _scratch(lib: ctypes.CDLL, lq: Quadratic) -> int:
    """Doubles that a backward pass works with."""
    _, nx, nu = lq.B.shape
    size: int = lib.lq_scratch(nx, nu, *(lq.compact or UNKNOWN))
    return size


def _whole(array: Array) -> Array:
    """As C reads it by address."""
    return np.ascontiguousarray(array, dtype=float)
