"""Arrays from callers, checked: shapes, finite entries, definiteness."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepmap.errors import ModelError, ShapeError

Array: TypeAlias = NDArray[Any]
"""float64, C order, time index first."""


def vector(values: Any, size: int, what: str) -> Array:
    """``values`` as a finite float vector of that size."""
    out = rows(values, size, what)
    if out.ndim != 1:
        raise ShapeError(f"{what}: expected {size} numbers, got shape {out.shape}")
    return out


def rows(values: Any, size: int, what: str) -> Array:
    """``values`` as finite floats whose last axis has that size."""
    out = numbers(values, what)
    if out.ndim == 0 or out.shape[-1] != size:
        raise ShapeError(f"{what}: expected {size} numbers (last axis), got shape {out.shape}")
    if not np.isfinite(out).all():
        raise ShapeError(f"{what}: entry {np.argwhere(~np.isfinite(out))[0].tolist()} is not a finite number")
    return out


def numbers(values: Any, what: str) -> Array:
    """``values`` as floats of any shape, finite or not."""
    try:
        return np.ascontiguousarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{what}: expected numbers, got {values!r}") from error


def weight(matrix: ArrayLike, n: int, size: int, name: str, *, definite: bool = False) -> Array:
    """A symmetric positive (semi)definite matrix (size, size), or n of them where n > 0."""
    out = numbers(matrix, name)
    shapes = [(size, size)] + ([(n, size, size)] if n else [])
    if out.shape not in shapes:
        raise ShapeError(f"{name}: expected shape {' or '.join(map(str, shapes))}, got {out.shape}")
    if not np.isfinite(out).all():
        raise ShapeError(f"{name}: has entries that are not finite")
    if not size:
        return out
    scale = max(float(np.abs(out).max()), 1e-300)
    if np.abs(out - np.swapaxes(out, -1, -2)).max() > 1e-12 * scale:
        raise ModelError(f"{name}: must be symmetric")
    least = float(np.linalg.eigvalsh(out).min())
    if definite and least <= 0:
        raise ModelError(f"{name}: must be positive definite, its least eigenvalue is {least:.3g}")
    if least < -1e-10 * scale:
        raise ModelError(f"{name}: must be positive semidefinite, its least eigenvalue is {least:.3g}")
    return out


def product(*matrices: Array) -> Array:
    """Their product, with the same bits on every processor: a BLAS takes another order of sums on each."""
    out = matrices[0]
    for matrix in matrices[1:]:
        total = np.zeros((out.shape[0], matrix.shape[1]))
        for k in range(matrix.shape[0]):
            total += out[:, k, None] * matrix[k]
        out = total
    return out


def solved(A: Array, B: Array) -> Array:
    """A⁻¹ B by elimination with exchange of rows, with the same bits on every processor; raises LinAlgError."""
    n = len(A)
    work = np.concatenate([A, B], axis=1)
    for k in range(n):
        best = k + int(np.argmax(np.abs(work[k:, k])))
        if not np.abs(work[best, k]) > 0:
            raise np.linalg.LinAlgError("Singular matrix")
        work[[k, best]] = work[[best, k]]
        work[k + 1 :, k:] -= (work[k + 1 :, k] / work[k, k])[:, None] * work[k, k:]
    for k in range(n - 1, -1, -1):
        work[k, n:] /= work[k, k]
        work[:k, n:] -= work[:k, k, None] * work[k, n:]
    return np.ascontiguousarray(work[:, n:])
