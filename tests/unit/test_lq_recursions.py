"""Linear-quadratic recursions: the C against numpy, and both against the whole problem solved as one linear system."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stepmap.graph import compiler
from stepmap.optimal.riccati import CompiledRecursions, NumpyRecursions, Quadratic, Recursions, recursions
from stepmap.steps.layout import Copied

# Around the C's blocks of 4 rows and 12 columns, and without inputs.
SIZES = [(1, 1), (2, 0), (3, 2), (4, 1), (8, 2), (11, 1), (12, 4), (13, 3), (24, 5), (25, 12)]
STEPS = 15

sizes = pytest.mark.parametrize(("nx", "nu"), SIZES)


@pytest.fixture(params=["compiled", "numpy"])
def either(request: pytest.FixtureRequest) -> Recursions:
    return compiled() if request.param == "compiled" else NumpyRecursions()


def compiled() -> CompiledRecursions:
    found = recursions()
    if not isinstance(found, CompiledRecursions):
        pytest.skip("no C compiler on this machine")
    return found


def some(nx: int, nu: int, *, seed: int = 0, varying: bool = True, bend: bool = True) -> Quadratic:
    """A random problem like those of mechanisms: some rows of A are zero, and its last columns."""
    rng = np.random.default_rng([seed, nx, nu])
    A, B = rng.normal(size=(STEPS, nx, nx)) / np.sqrt(nx), rng.normal(size=(STEPS, nx, nu))
    A[:, nx // 3 : nx // 2] = 0.0
    A[:, :, nx - nx // 4 :] = 0.0
    B[:, : nx // 4] = 0.0
    lead = (STEPS,) if varying else ()
    Q, R, terminal = positive(rng, *lead, nx), positive(rng, *lead, nu), positive(rng, nx)
    q, r = rng.normal(size=(STEPS + 1, nx)), rng.normal(size=(STEPS, nu))
    # Together the added curvature is indefinite, but small against Q and R.
    whole = rng.normal(size=(STEPS, nx + nu, nx + nu))
    whole = 0.05 * (whole + np.swapaxes(whole, 1, 2)) / np.sqrt(nx + nu)
    parts = (whole[:, :nx, :nx], whole[:, :nx, nx:], whole[:, nx:, nx:])
    added = tuple(np.ascontiguousarray(part) for part in parts)
    return Quadratic(A, B, Q, R, terminal, q, r, added if bend else None)  # type: ignore[arg-type]


COPIED = [(1, 1, 0), (1, 0, 1), (2, 2, 0), (3, 1, 2), (4, 7, 1), (9, 6, 3)]  # q, rho and forces


def copying(nd: int, nk: int, forces: int, *, varying: bool = True, bend: bool = True) -> Quadratic:
    """A random problem of a map that copies kinematic coordinates, whose rates have a weight of their own."""
    nx, nu, y, dt = 2 * nd + 2 * nk, forces + nk, 2 * nd + nk, 0.3
    lq, rho, after = some(nx, nu, varying=varying, bend=bend), np.arange(nd, nd + nk), np.arange(nk)
    lq.A[:, :, y:], lq.A[:, rho], lq.B[:, rho] = 0.0, 0.0, 0.0
    lq.A[:, y:], lq.B[:, y:] = 0.0, 0.0
    lq.B[:, rho, forces + after] = 1.0
    lq.A[:, y + after, rho], lq.B[:, y + after, forces + after] = -1 / dt, 1 / dt
    for weight in (lq.Q, lq.terminal):
        weight[..., y:, :y], weight[..., :y, y:] = 0.0, 0.0
    for part in lq.bend[:2] if lq.bend else ():
        part[:, y:] = 0.0
    if lq.bend:
        lq.bend[0][:, :, y:] = 0.0
    S = 0.05 * np.random.default_rng(7).normal(size=(nx, nu))
    S[y:] = 0.0
    return dataclasses.replace(lq, S=S, copied=Copied(nd, nk))


@pytest.mark.parametrize("varying", [True, False])
@pytest.mark.parametrize("bend", [True, False])
@pytest.mark.parametrize("sizes", COPIED)
def test_rates_of_kinematic_coordinates_are_left_out(sizes: tuple[int, int, int], varying: bool, bend: bool) -> None:
    lq, fast, slow = copying(*sizes, varying=varying, bend=bend), compiled(), NumpyRecursions()
    assert lq.compact == lq.copied
    (status, K, f, P), (status2, K2, f2, P2) = fast.backward(lq, 0.8), slow.backward(lq, 0.8)
    assert status == status2 == 0
    pairs = [(K, K2), (f, f2), (P, P2)]
    pairs += zip(fast.forward(lq.A, lq.B, K, f, lq.copied), slow.forward(lq.A, lq.B, K, f), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * max(1.0, np.abs(theirs).max(initial=0.0)))
    assert fast.backward(dataclasses.replace(lq, q=None, r=None), 0.8)[1].tolist() == K.tolist()


@pytest.mark.parametrize("where", ["Q", "terminal", "terminal_bend", "S"])
def test_rates_that_weights_couple_stay(where: str) -> None:
    lq = copying(2, 2, 0, varying=False)
    coupled = (
        np.zeros_like(lq.S if where == "S" else lq.Q) if getattr(lq, where) is None else np.array(getattr(lq, where))
    )
    coupled[-1, 0] = 0.1
    if where != "S":
        coupled[0, -1] = 0.1
    lq = dataclasses.replace(lq, **{where: coupled})
    assert lq.compact is None
    fast, slow = compiled(), NumpyRecursions()
    pairs = list(zip(fast.backward(lq, 0.8), slow.backward(lq, 0.8), strict=True))
    K, f = pairs[1][1], pairs[2][1]
    pairs += zip(fast.forward(lq.A, lq.B, K, f, lq.copied), slow.forward(lq.A, lq.B, K, f), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * max(1.0, np.abs(theirs).max(initial=0.0)))


def positive(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Matrices with eigenvalues of 1 and some more."""
    half = rng.normal(size=(*shape, shape[-1])) / np.sqrt(max(shape[-1], 1))
    return np.eye(shape[-1]) + half @ np.swapaxes(half, -1, -2)


