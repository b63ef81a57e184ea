"""Tape and emitter: generated C against CasADi's own evaluator, on random functions."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.graph import compiler
from stepmap.graph.emit import CHUNK, SIGNATURE, emit
from stepmap.graph.tape import record

# Bounded, so that values stay of order 1 however long the function is; each brings its own operation.
UNARY = (
    ca.sin,
    ca.cos,
    ca.tanh,
    ca.atan,
    ca.fabs,
    ca.sign,
    lambda a: -a,
    lambda a: ca.tan(a / 4),
    lambda a: ca.exp(-(a**2)),
    lambda a: ca.log(1 + a**2),
    lambda a: ca.sqrt(1 + a**2) - 1,
    lambda a: ca.asin(ca.sin(a) / 2),
    lambda a: ca.acos(ca.cos(a) / 2),
    lambda a: ca.sinh(a / 4),
    lambda a: ca.cosh(a / 4),
    lambda a: 1 / (1 + a**2),
    lambda a: (1 + a**2) ** -1.7,
    lambda a: 2 * ca.sin(a),
)
BINARY = (
    lambda a, b: (a + b) / 2,
    lambda a, b: (a - b) / 2,
    lambda a, b: a * b / 2,
    lambda a, b: a / (2 + b**2),
    lambda a, b: ca.atan2(a, 2 + b),
    lambda a, b: ca.fmin(a, b),
    lambda a, b: ca.fmax(a, -0.25),
    lambda a, b: (1 + a**2) ** (-(b**2)),
)


def random_function(seed: int, size: int) -> ca.Function:
    """Two inputs, three outputs (one of them sparse, one with constants) and some ``size`` operations."""
    rng = np.random.default_rng(seed)
    x, y = ca.SX.sym("x", 5), ca.SX.sym("y", 3)
    pool = [*ca.vertsplit(x), *ca.vertsplit(y), ca.SX(-0.375), ca.SX(1.5)]
    for k in range(size):
        a, b = (pool[int(rng.integers(max(0, len(pool) - 40), len(pool)))] for _ in range(2))
        far = pool[int(rng.integers(0, len(pool)))]  # reaches across chunks
        pool.append(UNARY[k % len(UNARY)](a) if rng.random() < 0.5 else BINARY[k % len(BINARY)](far, b))
    last = pool[-12:]
    sparse = ca.SX(3, 4)
    sparse[0, 1], sparse[2, 0], sparse[2, 3] = last[:3]
    return ca.Function(
        "f", [x, y], [ca.vertcat(*last[3:9]).T, sparse.T, ca.vertcat(last[9], -2.5, x[2], pool[size // 2]).T]
    )


def evaluate(function: ca.Function, arguments: list[np.ndarray], folder: Path, fill: float = 0.0) -> list[np.ndarray]:
    """The function's dense row-major outputs from its C code, compiled without any liberty in floating point."""
    code = emit(record(function), "t_")
    run = f"void run{SIGNATURE} {{ t_{function.name()}(in, out, w); }}"
    text = ["#define SM_FUNCTIONS", '#include "trig.h"', *code.chunks, code.head, run]
    (folder / "f.c").write_text("\n".join(text))
    options = ["-O1", "-ffp-contract=off", "-shared", "-fPIC", "-I", str(compiler.RUNTIME)]
    command = [*compiler.find(), *options, "-o", "f.so", "f.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    outputs = [np.full(function.size_out(i)[::-1], fill) for i in range(function.n_out())]
    pointers = ctypes.POINTER(ctypes.c_double)

    def table(arrays: list[np.ndarray]) -> ctypes.Array:
        return (pointers * len(arrays))(*(a.ctypes.data_as(pointers) for a in arrays))

    scratch = np.full(max(1, code.scratch), np.nan)
    ctypes.CDLL(str(folder / "f.so")).run(table(arguments), table(outputs), scratch.ctypes.data_as(pointers))
    return outputs


@pytest.mark.parametrize(("seed", "size"), [(0, 0), (1, 30), (2, 300), (3, 3000)])
def test_generated_c_agrees_with_casadi(seed: int, size: int, tmp_path: Path) -> None:
    function = random_function(seed, size)
    rng = np.random.default_rng(seed)
    arguments = [rng.uniform(-1, 1, 5), rng.uniform(-1, 1, 3)]
    expected = [np.asarray(ca.DM(out)).T for out in function(*arguments)]
    # The same operations in the same order; compilers may only evaluate a constant or a library function differently
    # in the last bit, and no operation here amplifies it much.
    for ours, theirs in zip(evaluate(function, arguments, tmp_path), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


def test_long_functions_are_cut_into_chunks_with_a_small_scratch() -> None:
    tape = record(random_function(4, 3000))
    code = emit(tape, "t_")
    assert len(code.chunks) == 1 + -(-len(tape.operations) // CHUNK) > 6  # the first makes all sines
    assert max(chunk.count("const real a") for chunk in code.chunks) <= 3 * CHUNK  # with what is loaded
    assert 0 < code.scratch < len(tape.operations) / 4


def test_structural_zeros_are_never_written(tmp_path: Path) -> None:
    function = random_function(5, 50)
    sparse = evaluate(function, [np.ones(5), np.ones(3)], tmp_path, fill=7.0)[1]
    written = np.zeros((3, 4), dtype=bool)
    written[[0, 2, 2], [1, 0, 3]] = True
    assert (sparse[~written] == 7.0).all()
    assert (sparse[written] != 7.0).all()


def test_generated_c_is_reproducible() -> None:
    first, second = (emit(record(random_function(6, 500)), "t_") for _ in range(2))
    assert first == second


def test_operations_without_a_c_form_are_refused_by_name() -> None:
    x = ca.SX.sym("x")
    with pytest.raises(sm.StepmapError, match=r"rounded: operation .* has no C form"):
        record(ca.Function("rounded", [x], [ca.floor(x)]))
