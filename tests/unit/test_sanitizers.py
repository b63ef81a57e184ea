"""The C runtime under gcc's address and undefined-behaviour sanitizers: every entry point, every kind of size."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIGHTLY = shlex.quote(str(Path(__file__).with_name("lightly.sh")))
FLAGS = "-fsanitize=address,undefined,float-divide-by-zero -fno-sanitize-recover=all"
# Runs in a process of its own: the sanitizer must be loaded before anything else.
SCRIPT = """
import sys
import numpy as np
import stepmap as sm
from tools import sample_model

name = sys.argv[1]
example = {"theta": 0.3, "height": 0.5} if name == "sample_model" else sm.systems.example(name)
if name == "sample_model":
    system = sample_model.full()
elif name == "pendulum_chain":
    system = sm.systems.get(name, n=9)  # large enough to keep a factorization
else:
    system = sm.systems.get(name)
steps = [sm.discretize(system, 0.01)]
if name != "pendulum_chain":  # takes long to compile
    steps.append(sm.euler(system, 0.001))
for step in steps:
    x = step.rest(system.satisfy_constraints(example))
    hold = x[step.nd : step.nd + step.nk] if isinstance(step, sm.VariationalStep) else np.zeros(step.nk)
    u = np.concatenate([np.ones(len(system.inputs)), hold])
    path = step.rollout(x, np.tile(u, (20, 1)))
    x = path.x[-1]
    step.step(x, u)
    step.linearize(x, u)
    step.curvature(x, u, np.ones(step.nx))
    step.linearize_along(path)
    step.curvature_along(path, np.ones((path.steps, step.nx)))
    if step.nu:
        step.follow(path.x[0], path, sm.lqr(step, path, np.eye(step.nx), np.eye(step.nu), np.eye(step.nx)))
print("done")
"""


def _preload() -> str | None:
    """gcc's sanitizer library, where it has one."""
    try:
        found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    path = Path(found.stdout.strip())
    return str(path) if path.is_absolute() and path.exists() else None


@pytest.mark.slow
@pytest.mark.skipif(_preload() is None, reason="gcc or its address sanitizer is not installed")
@pytest.mark.parametrize("system", ["cart_pendulum", "pendulum_chain", "sample_model", "suspended_mass"])
def test_runtime_is_clean_under_sanitizers(system: str) -> None:
    environment = os.environ | {
        # The compiler itself would be slow under it; at -O3 it takes twice as long, and sanitizers find the same.
        "CC": f"env -u LD_PRELOAD {LIGHTLY} gcc {FLAGS}",
        "STEPMAP_CACHE": str(ROOT / "build" / "tests" / "sanitized"),  # named by sources and flags, so built once
        "LD_PRELOAD": _preload() or "",
        "ASAN_OPTIONS": "detect_leaks=0",  # python's own
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, system], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "done\n"