def weights(lq: Quadratic, part: float) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Q, S and R of each step, with the part of the added curvature."""
    out = []
    for k in range(STEPS):
        Q, R = (M if M.ndim == 2 else M[k] for M in (lq.Q, lq.R))
        xx, xu, uu = (0.0, np.zeros(lq.B.shape[1:]), 0.0) if lq.bend is None else (part * M[k] for M in lq.bend)
        out.append((Q + xx, xu, R + uu))
    return out


def whole(lq: Quadratic, part: float) -> tuple[np.ndarray, np.ndarray]:
    """The minimizer (z, v) from z_0 = 0: all v as one vector, z eliminated."""
    n, nx, nu = lq.B.shape
    to_z = np.zeros((n + 1, nx, n * nu))  # z_k as a function of all v
    for k in range(n):
        to_z[k + 1] = lq.A[k] @ to_z[k]
        to_z[k + 1, :, k * nu : (k + 1) * nu] += lq.B[k]
    hessian, slope = to_z[n].T @ lq.terminal @ to_z[n], lq.q[n] @ to_z[n]
    for k, (Q, S, R) in enumerate(weights(lq, part)):
        own = np.eye(n * nu)[k * nu : (k + 1) * nu]
        cross = to_z[k].T @ S @ own
        hessian = hessian + to_z[k].T @ Q @ to_z[k] + cross + cross.T + own.T @ R @ own
        slope = slope + lq.q[k] @ to_z[k] + lq.r[k] @ own
    v = np.linalg.solve(hessian, -slope)
    return to_z @ v, v.reshape(n, nu)


@sizes
@pytest.mark.parametrize("part", [0.0, 0.6, 1.0])
def test_minimizer_is_that_of_the_whole_problem(either: Recursions, nx: int, nu: int, part: float) -> None:
    lq = some(nx, nu)
    status, K, f, _ = either.backward(lq, part)
    assert status == 0
    z, v = either.forward(lq.A, lq.B, K, f)
    for ours, theirs in zip((z, v), whole(lq, part), strict=True):
        # The whole problem's matrix has a condition of some 1e3 to 1e5 at these sizes.
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10 * max(1.0, np.abs(theirs).max(initial=0.0)))


@sizes
@pytest.mark.parametrize("varying", [True, False])
@pytest.mark.parametrize("bend", [True, False])
def test_compiled_recursions_are_those_in_numpy(nx: int, nu: int, varying: bool, bend: bool) -> None:
    lq, fast, slow = some(nx, nu, varying=varying, bend=bend), compiled(), NumpyRecursions()
    (status, K, f, P), (status2, K2, f2, P2) = fast.backward(lq, 0.8), slow.backward(lq, 0.8)
    assert status == status2 == 0
    others = np.random.default_rng(1).normal(size=K.shape)
    pairs = [(K, K2), (f, f2), (P, P2)]
    pairs += zip(fast.forward(lq.A, lq.B, K, f), slow.forward(lq.A, lq.B, K, f), strict=True)
    pairs += [(r.adjoint(lq.A, lq.B, others, lq.q, lq.r) for r in (fast, slow))]  # type: ignore[list-item]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * max(1.0, np.abs(theirs).max(initial=0.0)))


@sizes
def test_terms_left_out_are_zero(either: Recursions, nx: int, nu: int) -> None:
    lq = some(nx, nu)
    zero = dataclasses.replace(lq, q=np.zeros_like(lq.q), r=np.zeros_like(lq.r))
    absent = dataclasses.replace(lq, q=None, r=None, bend=None)
    for ours, theirs in zip(either.backward(absent), either.backward(zero, 0.0), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@sizes
def test_curvature_at_the_start_is_the_cost_to_go(either: Recursions, nx: int, nu: int) -> None:
    """½ z₀ᵀPz₀ is what the closed loop costs from z₀."""
    lq = dataclasses.replace(some(nx, nu), q=None, r=None)
    _, K, _, P = either.backward(lq, 1.0)
    z0 = z = np.random.default_rng(2).normal(size=nx)
    cost = 0.0
    for k, (Q, S, R) in enumerate(weights(lq, 1.0)):
        v = -K[k] @ z
        cost += z @ Q @ z / 2 + z @ S @ v + v @ R @ v / 2
        z = lq.A[k] @ z + lq.B[k] @ v
    assert z0 @ P @ z0 / 2 == pytest.approx(cost + z @ lq.terminal @ z / 2, rel=1e-12)
    np.testing.assert_array_equal(P, P.T)


def test_one_weight_for_all_steps_is_the_same_at_every_step(either: Recursions) -> None:
    one = some(8, 2, varying=False)
    stacked = dataclasses.replace(one, Q=np.tile(one.Q, (STEPS, 1, 1)), R=np.tile(one.R, (STEPS, 1, 1)))
    for ours, theirs in zip(either.backward(one, 0.5), either.backward(stacked, 0.5), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("step", [0, 6, STEPS - 1])
def test_step_without_a_minimum_is_named(either: Recursions, step: int) -> None:
    lq = some(5, 2)
    lq.bend[2][step] = -1e3 * np.eye(2)  # type: ignore[index]
    assert either.backward(lq, 1.0)[0] == step + 1
    assert either.backward(lq, 0.0)[0] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_have_no_minimum(either: Recursions, bad: float) -> None:
    lq = some(5, 2)
    lq.R[3, 0, 0] = bad
    assert either.backward(lq, 0.0)[0] == 4


@pytest.mark.skipif(platform.machine() != "x86_64" or compiler.find() is None, reason="names processors of x86-64")
def test_every_processor_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for march in ("x86-64", "native"):
        monkeypatch.setenv("STEPMAP_MARCH", march)
        path = tmp_path / f"lq-{march}.so"
        compiler.build({}, path, unit="lq.c")
        one, rows = CompiledRecursions(ctypes.CDLL(str(path))), []
        for lq in (some(25, 12), copying(9, 6, 3)):
            _, K, f, P = one.backward(lq, 0.8)
            rows += [K, f, P, *one.forward(lq.A, lq.B, K, f, lq.copied), one.adjoint(lq.A, lq.B, K, lq.q, lq.r)]
        made.append([row.tobytes() for row in rows])
    assert made[0] == made[1]


SCRIPT = """
import numpy as np
from stepmap.graph import compiler
from stepmap.optimal.riccati import CompiledRecursions, recursions
from stepmap.steps.limits import Box
from tests.unit.test_lq_recursions import COPIED, SIZES, STEPS, copying, some
found = recursions()
assert isinstance(found, CompiledRecursions)
made = [some(*sizes, varying=varying) for sizes in SIZES for varying in (True, False)]
for lq in [*made, *(copying(*sizes) for sizes in COPIED)]:
    _, nx, nu = lq.B.shape
    _, K, f, _ = found.backward(lq, 0.5)
    found.forward(lq.A, lq.B, K, f, lq.copied)
    found.adjoint(lq.A, lq.B, K, lq.q, lq.r)
    if nu:
        tied = np.full(nu, -1, dtype=np.intc)
        tied[0] = nx - 1 if lq.copied is None else lq.copied.dynamic
        if lq.copied is None or lq.copied.kinematic:
            bound = np.full((STEPS, nu), 0.1)
            box = Box(-bound, bound, -bound, bound, np.full(nu, 1e-12), tied)
            found.limited(lq, 0.5, box, np.zeros((STEPS, nu), dtype=np.intc), 8)
print("done")
"""


def _sanitizer() -> str | None:
    """gcc's address sanitizer, where it has one."""
    try:
        found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    path = Path(found.stdout.strip())
    return str(path) if path.is_absolute() and path.exists() else None


@pytest.mark.skipif(_sanitizer() is None, reason="gcc or its address sanitizer is not installed")
def test_compiled_recursions_are_clean_under_sanitizers(tmp_path: Path) -> None:
    flags = "-fsanitize=address,undefined,float-divide-by-zero -fno-sanitize-recover=all"
    environment = os.environ | {
        "CC": f"env -u LD_PRELOAD gcc {flags}",
        "STEPMAP_CACHE": str(tmp_path),
        "LD_PRELOAD": _sanitizer() or "",  # must be loaded before anything else
        "ASAN_OPTIONS": "detect_leaks=0",  # python's own
    }
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "done\n"


def test_views_are_read_as_they_are() -> None:
    """Transposed, sliced and broadcast arrays give what their copies give: C reads by address."""
    rng = np.random.default_rng(11)
    n, nx, nu = 7, 4, 2
    wide = rng.normal(size=(n, nx, nx + nu + 1))
    A, B = wide[..., :nx], wide[..., nx:-1]
    bend = (
        np.broadcast_to(0.1 * np.eye(nx), (n, nx, nx)),
        np.zeros((nu, nx, n)).T,
        np.broadcast_to(np.eye(nu), (n, nu, nu)),
    )
    S = 0.1 * np.swapaxes(rng.normal(size=(n, nu, nx)), 1, 2)
    q, r = rng.normal(size=(nx, n + 1)).T, rng.normal(size=(nu, n)).T
    views = Quadratic(A, B, np.eye(nx), np.eye(nu), np.eye(nx), q, r, bend, S, 0.2 * np.eye(nx))
    copies = Quadratic(
        *(np.array(M, order="C") for M in (A, B, np.eye(nx), np.eye(nu), np.eye(nx), q, r)),
        bend=tuple(np.array(M, order="C") for M in bend),
        S=np.array(S, order="C"),
        terminal_bend=0.2 * np.eye(nx),
    )
    ours, theirs = recursions(), NumpyRecursions()
    for one, other in zip(ours.backward(views, 0.5), theirs.backward(copies, 0.5), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)
    _, K, f, _ = ours.backward(views, 0.5)
    for one, other in zip(ours.forward(A, B, K, f), theirs.forward(A, B, K, f), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)
    np.testing.assert_allclose(ours.adjoint(A, B, K, q, r), theirs.adjoint(A, B, K, q, r), rtol=0, atol=1e-11)
